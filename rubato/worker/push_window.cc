#include "rubato/worker/push_window.h"

#include <algorithm>
#include <utility>

#include "rubato/base/status.h"

namespace rubato {

void PushWindow::Begin(const Task& task) {
  tasks_[task.id] = {.upto = task.committed, .end = task.end};
}

void PushWindow::Open(const BatchKey& key) {
  RUBATO_CHECK(HasRoom());
  RUBATO_CHECK(tasks_.contains(TaskId(key.task)));
  inflight_.push_back(key);
}

bool PushWindow::Applied(const BatchKey& key) {
  const auto found = std::find(inflight_.begin(), inflight_.end(), key);
  if (found == inflight_.end()) return false;
  inflight_.erase(found);
  Progress& progress = tasks_.at(TaskId(key.task));
  progress.beyond[key.begin] = key.end;
  for (auto it = progress.beyond.begin(); it != progress.beyond.end() && it->first == progress.upto;
       it = progress.beyond.erase(it)) {
    progress.upto = it->second;
    progress.news = true;
  }
  return true;
}

std::vector<PushWindow::Commit> PushWindow::TakeCommits() {
  std::vector<Commit> commits;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    auto& [task, progress] = *it;
    const bool finished = progress.upto == progress.end;
    if (std::exchange(progress.news, false)) commits.push_back({task, progress.upto, finished});
    it = finished ? tasks_.erase(it) : std::next(it);
  }
  return commits;
}

bool PushWindow::Idle(TaskId task) const {
  return std::none_of(inflight_.begin(), inflight_.end(),
                      [&](const BatchKey& key) { return key.task == task.value(); });
}

void PushWindow::Drop(TaskId task) {
  tasks_.erase(task);
  std::erase_if(inflight_, [&](const BatchKey& key) { return key.task == task.value(); });
}

}  // namespace rubato

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
  InFlight& batch = batches_[opened_++];
  batch.key = key;
  batch.answered.assign(static_cast<size_t>(options_.servers), false);
  batch.missing = options_.servers;
}

void PushWindow::Push(const BatchKey& key) {
  const auto it = Find(key);
  if (it != batches_.end()) it->second.pushed = true;
}

std::optional<PushWindow::Applied> PushWindow::Ack(const BatchKey& key, ServerId server,
                                                   bool duplicate) {
  RUBATO_CHECK(server.value() >= 0 && server.value() < options_.servers);
  const auto it = Find(key);
  if (it == batches_.end()) return std::nullopt;
  InFlight& batch = it->second;
  const size_t s = static_cast<size_t>(server.value());
  if (batch.answered[s]) return std::nullopt;
  batch.answered[s] = true;
  batch.fresh = batch.fresh || !duplicate;
  if (--batch.missing > 0) return std::nullopt;
  const Applied applied{.duplicate = !batch.fresh};
  batches_.erase(it);
  Advance(key);
  return applied;
}

std::vector<BatchKey> PushWindow::Unanswered(ServerId server) const {
  std::vector<BatchKey> keys;
  for (const auto& [order, batch] : batches_) {
    if (batch.pushed && !batch.answered[static_cast<size_t>(server.value())]) {
      keys.push_back(batch.key);
    }
  }
  return keys;
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
  return std::none_of(batches_.begin(), batches_.end(),
                      [&](const auto& entry) { return entry.second.key.task == task.value(); });
}

void PushWindow::Drop(TaskId task) {
  tasks_.erase(task);
  std::erase_if(batches_, [&](const auto& entry) { return entry.second.key.task == task.value(); });
}

std::map<int64_t, PushWindow::InFlight>::iterator PushWindow::Find(const BatchKey& key) {
  return std::find_if(batches_.begin(), batches_.end(),
                      [&](const auto& entry) { return entry.second.key == key; });
}

void PushWindow::Advance(const BatchKey& key) {
  Progress& progress = tasks_.at(TaskId(key.task));
  progress.beyond[key.begin] = key.end;
  for (auto it = progress.beyond.begin(); it != progress.beyond.end() && it->first == progress.upto;
       it = progress.beyond.erase(it)) {
    progress.upto = it->second;
    progress.news = true;
  }
}

}  // namespace rubato

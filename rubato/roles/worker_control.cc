#include "rubato/roles/worker_control.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace rubato {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(10);

}  // namespace

WorkerControl::WorkerControl(Options options)
    : options_(std::move(options)),
      client_(MasterClient::Dial(options_.master)),
      leasing_(options_.lease) {}

WorkerControl::~WorkerControl() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

bool WorkerControl::Register(std::string* refused) {
  const absl::StatusOr<RegisterReply> reply = client_->Register({.role = Role::kWorker,
                                                                 .id = options_.id.value(),
                                                                 .incarnation = 1,
                                                                 .pid = getpid(),
                                                                 .version = options_.version});
  if (!reply.ok()) return false;
  if (!reply->accepted) {
    *refused = reply->reason.empty() ? "not wanted" : reply->reason;
    return false;
  }
  Adopt(reply->view);
  return true;
}

absl::Status WorkerControl::Start(const std::function<bool()>& stop) {
  std::string refused;
  while (!Register(&refused)) {
    if (!refused.empty()) return absl::FailedPreconditionError(refused);
    if (stop && stop()) return absl::CancelledError("asked to end before a master answered");
    absl::SleepFor(kRetry);
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void WorkerControl::Adopt(const View& view) {
  // A worker never adopts a view from which it is missing: its pushes must not pass for new.
  if (std::find(view.workers.begin(), view.workers.end(), options_.id) == view.workers.end()) {
    return;
  }
  {
    MutexLock lock(mu_);
    if (view.number < view_) return;
    view_ = view.number;
  }
  options_.on_view(view);
}

void WorkerControl::Run() {
  absl::Time next_beat = absl::InfinitePast();
  while (true) {
    if (absl::Now() >= next_beat) {
      Beat();
      next_beat = absl::Now() + options_.heartbeat;
    }
    if (refused_) return;
    SendReports();
    AskForTask();
    MutexLock lock(mu_);
    if (closing_) return;
    if (beat_now_) next_beat = absl::InfinitePast();
    absl::Time wake = next_beat;
    if (!reports_.empty()) wake = std::min(wake, absl::Now() + kRetry);
    if (WantsTask()) wake = std::min(wake, ask_again_);
    if (wake > absl::Now()) changed_.WaitFor(mu_, wake - absl::Now());
  }
}

void WorkerControl::Beat() {
  {
    MutexLock lock(mu_);
    beat_now_ = false;
  }
  WorkerHeartbeat beat = options_.describe();
  beat.worker = options_.id;
  beat.view = view();
  const absl::StatusOr<HeartbeatReply> reply = client_->Beat(beat);
  if (!reply.ok()) return;
  if (reply->known) {
    Adopt(reply->view);
    if (options_.on_reply) options_.on_reply(*reply);
    if (reply->directive == Directive::kLeave) options_.on_leave();
    return;
  }
  std::string refused;
  if (Register(&refused) || refused.empty()) return;
  refused_ = true;
  options_.on_refused(refused);
}

void WorkerControl::SendReports() {
  while (true) {
    Report report;
    {
      MutexLock lock(mu_);
      if (reports_.empty()) return;
      report = reports_.front();
    }
    const bool heard =
        report.commit ? SendCommit(*report.commit) : client_->Fail(*report.fail).ok();
    if (!heard)
      return;  // No master, or one that does not know us yet: the same report again later.
    MutexLock lock(mu_);
    reports_.pop_front();
    const TaskId task = report.fail ? report.fail->task : report.commit->task;
    const auto held = holding_.find(task);
    if (held != holding_.end() && (report.fail || report.commit->upto >= held->second.end)) {
      LetGo(task, report.fail ? report.fail->lease : report.commit->lease);
    }
    changed_.NotifyAll();
  }
}

bool WorkerControl::SendCommit(const CommitRequest& request) {
  const absl::StatusOr<CommitReply> reply = client_->Commit(request);
  if (!reply.ok()) return false;
  if (reply->unknown) {
    std::string refused;
    if (!Register(&refused) && !refused.empty()) {
      refused_ = true;
      options_.on_refused(refused);
    }
    return false;
  }
  if (!reply->held) {
    {
      MutexLock lock(mu_);
      LetGo(request.task, request.lease);
    }
    options_.on_lost(request.task, request.lease);
  }
  return true;
}

void WorkerControl::LetGo(TaskId task, int64_t lease) {
  const auto held = holding_.find(task);
  if (held != holding_.end() && (lease == 0 || held->second.lease == lease)) holding_.erase(held);
}

bool WorkerControl::WantsTask() {
  return leasing_ && static_cast<int64_t>(leased_.size()) < options_.tasks_ahead;
}

void WorkerControl::AskForTask() {
  LeaseRequest request = {.worker = options_.id};
  {
    MutexLock lock(mu_);
    if (!WantsTask() || absl::Now() < ask_again_) return;
    for (const auto& [task, held] : holding_) request.holding.push_back(task);
  }
  const absl::StatusOr<LeaseReply> reply = client_->Lease(request);
  if (!reply.ok() || reply->verdict != LeaseReply::Verdict::kTask) {
    ask_again_ = absl::Now() + options_.ask_again;
    return;
  }
  MutexLock lock(mu_);
  if (!leasing_) {
    // Told to stop in the middle of asking: hand it straight back.
    Release(reply->task.id, reply->task.lease, reply->task.committed);
    return;
  }
  holding_[reply->task.id] = {
      .end = reply->task.end, .committed = reply->task.committed, .lease = reply->task.lease};
  leased_.push_back(reply->task);
  changed_.NotifyAll();
}

void WorkerControl::Release(TaskId task, int64_t lease, int64_t upto) {
  reports_.push_back(
      {.commit = CommitRequest{
           .worker = options_.id, .task = task, .lease = lease, .upto = upto, .release = true}});
  holding_.erase(task);
  changed_.NotifyAll();
}

std::optional<Task> WorkerControl::NextTask(absl::Duration patience) {
  MutexLock lock(mu_);
  if (leased_.empty() && !closing_) changed_.WaitFor(mu_, patience);
  if (leased_.empty()) return std::nullopt;
  const Task task = leased_.front();
  leased_.pop_front();
  changed_.NotifyAll();
  return task;
}

void WorkerControl::Commit(CommitRequest request) {
  request.worker = options_.id;
  MutexLock lock(mu_);
  if (const auto held = holding_.find(request.task); held != holding_.end()) {
    held->second.committed = request.upto;
  }
  reports_.push_back({.commit = std::move(request)});
  changed_.NotifyAll();
}

void WorkerControl::Fail(FailRequest request) {
  request.worker = options_.id;
  MutexLock lock(mu_);
  if (const auto held = holding_.find(request.task); held != holding_.end()) {
    request.lease = held->second.lease;
  }
  reports_.push_back({.fail = std::move(request)});
  changed_.NotifyAll();
}

void WorkerControl::HandBack(TaskId task) {
  MutexLock lock(mu_);
  if (const auto it = holding_.find(task); it != holding_.end()) {
    Release(task, it->second.lease, it->second.committed);
  }
}

void WorkerControl::StartLeasing() {
  MutexLock lock(mu_);
  leasing_ = true;
  changed_.NotifyAll();
}

void WorkerControl::BeatNow() {
  MutexLock lock(mu_);
  beat_now_ = true;
  changed_.NotifyAll();
}

void WorkerControl::StopLeasing() {
  MutexLock lock(mu_);
  leasing_ = false;
  for (const Task& task : leased_) Release(task.id, task.lease, task.committed);
  leased_.clear();
}

bool WorkerControl::Settled() {
  MutexLock lock(mu_);
  return reports_.empty();
}

void WorkerControl::ReleaseAll() {
  MutexLock lock(mu_);
  while (!holding_.empty()) {
    const auto [task, held] = *holding_.begin();
    if (held.committed >= held.end) {
      holding_.erase(task);  // Done; its last report is on the way.
    } else {
      Release(task, held.lease, held.committed);
    }
  }
}

int64_t WorkerControl::view() {
  MutexLock lock(mu_);
  return view_;
}

}  // namespace rubato

#include "rubato/tasks/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

using Place = LiveTask::Place;

bool FailedOn(const LiveTask& live, WorkerId worker) {
  return std::any_of(live.failures.begin(), live.failures.end(),
                     [&](const TaskFailure& failure) { return failure.worker == worker; });
}

// Whether somebody else should rather try it.
bool Avoid(const LiveTask& live, WorkerId worker, const std::vector<WorkerId>& alive) {
  return FailedOn(live, worker) && std::any_of(alive.begin(), alive.end(), [&](WorkerId other) {
           return !FailedOn(live, other);
         });
}

absl::Status Refused(TaskId id, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(id.ToString(), " ", what));
}

}  // namespace

Ledger::Ledger(const TaskPlanOptions& options)
    : plan_(options), fresh_tasks_(plan_.TasksOf(0)), walk_(plan_) {}

std::optional<Task> Ledger::NextFor(WorkerId worker, const std::vector<WorkerId>& alive) const {
  const LiveTask* lost = nullptr;
  for (const auto& [id, live] : live_) {
    if (live.place != Place::kOpen || Avoid(live, worker, alive)) continue;
    if (live.task.kind == TaskKind::kEvaluate) return live.task;
    if (lost == nullptr || live.order < lost->order) lost = &live;
  }
  if (lost != nullptr) return lost->task;
  if (const Task* fresh = Fresh()) return *fresh;
  return std::nullopt;
}

int64_t Ledger::available() const {
  int64_t count = Fresh() == nullptr ? 0 : static_cast<int64_t>(fresh_tasks_.size() - fresh_next_);
  if (const int64_t size = plan_.options().round_tasks; size > 0) {
    count = std::min(count, (rounds() + plan_.options().round_tolerance + 1) * size - begun_);
  }
  for (const auto& [id, live] : live_) count += live.place == Place::kOpen;
  return count;
}

const LiveTask* Ledger::Find(TaskId id) const {
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : &it->second;
}

bool Ledger::Holds(WorkerId worker, TaskId id) const {
  const LiveTask* live = Find(id);
  return live != nullptr && live->place == Place::kLeased && live->worker == worker;
}

std::vector<Task> Ledger::HeldBy(WorkerId worker) const {
  std::vector<const LiveTask*> held;
  for (const auto& [id, live] : live_) {
    if (live.place == Place::kLeased && live.worker == worker) held.push_back(&live);
  }
  std::sort(held.begin(), held.end(),
            [](const LiveTask* a, const LiveTask* b) { return a->task.lease < b->task.lease; });
  std::vector<Task> tasks;
  for (const LiveTask* live : held) tasks.push_back(live->task);
  return tasks;
}

bool Ledger::Fencing(WorkerId worker) const {
  return std::any_of(live_.begin(), live_.end(), [&](const auto& entry) {
    return entry.second.place == Place::kFencing && entry.second.worker == worker;
  });
}

bool Ledger::AnyLeased() const {
  return std::any_of(live_.begin(), live_.end(),
                     [](const auto& entry) { return entry.second.place == Place::kLeased; });
}

bool Ledger::AnyTraining() const {
  return std::any_of(live_.begin(), live_.end(), [](const auto& entry) {
    return entry.second.task.kind == TaskKind::kTrain && entry.second.place != Place::kOpen;
  });
}

int64_t Ledger::rounds() const {
  const int64_t size = plan_.options().round_tasks;
  if (size == 0) return 0;
  int64_t committed = begun_;  // Of the plan's tasks, without a gap.
  for (const auto& [id, live] : live_) {
    if (live.task.kind == TaskKind::kTrain) committed = std::min(committed, live.order - 1);
  }
  return finished() ? (committed + size - 1) / size : committed / size;
}

bool Ledger::BetweenRounds() const {
  const int64_t size = plan_.options().round_tasks;
  return size == 0 || begun_ == rounds() * size;
}

bool Ledger::OfBegunRound(const Task& task) const {
  return plan_.options().round_tasks > 0 && (live_.contains(task.id) || MidRound());
}

bool Ledger::IsBatchEnd(const Task& task, int64_t position) const {
  return position == task.end || (task.begin <= position && position < task.end &&
                                  (position - task.begin) % plan_.options().batch_size == 0);
}

absl::Status Ledger::Lease(TaskId id, WorkerId worker) {
  auto it = live_.find(id);
  if (it == live_.end()) {
    const Task* fresh = Fresh();
    if (fresh == nullptr || fresh->id != id) return Refused(id, "is not the next to be leased");
    it = live_.emplace(id, LiveTask{.task = *fresh, .order = ++begun_}).first;
    if (const int64_t size = plan_.options().round_tasks; size > 0) {
      it->second.task.round = (begun_ - 1) / size;
    }
    TakeFresh();
  }
  LiveTask& live = it->second;
  if (live.place != Place::kOpen) return Refused(id, "is not open");
  live.place = Place::kLeased;
  live.worker = worker;
  live.task.lease = ++leases_;
  live.task.rounds = rounds();
  return absl::OkStatus();
}

absl::Status Ledger::Commit(TaskId id, int64_t upto) {
  const auto it = live_.find(id);
  if (it == live_.end()) return Refused(id, "is not live");
  Task& task = it->second.task;
  if (it->second.place != Place::kLeased) return Refused(id, "is not leased");
  if (!IsBatchEnd(task, upto)) return Refused(id, absl::StrCat("has no batch ending at ", upto));
  if (task.kind == TaskKind::kEvaluate) {
    if (upto != task.end) return Refused(id, "is an evaluation, committed as a whole");
  } else if (upto > task.committed) {
    steps_ += plan_.BatchesIn(task.committed, upto);
    records_committed_ += committed_[task.epoch].Add(task.committed, upto);
    task.committed = upto;
  }
  if (upto == task.end) live_.erase(it);
  return absl::OkStatus();
}

absl::Status Ledger::Release(TaskId id) {
  const auto it = live_.find(id);
  if (it == live_.end()) return Refused(id, "is not live");
  it->second.place = Place::kOpen;
  it->second.worker = WorkerId();
  return absl::OkStatus();
}

absl::Status Ledger::AddFailure(TaskId id, TaskFailure failure) {
  const auto it = live_.find(id);
  if (it == live_.end()) return Refused(id, "is not live");
  it->second.failures.push_back(std::move(failure));
  return absl::OkStatus();
}

void Ledger::Fence(WorkerId worker) {
  for (auto& [id, live] : live_) {
    if (live.place == Place::kLeased && live.worker == worker) live.place = Place::kFencing;
  }
}

void Ledger::Reopen(WorkerId worker) {
  for (auto& [id, live] : live_) {
    if (live.place == Place::kOpen || live.worker != worker) continue;
    live.place = Place::kOpen;
    live.worker = WorkerId();
  }
}

void Ledger::ForgetFailures() {
  for (auto& [id, live] : live_) live.failures.clear();
}

void Ledger::BeginEvaluation(int64_t number) {
  for (const Task& task : plan_.EvaluationTasks(number)) {
    live_.emplace(task.id, LiveTask{.task = task});
  }
}

void Ledger::SetTogether(int64_t steps, int64_t records) {
  const int64_t first = walk_.EpochOf(std::min(records, records_committed_));
  const int64_t last = walk_.EpochOf(std::max(records, records_committed_));
  for (int64_t epoch = first; epoch <= last; ++epoch) {
    committed_[epoch] = walk_.Before(epoch, records);
  }
  steps_ = steps;
  records_committed_ = records;
}

bool Ledger::finished() const {
  if (plan_.options().together) return ended_early_ || records_committed_ >= plan_.records();
  const bool more = (!ended_early_ || MidRound()) && fresh_epoch_ < plan_.epochs();
  return !more && (live_.empty() || live_.begin()->second.task.kind == TaskKind::kEvaluate);
}

bool Ledger::evaluating() const {
  return !live_.empty() && live_.rbegin()->second.task.kind == TaskKind::kEvaluate;
}

int64_t Ledger::epoch() const {
  if (plan_.options().together) return walk_.EpochOf(records_committed_);
  if (!live_.empty() && live_.begin()->second.task.kind == TaskKind::kTrain) {
    return live_.begin()->second.task.epoch;
  }
  return std::max<int64_t>(0, std::min(fresh_epoch_, plan_.epochs() - 1));
}

int64_t Ledger::records_expected() const {
  if (!ended_early_) return plan_.records();
  if (plan_.options().together) return records_committed_;
  int64_t records = 0;
  for (int64_t epoch = 0; epoch <= fresh_epoch_; ++epoch) records += Expected(epoch).size();
  return records;
}

IntervalSet Ledger::Committed(int64_t epoch) const {
  const auto it = committed_.find(epoch);
  return it == committed_.end() ? IntervalSet() : it->second;
}

IntervalSet Ledger::Expected(int64_t epoch) const {
  if (plan_.options().together && ended_early_) return Committed(epoch);
  int64_t tasks = plan_.options().records;  // As good as all: a task has a record at least.
  if (ended_early_ && epoch == fresh_epoch_) tasks = static_cast<int64_t>(fresh_next_);
  if (ended_early_ && epoch > fresh_epoch_) tasks = 0;
  return plan_.Positions(epoch, tasks);
}

bool Ledger::MidRound() const {
  const int64_t size = plan_.options().round_tasks;
  return size > 0 && begun_ % size != 0;
}

const Task* Ledger::Fresh() const {
  if (plan_.options().together || fresh_next_ >= fresh_tasks_.size()) return nullptr;
  if (ended_early_ && !MidRound()) return nullptr;
  if (const int64_t size = plan_.options().round_tasks; size > 0) {
    if (begun_ / size > rounds() + plan_.options().round_tolerance) return nullptr;
  }
  const bool behind = !live_.empty() && live_.begin()->second.task.kind == TaskKind::kTrain &&
                      live_.begin()->second.task.epoch < fresh_epoch_;
  if (plan_.options().epoch_barrier && behind) return nullptr;
  return &fresh_tasks_[fresh_next_];
}

void Ledger::TakeFresh() {
  if (++fresh_next_ < fresh_tasks_.size()) return;
  fresh_next_ = 0;
  fresh_tasks_ = plan_.TasksOf(++fresh_epoch_);
}

}  // namespace rubato

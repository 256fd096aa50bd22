// What was committed and is lost: a server came back without it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/tasks/ledger.h"

namespace rubato {
namespace {

IntervalSet Range(int64_t begin, int64_t end) {
  IntervalSet range;
  range.Add(begin, end);
  return range;
}

IntervalSet Without(const IntervalSet& set, int64_t begin, int64_t end) {
  IntervalSet rest;
  for (const Interval& run : set.Intervals()) {
    if (run.begin < begin) rest.Add(run.begin, std::min(run.end, begin));
    if (run.end > end) rest.Add(std::max(run.begin, end), run.end);
  }
  return rest;
}

}  // namespace

// A task goes on from one place, so what was committed behind the first lost batch of it is
// trained again too: servers that have it say so.
absl::StatusOr<std::vector<Ledger::LostTask>> Ledger::FindLost(int64_t epoch,
                                                               const IntervalSet& lost) const {
  if (lost.Intersect(Committed(epoch)) != lost) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", epoch, ": ", lost.ToString(), " is not all committed"));
  }
  const int64_t size = plan_.options().round_tasks;
  const int64_t whole = rounds();
  std::vector<LostTask> found;
  // Epochs before the last have all their tasks.
  int64_t order = epoch == 0 ? 0 : epoch * static_cast<int64_t>(plan_.TasksOf(0).size());
  for (Task& task : plan_.TasksOf(epoch)) {
    ++order;
    const IntervalSet gone = lost.Intersect(Range(task.begin, task.end));
    if (gone.empty()) continue;
    const int64_t from = gone.Intervals().front().begin;
    const std::string where = absl::StrCat(task.id.ToString(), ", position ", from);
    if (!IsBatchEnd(task, from)) {
      return absl::FailedPreconditionError(absl::StrCat(where, ": no batch begins there"));
    }
    if (size > 0 && (order - 1) / size < whole) {
      return absl::FailedPreconditionError(
          absl::StrCat(where, " is of round ", (order - 1) / size,
                       ", which is whole: later ones may be computed from the weights it made"));
    }
    const LiveTask* live = Find(task.id);
    const int64_t committed = live == nullptr ? task.end : live->task.committed;
    found.push_back({std::move(task), order, from, committed});
  }
  return found;
}

absl::Status Ledger::MayTakeBack(int64_t epoch, const IntervalSet& lost) const {
  return FindLost(epoch, lost).status();
}

bool Ledger::WasTakenBack(int64_t epoch, int64_t begin, int64_t end) const {
  const auto it = taken_back_.find(epoch);
  return it != taken_back_.end() && !it->second.Intersect(Range(begin, end)).empty();
}

absl::StatusOr<int64_t> Ledger::TakeBack(int64_t epoch, const IntervalSet& lost) {
  RUBATO_ASSIGN_OR_RETURN(const std::vector<LostTask> tasks, FindLost(epoch, lost));
  int64_t records = 0;
  for (const LostTask& gone : tasks) {
    LiveTask& live = live_.try_emplace(gone.task.id, LiveTask{.task = gone.task}).first->second;
    live.order = gone.order;
    live.task.committed = gone.from;
    if (const int64_t size = plan_.options().round_tasks; size > 0) {
      live.task.round = (gone.order - 1) / size;
    }
    committed_[epoch] = Without(committed_[epoch], gone.from, gone.committed);
    taken_back_[epoch].Add(gone.from, gone.committed);
    steps_ -= plan_.BatchesIn(gone.from, gone.committed);
    records += gone.committed - gone.from;
  }
  records_committed_ -= records;
  return records;
}

// A task is one batch here, so that the plan's order tells all; of whole epochs everything is
// committed.
std::map<int64_t, IntervalSet> Ledger::OfRounds(int64_t rounds) const {
  std::map<int64_t, IntervalSet> positions;
  const auto of_epoch = static_cast<int64_t>(plan_.TasksOf(0).size());
  int64_t tasks = std::min(rounds * plan_.options().round_tasks, plan_.steps());
  for (int64_t epoch = 0; tasks > 0; ++epoch, tasks -= of_epoch) {
    positions[epoch] = tasks >= of_epoch ? Committed(epoch) : plan_.Positions(epoch, tasks);
  }
  return positions;
}

absl::StatusOr<int64_t> Ledger::GoBack(int64_t rounds) {
  const int64_t size = plan_.options().round_tasks;
  if (size == 0 || rounds < 0 || rounds > this->rounds()) {
    return absl::FailedPreconditionError(
        absl::StrCat("round ", rounds, " is none to go back to from ", this->rounds()));
  }
  const auto of_epoch = static_cast<int64_t>(plan_.TasksOf(0).size());
  const int64_t before = records_committed_;
  steps_ = begun_ = std::min(rounds * size, plan_.steps());
  std::erase_if(live_,
                [](const auto& entry) { return entry.second.task.kind == TaskKind::kTrain; });
  fresh_epoch_ = begun_ / of_epoch;
  fresh_next_ = static_cast<size_t>(begun_ % of_epoch);
  // The last epoch may have fewer.
  if (begun_ == plan_.steps()) fresh_epoch_ = plan_.epochs(), fresh_next_ = 0;
  fresh_tasks_ = plan_.TasksOf(fresh_epoch_);
  std::map<int64_t, IntervalSet> left = OfRounds(rounds);
  records_committed_ = 0;
  for (const auto& [epoch, committed] : committed_) {
    for (const Interval& run : committed.Intervals()) {
      for (const Interval& gap : left[epoch].Gaps(run.begin, run.end)) {
        taken_back_[epoch].Add(gap.begin, gap.end);
      }
    }
    records_committed_ += left[epoch].size();
  }
  committed_ = std::move(left);
  return before - records_committed_;
}

void Ledger::RenewLeases() {
  for (auto& [id, live] : live_) {
    if (live.place != LiveTask::Place::kLeased || live.task.kind != TaskKind::kTrain) continue;
    live.task.lease = ++leases_;
    live.task.rounds = rounds();
  }
}

void Ledger::EndEvaluation() {
  std::erase_if(live_,
                [](const auto& entry) { return entry.second.task.kind == TaskKind::kEvaluate; });
}

}  // namespace rubato

#include "rubato/sim/checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

std::string Name(const BatchKey& batch) {
  return absl::StrCat("epoch ", batch.epoch, " task ", batch.task, " [", batch.begin, ",",
                      batch.end, ")");
}

}  // namespace

std::string Checker::Applied(int64_t server, const BatchKey& batch, WorkerId worker) {
  Counts& counts = applied_[static_cast<size_t>(server)];
  counts.set[batch.epoch].Add(batch.begin, batch.end);
  for (int64_t position = batch.begin; position < batch.end; ++position) {
    if (++counts.times[{batch.epoch, position}] > 1) {
      return absl::StrCat("server-", server, " applied ", Name(batch), " twice");
    }
  }
  return FromHolder(server, batch, worker);
}

std::string Checker::Whole(int64_t server, int64_t rounds,
                           const std::map<int64_t, IntervalSet>& applied) const {
  const auto of_epoch = static_cast<int64_t>(plan_.TasksOf(0).size());
  int64_t tasks = std::min(rounds * plan_.options().round_tasks, plan_.steps());
  for (int64_t epoch = 0; tasks > 0; ++epoch, tasks -= of_epoch) {
    const IntervalSet wanted = plan_.Positions(epoch, tasks);
    const auto it = applied.find(epoch);
    const IntervalSet here = it == applied.end() ? IntervalSet() : it->second;
    if (here.Intersect(wanted) == wanted) continue;
    return absl::StrCat("server-", server, " hears that ", rounds, " rounds are whole, and has ",
                        here.ToString(), " of epoch ", epoch, ", not ", wanted.ToString());
  }
  return "";
}

void Checker::Lost(int64_t server, const std::map<int64_t, IntervalSet>& left) {
  lost_ = true;
  if (server >= static_cast<int64_t>(applied_.size())) return;
  Counts& counts = applied_[static_cast<size_t>(server)];
  counts.set = left;
  std::erase_if(counts.times, [&](const auto& entry) {
    const auto epoch = left.find(entry.first.first);
    return epoch == left.end() || !epoch->second.Contains(entry.first.second);
  });
}

void Checker::Acknowledged(const BatchKey& batch) {
  if (known_.emplace(batch.epoch, batch.begin).second) acknowledged_.push_back(batch);
}

std::string Checker::FromHolder(int64_t server, const BatchKey& batch, WorkerId worker) const {
  const auto it = live_.find(TaskId(batch.task));
  const bool holds = it != live_.end() && it->second.place != LiveTask::Place::kOpen &&
                     it->second.worker == worker;
  const bool dead = std::find(present_.begin(), present_.end(), worker) == present_.end();
  if (!holds && !dead && !returning_.contains(server)) {
    return absl::StrCat("server-", server, " applied ", Name(batch), " of ", worker.ToString(),
                        ", which had lost the task");
  }
  return "";
}

std::string Checker::CommittedIsApplied(const Ledger& ledger) const {
  for (int64_t epoch = 0; epoch < ledger.plan().epochs(); ++epoch) {
    const IntervalSet committed = ledger.Committed(epoch);
    for (size_t i = 0; i < applied_.size(); ++i) {
      const auto it = applied_[i].set.find(epoch);
      const IntervalSet applied = it == applied_[i].set.end() ? IntervalSet() : it->second;
      if (applied.Intersect(committed) != committed) {
        return absl::StrCat("epoch ", epoch, ": committed ", committed.ToString(), ", but server-",
                            i, " applied ", applied.ToString());
      }
    }
  }
  return "";
}

std::string Checker::Answered(const Master& master) {
  const Ledger& ledger = master.ledger();
  if (ledger.steps() > ledger.plan().steps()) {
    return absl::StrCat(ledger.steps(), " steps of ", ledger.plan().steps());
  }
  if (ledger.steps() < steps_ && !lost_) {
    return absl::StrCat("steps went back to ", ledger.steps());
  }
  if (master.view().number < view_) {
    return absl::StrCat("the view went back to ", master.view().number);
  }
  const bool grew = ledger.steps() > steps_;
  steps_ = ledger.steps();
  view_ = master.view().number;
  live_ = ledger.live();
  returning_.clear();
  for (size_t i = 0; i < master.members().servers().size(); ++i) {
    const auto server = static_cast<int64_t>(i);
    if (!master.HasReturned(server)) returning_.insert(server);
  }
  present_.clear();
  for (const auto& [id, worker] : master.members().workers()) present_.push_back(id);
  // What is lost is known to be when the server is back.
  return grew && !lost_ ? CommittedIsApplied(ledger) : "";
}

std::string Checker::Replayed(const Master& master) {
  const Ledger& ledger = master.ledger();
  if (ledger.steps() < steps_ && !lost_) {
    return absl::StrCat("a restarted master knows of ", ledger.steps(), " steps, not ", steps_);
  }
  if (master.view().number < view_) {
    return absl::StrCat("a restarted master is at view ", master.view().number, ", not ", view_);
  }
  if (!clean_death_) return lost_ ? "" : CommittedIsApplied(ledger);
  for (const auto& [id, live] : live_) {
    const LiveTask* now = ledger.Find(id);
    if (now == nullptr || now->task != live.task) {
      return absl::StrCat("a restarted master lost the state of ", id.ToString());
    }
  }
  return "";
}

std::string Checker::Finished(const Master& master, const Snapshot& result) {
  if (result.state != JobState::kDone) {
    return absl::StrCat("the job ended ", std::string(JobStateName(result.state)), ": ",
                        result.error);
  }
  const Ledger& ledger = master.ledger();
  if (!ledger.ended_early() && result.steps != ledger.plan().steps()) {
    return absl::StrCat("done after ", result.steps, " steps, not ", ledger.plan().steps());
  }
  if (result.records_committed != result.records_expected) {
    return absl::StrCat(result.records_committed, " records committed of ",
                        result.records_expected);
  }
  for (size_t i = 0; i < applied_.size(); ++i) {
    for (int64_t epoch = 0; epoch < ledger.plan().epochs(); ++epoch) {
      if (applied_[i].set[epoch] != ledger.Expected(epoch)) {
        return absl::StrCat("server-", i, " ended with ", applied_[i].set[epoch].ToString(),
                            " of epoch ", epoch);
      }
    }
  }
  for (const EvaluationResult& evaluation : result.evaluations) {
    if (evaluation.records != ledger.plan().options().validation_records) {
      return absl::StrCat("evaluation ", evaluation.number, " saw ", evaluation.records,
                          " records");
    }
  }
  return "";
}

}  // namespace rubato

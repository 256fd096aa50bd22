// Strategy allreduce: the workers hold the weights and go through the plan together. The master
// says who begins, counts what they have committed, and ends the job when all agree on the result.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/master/master.h"

namespace rubato {

// What `worker` tells of its group. Only the steps of the group that lives count: a worker of an
// earlier generation, or one evicted, may have trained on for a while.
void Master::HearGroup(WorkerId id, const GroupReport& report, absl::Time now) {
  const GroupReport* before = group_.ReportOf(id);
  const bool lagged = before != nullptr && before->lagging > 0;
  group_.Hear(id, report);
  WorkerMember& member = *members_.FindWorker(id);
  member.records_redone = std::max(member.records_redone, report.records_redone);
  if (report.generation == group_.generation()) {
    NoteChange(report.change, now);
    TellPace(id, report, lagged, now);
  }
  if (verdict_.has_value() || report.generation != group_.generation() || !report.holds) return;
  NoteHolder(report, now);
  const bool first = member.commits == 0;
  if (first) Say(now, "worker_holds", {{"worker", id.value()}, {"step", report.steps}});
  if (first || report.steps > ledger_.steps()) {
    Record({.kind = EntryKind::kTrained,
            .id = id.value(),
            .incarnation = std::max(report.records, ledger_.records_committed()),
            .value = std::max(report.steps, ledger_.steps())},
           now);
    step_failures_.clear();
  }
  if (checkpoints_.running() && report.checkpointed == checkpoints_.wanted()) {
    CompleteCheckpoint(
        {.writer = id, .steps = report.checkpoint_steps, .records = report.checkpoint_records},
        now);
  }
}

// Its share of the batch follows its speed without a word; this is for people. A restarted master
// tells of it again.
void Master::TellPace(WorkerId id, const GroupReport& report, bool lagged, absl::Time now) {
  const bool lags = report.lagging > 0;
  if (lags == lagged || verdict_.has_value()) return;
  Fields fields = {{"worker", id.value()}, {"step", report.steps}};
  if (!lags) return Say(now, "straggler_recovered", std::move(fields));
  fields.emplace_back("ratio", report.lagging);
  Say(now, "straggler", std::move(fields),
      absl::StrFormat("it computes at %.2f of the group's median speed, and is dealt less of each "
                      "batch",
                      report.lagging));
}

GroupOrders Master::OrdersFor(WorkerId id) const {
  GroupOrders orders = {.generation = group_.generation(),
                        .found = id == group_.founder() && group_.ReportOf(id) == nullptr,
                        .rest = stop_requested_ || ledger_.ended_early(),
                        .over = verdict_.has_value(),
                        .batches_per_task = ledger_.plan().options().batches_per_task};
  if (orders.found) orders.restore = group_.restore();
  // What is to be kept is saved before anybody trains on.
  if (!evaluations_.results().empty() && !evaluations_.BestUnsaved()) {
    orders.evaluated = evaluations_.results().back().step;
    orders.lowered = evaluations_.lowered();
  }
  return orders;
}

// Begins the next generation once nobody is left who holds the state, or might.
void Master::FoundGroup(absl::Time now) {
  const std::vector<WorkerId> running = members_.Running();
  if (stop_requested_ || running.empty()) return;
  if (HolderMayLive()) return;
  if (!Bereft() && (MayInherit() || group_.Lives(members_.view().workers))) return;
  BeginGeneration(running.front(), now);
}

void Master::BeginGeneration(WorkerId founder, absl::Time now) {
  const SavedState saved = checkpoints_.newest();
  const int64_t committed = ledger_.records_committed();
  const int64_t lost = committed - saved.records;
  const int64_t generation = group_.generation() + 1;
  // Each record is taken to have cost the same.
  const double share =
      static_cast<double>(lost) / static_cast<double>(std::max<int64_t>(committed, 1));
  NoteFounding(now);
  Record({.kind = EntryKind::kFounded,
          .id = founder.value(),
          .incarnation = generation,
          .value = checkpoints_.complete(),
          .numbers = {share * Spent().useful}},
         now);
  std::string cause = "the job begins";
  if (saved.steps > 0) cause = absl::StrCat("from checkpoint ", checkpoints_.complete());
  if (generation > 1 && lost > 0) {
    absl::StrAppend(&cause, "; ", lost, " records are trained again, for nobody is left who has ",
                    "what they changed");
  }
  Say(now, "group_founded",
      {{"worker", founder.value()}, {"generation", generation}, {"step", saved.steps}}, cause);
}

void Master::FallBack(const FailRequest& request, absl::Time now) {
  if (request.worker != group_.founder() || group_.ReportOf(request.worker) != nullptr) return;
  const std::vector<int64_t> kept = checkpoints_.kept();
  const bool known = !absl::StartsWith(request.checkpoint, absl::StrCat(kept.back(), "/"));
  if (known) return BeginGeneration(request.worker, now);  // A master died just after it was told.
  if (request.unfit) {
    Close(JobState::kFailed,
          absl::StrCat(request.error,
                       "; give job.yaml what the job began with: model, optimizer, data and seed"),
          now, /*records_repeated=*/0, /*bad_input=*/true);
    return;
  }
  if (kept.size() == 1) {
    Close(JobState::kFailed,
          absl::StrCat(request.error,
                       "; no other checkpoint is kept, and nobody is left who has the model: begin "
                       "the job anew in another directory"),
          now, /*records_repeated=*/0, /*bad_input=*/true);
    return;
  }
  const int64_t version = kept.back(), before = kept[kept.size() - 2];
  const int64_t best = checkpoints_.best();
  Record({.kind = EntryKind::kCheckpointDamaged, .value = version}, now);
  if (checkpoints_.best() != best) effects_.emplace_back(WriteBest{checkpoints_.best()});
  Say(now, "checkpoint_damaged", {{"version", version}, {"worker", request.worker.value()}},
      absl::StrCat(request.error, "; the group begins from checkpoint ", before));
  BeginGeneration(request.worker, now);
}

void Master::ApplyFounded(const JournalEntry& entry) {
  const SavedState saved = checkpoints_.newest();
  records_recomputed_ += std::max<int64_t>(ledger_.records_committed() - saved.records, 0);
  if (!entry.numbers.empty()) seconds_lost_ += entry.numbers.front();
  records_before_ = std::min(records_before_, saved.records);
  ledger_.SetTogether(saved.steps, saved.records);
  last_view_ = GroupView();
  authority_.reset();
  workers_of_.clear();
  checkpoints_.Resume();
  if (evaluations_.GoBack(saved.steps)) ledger_.EndEvaluation();
  reported_ = std::min(reported_, evaluations_.results().size());
  if (!evaluations_.Stalled()) ledger_.GoOn();
  group_.Found(
      entry.incarnation, WorkerId(entry.id),
      entry.value > 0 ? absl::StrCat(entry.value, "/", saved.writer.ToString(), ".ckpt") : "");
}

void Master::FailStep(const FailRequest& request, absl::Time now) {
  if (verdict_.has_value()) return;
  PlanWalk walk(ledger_.plan());
  const PlanRange step = walk.StepAt(ledger_.records_committed(), options_.job.batch_size);
  const std::string what =
      absl::StrCat("step ", ledger_.steps() + 1, " (epoch ", step.task.epoch, ", ",
                   DataShape::Describe(options_.data.train, {step.begin, step.end}), ")");
  Say(now, "step_failed", {{"worker", request.worker.value()}, {"what", what}}, request.error);
  if (step_failures_.empty()) step_error_ = request.error;
  // Those who fail at it together fail once.
  step_failures_.insert({group_.generation(), request.attempt});
  const int64_t failures = static_cast<int64_t>(step_failures_.size());
  if (failures < options_.job.elastic.task_failures_max) return;
  Close(JobState::kFailed,
        absl::StrCat(what, " failed ", failures, " times; the first error: ", step_error_), now);
}

// Trained, or told to stop: when every holder rests at one step, the last checkpoint is written
// beside the last evaluation; then their checksums must agree.
void Master::EndGroupIfOver(absl::Time now) {
  const bool stopping = stop_requested_;
  if (!stopping && !ledger_.finished()) return;
  const std::vector<WorkerId>& alive = members_.view().workers;
  if (stopping && !group_.Lives(alive) && !MayInherit()) {
    return Close(JobState::kStopped, "", now);
  }
  if (!group_.Resting(alive, ledger_.steps())) return;
  const bool checkpoint = !stopping || stop_checkpoint_;
  if (checkpoint && !checkpoints_.LastBegun() && !checkpoints_.running()) {
    BeginCheckpoint(/*last=*/true, now, WhyLast());
  }
  if (checkpoint && !checkpoints_.LastDone()) return;
  if (stopping) return Close(JobState::kStopped, "", now);
  if (!evaluations_.FinalDone() || evaluations_.BestUnsaved()) return;
  int64_t repeated = 0;
  const absl::Status exact = AuditGroup(&repeated);
  Close(exact.ok() ? JobState::kDone : JobState::kFailed, std::string(exact.message()), now,
        repeated);
}

absl::Status Master::AuditGroup(int64_t* records_repeated) const {
  std::string wrong;
  if (ledger_.records_committed() != ledger_.records_expected()) {
    absl::StrAppend(&wrong, "; ", ledger_.records_committed(), " records were committed of ",
                    ledger_.records_expected());
  }
  const std::vector<WorkerId> holders = group_.Holders(members_.view().workers);
  for (const WorkerId id : holders) {
    const GroupReport& report = *group_.ReportOf(id);
    *records_repeated = std::max(*records_repeated, report.records_wrong);
    if (report.records_wrong != 0) {
      absl::StrAppend(&wrong, "; ", id.ToString(), " counted ", report.records_wrong,
                      " records not exactly once");
    }
    if (report.checksum != group_.ReportOf(holders.front())->checksum) {
      absl::StrAppend(&wrong, "; ", id.ToString(), " and ", holders.front().ToString(),
                      " have different weights");
    }
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("not every record was trained exactly once", wrong));
}

}  // namespace rubato

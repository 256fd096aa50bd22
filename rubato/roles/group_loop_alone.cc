// What a worker does for itself where there is no master.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/roles/exit_codes.h"
#include "rubato/roles/group_loop.h"

namespace rubato {
namespace {

// First so soon, then less and less often.
constexpr absl::Duration kSaySoon = absl::Seconds(5), kSayLate = absl::Minutes(5);
constexpr const char* kWhereNobodyHolds =
    "; if all workers that had the model are gone, go on from the job directory of one of them "
    "that "
    "has a checkpoint, with `rubato worker --resume DIR`, and start this one with --join of that "
    "one";

}  // namespace

LoneStanding GroupLoop::StandingAlone() const {
  return {.trained = replica_->phase() == Replica::Phase::kEnded,
          .known = !marks_.empty() && marks_.front().steps == replica_->steps(),
          .learning = group_->learning(),
          .told = told_ || group_->told_finished(),
          .step = group_->step(),
          .committed = group_->committed(),
          .alone = options_.clock->Now() - seen_,
          .unheard = group_->unheard()};
}

bool GroupLoop::HasSomethingToKeep() const {
  return group_ != nullptr && MayKeep(StandingAlone()) && replica_->steps() > 0;
}

absl::Status GroupLoop::FinishAlone() {
  if (replica_->records_wrong() > 0) {
    return absl::InternalError(
        absl::StrCat(replica_->records_wrong(), " records were trained twice or not at all"));
  }
  group_->SayFinished();
  state_ = JobState::kEvaluating;
  ending_ = "every record is trained, once";
  const absl::Status saved = SaveAtTheEnd("training is over");
  const std::string weights = absl::StrCat(absl::Hex(replica_->Checksum()));
  std::string line = absl::StrCat("trained ", replica_->steps(), " steps, ", replica_->records(),
                                  " records; weights ", weights);
  if (evaluator_) {
    RUBATO_RETURN_IF_ERROR(Evaluate("training is over"));
    for (const auto& [name, value] : evaluations_.back().metrics) {
      absl::StrAppend(&line, ", ", name, " ", value);
    }
  }
  result_ = {.line = std::move(line), .weights = weights};
  return Annotate(saved, "trained, but the last checkpoint could not be written");
}

absl::Status GroupLoop::Evaluate(const std::string& why) {
  const int64_t number = static_cast<int64_t>(evaluations_.size()) + 1;
  Record("evaluation_began", {{"number", number}, {"step", replica_->steps()}}, why);
  Enter(Activity::kUseful);
  const absl::StatusOr<EvaluationSums> sums = evaluator_->EvaluateAll(plan_, replica_->weights());
  Enter(Activity::kOther);
  RUBATO_RETURN_IF_ERROR(sums.status());
  evaluations_.push_back({.number = number,
                          .step = replica_->steps(),
                          .records = sums->records,
                          .metrics = Metrics(*sums)});
  Chronicle::Fields fields = {
      {"number", number}, {"step", replica_->steps()}, {"records", sums->records}};
  for (const auto& [name, value] : evaluations_.back().metrics) fields.emplace_back(name, value);
  Record("evaluation_ended", std::move(fields), "every record to evaluate on is scored");
  return absl::OkStatus();
}

// The group rests after the same step everywhere, and each member scores all of it for itself. The
// others wait for the slowest in the sum, in which all vote to go on.
void GroupLoop::EvaluateAlone() {
  if (!StandingAlone().known) return;  // Whether the step stays shows in the next sum.
  if (evaluator_) {
    const absl::Status evaluated = Evaluate("evaluate.every_steps");
    if (!evaluated.ok()) {
      Record("evaluation_failed", {{"step", replica_->steps()}}, std::string(evaluated.message()));
    }
  }
  MutexLock lock(mu_);
  orders_.evaluated = replica_->steps();
}

absl::Status GroupLoop::SaveAtTheEnd(const std::string& why) {
  Enter(Activity::kCheckpoint);
  const absl::Status saved = own_->Save(*replica_);
  Enter(Activity::kOther);
  const Chronicle::Fields fields = {{"version", own_->begun()}, {"step", replica_->steps()}};
  if (saved.ok() || replica_->phase() == Replica::Phase::kEnded) {
    MutexLock lock(mu_);  // What is kept counts, whoever else has it.
    report_.steps = replica_->steps();
    report_.records = replica_->records();
  }
  if (saved.ok()) {
    Record("checkpoint_complete", fields, why);
  } else {
    Record("checkpoint_failed", fields, std::string(saved.message()));
  }
  return saved;
}

// Asked to end before training did. If others go on, they have the state; if nobody does, it must
// not be lost with this process.
absl::StatusOr<int> GroupLoop::StopAlone(bool left) {
  trainer_.OnTrainEnd();
  if (ending_.empty()) ending_ = "asked to stop";
  // The last of those who leave together has nobody to leave it to.
  if (left && group_->view().size() > 1) {
    CountWhatStays();
    ending_ = "asked to stop; the others go on";
    options_.say(
        absl::StrCat("left the group after step ", snapshot().steps, "; the others go on"));
    return kRoleStopped;
  }
  if (!HasSomethingToKeep()) {
    options_.say("stopped with nothing to keep");
    return kRoleStopped;
  }
  saver_.Drop();
  RUBATO_RETURN_IF_ERROR(SaveAtTheEnd("the worker stops, and nobody else has the model"));
  options_.say(absl::StrCat("stopped after step ", replica_->steps(),
                            " with a checkpoint; go on with: rubato worker --resume ",
                            options_.directory));
  return kRoleStopped;
}

// The view that this worker is not in any more begins at a step: whoever is in it has that step, so
// it is committed, though no sum of a later one has told so here.
void GroupLoop::CountWhatStays() {
  if (group_->step() < 0 || group_->step() > group_->parted_at()) return;
  MutexLock lock(mu_);
  report_.steps = replica_->steps();
  report_.records = replica_->records();
  report_.bad_rows = replica_->bad_rows();
}

absl::StatusOr<GroupLoop::Outcome> GroupLoop::FailedAgain() {
  if (control_) return Outcome::kGoOn;  // The master counts.
  if (++failures_.count < options_.job.elastic.task_failures_max) return Outcome::kGoOn;
  std::string error =
      absl::StrCat("step ", replica_->steps() + 1, " failed ", failures_.count, " times; ",
                   failures_.first.empty() ? "another worker's log says why" : "the first error: ",
                   failures_.first);
  saver_.Drop();
  if (replica_->steps() > 0 && SaveAtTheEnd("the next step fails").ok()) {
    absl::StrAppend(&error, "; the steps before it are kept, go on with: rubato worker --resume ",
                    options_.directory);
  }
  return absl::InternalError(error);
}

absl::StatusOr<int> GroupLoop::EndWithout(Ending ending) {
  trainer_.OnTrainEnd();
  saver_.Drop();
  // What it held before it was left behind may be all there is, whatever it was told.
  const bool kept = HasSomethingToKeep() && SaveAtTheEnd("nobody else may have the model").ok();
  const std::string own =
      absl::StrCat("what it has itself, ", replica_->steps(), " steps, is kept");
  if (ending == Ending::kLost) {
    return absl::UnavailableError(absl::StrCat(
        "nobody is left who has the model: the workers that this one could copy it from are gone, "
        "and none of them said that training had ended; ",
        kept ? own : "this one has nothing to keep; where one of them left a checkpoint",
        ", go on with: rubato worker --resume ", kept ? options_.directory : "DIR",
        kept ? "" : ", its job directory", "; the others then --join that one"));
  }
  ending_ = absl::StrCat(
      "training has ended: the others finished it before this worker had the model, and have the "
      "result; ",
      kept ? own : "nothing is kept here");
  options_.say(ending_);
  return kRoleDone;
}

// Without a master nobody else would.
void GroupLoop::SayWhyItWaits(const absl::Status& status) {
  const absl::Time now = options_.clock->Now();
  const absl::Duration pause = std::clamp(said_ - seen_, kSaySoon, kSayLate);
  if (now - std::max(seen_, said_) < pause) return;
  said_ = now;
  const GroupView view = group_->view();
  if (view.number == 0) {
    std::string why(status.message());
    if (group_->unheard() > kSaySoon) absl::StrAppend(&why, kWhereNobodyHolds);
    if (options_.join_timeout < absl::InfiniteDuration()) {
      absl::StrAppend(&why, "; gives up after ", absl::FormatDuration(options_.join_timeout),
                      " (--join-timeout)");
    }
    return Record("waiting", {}, std::move(why));
  }
  const std::string other = group_->stranger();
  std::string why =
      absl::StrCat("another group of this job, founded apart from this one, trains at ", other,
                   "; to train with it, stop this one and start it anew with --join ", other);
  if (other.empty()) {
    const bool none = group_->learning() && group_->unheard() > kSaySoon;
    why = absl::StrCat(
        none ? "none" : "too few", " of the ", view.holders,
        " workers that hold the model can be reached (allreduce.quorum is ",
        options_.job.allreduce.quorum,
        "); this goes on when they are back. Where they are not coming back: ",
        HasSomethingToKeep()
            ? absl::StrCat("Ctrl-C keeps a checkpoint, and `rubato worker --resume ",
                           options_.directory, "` goes on from it")
            : "this one has not copied the model yet and keeps nothing; go on from the directory "
              "of one of them that has a checkpoint, with `rubato worker --resume DIR`");
    const std::string missed = WhomItMisses();
    if (!missed.empty()) why = absl::StrCat(missed, "; ", why);
  }
  Record("waiting", {{"step", replica_->steps()}}, std::move(why));
}

absl::Status GroupLoop::CheckPatience(const absl::Status& why) const {
  if (joined() || options_.orders.found) return absl::OkStatus();
  if (options_.clock->Now() - opened_ < options_.join_timeout) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("nobody has let this worker in: ", std::string(why.message()),
                   group_->unheard() > kSaySoon ? kWhereNobodyHolds : "",
                   "; check --join, or wait longer with --join-timeout"));
}

}  // namespace rubato

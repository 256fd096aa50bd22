// What a worker does for itself where there is no master.
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/roles/exit_codes.h"
#include "rubato/roles/group_loop.h"

namespace rubato {
namespace {

// First so soon, then less and less often.
constexpr absl::Duration kSaySoon = absl::Seconds(5), kSayLate = absl::Minutes(5);

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

absl::Status GroupLoop::FinishAlone() {
  if (replica_->records_wrong() > 0) {
    return absl::InternalError(
        absl::StrCat(replica_->records_wrong(), " records were trained twice or not at all"));
  }
  group_->SayFinished();
  const absl::Status saved = own_->Save(*replica_);
  std::string line = absl::StrCat("trained ", replica_->steps(), " steps, ", replica_->records(),
                                  " records; weights ", absl::Hex(replica_->Checksum()));
  if (evaluator_) {
    RUBATO_ASSIGN_OR_RETURN(const EvaluationSums sums,
                            evaluator_->EvaluateAll(plan_, replica_->weights()));
    for (const auto& [name, value] : Metrics(sums)) absl::StrAppend(&line, ", ", name, " ", value);
  }
  std::printf("%s\n", line.c_str());
  return Annotate(saved, "trained, but the last checkpoint could not be written");
}

// Asked to end before training did. If others go on, they have the state; if nobody does, it must
// not be lost with this process.
absl::StatusOr<int> GroupLoop::StopAlone(bool left) {
  trainer_.OnTrainEnd();
  // The last of those who leave together has nobody to leave it to.
  if (left && group_->view().size() > 1) {
    std::fprintf(stderr, "left the group after step %d; the others go on\n",
                 static_cast<int>(replica_->steps()));
    return kRoleStopped;
  }
  const bool holds = group_ != nullptr && MayKeep(StandingAlone()) && replica_->steps() > 0;
  if (!holds) {
    std::fprintf(stderr, "stopped with nothing to keep\n");
    return kRoleStopped;
  }
  saver_.Drop();
  RUBATO_RETURN_IF_ERROR(own_->Save(*replica_));
  std::fprintf(stderr,
               "stopped after step %d with a checkpoint; go on with: rubato worker --resume %s\n",
               static_cast<int>(replica_->steps()), options_.directory.c_str());
  return kRoleStopped;
}

absl::StatusOr<GroupLoop::Outcome> GroupLoop::FailedAgain() {
  if (control_) return Outcome::kGoOn;  // The master counts.
  if (++failures_.count < options_.job.elastic.task_failures_max) return Outcome::kGoOn;
  std::string error =
      absl::StrCat("step ", replica_->steps() + 1, " failed ", failures_.count, " times; ",
                   failures_.first.empty() ? "another worker's log says why" : "the first error: ",
                   failures_.first);
  saver_.Drop();
  if (replica_->steps() > 0 && own_->Save(*replica_).ok()) {
    absl::StrAppend(&error, "; the steps before it are kept, go on with: rubato worker --resume ",
                    options_.directory);
  }
  return absl::InternalError(error);
}

absl::StatusOr<int> GroupLoop::EndWithout(Ending ending) {
  trainer_.OnTrainEnd();
  if (ending == Ending::kLost) {
    std::string error =
        "all workers that this one could copy the model from are gone, and none of them said that "
        "training had ended; ";
    saver_.Drop();
    // What it held before it was left behind may be all there is.
    const bool kept =
        MayKeep(StandingAlone()) && replica_->steps() > 0 && own_->Save(*replica_).ok();
    absl::StrAppend(&error,
                    kept
                        ? absl::StrCat("what it has itself, ", replica_->steps(), " steps, is kept")
                        : "where one of them left a checkpoint",
                    ", go on with: rubato worker --resume ", kept ? options_.directory : "DIR");
    return absl::UnavailableError(error);
  }
  std::fprintf(stderr,
               "training has ended: the others finished it before this worker had the model, and "
               "have the result; nothing is kept here\n");
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
    std::fprintf(stderr, "waiting: %s\n", std::string(status.message()).c_str());
    return;
  }
  const std::string other = group_->stranger();
  if (!other.empty()) {
    std::fprintf(stderr,
                 "waiting after step %d: another group of this job, founded apart from this one, "
                 "trains at %s; to train with it, stop this one and start it anew with --join %s\n",
                 static_cast<int>(replica_->steps()), other.c_str(), other.c_str());
    return;
  }
  std::fprintf(
      stderr,
      "waiting after step %d: too few of the %d workers that hold the model can be reached "
      "(%s); this goes on when they are back. Where they are not coming back: Ctrl-C keeps a "
      "checkpoint, and `rubato worker --resume %s` goes on from it\n",
      static_cast<int>(replica_->steps()), view.holders,
      options_.job.allreduce.quorum == "any" ? "allreduce.quorum is any"
                                             : "allreduce.quorum is majority",
      options_.directory.c_str());
}

}  // namespace rubato

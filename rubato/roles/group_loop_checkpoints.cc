// What a group keeps on disk: its first member writes, the founder of the next group reads.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/status.h"
#include "rubato/roles/group_loop.h"

namespace rubato {
namespace {

constexpr absl::Duration kSaveAgain = absl::Seconds(1);   // After one that failed.
constexpr absl::Duration kSaveGrace = absl::Seconds(15);  // For one, before its lateness is told.

}  // namespace

absl::Status GroupLoop::Restore(const std::string& file) {
  const std::string path = absl::StrCat(options_.checkpoints, "/", file);
  const absl::StatusOr<std::string> bytes = ReadWholeFile(path);
  // Not there, or on a bad sector: the one before it serves.
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  return Annotate(replica_->Decode(*bytes), path);
}

bool GroupLoop::TellUnreadable(const GroupOrders& orders, const absl::Status& opened) {
  const bool unfit = absl::IsFailedPrecondition(opened) && !orders.restore.empty();
  if (!absl::IsDataLoss(opened) && !unfit) return false;
  generation_ = orders.generation;
  control_->Fail(
      {.checkpoint = orders.restore, .error = std::string(opened.message()), .unfit = unfit});
  return true;
}

void GroupLoop::SaveAtBoundary(const StepPlan& plan) {
  // One after the other: on a slow disk the next begins late, and nobody waits for it.
  const bool writes = plan.rank == 0;
  const bool late = writes && saver_.busy();
  const int64_t due = own_ && !late ? own_->Due(replica_->steps(), writes) : 0;
  if (own_) SayIfLate(late);
  const absl::StatusOr<std::optional<ReplicaSaver::Saved>> taken = saver_.TakeSaved();
  if (!taken.ok()) CheckpointFailed(taken.status());
  const std::optional<ReplicaSaver::Saved> saved = taken.value_or(std::nullopt);
  int64_t wanted = 0;
  {
    MutexLock lock(mu_);
    wanted = checkpoint_wanted_;
    if (saved.has_value() && control_) {
      report_.checkpointed = saved->version;
      report_.checkpoint_steps = saved->steps;
      report_.checkpoint_records = saved->records;
    }
  }
  if (saved.has_value() && control_) control_->BeatNow();
  if (saved.has_value() && own_) {
    const absl::Status kept = own_->Complete(*saved);
    if (!kept.ok()) {
      CheckpointFailed(kept);
    } else {
      Record("checkpoint_complete", {{"version", saved->version}, {"step", saved->steps}},
             absl::StrCat("every ", options_.job.checkpoint.every_steps, " steps"));
    }
  }
  if (own_) wanted = due;
  const bool may = own_ || options_.clock->Now() >= save_again_;
  if (writes && may && wanted > saver_.version()) {
    Enter(Activity::kCheckpoint);
    saver_.Copy(*replica_, group_->TakeSnapshot(), wanted, options_.checkpoints,
                absl::StrCat(options_.id.ToString(), ".ckpt"));
  }
}

// A folder that hangs, a network away, tells nothing itself; with a master that one watches.
void GroupLoop::SayIfLate(bool late) {
  const absl::Time now = options_.clock->Now();
  if (!late) saving_since_ = now;
  if (now - saving_since_ < kSaveGrace) return;
  saving_since_ = absl::InfiniteFuture();  // Said once.
  Record("checkpoint_failed", {{"version", saver_.version()}, {"step", replica_->steps()}},
         absl::StrCat("it is not written yet, after ", absl::FormatDuration(kSaveGrace),
                      "; training goes on without one"));
}

void GroupLoop::CheckpointFailed(const absl::Status& status) {
  const std::string file = absl::StrCat(saver_.version(), "/", options_.id.ToString(), ".ckpt");
  const std::string error(status.message());
  if (control_) {
    std::fprintf(stderr, "checkpoint %s: %s\n", file.c_str(), error.c_str());
  } else {
    Record("checkpoint_failed", {{"version", saver_.version()}, {"step", replica_->steps()}},
           absl::StrCat("checkpoint ", file, ": ", error));
  }
  saver_.Forget();
  save_again_ = options_.clock->Now() + kSaveAgain;
  if (control_) control_->Fail({.checkpoint = file, .error = error});
}

}  // namespace rubato

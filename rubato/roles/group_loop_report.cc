// What a worker of a group tells of itself: where its time went, how far training is, how a change
// of view went, and whether it is slow.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "rubato/adapters/ring/control_loop.h"
#include "rubato/roles/group_loop.h"

namespace rubato {

void GroupLoop::Enter(Activity activity) {
  MutexLock lock(mu_);
  time_.Enter(activity, options_.clock->Now());
}

WorkerHeartbeat GroupLoop::Describe() {
  std::optional<DataAway> away = train_.away();
  if (!away.has_value()) away = validation_.away();
  MutexLock lock(mu_);
  WorkerHeartbeat beat = {
      .spent = time_.Spent(options_.clock->Now()), .group = report_, .away = std::move(away)};
  losses_.TakeInto(&beat);
  return beat;
}

void GroupLoop::Account(int64_t step, bool applied) {
  const StepsInDoubt::Work work = {computed_, computed_positions_};
  const bool parted = group_->partings() != partings_;
  if (applied || parted) doubts_.Took(step, work);
  SettleDoubts();
  if (!applied && !parted) CountRedone(work);  // The view has changed: the step begins again.
}

void GroupLoop::SettleDoubts() {
  if (std::exchange(partings_, group_->partings()) != group_->partings()) {
    CountRedone(doubts_.Parted(group_->parted_at()));
  }
  doubts_.Committed(group_->committed());
}

void GroupLoop::CountRedone(const StepsInDoubt::Work& work) {
  MutexLock lock(mu_);
  time_.Redone(work.computed);
  report_.records_redone += work.positions;
}

void GroupLoop::TellProgress() {
  const Mark& mark = marks_.front();
  if (mark.group_step > group_->committed()) return;
  // At rest, when the steps committed are all there are.
  const bool rests =
      replica_->phase() != Replica::Phase::kTraining && mark.steps == replica_->steps();
  bool news = false;
  {
    MutexLock lock(mu_);
    news = !report_.holds || (rests && report_.checksum == 0);
    // One that joins takes no credit for what the others had trained by then.
    if (records_before_ < 0) records_before_ = mark.records;
    report_.holds = true;
    report_.steps = mark.steps;
    report_.records = mark.records;
    report_.records_wrong = mark.records_wrong;
    report_.bad_rows = mark.bad_rows;
    if (!rests) report_.checksum = 0;
    if (rests && report_.checksum == 0) report_.checksum = replica_->Checksum();
  }
  if (news && control_) control_->BeatNow();
}

void GroupLoop::NoteLastSigns() {
  for (const Departure& departure : InOurTime(group_->last_change().gone)) {
    last_signs_[departure.member.id.value()] = absl::ToUnixMicros(departure.heard);
  }
}

void GroupLoop::CountLostWait() {
  const absl::Time began = std::exchange(sums_since_, absl::InfiniteFuture());
  const ChangeTimes change = group_->last_change();
  if (began == absl::InfiniteFuture() || change.gone.empty()) return;
  if (group_->partings() != partings_) return;  // It was this worker that the others waited for.
  const absl::Time now = options_.clock->Now();
  const absl::Time noticed = now - (ControlLoop::Now() - change.noticed);
  absl::Time heard = noticed;
  for (const Departure& departure : InOurTime(change.gone)) {
    heard = std::min(heard, departure.heard);
  }
  const absl::Duration detect = noticed - std::max(began, heard);
  MutexLock lock(mu_);
  // Where the sum was broken off, the time since is counted as it is.
  const bool waits = time_.current() == Activity::kWait;
  time_.Lost(std::max(detect, absl::ZeroDuration()),
             waits ? now - std::max(began, noticed) : absl::ZeroDuration(), now);
}

void GroupLoop::TellChange() {
  const ChangeTimes change = group_->last_change();
  GroupChange told;
  {
    MutexLock lock(mu_);
    if (change.view == report_.change.view || change.resumed < change.entered) return;
    // From the group's clock to everyone's.
    const absl::Duration ago = ControlLoop::Now() - change.noticed;
    report_.change = {.view = change.view,
                      .noticed_us = absl::ToUnixMicros(options_.clock->Now() - ago),
                      .agree_us = absl::ToInt64Microseconds(change.agreed - change.noticed),
                      .reconnect_us = absl::ToInt64Microseconds(change.entered - change.agreed),
                      .redo_us = absl::ToInt64Microseconds(change.resumed - change.entered),
                      .heard_us = std::exchange(last_signs_, {})};
    told = report_.change;
  }
  if (control_) return control_->BeatNow();  // Records of failures wait for it.
  chronicle_->Resume(told, options_.clock->Now());
  WriteEvents();
}

void GroupLoop::WatchPace() {
  if (!pace_.Observe(group_->pace())) return;
  {
    MutexLock lock(mu_);
    report_.lagging = pace_.lagging() ? pace_.pace() : 0;
  }
  if (control_) return control_->BeatNow();
  Chronicle::Fields fields = {{"worker", chronicle_->self()}, {"step", replica_->steps()}};
  if (!pace_.lagging()) return Record("straggler_recovered", std::move(fields), "");
  fields.emplace_back("ratio", pace_.pace());
  Record("straggler", std::move(fields),
         absl::StrFormat("it computes at %.2f of the group's median speed, and is dealt less of "
                         "each batch",
                         pace_.pace()));
}

}  // namespace rubato

// Where a worker's seconds went. The compute thread is always doing exactly one thing, so the
// parts sum to the whole by construction.
#ifndef RUBATO_WORKER_TIME_LEDGER_H_
#define RUBATO_WORKER_TIME_LEDGER_H_

#include <array>
#include <cstddef>

#include "absl/time/time.h"
#include "rubato/master/messages.h"

namespace rubato {

enum class Activity { kUseful, kRead, kWait, kDetect, kRebuild, kRedo, kCheckpoint, kOther };
inline constexpr size_t kActivities = 8;

class TimeLedger {
 public:
  // A worker starts by starting up.
  explicit TimeLedger(absl::Time start) : last_(start) {}

  // From `now` on the thread does `next`. Returns how long it did what it did before.
  absl::Duration Enter(Activity next, absl::Time now);
  Activity current() const { return current_; }

  // A batch that took `compute` turned out to be applied already: it was not useful after all.
  void Redone(absl::Duration compute) { Move(Activity::kUseful, Activity::kRedo, compute); }

  // Of what was waited until `now` the last was for others who were gone: `detect` until that was
  // noticed, and `rebuild` until there was a group without them.
  void Lost(absl::Duration detect, absl::Duration rebuild, absl::Time now);

  // Everything up to `now`, what is under way included.
  TimeSpent Spent(absl::Time now) const;

 private:
  // As far as there is so much.
  void Move(Activity from, Activity to, absl::Duration time);
  absl::Duration& Of(Activity activity) { return spent_[static_cast<size_t>(activity)]; }

  Activity current_ = Activity::kRebuild;
  absl::Time last_;
  std::array<absl::Duration, kActivities> spent_{};
};

}  // namespace rubato

#endif  // RUBATO_WORKER_TIME_LEDGER_H_

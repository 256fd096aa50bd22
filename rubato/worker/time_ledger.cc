#include "rubato/worker/time_ledger.h"

#include <algorithm>

namespace rubato {

absl::Duration TimeLedger::Enter(Activity next, absl::Time now) {
  const absl::Duration span = now - last_;
  Of(current_) += span;
  current_ = next;
  last_ = now;
  return span;
}

void TimeLedger::Lost(absl::Duration detect, absl::Duration rebuild, absl::Time now) {
  Enter(current_, now);
  Move(Activity::kWait, Activity::kDetect, detect);
  Move(Activity::kWait, Activity::kRebuild, rebuild);
}

void TimeLedger::Move(Activity from, Activity to, absl::Duration time) {
  time = std::min(time, Of(from));
  Of(from) -= time;
  Of(to) += time;
}

TimeSpent TimeLedger::Spent(absl::Time now) const {
  TimeLedger ended = *this;
  ended.Enter(current_, now);
  const auto seconds = [&](Activity activity) { return absl::ToDoubleSeconds(ended.Of(activity)); };
  return {.useful = seconds(Activity::kUseful),
          .read = seconds(Activity::kRead),
          .wait = seconds(Activity::kWait),
          .detect = seconds(Activity::kDetect),
          .rebuild = seconds(Activity::kRebuild),
          .redo = seconds(Activity::kRedo),
          .checkpoint = seconds(Activity::kCheckpoint),
          .other = seconds(Activity::kOther)};
}

}  // namespace rubato

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

void TimeLedger::Redone(absl::Duration compute) {
  compute = std::min(compute, Of(Activity::kUseful));
  Of(Activity::kUseful) -= compute;
  Of(Activity::kRedo) += compute;
}

TimeSpent TimeLedger::Spent(absl::Time now) const {
  TimeLedger ended = *this;
  ended.Enter(current_, now);
  const auto seconds = [&](Activity activity) { return absl::ToDoubleSeconds(ended.Of(activity)); };
  return {.useful = seconds(Activity::kUseful),
          .read = seconds(Activity::kRead),
          .wait = seconds(Activity::kWait),
          .rebuild = seconds(Activity::kRebuild),
          .redo = seconds(Activity::kRedo),
          .checkpoint = seconds(Activity::kCheckpoint),
          .other = seconds(Activity::kOther)};
}

}  // namespace rubato

#include "rubato/master/relaunch.h"

#include <algorithm>

namespace rubato {

absl::Duration RelaunchWait(int64_t futile) {
  if (futile <= 1) return absl::ZeroDuration();
  const int64_t doublings = std::min<int64_t>(futile - 2, 10);
  return std::min(absl::Milliseconds(250) * (int64_t{1} << doublings), absl::Seconds(10));
}

void LaunchPlace::Exited(bool progress, absl::Time now) {
  futile = progress ? 1 : futile + 1;
  not_before = now + RelaunchWait(futile);
}

void CrashLoop::Crashed(const std::string& error) {
  if (crashes++ == 0) first_error = error;
}

}  // namespace rubato

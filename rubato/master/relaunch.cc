#include "rubato/master/relaunch.h"

#include <algorithm>

namespace rubato {
namespace {

constexpr int64_t kGraceDoublings = 3;

}  // namespace

absl::Duration RelaunchWait(int64_t futile) {
  if (futile <= 1) return absl::ZeroDuration();
  const int64_t doublings = std::min<int64_t>(futile - 2, 10);
  return std::min(absl::Milliseconds(250) * (int64_t{1} << doublings), absl::Seconds(10));
}

absl::Duration StartGrace(absl::Duration least, int64_t silent) {
  return least * (int64_t{1} << std::clamp<int64_t>(silent, 0, kGraceDoublings));
}

bool IsMostGrace(absl::Duration least, absl::Duration grace) {
  return grace >= StartGrace(least, kGraceDoublings);
}

void LaunchPlace::Exited(bool progress, absl::Time now) {
  futile = progress ? 1 : futile + 1;
  not_before = now + RelaunchWait(futile);
}

void CrashLoop::Crashed(const std::string& error) {
  if (crashes++ == 0) first_error = error;
}

}  // namespace rubato

#include "rubato/master/slowest_second.h"

#include <algorithm>

namespace rubato {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(1);

double RateSince(const std::pair<absl::Time, int64_t>& then, absl::Time now, int64_t count) {
  const double seconds = absl::ToDoubleSeconds(std::max(now - then.first, absl::Microseconds(1)));
  return std::max(0.0, static_cast<double>(count - then.second) / seconds);
}

}  // namespace

void SlowestSecond::Sample(absl::Time now, int64_t count) {
  samples_.emplace_back(now, count);
  // The last that is old enough is where the window begins.
  while (samples_.size() > 1 && now - samples_[1].first >= kWindow) samples_.pop_front();
  if (now - samples_.front().first < kWindow) return;
  const double rate = RateSince(samples_.front(), now, count);
  lowest_ = std::min(lowest_.value_or(rate), rate);
}

double SlowestSecond::Rate(absl::Time now, int64_t count) const {
  if (lowest_.has_value()) return *lowest_;
  return samples_.empty() ? 0 : RateSince(samples_.front(), now, count);
}

}  // namespace rubato

#include "rubato/ring/straggler.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rubato {

double PaceOf(absl::Span<const float> speeds, int holders, int rank) {
  std::vector<float> known;
  const auto measured = [](float speed) { return std::isfinite(speed) && speed > 0; };
  for (int i = 0; i < std::min(holders, static_cast<int>(speeds.size())); ++i) {
    if (measured(speeds[i])) known.push_back(speeds[i]);
  }
  if (known.size() < 2 || rank < 0 || rank >= holders || !measured(speeds[rank])) return 1;
  const auto median = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), median, known.end());
  return speeds[rank] / *median;
}

bool StragglerWatch::Observe(double pace) {
  const bool against = lagging_ ? pace > options_.even_above : pace < options_.lags_below;
  row_ = against ? row_ + 1 : 0;
  sum_ = against ? sum_ + pace : 0;
  if (row_ < options_.steps) return false;
  pace_ = sum_ / row_;
  lagging_ = !lagging_;
  row_ = 0;
  sum_ = 0;
  return true;
}

}  // namespace rubato

#include "rubato/ring/quota.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rubato/base/status.h"

namespace rubato {
namespace {

// The weights as they count: unmeasured ones stand at the mean of the measured.
std::vector<double> Weights(absl::Span<const float> speeds, int holders) {
  std::vector<double> weights(speeds.begin(), speeds.begin() + holders);
  const auto measured = [](double w) { return std::isfinite(w) && w > 0; };
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0,
                                     [&](double s, double w) { return s + (measured(w) ? w : 0); });
  const auto known = std::count_if(weights.begin(), weights.end(), measured);
  const double mean = known > 0 ? sum / static_cast<double>(known) : 1;
  for (double& w : weights) w = measured(w) ? w : mean;
  return weights;
}

}  // namespace

std::vector<Quota> DealMicrobatches(int count, absl::Span<const float> speeds, int holders) {
  RUBATO_CHECK(holders >= 1 && holders <= static_cast<int>(speeds.size()) && count >= 0);
  const std::vector<double> weights = Weights(speeds, holders);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const int floor = count >= holders ? 1 : 0;
  // The largest remainder, as in an election: whole shares first, the rest by what was cut off.
  std::vector<int> shares(holders);
  std::vector<int> order(holders);
  std::iota(order.begin(), order.end(), 0);
  const int rest = count - floor * holders;
  std::vector<double> cut(holders);
  int dealt = floor * holders;
  for (int i = 0; i < holders; ++i) {
    const double ideal = std::max(0.0, count * weights[i] / total - floor);
    shares[i] = floor + std::min(rest, static_cast<int>(ideal));
    cut[i] = ideal - std::floor(ideal);
    dealt += shares[i] - floor;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cut[a] > cut[b]; });
  for (int i = 0; dealt < count; i = (i + 1) % holders, ++dealt) ++shares[order[i]];
  // The floor may have given out too much: take it back from the largest.
  for (; dealt > count; --dealt) --*std::max_element(shares.begin(), shares.end());
  std::vector<Quota> quotas(speeds.size(), Quota{count, count});
  int next = 0;
  for (int i = 0; i < holders; ++i) {
    quotas[i] = {next, next + shares[i]};
    next += shares[i];
  }
  return quotas;
}

void SpeedMeter::Record(int microbatches, double seconds) {
  if (microbatches <= 0 || seconds <= 0) return;
  const double now = microbatches / seconds;
  speed_ = speed_ == 0 ? now : 0.7 * speed_ + 0.3 * now;
}

}  // namespace rubato

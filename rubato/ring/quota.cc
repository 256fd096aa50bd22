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

// One each to the fastest.
std::vector<int> FewShares(int count, absl::Span<const double> weights) {
  std::vector<int> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return weights[a] > weights[b]; });
  std::vector<int> shares(weights.size(), 0);
  for (int i = 0; i < count; ++i) shares[order[i]] = 1;
  return shares;
}

// At least one each.
std::vector<int> ManyShares(int count, absl::Span<const double> weights) {
  const int holders = static_cast<int>(weights.size());
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  // The largest remainder, as in an election: whole shares first, the rest by what was cut off.
  std::vector<int> shares(holders);
  std::vector<int> order(holders);
  std::iota(order.begin(), order.end(), 0);
  const int rest = count - holders;
  std::vector<double> cut(holders);
  int dealt = holders;
  for (int i = 0; i < holders; ++i) {
    const double ideal = std::max(0.0, count * weights[i] / total - 1);
    shares[i] = 1 + std::min(rest, static_cast<int>(ideal));
    cut[i] = ideal - std::floor(ideal);
    dealt += shares[i] - 1;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cut[a] > cut[b]; });
  for (int i = 0; dealt < count; i = (i + 1) % holders, ++dealt) ++shares[order[i]];
  // The one each may have given out too much: take it back from the largest.
  for (; dealt > count; --dealt) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

}  // namespace

std::vector<Quota> DealMicrobatches(int count, absl::Span<const float> speeds, int holders) {
  RUBATO_CHECK(holders >= 1 && holders <= static_cast<int>(speeds.size()) && count >= 0);
  const std::vector<double> weights = Weights(speeds, holders);
  const std::vector<int> shares =
      count < holders ? FewShares(count, weights) : ManyShares(count, weights);
  std::vector<Quota> quotas(speeds.size(), Quota{count, count});
  int next = 0;
  for (int i = 0; i < holders; ++i) {
    quotas[i] = {next, next + shares[i]};
    next += shares[i];
  }
  return quotas;
}

int Computing(absl::Span<const Quota> quotas) {
  return static_cast<int>(
      std::count_if(quotas.begin(), quotas.end(), [](const Quota& q) { return q.size() > 0; }));
}

void SpeedMeter::Record(int microbatches, double seconds) {
  if (microbatches <= 0 || seconds <= 0) return;
  const double now = microbatches / seconds;
  speed_ = speed_ == 0 ? now : 0.7 * speed_ + 0.3 * now;
}

}  // namespace rubato

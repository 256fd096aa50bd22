#include "rubato/metrics/evaluation.h"

#include <algorithm>
#include <cmath>

namespace rubato {
namespace {

constexpr double kBinsPerLogit = 1024;
constexpr double kLogitMax = 32;

}  // namespace

void EvaluationSums::Add(const EvaluationSums& other) {
  records += other.records;
  loss_sum += other.loss_sum;
  correct += other.correct;
  for (const auto& [bin, counts] : other.histogram) {
    histogram[bin].first += counts.first;
    histogram[bin].second += counts.second;
  }
  for (const auto& [name, sum] : other.user_sums) user_sums[name] += sum;
}

void EvaluationSums::AddBinary(double score, bool positive) {
  // As far from 0 and 1 as a float can tell, so that one sure mistake does not cost infinity.
  const double p = std::clamp(score, 1e-7, 1 - 1e-7);
  ++records;
  loss_sum -= std::log(positive ? p : 1 - p);
  correct += (score >= 0.5) == positive;
  auto& [negatives, positives] = histogram[BinOf(score)];
  ++(positive ? positives : negatives);
}

int32_t BinOf(double score) {
  if (!(score > 0)) return static_cast<int32_t>(-kLogitMax * kBinsPerLogit);
  if (score >= 1) return static_cast<int32_t>(kLogitMax * kBinsPerLogit);
  const double logit = std::clamp(std::log(score / (1 - score)), -kLogitMax, kLogitMax);
  return static_cast<int32_t>(std::floor(logit * kBinsPerLogit));
}

double Auc(const EvaluationSums& sums) {
  double negatives = 0, positives = 0, won = 0;  // Doubles: counts squared pass 64 bits.
  for (const auto& [bin, counts] : sums.histogram) {
    const auto [n, p] = counts;
    won += static_cast<double>(p) * (negatives + 0.5 * static_cast<double>(n));
    negatives += static_cast<double>(n);
    positives += static_cast<double>(p);
  }
  return negatives > 0 && positives > 0 ? won / (negatives * positives) : 0.5;
}

std::map<std::string, double> Metrics(const EvaluationSums& sums) {
  if (sums.records == 0) return {};
  const double n = static_cast<double>(sums.records);
  std::map<std::string, double> metrics = {{"loss", sums.loss_sum / n},
                                           {"accuracy", static_cast<double>(sums.correct) / n}};
  if (!sums.histogram.empty()) {
    metrics["auc"] = Auc(sums);
    metrics["logloss"] = sums.loss_sum / n;
  }
  for (const auto& [name, sum] : sums.user_sums) metrics[name] = sum / n;
  return metrics;
}

}  // namespace rubato

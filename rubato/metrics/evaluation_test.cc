#include "rubato/metrics/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// By definition, over all pairs at once: sort, and give ties their mean rank.
double ExactAuc(std::vector<std::pair<double, bool>> scored) {
  std::sort(scored.begin(), scored.end());
  double rank_sum = 0, positives = 0;
  for (size_t i = 0; i < scored.size();) {
    size_t j = i;
    while (j < scored.size() && scored[j].first == scored[i].first) ++j;
    for (size_t k = i; k < j; ++k) {
      if (scored[k].second) rank_sum += 0.5 * static_cast<double>(i + 1 + j);
      positives += scored[k].second;
    }
    i = j;
  }
  const double negatives = static_cast<double>(scored.size()) - positives;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

TEST(AucTest, TheHistogramAgreesWithTheDefinition) {
  // Wide, ordinary and very narrow spreads of scores, common and rare positives.
  for (const double spread : {3.0, 1.0, 0.1}) {
    for (const double base : {0.0, -4.0}) {
      Rng rng(7);
      EvaluationSums sums;
      std::vector<std::pair<double, bool>> scored;
      for (int i = 0; i < 50000; ++i) {
        const double logit = base + spread * rng.Normal();
        const double score = 1 / (1 + std::exp(-logit));
        const bool positive = rng.Chance(1 / (1 + std::exp(-(base + 2 * (logit - base)))));
        sums.AddBinary(score, positive);
        scored.emplace_back(score, positive);
      }
      EXPECT_NEAR(Auc(sums), ExactAuc(scored), 1e-4) << spread << " " << base;
    }
  }
}

TEST(AucTest, EdgesAreCalm) {
  EvaluationSums sums;
  EXPECT_EQ(Auc(sums), 0.5);
  EXPECT_TRUE(Metrics(sums).empty());
  sums.AddBinary(0.0, false);
  EXPECT_EQ(Auc(sums), 0.5);  // No positives.
  sums.AddBinary(1.0, true);
  EXPECT_EQ(Auc(sums), 1.0);
  sums.AddBinary(std::numeric_limits<double>::quiet_NaN(), true);
  EXPECT_EQ(Auc(sums), 0.75);  // Ties with the lowest.
  EXPECT_LT(BinOf(1e-6), BinOf(2e-6));
  EXPECT_LT(BinOf(1 - 2e-6), BinOf(1 - 1e-6));
}

TEST(EvaluationTest, PartsAddUpToTheWhole) {
  Rng rng(3);
  EvaluationSums whole, parts[3];
  for (int i = 0; i < 999; ++i) {
    const double score = rng.Uniform();
    const bool positive = rng.Chance(score);
    whole.AddBinary(score, positive);
    parts[i % 3].AddBinary(score, positive);
  }
  EvaluationSums sum;
  for (EvaluationSums& part : parts) {
    part.user_sums["clicks"] = 111;
    sum.Add(part);
  }
  EXPECT_EQ(sum.histogram, whole.histogram);
  EXPECT_EQ(Auc(sum), Auc(whole));
  const auto metrics = Metrics(sum);
  EXPECT_NEAR(metrics.at("logloss"), whole.loss_sum / 999, 1e-12);
  EXPECT_EQ(metrics.at("accuracy"), static_cast<double>(whole.correct) / 999);
  EXPECT_NEAR(metrics.at("clicks"), 333.0 / 999, 1e-12);
}

}  // namespace
}  // namespace rubato

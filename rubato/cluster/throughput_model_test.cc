#include "rubato/cluster/throughput_model.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// 2 s of work, 0.1 s around a ring, twice as slow again between nodes of 4.
double TrueRate(int gpus) {
  const double n = gpus, ring = (n - 1) / n;
  return 1 / (2 / n + 0.1 * ring + (gpus > 4 ? 0.2 * ring : 0) + 0.01 * std::log2(n));
}
Span SpanFor(int gpus) { return gpus == 1 ? Span::kGpu : gpus <= 4 ? Span::kNode : Span::kRack; }

TEST(ThroughputModelTest, KnowsNothingBeforeItHasSeenSomething) {
  ThroughputModel model;
  EXPECT_EQ(model.Predict(4, Span::kNode).rate, 0);
  model.Observe(0, Span::kGpu, 1);
  model.Observe(2, Span::kNode, -1);
  model.Observe(2, Span::kNode, NAN);
  EXPECT_EQ(model.Predict(4, Span::kNode).rate, 0);
}

TEST(ThroughputModelTest, OnePointScalesWithoutLossAndSaysHowUnsureItIs) {
  ThroughputModel model;
  model.Observe(1, Span::kGpu, 3);
  const RateEstimate eight = model.Predict(8, Span::kRack);
  EXPECT_NEAR(eight.rate, 24, 1e-6);
  EXPECT_LT(eight.low, 16);
  EXPECT_NEAR(model.Predict(1, Span::kGpu).rate, 3, 1e-9);
  EXPECT_GT(model.Predict(1, Span::kGpu).low, 2.8);
}

TEST(ThroughputModelTest, TwoPointsGiveACurveWithTheTruthWithinItsBars) {
  ThroughputModel model;
  model.Observe(1, Span::kGpu, TrueRate(1));
  model.Observe(4, Span::kNode, TrueRate(4));
  for (int gpus : {1, 2, 4, 8, 16, 32, 64}) {
    const RateEstimate estimate = model.Predict(gpus, SpanFor(gpus));
    EXPECT_LT(estimate.low, TrueRate(gpus)) << gpus;
    EXPECT_GT(estimate.high, TrueRate(gpus)) << gpus;
  }
  EXPECT_NEAR(model.Predict(2, Span::kNode).rate, TrueRate(2), 0.05 * TrueRate(2));
}

// What was never measured gets nearer the truth, and the bars narrower, with every point.
TEST(ThroughputModelTest, MorePointsNarrowTheBars) {
  ThroughputModel model;
  double last = 1e9;
  for (int gpus : {1, 4, 8, 16, 2}) {
    model.Observe(gpus, SpanFor(gpus), TrueRate(gpus));
    const RateEstimate estimate = model.Predict(32, Span::kRack);
    EXPECT_LE((estimate.high - estimate.low) / estimate.rate, last * 1.05) << gpus;
    last = (estimate.high - estimate.low) / estimate.rate;
  }
  EXPECT_NEAR(model.Predict(32, Span::kRack).rate, TrueRate(32), 0.05 * TrueRate(32));
  for (double c : model.coefficients()) EXPECT_GE(c, 0);
}

TEST(ThroughputModelTest, RealRunsCorrectAWrongProfile) {
  ThroughputModel model;
  for (int gpus : {1, 2, 4, 8}) model.Observe(gpus, SpanFor(gpus), 2 * TrueRate(gpus));
  for (int run = 0; run < 40; ++run) model.Observe(4, Span::kNode, TrueRate(4));
  EXPECT_NEAR(model.Predict(4, Span::kNode).rate, TrueRate(4), 0.02 * TrueRate(4));
  const RateEstimate eight = model.Predict(8, Span::kRack);
  EXPECT_LT(eight.low, 2 * TrueRate(8) * 0.97);  // Its neighbours are believed less too.
}

// Bars mean something: with noise, the truth lies within them nearly always.
TEST(ThroughputModelTest, TheTruthIsWithinTheBars) {
  int within = 0, all = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    ThroughputModel model;
    for (int gpus : {1, 2, 4, 8}) {
      model.Observe(gpus, SpanFor(gpus), TrueRate(gpus) * (1 + 0.02 * rng.Normal()));
    }
    for (int gpus : {2, 16, 32}) {
      const RateEstimate estimate = model.Predict(gpus, SpanFor(gpus));
      within += estimate.low <= TrueRate(gpus) && TrueRate(gpus) <= estimate.high ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GT(within, all * 9 / 10) << within << " of " << all;
}

TEST(ThroughputModelTest, MakesCurvesForSizesNeverMeasured) {
  ThroughputModel model;
  for (int gpus : {1, 4, 8}) model.Observe(gpus, SpanFor(gpus), TrueRate(gpus));
  const std::vector<int> sizes = {1, 2, 3, 4, 6, 8};
  const Curve likely = model.ToCurve(sizes, 4, false), cautious = model.ToCurve(sizes, 4, true);
  for (int gpus : sizes) {
    EXPECT_NEAR(likely.Rate(gpus), TrueRate(gpus), 0.1 * TrueRate(gpus)) << gpus;
    EXPECT_LT(cautious.Rate(gpus), likely.Rate(gpus)) << gpus;
  }
}

}  // namespace
}  // namespace rubato

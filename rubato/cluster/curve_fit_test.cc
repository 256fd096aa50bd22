#include "rubato/cluster/curve_fit.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// A job that computes for a second and synchronises for 20 ms a doubling, 50 ms more between nodes.
double TrueRate(int gpus, Span span) {
  return 1 / (1.0 / gpus + 0.02 * std::log2(gpus) + (span >= Span::kRack ? 0.05 : 0));
}

TEST(CurveFitTest, TwoPointsGiveTheWholeCurve) {
  const auto fit = CurveFit::Fit(
      {{1, Span::kGpu, TrueRate(1, Span::kGpu)}, {8, Span::kNode, TrueRate(8, Span::kNode)}});
  ASSERT_TRUE(fit.ok());
  for (int gpus : {2, 4, 16}) {
    const Predicted p = fit->Predict(gpus, Span::kNode);
    const double truth = TrueRate(gpus, Span::kNode);
    EXPECT_NEAR(p.rate / truth, 1, 0.25) << gpus;
    EXPECT_LE(p.low, truth) << gpus;
    EXPECT_GE(p.high, truth) << gpus;
  }
}

TEST(CurveFitTest, FurtherAwayIsLessCertainAndMeasuringHelps) {
  auto fit = CurveFit::Fit({{1, Span::kGpu, 1}, {2, Span::kNode, 1.9}});
  const auto width = [&](int gpus) {
    const Predicted p = fit->Predict(gpus, Span::kNode);
    return p.high / p.low;
  };
  EXPECT_LT(width(2), width(4));
  EXPECT_LT(width(4), width(32));
  const double before = width(4);
  ASSERT_TRUE(fit->Add({4, Span::kNode, 3.2}).ok());
  EXPECT_LT(width(4), before);
  EXPECT_NEAR(fit->Predict(4, Span::kNode).rate, 3.2, 0.2);
}

TEST(CurveFitTest, NoiseIsAveragedOut) {
  Rng rng(3);
  std::vector<Measured> points;
  for (int gpus : {1, 2, 4, 8, 16, 32}) {
    const Span span = gpus > 8 ? Span::kRack : gpus > 1 ? Span::kNode : Span::kGpu;
    for (int i = 0; i < 20; ++i) {
      points.push_back({gpus, span, TrueRate(gpus, span) * (1 + 0.05 * rng.Normal())});
    }
  }
  const auto fit = CurveFit::Fit(points);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->Predict(64, Span::kRack).rate / TrueRate(64, Span::kRack), 1, 0.05);
  EXPECT_LT(fit->Predict(16, Span::kNode).rate, 2 * TrueRate(16, Span::kNode));
}

TEST(CurveFitTest, ACautiousCurveIsBelowThePlainOne) {
  const auto fit = CurveFit::Fit({{1, Span::kGpu, 2}, {4, Span::kNode, 7}});
  const Curve plain = fit->ToCurve({1, 2, 4, 8, 16}, 8, false);
  const Curve cautious = fit->ToCurve({1, 2, 4, 8, 16}, 8, true);
  for (int gpus : {1, 2, 4, 8, 16}) EXPECT_LT(cautious.Rate(gpus), plain.Rate(gpus));
}

TEST(CurveFitTest, RefusesNonsense) {
  EXPECT_FALSE(CurveFit::Fit({}).ok());
  EXPECT_FALSE(CurveFit::Fit({{0, Span::kGpu, 1}}).ok());
  EXPECT_FALSE(CurveFit::Fit({{1, Span::kGpu, 0}}).ok());
}

// x >= 0 binds: the plain solution would have a negative part.
TEST(NonNegativeLeastSquaresTest, KeepsToTheBound) {
  const auto x = NonNegativeLeastSquares({{1, 1}, {1, 2}, {1, 3}}, {3, 2, 1});
  EXPECT_EQ(x[1], 0);
  EXPECT_NEAR(x[0], 2, 1e-9);
}

}  // namespace
}  // namespace rubato

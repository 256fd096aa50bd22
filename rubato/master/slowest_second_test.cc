#include "rubato/master/slowest_second.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

const absl::Time kBegin = absl::FromUnixSeconds(1000);

absl::Time At(double seconds) { return kBegin + absl::Seconds(seconds); }

TEST(SlowestSecondTest, IsThatOfTheDip) {
  SlowestSecond slowest(kBegin, 500);
  // 100 a second, but for the third, in which there are 20.
  int64_t count = 500;
  for (int i = 1; i <= 50; ++i) {
    count += i > 20 && i <= 30 ? 2 : 10;
    slowest.Sample(At(i * 0.1), count);
  }
  EXPECT_NEAR(slowest.Rate(At(5), count), 20, 1e-6);
}

// It may be faster while it changes than it was before: nothing of before is in it.
TEST(SlowestSecondTest, KnowsNothingOfBefore) {
  SlowestSecond slowest(kBegin, 0);
  for (int i = 1; i <= 30; ++i) slowest.Sample(At(i * 0.1), 40 * i);
  EXPECT_NEAR(slowest.Rate(At(3), 1200), 400, 1e-6);
}

TEST(SlowestSecondTest, OfLessThanASecondIsTheMean) {
  SlowestSecond slowest(kBegin, 100);
  slowest.Sample(At(0.2), 100);
  slowest.Sample(At(0.4), 130);
  EXPECT_NEAR(slowest.Rate(At(0.5), 150), 100, 1e-6);
  EXPECT_EQ(SlowestSecond(kBegin, 100).Rate(kBegin, 100), 0);
}

// Whoever counts was away: there is no telling how it was spread.
TEST(SlowestSecondTest, RareSamplesGiveALongerStretch) {
  SlowestSecond slowest(kBegin, 0);
  slowest.Sample(At(4), 200);
  EXPECT_NEAR(slowest.Rate(At(4), 200), 50, 1e-6);
  slowest.Sample(At(4.5), 400);  // The last second is known from its middle on only.
  EXPECT_NEAR(slowest.Rate(At(4.5), 400), 50, 1e-6);
  slowest.Sample(At(6), 430);
  EXPECT_NEAR(slowest.Rate(At(6), 430), 20, 1e-6);
}

TEST(SlowestSecondTest, WhatIsTakenBackIsNotNegative) {
  SlowestSecond slowest(kBegin, 1000);
  slowest.Sample(At(1), 700);
  EXPECT_EQ(slowest.Rate(At(1), 700), 0);
}

}  // namespace
}  // namespace rubato

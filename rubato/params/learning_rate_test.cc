#include "rubato/params/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rubato {
namespace {

using ::testing::ElementsAre;

struct Point {
  ScheduleSpec schedule;
  int64_t samples;
  double rate;  // Of a learning rate of 1.
};

TEST(LearningRateTest, EveryShape) {
  const ScheduleSpec constant;
  const ScheduleSpec warmup = {.warmup = 100};
  const ScheduleSpec step = {.name = "step", .samples = 10, .factor = 0.5};
  const ScheduleSpec linear = {.name = "linear", .samples = 100, .end = 0.2};
  const ScheduleSpec polynomial = {.name = "polynomial", .samples = 100, .power = 3};
  const ScheduleSpec cosine = {.name = "cosine", .warmup = 100, .samples = 200, .end = 0.1};
  const Point points[] = {
      {constant, 0, 1},       {constant, 1'000'000'000'000, 1},
      {warmup, 0, 0.01},      {warmup, 49, 0.5},
      {warmup, 99, 1},        {warmup, 5000, 1},
      {step, 9, 1},           {step, 10, 0.5},
      {step, 39, 0.125},      {linear, 0, 1},
      {linear, 50, 0.6},      {linear, 100, 0.2},
      {linear, 1000, 0.2},    {polynomial, 50, 0.125},
      {polynomial, 100, 0},   {cosine, 99, 1},
      {cosine, 100, 1},       {cosine, 150, 0.1 + 0.9 * (2 + std::sqrt(2)) / 4},
      {cosine, 200, 0.55},    {cosine, 300, 0.1},
      {cosine, 100'000, 0.1},
  };
  for (const Point& point : points) {
    const OptimizerSpec spec = {.learning_rate = 1, .schedule = point.schedule};
    ASSERT_TRUE(spec.Validate().ok());
    EXPECT_NEAR(LearningRateAt(spec, point.samples), point.rate, 1e-12)
        << point.schedule.name << " at " << point.samples;
  }
}

TEST(ClipGradientTest, ByValueThenByTheNormOfAllPartsTogether) {
  std::vector<float> dense = {3, -40, 0}, table = {4};
  const std::vector<absl::Span<float>> parts = {absl::MakeSpan(dense), absl::MakeSpan(table)};
  ClipGradient({}, parts);
  EXPECT_THAT(dense, ElementsAre(3, -40, 0));
  ClipGradient({.clip_value = 12}, parts);
  EXPECT_THAT(dense, ElementsAre(3, -12, 0));
  EXPECT_THAT(table, ElementsAre(4));
  ClipGradient({.clip_norm = 13.5}, parts);  // The norm is 13.
  EXPECT_THAT(dense, ElementsAre(3, -12, 0));
  ClipGradient({.clip_norm = 6.5}, parts);
  EXPECT_THAT(dense, ElementsAre(1.5, -6, 0));
  EXPECT_THAT(table, ElementsAre(2));
}

// Clipping must not turn what has gone wrong into something that looks right.
TEST(ClipGradientTest, WhatIsNotFiniteStaysSo) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> gradient = {1, -infinity, std::nanf("")};
  const std::vector<absl::Span<float>> parts = {absl::MakeSpan(gradient)};
  ClipGradient({.clip_value = 0.5, .clip_norm = 0.1}, parts);
  EXPECT_EQ(gradient[1], -infinity);
  EXPECT_TRUE(std::isnan(gradient[2]));
}

TEST(LearningRateTest, FollowsTheBatchOnlyWhenAsked) {
  EXPECT_EQ(BatchFactor(BatchRule::kKeep, 4), 1);
  EXPECT_EQ(BatchFactor(BatchRule::kLinear, 4), 4);
  EXPECT_EQ(BatchFactor(BatchRule::kSquareRoot, 4), 2);
}

TEST(LearningRateTest, AGrowthIsPhasedInAndAFallIsNot) {
  EXPECT_EQ(PhaseIn(1, 4, 0, 300), 1);
  EXPECT_EQ(PhaseIn(1, 4, 100, 300), 2);
  EXPECT_EQ(PhaseIn(1, 4, 300, 300), 4);
  EXPECT_EQ(PhaseIn(1, 4, 0, 0), 4);
  EXPECT_EQ(PhaseIn(4, 2, 0, 300), 2);
}

}  // namespace
}  // namespace rubato

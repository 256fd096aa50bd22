#include "bench/ring/aims.h"

#include <gtest/gtest.h>

#include <limits>

namespace rubato {
namespace {

TEST(AimsTest, WhatFailedIsMissed) {
  Aims aims;
  aims.AtMost(1, 0.5, "met");
  aims.AtLeast(1.3, 1.5, "met");
  EXPECT_EQ(aims.Report(), 0);
  EXPECT_TRUE(aims.Measured({20.0, 30.0}, "both ran"));
  EXPECT_EQ(aims.Report(), 0);
  EXPECT_FALSE(aims.Measured({20.0, 0.0}, "one did not"));
  EXPECT_EQ(aims.Report(), 1);
}

// What must hold every time is not met by most of the times, nor by none.
TEST(AimsTest, OneThatTookTooLongIsMissed) {
  Aims all_in_time;
  all_in_time.EachAtMost(2000, {1100.0, 1302.0, 1200.0}, "met");
  EXPECT_EQ(all_in_time.Report(), 0);
  Aims one_late;
  one_late.EachAtMost(2000, {1100.0, 1200.0, 4000.0, 1150.0, 1000.0}, "one of five");
  EXPECT_EQ(one_late.Report(), 1);
  Aims none;
  none.EachAtMost(2000, {}, "never tried");
  EXPECT_EQ(none.Report(), 1);
}

// As where the cases need rights that are not there.
TEST(AimsTest, WhoMeasuredNothingMetNothing) { EXPECT_EQ(Aims().Report(), 1); }

// Gloo's time over that of one that failed is no victory, and neither is a ratio without a number.
TEST(AimsTest, OverNothingIsNothing) {
  Aims over_zero;
  over_zero.AtLeast(1.3, 20.0 / std::numeric_limits<double>::denorm_min(), "infinitely fast");
  EXPECT_EQ(over_zero.Report(), 1);
  Aims no_number;
  no_number.AtMost(0.01, std::numeric_limits<double>::quiet_NaN(), "none");
  EXPECT_EQ(no_number.Report(), 1);
}

}  // namespace
}  // namespace rubato

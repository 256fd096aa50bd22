#include "rubato/ring/kept_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rubato {
namespace {

using ::testing::ElementsAre;

// Those that are kept, all taken.
std::vector<int64_t> StepsOf(KeptSums<std::string> kept) {
  std::vector<int64_t> steps;
  while (!kept.empty()) steps.push_back(kept.TakeFirst().first);
  EXPECT_EQ(kept.bytes(), 0u);
  return steps;
}

// What is in the snapshot need not be kept, and what comes after it must be.
TEST(KeptSumsTest, LeadFromTheSnapshotToTheLastStep) {
  KeptSums<std::string> kept(100);
  for (int step = 5; step < 9; ++step) kept.Keep(step, "sum", 10);
  kept.Began(6);
  EXPECT_THAT(StepsOf(kept), ElementsAre(7, 8));
  EXPECT_EQ(kept.bytes(), 20u);
}

// Nothing that a snapshot may need is dropped: what has no room is put elsewhere, until there is.
TEST(KeptSumsTest, TakesNoMoreMemoryThanItMay) {
  KeptSums<std::string> kept(30);
  for (int step = 1; step <= 6; ++step) {
    EXPECT_EQ(kept.full(), step > 3);
    kept.Keep(step, "sum", kept.full() ? 0 : 10);
  }
  EXPECT_EQ(kept.bytes(), 30u);
  kept.Began(1);
  EXPECT_FALSE(kept.full());
  kept.Keep(7, "sum", 10);
  EXPECT_EQ(kept.TakeFirst().first, 2);
  EXPECT_THAT(StepsOf(kept), ElementsAre(3, 4, 5, 6, 7));
  kept.Clear();
  EXPECT_FALSE(kept.full());
}

// A snapshot may be of a step that is still to come here.
TEST(KeptSumsTest, WhatTheSnapshotHasIsNotKept) {
  KeptSums<std::string> kept(30);
  kept.Keep(1, "sum", 10);
  kept.Began(3);
  for (int step = 2; step <= 4; ++step) kept.Keep(step, "sum", 10);
  EXPECT_THAT(StepsOf(kept), ElementsAre(4));
}

// One step is kept, however large.
TEST(KeptSumsTest, ThereIsRoomForOne) {
  KeptSums<std::string> kept(1);
  kept.Began(0);
  EXPECT_FALSE(kept.full());
  kept.Keep(1, "sum", 1000);
  EXPECT_THAT(StepsOf(kept), ElementsAre(1));
  EXPECT_TRUE(kept.full());
}

}  // namespace
}  // namespace rubato

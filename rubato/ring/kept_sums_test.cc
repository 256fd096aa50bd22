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
  EXPECT_TRUE(kept.useful());
  EXPECT_THAT(StepsOf(kept), ElementsAre(7, 8));
  EXPECT_EQ(kept.bytes(), 20u);
}

// Before the snapshot there are always later steps for it to be of.
TEST(KeptSumsTest, TheOldestGoWhileNothingArrives) {
  KeptSums<std::string> kept(30);
  for (int step = 1; step <= 1000; ++step) {
    kept.Keep(step, "sum", 10);
    EXPECT_LE(kept.bytes(), 30u);
    EXPECT_FALSE(kept.full()) << "the oldest makes room";
  }
  EXPECT_THAT(StepsOf(kept), ElementsAre(998, 999, 1000));
  kept.Began(997);
  EXPECT_TRUE(kept.useful());
  kept.Clear();
  for (int step = 1; step <= 10; ++step) kept.Keep(step, "sum", 10);
  kept.Began(6);
  EXPECT_FALSE(kept.useful()) << "step 7 went for want of room";
  kept.BeginAnew();
  for (int step = 11; step <= 20; ++step) {
    EXPECT_EQ(kept.full(), step > 13);
    kept.Keep(step, "sum", kept.full() ? 0 : 10);
  }
  EXPECT_EQ(kept.bytes(), 30u);
  kept.Began(12);
  EXPECT_TRUE(kept.useful()) << "this time nothing went";
  EXPECT_THAT(StepsOf(kept), ElementsAre(13, 14, 15, 16, 17, 18, 19, 20));
}

// Nothing that the snapshot needs is dropped: rather it is put elsewhere, until there is room.
TEST(KeptSumsTest, IsFullWhileTheSnapshotArrives) {
  KeptSums<std::string> kept(30);
  kept.Keep(1, "sum", 10);
  kept.Began(0);
  kept.Keep(2, "sum", 10);
  EXPECT_FALSE(kept.full());
  kept.Keep(3, "sum", 10);
  EXPECT_TRUE(kept.full());
  kept.Keep(4, "elsewhere", 0);
  EXPECT_TRUE(kept.useful());
  EXPECT_EQ(kept.bytes(), 30u);
  EXPECT_EQ(kept.TakeFirst().first, 1);
  EXPECT_FALSE(kept.full());
  EXPECT_THAT(StepsOf(kept), ElementsAre(2, 3, 4));
  kept.Clear();
  EXPECT_FALSE(kept.full());
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

#include "rubato/ring/kept_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rubato {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> StepsOf(const KeptSums<std::string>& kept) {
  std::vector<int64_t> steps;
  kept.ForEach([&](int64_t step, const std::string&) { steps.push_back(step); });
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
    EXPECT_FALSE(kept.full()) << "whoever is to take the snapshot would wait for this member";
  }
  EXPECT_THAT(StepsOf(kept), ElementsAre(998, 999, 1000));
  kept.Began(997);
  EXPECT_TRUE(kept.useful());
  kept.Clear();
  for (int step = 1; step <= 10; ++step) kept.Keep(step, "sum", 10);
  kept.Began(6);
  EXPECT_FALSE(kept.useful()) << "step 7 went for want of room";
  kept.BeginAnew();
  for (int step = 11; step <= 20; ++step) kept.Keep(step, "sum", 10);
  EXPECT_FALSE(kept.full());
  kept.Began(12);
  EXPECT_TRUE(kept.useful()) << "this time nothing went";
  EXPECT_TRUE(kept.full());
}

// Nothing that the snapshot needs is dropped: rather the others wait.
TEST(KeptSumsTest, IsFullWhileTheSnapshotArrives) {
  KeptSums<std::string> kept(30);
  kept.Keep(1, "sum", 10);
  kept.Began(0);
  kept.Keep(2, "sum", 10);
  EXPECT_FALSE(kept.full());
  kept.Keep(3, "sum", 10);
  EXPECT_TRUE(kept.full());
  EXPECT_TRUE(kept.useful());
  EXPECT_THAT(StepsOf(kept), ElementsAre(1, 2, 3));
  kept.Clear();
  EXPECT_FALSE(kept.full());
}

// One step is kept, however large.
TEST(KeptSumsTest, ThereIsRoomForOne) {
  KeptSums<std::string> kept(1);
  kept.Keep(1, "sum", 1000);
  kept.Began(0);
  EXPECT_THAT(StepsOf(kept), ElementsAre(1));
  EXPECT_TRUE(kept.full());
}

}  // namespace
}  // namespace rubato

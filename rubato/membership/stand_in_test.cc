// A wish that does not reach the oldest, who makes the views, is seen to by the next.
#include <gtest/gtest.h>

#include <set>

#include "rubato/membership/views_testing.h"

namespace rubato {
namespace {

// The oldest and a learner do not reach each other, though the other holder reaches both: once the
// oldest has had time to act, that one makes it a holder in its place.
TEST(StandInTest, WhoDoesNotReachTheOldestIsHeardByTheNext) {
  const ViewOptions options;
  Assembly assembly(3, options, /*holders=*/2);
  assembly.Sever(0, 2);
  assembly.Level(2);
  const absl::Time began = assembly.now;
  assembly.RunFor(options.takeover * 2 - absl::Milliseconds(20));
  EXPECT_EQ(assembly[1].view().number, 1u) << "it may only be busy";
  EXPECT_NEAR(absl::ToDoubleSeconds(assembly[1].next_wake() - began),
              absl::ToDoubleSeconds(options.takeover * 2), 0.05)
      << "nothing else may wake it";
  assembly.RunFor(absl::Milliseconds(200));
  for (int i : {0, 1, 2}) EXPECT_EQ(Plain(assembly[i].view()), ViewOf(2, {0, 1, 2}, 3, 0)) << i;
}

// Who stands in does what was wished, and lets nobody in: the oldest knows who must wait.
TEST(StandInTest, WhoStandsInLetsNobodyIn) {
  const ViewOptions options;
  Assembly assembly(4, options, /*holders=*/2);
  assembly.down.insert(3);
  assembly.Bury(3);
  assembly.RunFor(absl::Milliseconds(500));
  ASSERT_EQ(Plain(assembly[1].view()), ViewOf(2, {0, 1, 2}, 2, 0));
  assembly.Sever(0, 2);
  assembly.Introduce(9, 1);
  assembly.Level(2);
  assembly.RunFor(options.takeover * 2 + absl::Milliseconds(200));
  EXPECT_EQ(Plain(assembly[1].view()), ViewOf(3, {0, 1, 2}, 3, 0));
}

// The oldest has heard, and waits for the end of a long step: nobody stands in for it.
TEST(StandInTest, NobodyStandsInForOneWhoHasAsked) {
  const ViewOptions options = {.patience = absl::Seconds(20)};
  Assembly assembly(3, options, /*holders=*/2);
  for (int i : {0, 1}) {
    assembly[i].SetProgress({.finished = 0, .applied = 0, .voted = 0, .working = true},
                            assembly.now);
  }
  assembly.Level(2);
  assembly.RunFor(options.takeover * 5);
  EXPECT_EQ(assembly.proposers, std::set<int>{0});
  for (int i : {0, 1, 2}) {
    assembly[i].SetProgress({.finished = 1, .applied = 1, .voted = 1}, assembly.now);
  }
  assembly.RunFor(absl::Milliseconds(200));
  EXPECT_EQ(Plain(assembly[1].view()), ViewOf(2, {0, 1, 2}, 3, 1));
}

// In each view the oldest has its time first, also for one that stood in before.
TEST(StandInTest, WhoStoodInOnceWaitsAgain) {
  const ViewOptions options;
  Assembly assembly(4, options, /*holders=*/2);
  assembly.Sever(0, 2);
  assembly.Level(2);
  assembly.RunFor(options.takeover * 2 + absl::Milliseconds(200));
  ASSERT_EQ(Plain(assembly[1].view()), ViewOf(2, {0, 1, 2, 3}, 3, 0));
  assembly.proposers.clear();
  assembly.down.insert(0);  // And no detector says so.
  assembly.Level(3);
  assembly.RunFor(options.takeover * 2 - absl::Milliseconds(50));
  EXPECT_TRUE(assembly.proposers.empty());
  assembly.RunFor(absl::Milliseconds(100));
  EXPECT_EQ(assembly.proposers, std::set<int>{1});
}

}  // namespace
}  // namespace rubato

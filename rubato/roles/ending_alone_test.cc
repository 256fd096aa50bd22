#include "rubato/roles/ending_alone.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr absl::Duration kLong = absl::Seconds(4);

TEST(EndingAloneTest, OnlyWhatCannotBeUndoneIsTheResult) {
  struct Case {
    const char* what;
    LoneStanding standing;
    Ending ending;
  };
  const Case cases[] = {
      {"it trains", {.step = 5, .committed = 5, .alone = kLong}, Ending::kGoOn},
      {"the group has said so", {.trained = true, .known = true, .step = 9}, Ending::kDone},
      {"it may yet hear", {.trained = true, .step = 9, .committed = 8}, Ending::kGoOn},
      {"left by those who knew",
       {.trained = true, .step = 9, .committed = 9, .alone = kLong},
       Ending::kDone},
      {"cut off: others may redo the last step",
       {.trained = true, .step = 9, .committed = 8, .alone = kLong},
       Ending::kStopped},
      {"told to copy anew, and the copy may yet come",
       {.trained = true, .learning = true, .step = 9, .committed = 9, .alone = kLong},
       Ending::kGoOn},
      {"told to copy anew, and nobody is there to copy from",
       {.trained = true, .learning = true, .step = 9, .committed = 9, .alone = absl::Minutes(2)},
       Ending::kStopped},
      {"they may let it catch up yet", {.learning = true, .told = true}, Ending::kGoOn},
      {"it came too late to copy",
       {.learning = true, .told = true, .alone = kLong, .unheard = kLong},
       Ending::kTold},
      {"another half has ended, and those it copies from are in the middle of a long step",
       {.learning = true, .told = true, .alone = kLong, .unheard = absl::ZeroDuration()},
       Ending::kGoOn},
      {"they ended where it was cut off",
       {.told = true, .step = 5, .committed = 5, .alone = absl::Minutes(2)},
       Ending::kTold},
      {"the other half of a split has ended, and this one changes its view",
       {.told = true, .step = 5, .committed = 5, .alone = kLong},
       Ending::kGoOn},
      {"told to copy anew what the others have",
       {.trained = true, .learning = true, .told = true, .step = 9, .committed = 9, .alone = kLong},
       Ending::kTold},
      {"its own is as good",
       {.trained = true, .told = true, .step = 9, .committed = 9, .alone = kLong},
       Ending::kDone},
      {"nobody has come yet", {.learning = true, .alone = absl::Minutes(9)}, Ending::kGoOn},
      {"they take long over a step",
       {.learning = true, .alone = absl::Minutes(9), .unheard = absl::Seconds(1)},
       Ending::kGoOn},
      {"all whom it could copy from are gone",
       {.learning = true, .alone = absl::Minutes(9), .unheard = absl::Minutes(1)},
       Ending::kLost},
      {"the others are gone, and it has the state",
       {.step = 5, .committed = 5, .alone = absl::Minutes(9), .unheard = absl::Minutes(1)},
       Ending::kGoOn},
  };
  for (const Case& c : cases) EXPECT_EQ(EndingOf(c.standing), c.ending) << c.what;
}

TEST(EndingAloneTest, WhatTheGroupHadIsKept) {
  EXPECT_TRUE(MayKeep({.step = 5, .committed = 5}));
  EXPECT_TRUE(MayKeep({.step = 5, .committed = 4})) << "it cannot be taken out again";
  EXPECT_TRUE(MayKeep({.learning = true, .step = 5, .committed = 5})) << "copying has not begun";
  EXPECT_FALSE(MayKeep({.learning = true, .step = 5, .committed = 4}));
  EXPECT_FALSE(MayKeep({.learning = true, .step = -1, .committed = 7})) << "a newcomer";
}

}  // namespace
}  // namespace rubato

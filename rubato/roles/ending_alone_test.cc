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

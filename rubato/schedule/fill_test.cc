#include "rubato/schedule/fill.h"

#include "gtest/gtest.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

const Curve& PaperCurve() {
  static const Curve curve({{1, 1}, {2, 1.5}, {4, 2}});
  return curve;
}

// The worked example of the paper: four GPUs, two earlier jobs hold three of them in the first
// slot. Three units of work by the end of the second slot take one GPU, then all four.
TEST(FillByLevelsTest, TheWorkedExample) {
  Profile profile(0, 4);
  profile.Add(0, 1, -2);
  profile.Add(0, 1, -1);
  const Filling filling =
      FillByLevels({.curve = &PaperCurve(), .work = 3, .deadline_s = 2}, profile);
  EXPECT_TRUE(filling.in_time);
  EXPECT_EQ(filling.first_gpus, 1);
  EXPECT_DOUBLE_EQ(filling.gpu_seconds, 1 + 4);
  EXPECT_DOUBLE_EQ(filling.end_s, 2);
  EXPECT_EQ(profile.ToString(), "0:0 2:4");
}

TEST(FillByLevelsTest, HandMadeCases) {
  struct Case {
    double work, deadline_s;
    int free_early, free_late;  // Before and after one second.
    bool in_time;
    int first_gpus;
    double gpu_seconds;
    const char* why;
  };
  for (const Case& c : {
           Case{2, 2, 4, 4, true, 1, 2, "one GPU is just enough"},
           Case{2.5, 2, 4, 4, true, 2, 2 * 2.5 / 1.5, "the next level, ending early"},
           Case{4, 2, 4, 4, true, 4, 8, "everything"},
           Case{4.1, 2, 4, 4, false, 0, 0, "more than everything"},
           Case{2, 2, 0, 4, true, 0, 4, "nothing free at first"},
           Case{1, 2, 0, 0, false, 0, 0, "nothing free at all"},
           Case{1, 0, 4, 4, false, 0, 0, "the deadline is now"},
           Case{0.5, 10, 4, 4, true, 1, 0.5, "done long before the deadline"},
           Case{2.4, 2, 3, 3, true, 2, 2 * 2.4 / 1.5, "three free are two useful"},
       }) {
    Profile profile(0, 4);
    profile.Add(0, 1, c.free_early - 4);
    profile.Add(1, kNever, c.free_late - 4);
    const std::string before = profile.ToString();
    const Filling filling =
        FillByLevels({.curve = &PaperCurve(), .work = c.work, .deadline_s = c.deadline_s}, profile);
    EXPECT_EQ(filling.in_time, c.in_time) << c.why;
    EXPECT_EQ(filling.first_gpus, c.first_gpus) << c.why;
    EXPECT_NEAR(filling.gpu_seconds, c.gpu_seconds, 1e-9) << c.why;
    EXPECT_EQ(profile.ToString() == before, !c.in_time) << c.why;
  }
}

TEST(FillEarlyTest, TakesWhatThereIsAsSoonAsItIs) {
  Profile profile(0, 4);
  profile.Add(0, 1, -3);
  const Filling filling = FillEarly({.curve = &PaperCurve(), .work = 5, .deadline_s = 2}, profile);
  EXPECT_FALSE(filling.in_time);
  EXPECT_DOUBLE_EQ(filling.end_s, 3);
  EXPECT_EQ(profile.ToString(), "0:0 3:4");
}

// Whatever is free, filling says yes exactly when taking all that is useful would do, never takes
// more than is free, and its GPU time is what it took from the profile.
TEST(FillByLevelsTest, RandomProfilesAgainstTheMostThereIs) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    Profile profile(0, 8);
    for (int i = 0; i < 6; ++i) {
      const double from = static_cast<double>(rng.Below(10));
      const double to = from + 1 + static_cast<double>(rng.Below(5));
      const int least = profile.Min(from, to);
      profile.Add(from, to, -static_cast<int>(rng.Below(static_cast<uint64_t>(least) + 1)));
    }
    const Curve curve({{1, 1}, {2, 1.7}, {4, 2.5}, {8, 3}});
    const FillRequest request{.curve = &curve,
                              .work = rng.Uniform(1, 25),
                              .from_s = static_cast<double>(rng.Below(4)),
                              .deadline_s = rng.Uniform(4, 14)};
    double most = 0, free_before = 0;
    for (size_t i = 0; i < profile.size(); ++i) {
      const double from = std::max(request.from_s, profile.steps()[i].from_s);
      const double to = std::min(request.deadline_s, profile.EndOf(i));
      if (from >= to) continue;
      most += curve.Rate(curve.UsefulAtMost(profile.steps()[i].free)) * (to - from);
      free_before += profile.steps()[i].free * (to - from);
    }
    if (std::abs(most - request.work) < 1e-6) continue;
    const Filling filling = FillByLevels(request, profile);
    ASSERT_EQ(filling.in_time, most > request.work) << seed;
    double free_after = 0;
    for (size_t i = 0; i < profile.size(); ++i) {
      ASSERT_GE(profile.steps()[i].free, 0) << seed;
      const double from = std::max(request.from_s, profile.steps()[i].from_s);
      const double to = std::min(request.deadline_s, profile.EndOf(i));
      if (from < to) free_after += profile.steps()[i].free * (to - from);
    }
    ASSERT_NEAR(free_before - free_after, filling.gpu_seconds, 1e-6) << seed;
  }
}

}  // namespace
}  // namespace rubato

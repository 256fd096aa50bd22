#include "rubato/schedule/fill.h"

#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/schedule/fake_curves.h"

namespace rubato {
namespace {

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
    const Curve& curve = Concave();
    const FillRequest request{.curve = &curve,
                              .work = rng.Uniform(1, 25),
                              .from_s = static_cast<double>(rng.Below(4)),
                              .deadline_s = rng.Uniform(4, 14)};
    double most = 0, free_before = 0;
    for (size_t i = 0; i < profile.size(); ++i) {
      const double from = std::max(request.from_s, profile.from_s(i));
      const double to = std::min(request.deadline_s, profile.EndOf(i));
      if (from >= to) continue;
      most += curve.Rate(curve.UsefulAtMost(profile.free(i))) * (to - from);
      free_before += profile.free(i) * (to - from);
    }
    if (std::abs(most - request.work) < 1e-6) continue;
    const Filling filling = FillByLevels(request, profile);
    ASSERT_EQ(filling.in_time, most > request.work) << seed;
    double free_after = 0;
    for (size_t i = 0; i < profile.size(); ++i) {
      ASSERT_GE(profile.free(i), 0) << seed;
      const double from = std::max(request.from_s, profile.from_s(i));
      const double to = std::min(request.deadline_s, profile.EndOf(i));
      if (from < to) free_after += profile.free(i) * (to - from);
    }
    ASSERT_NEAR(free_before - free_after, filling.gpu_seconds, 1e-6) << seed;
  }
}

// What filling comes to when every step is gone through by itself: at most `below` GPUs before step
// `split`, at most `level` from there on.
Filling FillPlainly(const FillRequest& request, size_t split, int below, int level,
                    Profile& profile) {
  const Profile before = profile;
  Filling filling;
  double left = request.work;
  for (size_t i = before.Find(request.from_s); i < before.size() && left > 1e-6; ++i) {
    const double from_s = std::max(request.from_s, before.from_s(i));
    const int gpus =
        request.curve->LegalAtMost(std::min(i < split ? below : level, before.free(i)));
    if (from_s == request.from_s) filling.first_gpus = gpus;
    if (gpus == 0) continue;
    const double rate = request.curve->Rate(gpus);
    filling.end_s = std::min(before.EndOf(i), from_s + left / rate);
    left -= rate * (filling.end_s - from_s);
    filling.gpu_seconds += gpus * (filling.end_s - from_s);
    profile.Add(from_s, filling.end_s, -gpus);
  }
  filling.in_time = filling.end_s <= request.deadline_s + 1e-6;
  return filling;
}

// The same by levels: the lowest with which steps, from the deadline back, gather enough.
Filling FillPlainlyByLevels(const FillRequest& request, Profile& profile) {
  int below = 0;
  for (const CurvePoint& level : request.curve->points()) {
    double gathered = 0;
    for (size_t i = profile.size(); i-- > profile.Find(request.from_s);) {
      const double from_s = std::max(request.from_s, profile.from_s(i));
      const double to_s = std::min(request.deadline_s, profile.EndOf(i));
      const int gpus = request.curve->LegalAtMost(std::min(level.gpus, profile.free(i)));
      gathered += request.curve->Rate(gpus) * std::max(0.0, to_s - from_s);
      if (gathered >= request.work) return FillPlainly(request, i, below, level.gpus, profile);
    }
    below = level.gpus;
  }
  return {};
}

// Steps passed over together are filled as if each had been gone through.
TEST(FillTest, ManyStepsAtOnceAreOneByOne) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Rng rng(seed);
    Profile start(0, 24);
    for (int t = 0; t < 120; ++t) {
      start.Add(t, t + 1, -static_cast<int>(rng.Below(rng.Chance(0.1) ? 25 : 17)));
    }
    const FillRequest request{.curve = &Concave(),
                              .work = rng.Uniform(1, 300),
                              .from_s = static_cast<double>(rng.Below(40)),
                              .deadline_s = rng.Uniform(40, 119)};
    Profile early = start, early_plainly = start, levels = start, levels_plainly = start;
    const std::pair<Filling, Filling> fillings[] = {
        {FillEarly(request, early), FillPlainly(request, 0, 0, 8, early_plainly)},
        {FillByLevels(request, levels), FillPlainlyByLevels(request, levels_plainly)}};
    for (const auto& [got, want] : fillings) {
      ASSERT_EQ(got.in_time, want.in_time) << seed;
      ASSERT_EQ(got.first_gpus, want.first_gpus) << seed;
      ASSERT_NEAR(got.end_s, want.end_s, 1e-6) << seed;
      ASSERT_NEAR(got.gpu_seconds, want.gpu_seconds, 1e-6) << seed;
    }
    // To six digits: sums of many parts are rounded otherwise than one product.
    ASSERT_EQ(early.ToString(), early_plainly.ToString()) << seed;
    ASSERT_EQ(levels.ToString(), levels_plainly.ToString()) << seed;
  }
}

}  // namespace
}  // namespace rubato

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/schedule/fake_view.h"
#include "rubato/schedule/policy.h"
#include "rubato/schedule/profile.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Curve& Falling() {
  static const Curve curve({{1, 1}, {2, 1.5}, {4, 2}, {8, 1.8}});
  return curve;
}

TEST(FifoTest, WaitsForTheWholeGangAndLetsNobodyPast) {
  FakeView world(8);
  world.Add(Falling()).asked_gpus = 4;
  world.Add(Falling()).asked_gpus = 8;
  world.Add(Falling()).asked_gpus = 1;
  EXPECT_THAT(world.Gpus("fifo"), ElementsAre(4, 0, 0));
}

TEST(EdfTest, TheFirstDeadlineTakesAllItCanScaleTo) {
  FakeView world(8);
  world.Add(Falling()).deadline_s = 20;
  world.Add(Falling()).deadline_s = 10;
  world.Add(Falling());
  EXPECT_THAT(world.Gpus("edf"), ElementsAre(0, 8, 0));
  EXPECT_THAT(world.Gpus("edf-capped"), ElementsAre(4, 4, 0));
}

TEST(CheckPlanTest, NamesTheBrokenPromise) {
  FakeView world(8);
  world.Add(Falling()).floor_gpus = 2;
  JobView& second = world.Add(Falling());
  second.gpus = 1;
  second.last_resize_s = -5;
  second.admitted = true;
  world.raw().cooldown_s = 30;
  struct Case {
    Plan plan;
    std::string message;
  };
  for (const Case& c : {
           Case{{.shares = {{4, 0}}}, "1 shares for 2 jobs"},
           Case{{.shares = {{8, 0}, {1, 0}}}, "9 GPUs are planned in pool 0 of 8"},
           Case{{.shares = {{3, 0}, {1, 0}}}, "not a legal size"},
           Case{{.shares = {{1, 0}, {1, 0}}}, "below its floor"},
           Case{{.shares = {{2, 1}, {1, 0}}}, "no such pool"},
           Case{{.shares = {{2, 0}, {2, 0}}}, "grown or moved within the cooldown"},
           Case{{.shares = {{2, 0}, {0, 0}}, .refusals = {{JobId(1)}}}, "refused but admitted"},
       }) {
    EXPECT_THAT(CheckPlan(world.view(), c.plan).message(), HasSubstr(c.message));
  }
  EXPECT_TRUE(CheckPlan(world.view(), {.shares = {{0, 0}, {1, 0}}}).ok());
}

// A move to another pool is a resize: what the cooldown forbids is taken back, and decided again
// when it ends.
TEST(CheckPlanTest, ACooldownHoldsAcrossPools) {
  FakeView world(8);
  world.raw().pools.push_back({.gpus = 8, .gpus_per_node = 8});
  JobView& job = world.Add(Falling());
  job.gpus = 2;
  job.last_resize_s = -5;
  world.raw().cooldown_s = 30;
  ClusterView view = world.view();
  std::vector<const Curve*> curves = {view.jobs[0].curve(0), view.jobs[0].curve(0)};
  std::vector<JobView> jobs(view.jobs.begin(), view.jobs.end());
  jobs[0].curves = curves;
  view.jobs = jobs;
  Plan plan{.shares = {{2, 1}}};
  EXPECT_THAT(CheckPlan(view, plan).message(), HasSubstr("moved within the cooldown"));
  HonourCooldown(view, plan);
  EXPECT_EQ(plan.shares[0], (Share{2, 0}));
  EXPECT_EQ(plan.wake_s, 25);
  view.now_s = 25;
  EXPECT_TRUE(CheckPlan(view, {.shares = {{2, 1}}}).ok());
}

TEST(PolicyTest, AnUnknownNameListsTheKnown) {
  EXPECT_THAT(MakePolicy("lifo").status().message(), HasSubstr("fifo"));
  for (const std::string& name : PolicyNames()) EXPECT_EQ((*MakePolicy(name))->name(), name);
}

TEST(ProfileTest, AddsAndMerges) {
  Profile profile(0, 8);
  profile.Add(10, 20, -3);
  profile.Add(15, kNever, -2);
  EXPECT_EQ(profile.ToString(), "0:8 10:5 15:3 20:6");
  EXPECT_EQ(profile.Min(0, 100), 3);
  EXPECT_EQ(profile.Min(0, 15), 5);
  EXPECT_EQ(profile.At(20), 6);
  profile.Add(-5, 12, -1);
  EXPECT_EQ(profile.ToString(), "0:7 10:4 12:5 15:3 20:6");
  profile.Add(-5, 12, 1);
  EXPECT_EQ(profile.ToString(), "0:8 10:5 15:3 20:6");
}

// Whatever is added, the profile says what a plain array of seconds says.
TEST(ProfileTest, AgreesWithAnArray) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    Profile profile(0, 100), at_once(5, 7);
    Profile::Changes changes;
    std::vector<int> plain(64, 100);
    for (int step = 0; step < 40; ++step) {
      const int from = static_cast<int>(rng.Below(64)), to = static_cast<int>(rng.Below(65));
      const int gpus = static_cast<int>(rng.Below(5)) - 2;
      profile.Add(from, to, gpus);
      if (from < to) changes.Add(from, to, gpus);
      for (int t = from; t < to; ++t) plain[static_cast<size_t>(t)] += gpus;
    }
    for (int t = 0; t < 64; ++t) ASSERT_EQ(profile.At(t), plain[static_cast<size_t>(t)]);
    for (size_t i = 1; i < profile.size(); ++i) {
      ASSERT_NE(profile.steps()[i].free, profile.steps()[i - 1].free);
    }
    at_once.Reset(0, 100, std::move(changes));
    ASSERT_EQ(at_once.steps(), profile.steps());
  }
}

// Pieces taken in one walk leave what they leave when taken one by one.
TEST(ProfileTest, TakesManyAtOnce) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    Profile profile(0, 4);
    for (int i = 0; i < 8; ++i) {
      const double from = static_cast<double>(rng.Below(12));
      profile.Add(from, from + 1 + static_cast<double>(rng.Below(6)),
                  -static_cast<int>(rng.Below(2)));
    }
    const Profile before = profile;
    Profile one_by_one = profile;
    std::vector<Profile::Piece> pieces;
    for (size_t i = rng.Below(3); i < before.size(); i += 1 + rng.Below(2)) {
      double from = before.steps()[i].from_s, to = before.EndOf(i);
      if (rng.Below(4) == 0) from += 0.25;  // Not all of the step; or,
      if (rng.Below(4) == 0) to = std::min(to - 0.25, from + 0.5);
      if (rng.Below(8) == 0) to = from;  // as when no work is left, nothing.
      pieces.push_back({from, to, static_cast<int>(rng.Below(3))});
      one_by_one.Add(from, to, -pieces.back().gpus);
    }
    profile.Take(pieces);
    ASSERT_EQ(profile.steps(), one_by_one.steps()) << seed << ": " << before.ToString();
  }
}

}  // namespace
}  // namespace rubato

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/schedule/budget.h"
#include "rubato/schedule/fake_curves.h"
#include "rubato/schedule/fake_view.h"
#include "rubato/schedule/policy.h"
#include "rubato/schedule/profile.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
      ASSERT_NE(profile.free(i), profile.free(i - 1));
    }
    at_once.Reset(0, 100, std::move(changes));
    ASSERT_EQ(at_once, profile);
  }
}

// Who is visited until someone says stop are the first of the whole order.
TEST(VisitByTest, GoesInOrderHoweverManyThereAre) {
  for (size_t jobs : {0, 1, 255, 256, 257, 511, 512, 513, 1280, 1281, 5000}) {
    Rng rng(jobs);
    std::vector<JobView> views(jobs);
    for (JobView& job : views) job.deadline_s = static_cast<double>(rng.Below(200));
    const ClusterView view{.jobs = views};
    const auto deadline = [](const JobView& job) { return job.deadline_s; };
    const std::vector<size_t> order = OrderBy(view, deadline);
    for (size_t stop : {size_t{1}, size_t{256}, size_t{257}, size_t{1500}, jobs + 1}) {
      std::vector<size_t> visited;
      VisitBy(view, deadline, [&](size_t i) {
        visited.push_back(i);
        return visited.size() < stop;
      });
      ASSERT_EQ(visited,
                std::vector<size_t>(order.begin(),
                                    order.begin() + static_cast<ptrdiff_t>(std::min(stop, jobs))));
    }
  }
}

// Looking at many steps at once finds what looking at each finds.
TEST(ProfileTest, FindsWhereTooLittleIsFree) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    Profile profile(0, 9);
    for (int t = 1; t < 150; ++t) {
      const bool low = rng.Chance(0.02);
      profile.Add(t, t + 1, low ? -9 : -static_cast<int>(rng.Below(4)));
    }
    const size_t last = rng.Below(profile.size() + 1), first = rng.Below(last + 1);
    for (int gpus : {0, 1, 7, 9}) {
      size_t found = last;
      for (size_t i = first; i < last; ++i) {
        if (profile.free(i) < gpus) found = i;
      }
      ASSERT_EQ(profile.LastBelow(first, last, gpus), found) << seed;
    }
  }
}

}  // namespace
}  // namespace rubato

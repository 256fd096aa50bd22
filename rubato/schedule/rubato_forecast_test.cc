// Whom `rubato` refuses for the sake of those likely to come.
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/schedule/fake_world.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kHour = 3600;

// `jobs` small ones came in the last ten hours, each of one GPU-hour, due two hours after.
void AddSmallJobs(FakeWorld& world, int jobs, int priority = 0) {
  for (int i = 0; i < jobs; ++i) {
    const double at_s = -10 * kHour + 10 * kHour * i / jobs;
    world.AddPast(Linear(8), at_s, kHour, at_s + 2 * kHour, priority);
  }
}

// Eight GPUs for ten hours are asked for by one job.
JobView& AddGiant(FakeWorld& world) { return world.Add(Linear(8), 75 * kHour, 10 * kHour); }

TEST(RubatoForecastTest, AGiantIsWelcomeWhereItIsInNobodysWay) {
  for (const int jobs : {0, 1, 2}) {
    FakeWorld world(8);
    AddSmallJobs(world, jobs);
    AddGiant(world);
    EXPECT_THAT(world.Decide().refusals, IsEmpty()) << jobs;
  }
  FakeWorld large(64);  // There is room for all.
  AddSmallJobs(large, 40);
  AddGiant(large);
  EXPECT_THAT(large.Decide().refusals, IsEmpty());
}

TEST(RubatoForecastTest, AGiantIsRefusedWhoTakesThePlaceOfMany) {
  FakeWorld world(8);
  AddSmallJobs(world, 40);
  AddGiant(world);
  ASSERT_EQ(world.Decide().refusals.size(), 1);
  EXPECT_THAT(world.plan().refusals[0].reason, HasSubstr("place of"));
}

TEST(RubatoForecastTest, TheSmallOnesAreNot) {
  FakeWorld world(8);
  AddSmallJobs(world, 120);  // Half as much again as the cluster has.
  for (int i = 0; i < 12; ++i) world.Add(Linear(8), kHour, 2 * kHour);
  EXPECT_THAT(world.Decide().refusals, IsEmpty());
}

TEST(RubatoForecastTest, LowerPrioritiesAreNotWaitedFor) {
  for (const int priority : {0, 1}) {
    FakeWorld world(8);
    AddSmallJobs(world, 40);
    AddGiant(world).priority = priority;
    EXPECT_EQ(world.Decide().refusals.empty(), priority == 1);
  }
}

// A burst of a minute is not taken for the pace of the next ten hours.
TEST(RubatoForecastTest, ABurstIsExpectedOnceMoreOnly) {
  FakeWorld world(16);
  for (int i = 0; i < 20; ++i) world.AddPast(Linear(8), -60 + i, kHour, 2 * kHour);
  AddGiant(world);
  EXPECT_THAT(world.Decide().refusals, IsEmpty());
}

// A random crowd, those who came before, and a newcomer of any size.
void AddRandom(Rng& rng, FakeWorld& world) {
  const double pace_s = rng.Uniform(1, 60);
  for (int i = 0; i < 60; ++i) {
    const Curve curve = RandomCurve(rng);
    const double at_s = -pace_s * (60 - i), window_s = rng.Uniform(60, 600);
    world.AddPast(curve, at_s, rng.Uniform(0.1, 0.8) * window_s * curve.peak_rate(),
                  at_s + window_s);
  }
  for (int i = 0; i < 8; ++i) {
    const double window_s = rng.Uniform(60, 600);
    const Curve curve = RandomCurve(rng);
    world.Add(curve, rng.Uniform(0.1, 0.8) * window_s * curve.peak_rate(), window_s);
  }
  world.Decide();
  world.Follow();
  const double window_s = rng.Uniform(60, 600) * (rng.Chance(0.5) ? 5 : 1);
  const Curve curve = RandomCurve(rng);
  world.Add(curve, rng.Uniform(0.3, 1) * window_s * curve.peak_rate(), window_s);
}

// One decision, the same jobs, promises and past; only the cluster grows.
TEST(RubatoForecastTest, MoreGpusNeverRefuseMore) {
  int turned = 0, priced = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng(seed);
    const int least = 1 + static_cast<int>(rng.Below(6));
    FakeWorld world(least);
    if (rng.Chance(0.5)) world.view().cost = {.base_s = 2, .per_doubling_s = 2};
    AddRandom(rng, world);
    const JobId newcomer = world.jobs().back().id;
    bool admitted = false;
    for (int gpus = least; gpus <= 16; ++gpus) {
      world.view().pools[0].gpus = gpus;
      world.Decide();
      const bool refused = world.Refused(newcomer);
      ASSERT_FALSE(admitted && refused) << "seed " << seed << ", " << gpus << " GPUs";
      turned += !admitted && !refused && gpus > least ? 1 : 0;
      admitted = !refused;
      for (const Refusal& refusal : world.plan().refusals) {
        priced += absl::StrContains(refusal.reason, "place of") ? 1 : 0;
      }
    }
  }
  printf("%d newcomers were helped by more GPUs; %d times one was refused for others\n", turned,
         priced);
  EXPECT_GT(turned, 50);
  EXPECT_GT(priced, 50);
}

// An offer holds for those refused for the sake of others too.
TEST(RubatoForecastTest, AnOfferedDeadlineIsAccepted) {
  int offers = 0, priced = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng(seed);
    FakeWorld world(4 << rng.Below(3));
    if (rng.Chance(0.7)) world.view().cost = RescaleCost::ForCluster(8);
    AddRandom(rng, world);
    if (world.Decide().refusals.empty()) continue;
    const Refusal refusal = world.plan().refusals[0];
    if (!refusal.offer_deadline_s) continue;
    ++offers;
    priced += absl::StrContains(refusal.reason, "place of") ? 1 : 0;
    ASSERT_GT(*refusal.offer_deadline_s, world.jobs().back().deadline_s) << "seed " << seed;
    world.jobs().back().deadline_s = *refusal.offer_deadline_s;
    ASSERT_THAT(world.Decide().refusals, IsEmpty()) << "seed " << seed;
  }
  printf("%d offers, %d of them to jobs refused for others\n", offers, priced);
  EXPECT_GT(offers, 50);
  EXPECT_GT(priced, 5);
}

}  // namespace
}  // namespace rubato

// The policy `rubato`: what it promises, to whom it lends, and whom it refuses.
#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/schedule/fake_curves.h"
#include "rubato/schedule/fake_world.h"
#include "rubato/schedule/policy.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kHour = 3600;

// Four GPUs, of which earlier jobs hold three in the first hour: three hours of work are done by
// one GPU in the first and four in the second.
TEST(RubatoTest, TheWorkedExampleSharesOneThenFour) {
  FakeWorld world(4);
  const double hair = 0.9999;
  world.Add(PaperCurve(), 1.5 * kHour * hair, kHour);
  world.Add(PaperCurve(), 1.0 * kHour * hair, kHour);
  world.Add(PaperCurve(), 3.0 * kHour * hair, 2 * kHour);
  const Plan& plan = world.Decide();
  EXPECT_THAT(plan.refusals, IsEmpty());
  const auto third_holds = [&](double at_s) {
    int gpus = 0;
    for (const Reserved& piece : plan.promises[2]) {
      gpus += piece.from_s <= at_s && at_s < piece.to_s ? piece.gpus : 0;
    }
    return gpus;
  };
  EXPECT_EQ(third_holds(0.5 * kHour), 1);
  EXPECT_EQ(third_holds(1.5 * kHour), 4);
}

struct Asked {
  double work = 0;
  double deadline_s = 0;
};
struct Case {
  std::string name;
  int gpus;
  bool pauses;
  std::vector<Asked> jobs;
  std::vector<int> refused;
};

TEST(RubatoTest, AdmitsWhatFitsAndNothingElse) {
  for (const Case& c : std::vector<Case>{
           {"one job that needs everything", 8, false, {{795, 100}}, {}},
           {"a little more than everything", 8, false, {{805, 100}}, {0}},
           {"two that just fit", 8, false, {{398, 100}, {398, 100}}, {}},
           {"the second is one too many", 8, false, {{795, 100}, {100, 100}}, {1}},
           {"a later deadline waits", 8, false, {{795, 100}, {795, 201}}, {}},
           {"the pause is part of the plan", 8, true, {{795, 100}}, {0}},
           {"and fits where there is time", 8, true, {{795, 111}}, {}},
           {"nobody is refused for a neighbour", 8, false, {{9999, 100}, {700, 100}}, {0}},
           {"a deadline already past", 8, false, {{1, 0}}, {0}},
       }) {
    FakeWorld world(c.gpus);
    if (c.pauses) world.view().cost = RescaleCost::ForCluster(8);
    for (const Asked& asked : c.jobs) world.Add(Linear(8), asked.work, asked.deadline_s);
    world.Decide();
    std::vector<int> refused;
    for (const Refusal& refusal : world.plan().refusals) {
      refused.push_back(static_cast<int>(refusal.job.value()));
    }
    EXPECT_EQ(refused, c.refused) << c.name;
  }
}

TEST(RubatoTest, ARefusalSaysWhyAndOffersADeadlineThatIsTaken) {
  FakeWorld world(8);
  world.view().cost = RescaleCost::ForCluster(8);
  world.Add(Linear(8), 700, 150);
  world.Decide();
  world.Follow();
  const JobId second = world.Add(Linear(8), 800, 200).id;
  world.Decide();
  ASSERT_EQ(world.plan().refusals.size(), 1);
  const Refusal refusal = world.plan().refusals[0];
  EXPECT_EQ(refusal.job, second);
  EXPECT_THAT(refusal.reason, HasSubstr("promised"));
  ASSERT_TRUE(refusal.offer_deadline_s.has_value());
  EXPECT_LT(*refusal.offer_deadline_s, 330);
  world.jobs().back().deadline_s = *refusal.offer_deadline_s;
  EXPECT_THAT(world.Decide().refusals, IsEmpty());

  world.jobs().back().deadline_s = 50;
  EXPECT_THAT(world.Decide().refusals[0].reason, HasSubstr("alone on the cluster"));
}

// Who cannot wait may have less done. Alone on the cluster, 50 s less the pause of 10 s are enough
// for 320 of 800 iterations; with a deadline sooner than any pause nothing helps.
TEST(RubatoTest, ARefusalSaysHowMuchCouldBeDoneInTime) {
  FakeWorld world(8);
  world.view().cost = RescaleCost::ForCluster(8);
  JobView& job = world.Add(Linear(8), 800, 50);
  ASSERT_EQ(world.Decide().refusals.size(), 1);
  ASSERT_TRUE(world.plan().refusals[0].offer_iterations.has_value());
  const double offer = *world.plan().refusals[0].offer_iterations;
  EXPECT_LE(offer, 320);
  EXPECT_GT(offer, 320 - 800 / 100);
  EXPECT_EQ(offer, std::floor(offer));
  job.iterations = job.remaining = offer;
  EXPECT_THAT(world.Decide().refusals, IsEmpty());

  job.deadline_s = 3;
  ASSERT_EQ(world.Decide().refusals.size(), 1);
  EXPECT_FALSE(world.plan().refusals[0].offer_iterations.has_value());
}

TEST(RubatoTest, FindsWaysThatDeadlineOrderMisses) {
  FakeWorld world(4);
  // In deadline order the first takes two GPUs to the end, and the second, which scales to four
  // alone, finds none. The other way round both fit.
  world.Add(Curve({{1, 1}, {2, 2}}), 100, 100);
  world.Add(Curve({{4, 4}}), 196, 100.5);
  EXPECT_THAT(world.Decide().refusals, IsEmpty());
}

TEST(RubatoTest, SurplusGoesToWhoMakesMostOfItAndIsTakenBackForANewcomer) {
  FakeWorld world(8);
  world.Add(Linear(8), 1000);
  world.Add(Curve({{1, 1.2}, {2, 1.3}, {4, 1.4}}), 1000);
  EXPECT_THAT(world.Shares(), ElementsAre(4, 4));
  world.Follow();
  world.Add(Linear(8), 391.958, 98);
  // Four are needed at once. What is lost by the second job, which hardly scales, is least.
  const std::vector<int> shares = world.Shares();
  EXPECT_GE(shares[2], 4);
  EXPECT_GE(shares[0], shares[1]);
  EXPECT_LE(shares[0] + shares[1] + shares[2], 8);
}

TEST(RubatoTest, AHigherPriorityIsLentToFirst) {
  FakeWorld world(8);
  world.Add(Linear(8), 1000);
  world.Add(Linear(8), 1000).priority = 1;
  EXPECT_THAT(world.Shares(), ElementsAre(0, 8));
}

TEST(RubatoTest, NeverBelowAFloorNorBetweenLegalSizes) {
  FakeWorld world(6);
  world.Add(Linear(8), 1000).floor_gpus = 4;
  world.Add(Linear(8), 1000).floor_gpus = 4;
  std::vector<int> shares = world.Shares();
  std::sort(shares.begin(), shares.end());
  EXPECT_THAT(shares, ElementsAre(0, 4));
}

TEST(RubatoTest, NoMoveWhoseGainIsBelowItsCost) {
  FakeWorld world(8);
  world.view().cost = RescaleCost::ForCluster(8);
  JobView& job = world.Add(Linear(8), 20);
  job.admitted = true;
  job.gpus = 4;  // Five seconds left; eight GPUs would save half of that and cost ten.
  EXPECT_THAT(world.Shares(), ElementsAre(4));
  world.jobs()[0].remaining = 20000;
  EXPECT_THAT(world.Shares(), ElementsAre(8));
  world.view().cooldown_s = 60;
  world.jobs()[0].last_resize_s = -30;
  EXPECT_THAT(world.Shares(), ElementsAre(4));
}

TEST(RubatoTest, SoftDeadlinesAreNeverRefusedAndYieldToHardOnes) {
  FakeWorld world(8);
  world.Add(Linear(8), 780, 100).deadline = DeadlineKind::kSoft;
  EXPECT_THAT(world.Shares(), ElementsAre(8));
  world.Follow();
  world.Add(Linear(8), 799.915, 100);
  EXPECT_THAT(world.Shares(), ElementsAre(0, 8));
  EXPECT_THAT(world.plan().refusals, IsEmpty());
}

TEST(RubatoTest, TheReserveIsLentButNotPromised) {
  FakeWorld world(8);
  world.view().reserve_gpus = 4;
  world.Add(Linear(8), 700, 100);
  EXPECT_EQ(world.Decide().refusals.size(), 1);
  world.jobs()[0].deadline_s = 190;
  EXPECT_THAT(world.Shares(), ElementsAre(8));
  // A node of the reserve fails: everything promised still holds.
  world.Follow();
  world.jobs()[0].gpus = 0;
  world.view().pools[0] = {.gpus = 4, .down = 4, .gpus_per_node = 4};
  EXPECT_THAT(world.Shares(), ElementsAre(4));
  EXPECT_FALSE(world.plan().promises[0].empty());
}

TEST(RubatoTest, ChoosesThePoolAndTheCountTogether) {
  FakeWorld world(8);
  world.view().pools.push_back({.gpus = 4, .gpus_per_node = 4});
  JobView& job = world.Add(Linear(8), 780, 200);
  const Curve fast({{1, 4}, {2, 8}, {4, 16}});
  const std::vector<const Curve*> both = {job.curve(0), &fast};
  job.curves = both;
  world.view().jobs = world.jobs();
  const Plan plan = (*MakePolicy("rubato"))->Decide(world.view());
  EXPECT_EQ(plan.shares[0], (Share{4, 1}));
}

// Whether all jobs can be served in whole slots, by trying everything.
class Exhaustive {
 public:
  Exhaustive(int gpus, int slots, const std::vector<JobView>& jobs)
      : slots_(slots), jobs_(jobs), free_(static_cast<size_t>(slots), gpus) {}
  bool Run() { return Serve(0, 0, jobs_.front().remaining); }

 private:
  bool Serve(size_t job, int slot, double left) {
    if (left <= 1e-9) {
      return job + 1 == jobs_.size() || Serve(job + 1, 0, jobs_[job + 1].remaining);
    }
    if (slot == slots_ || slot + 1 > jobs_[job].deadline_s + 1e-9) return false;
    int& free = free_[static_cast<size_t>(slot)];
    for (const CurvePoint& point : jobs_[job].curve(0)->points()) {
      if (point.gpus > free) break;
      free -= point.gpus;
      const bool served = Serve(job, slot + 1, left - point.rate);
      free += point.gpus;
      if (served) return true;
    }
    return Serve(job, slot + 1, left);
  }

  int slots_;
  const std::vector<JobView>& jobs_;
  std::vector<int> free_;
};

// Decide checks that every yes is one. A no where all could be served is no lie, but a pity.
TEST(RubatoTest, AgainstExhaustiveSearch) {
  int possible = 0, missed = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    FakeWorld world(1 + static_cast<int>(rng.Below(5)));
    const int jobs = 2 + static_cast<int>(rng.Below(3));
    for (int i = 0; i < jobs; ++i) {
      const double slots = static_cast<double>(1 + rng.Below(4));
      const Curve curve = RandomCurve(rng);
      world.Add(curve, 0.99 * rng.Uniform(0.2, 1) * slots * curve.peak_rate(), slots);
    }
    const bool all = world.Decide().refusals.empty();
    const int gpus = world.view().pools[0].gpus;
    if (!Exhaustive(gpus, 4, world.jobs()).Run()) continue;
    ++possible;
    missed += all ? 0 : 1;
  }
  printf("all jobs could be served in %d instances; someone was refused in %d of them (%.1f %%)\n",
         possible, missed, 100.0 * missed / possible);
  EXPECT_GT(possible, 300);
  EXPECT_LT(missed, possible / 10);
}

// Whoever comes back at once with the deadline offered, or with as much work, is admitted.
// Where nobody else is, the offer is the job's own end, to the second.
TEST(RubatoTest, AnOfferOnAnEmptyClusterIsTheEnd) {
  for (const bool costs : {false, true}) {
    for (const double length_s : {100.0, 24000.0}) {
      const auto refusals = [&](double window_s) {
        FakeWorld world(8);
        if (costs) world.view().cost = RescaleCost::ForCluster(8);
        Rng rng(7);
        const Curve curve = RandomCurve(rng);
        world.Add(curve, length_s * curve.peak_rate(), window_s);
        return world.Decide().refusals;
      };
      const std::vector<Refusal> refused = refusals(length_s - 2);
      ASSERT_EQ(refused.size(), 1u);
      ASSERT_TRUE(refused[0].offer_deadline_s.has_value());
      const double offer_s = *refused[0].offer_deadline_s;
      EXPECT_THAT(refusals(offer_s), IsEmpty());
      EXPECT_THAT(refusals(offer_s - 2), SizeIs(1)) << "nothing earlier than " << offer_s;
    }
  }
}

TEST(RubatoTest, AnOfferIsAccepted) {
  int offers = 0, of_less = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    FakeWorld world(4 << rng.Below(3));
    if (rng.Chance(0.7)) world.view().cost = RescaleCost::ForCluster(8);
    if (rng.Chance(0.2)) world.view().cooldown_s = 30;
    for (int i = 0; i < 12; ++i) {
      const double window_s = rng.Uniform(60, 600);
      const Curve curve = RandomCurve(rng);
      world.Add(curve, rng.Uniform(0.1, 0.8) * window_s * curve.peak_rate(), window_s);
    }
    world.Decide();
    world.Follow();
    const double window_s = rng.Uniform(60, 600) * (rng.Chance(0.3) ? 20 : 1);
    const Curve curve = RandomCurve(rng);
    world.Add(curve, rng.Uniform(0.5, 1.5) * window_s * curve.peak_rate(), window_s);
    if (world.Decide().refusals.empty()) continue;
    const Refusal refusal = world.plan().refusals[0];
    JobView& job = world.jobs().back();
    if (refusal.offer_iterations) {
      ++of_less;
      const double asked = job.iterations;
      ASSERT_LT(*refusal.offer_iterations, asked) << "seed " << seed;
      job.iterations = job.remaining = *refusal.offer_iterations;
      ASSERT_THAT(world.Decide().refusals, IsEmpty()) << "seed " << seed;
      job.iterations = job.remaining = asked;
    }
    if (!refusal.offer_deadline_s) continue;
    ++offers;
    ASSERT_GT(*refusal.offer_deadline_s, window_s) << "seed " << seed;
    job.deadline_s = *refusal.offer_deadline_s;
    ASSERT_THAT(world.Decide().refusals, IsEmpty()) << "seed " << seed;
  }
  printf("%d offers of a later deadline, %d of less work\n", offers, of_less);
  EXPECT_GT(offers, 500);
  EXPECT_GT(of_less, 500);
}

}  // namespace
}  // namespace rubato

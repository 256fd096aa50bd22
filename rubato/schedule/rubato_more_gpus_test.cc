// A newcomer whom `rubato` admits would also be admitted by a larger cluster in the same state: the
// same jobs with the same promises and past. What that means over a whole trace is in
// simulate/more_gpus_test.
#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/schedule/fake_world.h"
#include "rubato/schedule/policy.h"
#include "rubato/schedule/rubato_book.h"

namespace rubato {
namespace {

// The same jobs, promises and newcomer; only the cluster grows.
TEST(RubatoMoreGpusTest, NeverRefuseMore) {
  int turned = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    const int least = 1 + static_cast<int>(rng.Below(6));
    FakeWorld world(least);
    if (rng.Chance(0.5)) world.view().cost = {.base_s = 0.02, .per_doubling_s = 0.02};
    for (int i = 0; i < 6; ++i) {
      const double slots = rng.Uniform(1, 6);
      const Curve curve = RandomCurve(rng);
      world.Add(curve, rng.Uniform(0.1, 0.8) * slots * curve.peak_rate(), slots);
    }
    world.Decide();
    world.Follow();
    const double slots = rng.Uniform(1, 6);
    const Curve curve = RandomCurve(rng);
    const JobId newcomer =
        world.Add(curve, rng.Uniform(0.3, 1) * slots * curve.peak_rate(), slots).id;
    bool admitted = false;
    for (int gpus = least; gpus <= 16; ++gpus) {
      world.view().pools[0].gpus = gpus;
      world.Decide();
      ASSERT_FALSE(admitted && world.Refused(newcomer)) << "seed " << seed << ", " << gpus;
      turned += !admitted && !world.Refused(newcomer) && gpus > least ? 1 : 0;
      admitted = !world.Refused(newcomer);
    }
  }
  EXPECT_GT(turned, 100);  // Often enough more GPUs did help.
}

// The same for clusters of more than 16 GPUs, of sizes with four significant bits, and wide jobs.
TEST(RubatoMoreGpusTest, NeverRefuseMoreOnLargeClusters) {
  int turned = 0;
  // Among these is one (769) that fails if fewer GPUs are never tried before a no.
  for (uint64_t seed = 500; seed < 800; ++seed) {
    Rng rng(seed);
    FakeWorld world(16);
    if (rng.Chance(0.5)) world.view().cost = {.base_s = 0.02, .per_doubling_s = 0.02};
    const auto add = [&](double low, double high) {
      std::vector<CurvePoint> points;
      double rate = rng.Uniform(0.5, 2);
      for (int gpus = 1; gpus <= 64; gpus *= 2) {
        points.push_back({gpus, rate});
        rate *= rng.Uniform(1, 2.1);
      }
      const double slots = rng.Uniform(1, 6), work = rng.Uniform(low, high) * slots;
      return world.Add(Curve(points), work * points.back().rate, slots).id;
    };
    for (int i = 0; i < 8; ++i) add(0.05, 0.4);
    world.Decide();
    world.Follow();
    const JobId newcomer = add(0.2, 0.9);
    bool admitted = false;
    for (int gpus = 16; gpus <= 128; gpus += gpus < 32 ? 2 : gpus < 64 ? 4 : 8) {
      world.view().pools[0].gpus = gpus;
      world.Decide();
      ASSERT_FALSE(admitted && world.Refused(newcomer)) << "seed " << seed << ", " << gpus;
      turned += !admitted && !world.Refused(newcomer) && gpus > 16 ? 1 : 0;
      admitted = !world.Refused(newcomer);
    }
  }
  EXPECT_GT(turned, 50);
}

// With a reserve every way has room for a restart, of the widest size that the job has; not only of
// the widest that fits into the pool, or a larger pool would ask for more.
TEST(RubatoMoreGpusTest, NoWayNeedsMoreInALargerPool) {
  FakeWorld world(8);
  world.view().cost = {.base_s = 1, .per_doubling_s = 2};
  world.view().reserve_gpus = 4;
  world.Add(Linear(64), 1000, 1000);
  world.Add(Linear(64), 1000, 1000).max_gpus = 16;
  world.view().jobs = world.jobs();
  for (int gpus : {4, 8, 48, 64, 128}) {
    world.view().pools[0].gpus = gpus;
    const Roster roster(world.view());
    EXPECT_EQ(roster.As(0, 0).spare, 64 * world.view().cost.Seconds(64)) << gpus;
    EXPECT_EQ(roster.As(1, 0).spare, 16 * world.view().cost.Seconds(16)) << gpus;
  }
}

// A moment in the life of a cluster of one or two pools: hard, soft and best-effort jobs of several
// priorities came in turn, ran for a while, ended or were refused. The first pool is the largest.
class RandomMoment {
 public:
  explicit RandomMoment(uint64_t seed) : rng_(seed) {
    per_node_ = 1 << rng_.Below(4);
    const int nodes = 2 + static_cast<int>(rng_.Below(3));
    view_.pools.push_back({.gpus = nodes * per_node_, .gpus_per_node = per_node_});
    if (rng_.Chance(0.4)) {
      const int fewer = 1 + static_cast<int>(rng_.Below(static_cast<uint64_t>(nodes)));
      view_.pools.push_back({.gpus = fewer * per_node_, .gpus_per_node = per_node_});
    }
    if (rng_.Chance(0.6)) view_.cost = {.base_s = 0.02, .per_doubling_s = 0.02};
    if (rng_.Chance(0.3)) view_.cooldown_s = 0.3;
    if (rng_.Chance(0.3)) view_.reserve_gpus = per_node_;
    const int past = rng_.Chance(0.5) ? static_cast<int>(rng_.Below(60)) : 0;
    for (int i = 0; i < past; ++i) {  // Small ones, lately.
      JobView job = MakeJob(rng_.Uniform(0.02, 0.2));
      job.submitted_s = -10 + 10.0 * i / past;
      job.deadline_s += job.submitted_s;
      job.deadline = DeadlineKind::kHard;
      past_.push_back(job);
    }
    const int crowd = 2 + static_cast<int>(rng_.Below(10));
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < crowd; ++i) Arrive(rng_.Uniform(0.1, 0.9));
      Follow(Decide());
    }
  }

  // Someone with a hard deadline comes; true if it is admitted, with `more` GPUs than now in the
  // largest pool, as further nodes or within the nodes.
  bool Admits(const JobView& newcomer, int more, bool larger_nodes) {
    const PoolView before = view_.pools[0];
    view_.pools[0].gpus += more;
    if (larger_nodes) view_.pools[0].gpus_per_node *= view_.pools[0].gpus / before.gpus;
    jobs_.push_back(newcomer);
    past_.push_back(newcomer);
    const Plan plan = Decide();
    jobs_.pop_back();
    past_.pop_back();
    view_.pools[0] = before;
    return plan.refusals.empty();
  }
  JobView Newcomer() {
    JobView job = MakeJob(rng_.Uniform(0.2, 1));
    job.deadline = DeadlineKind::kHard;
    return job;
  }
  std::string ToString() const {
    return absl::StrFormat("%d pools, the first of %d GPUs, pause %g s, cooldown %g s, reserve %d",
                           view_.pools.size(), gpus(), view_.cost.Seconds(1), view_.cooldown_s,
                           view_.reserve_gpus);
  }
  int gpus() const { return view_.pools[0].gpus; }
  int per_node() const { return per_node_; }
  size_t promised() const { return promised_; }
  Rng& rng() { return rng_; }

 private:
  // Due in one to six seconds, with `share` of the work that its best size could do until then.
  JobView MakeJob(double share) {
    const int widest = 1 << rng_.Below(5);
    std::vector<const Curve*>& curves = pointers_.emplace_back();
    std::vector<CurvePoint> points;
    double rate = rng_.Uniform(0.5, 2);
    for (int gpus = 1; gpus <= widest; gpus *= 2) {
      points.push_back({gpus, rate});
      rate *= rng_.Uniform(0.9, 2.1);
    }
    for (size_t pool = 0; pool < view_.pools.size(); ++pool) {
      curves_.emplace_back(points);
      curves.push_back(&curves_.back());
      for (CurvePoint& point : points) point.rate *= 0.6;
    }
    JobView job;
    job.id = JobId(next_id_++);
    job.submitted_s = view_.now_s;
    const double slots = rng_.Uniform(1, 6);
    job.deadline_s = view_.now_s + slots;
    job.iterations = job.remaining = share * slots * curves.front()->peak_rate();
    job.curves = curves;
    job.priority = static_cast<int>(rng_.Below(2));
    return job;
  }

  void Arrive(double share) {
    JobView job = MakeJob(share);
    const uint64_t kind = rng_.Below(6);
    job.deadline = kind == 0   ? DeadlineKind::kNone
                   : kind == 1 ? DeadlineKind::kSoft
                               : DeadlineKind::kHard;
    if (kind == 0) job.deadline_s = kNever;
    jobs_.push_back(job);
    past_.push_back(job);
  }

  Plan Decide() {
    view_.jobs = jobs_;
    view_.lately = absl::MakeConstSpan(past_);
    if (past_.size() > kLatelyMax) view_.lately.remove_prefix(past_.size() - kLatelyMax);
    Plan plan = (*MakePolicy("rubato"))->Decide(view_);
    EXPECT_TRUE(CheckPlan(view_, plan).ok()) << CheckPlan(view_, plan);
    return plan;
  }

  // Makes the plan come true, and lets time pass until it says to decide again or a job ends.
  void Follow(Plan plan) {
    std::vector<JobView> stay;
    double until_s = std::min(plan.wake_s, view_.now_s + rng_.Uniform(0.05, 0.8));
    promises_.push_back(std::move(plan.promises));
    for (size_t i = 0, r = 0; i < jobs_.size(); ++i) {
      if (r < plan.refusals.size() && plan.refusals[r].job == jobs_[i].id) {
        ++r;
        continue;
      }
      JobView job = jobs_[i];
      const Share& share = plan.shares[i];
      if (job.gpus != share.gpus || (share.gpus > 0 && job.pool != share.pool)) {
        job.last_resize_s = view_.now_s;
        job.paused_until_s = view_.now_s + view_.cost.Seconds(share.gpus);
      }
      job.admitted = true;
      job.gpus = share.gpus;
      job.pool = share.pool;
      job.promise = promises_.back()[i];
      until_s = std::min(until_s, EndsAt(job));
      stay.push_back(job);
    }
    jobs_.clear();
    promised_ = 0;
    for (JobView& job : stay) {
      if (EndsAt(job) <= until_s) continue;
      if (job.gpus > 0) {
        const double from_s = std::max(view_.now_s, job.paused_until_s);
        job.remaining -= job.curve(job.pool)->Rate(job.gpus) * std::max(0.0, until_s - from_s);
      }
      promised_ += job.promise.empty() ? 0 : 1;
      jobs_.push_back(job);
    }
    view_.now_s = until_s;
  }
  double EndsAt(const JobView& job) const {
    if (job.gpus == 0) return kNever;
    return std::max(view_.now_s, job.paused_until_s) +
           job.remaining / job.curve(job.pool)->Rate(job.gpus);
  }

  Rng rng_;
  int per_node_ = 1;
  int64_t next_id_ = 0;
  size_t promised_ = 0;
  std::deque<Curve> curves_;
  std::deque<std::vector<const Curve*>> pointers_;
  std::deque<std::vector<Promise>> promises_;
  std::vector<JobView> jobs_, past_;
  ClusterView view_;
};

TEST(RubatoMoreGpusTest, NeverAYesThatBecomesANo) {
  constexpr uint64_t kMoments = 6000;
  int yes = 0, turned = 0;
  size_t promised = 0;
  for (uint64_t seed = 0; seed < kMoments; ++seed) {
    RandomMoment moment(seed);
    promised += moment.promised();
    const JobView newcomer = moment.Newcomer();
    const bool admitted = moment.Admits(newcomer, 0, false);
    yes += admitted ? 1 : 0;
    // Nodes more, of whatever number; and nodes twice and four times as large.
    for (int nodes : {1, 2, 3, 4, 7, 16}) {
      const bool then = moment.Admits(newcomer, nodes * moment.per_node(), false);
      ASSERT_FALSE(admitted && !then)
          << "seed " << seed << ": " << moment.ToString() << ", " << nodes << " nodes more";
      turned += !admitted && then ? 1 : 0;
    }
    for (int times : {2, 4}) {
      const bool then = moment.Admits(newcomer, (times - 1) * moment.gpus(), true);
      ASSERT_FALSE(admitted && !then) << "seed " << seed << ": " << moment.ToString() << ", nodes "
                                      << times << " times as large";
    }
  }
  printf("%d of %d admitted, %d times by the larger cluster alone; %.1f promises on average\n", yes,
         static_cast<int>(kMoments), turned, static_cast<double>(promised) / kMoments);
  EXPECT_GT(yes, 500);  // Neither answer is rare, nor is anybody alone.
  EXPECT_GT(turned, 500);
  EXPECT_GT(promised, 6000);
}

}  // namespace
}  // namespace rubato

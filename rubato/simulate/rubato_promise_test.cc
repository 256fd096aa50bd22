// Admitted means met, whatever arrives: random clusters, curves and jobs, every plan checked.
#include <cmath>
#include <deque>

#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/simulate/simulator.h"

namespace rubato {
namespace {

// A random world, all of it from one seed.
class RandomWorld {
 public:
  explicit RandomWorld(uint64_t seed) : rng_(seed) {
    const int gpus_per_node = 1 << rng_.Below(4);
    std::vector<NodeGroup> groups = {Group(gpus_per_node, "A100")};
    if (rng_.Chance(0.4)) groups.push_back(Group(4, "V100"));
    if (rng_.Chance(0.2)) groups.push_back(Group(2, "T4"));
    workload_.cluster = *BuildCluster(groups);
    const int jobs = 20 + static_cast<int>(rng_.Below(180));
    const double gap_s = std::exp(rng_.Uniform(0, 6));
    double now_s = 0;
    for (int i = 0; i < jobs; ++i) {
      if (rng_.Chance(0.8)) now_s += rng_.Exponential(gap_s);
      AddJob(std::round(now_s));
    }
    options_.cooldown_s = rng_.Chance(0.3) ? rng_.Uniform(1, 300) : 0;
    options_.overhead = rng_.Chance(0.8) ? Overhead::kMoved : Overhead::kNone;
    options_.seed = seed;
  }

  absl::StatusOr<SimulationResult> Run() {
    return Simulate(workload_, **MakePolicy("rubato"), options_);
  }
  SimulateOptions& options() { return options_; }
  const Workload& workload() const { return workload_; }

 private:
  NodeGroup Group(int gpus_per_node, const char* type) {
    return {.nodes_per_rack = 1 + static_cast<int>(rng_.Below(6)),
            .gpus_per_node = gpus_per_node,
            .gpu_type = type};
  }

  // Mostly concave, at times with dents; powers of two, at times every count.
  const Curve* RandomCurve() {
    std::vector<CurvePoint> points;
    const bool every = rng_.Chance(0.1);
    double rate = rng_.Uniform(0.1, 10);
    const int most = 1 << rng_.Below(6);
    for (int gpus = 1; gpus <= most; gpus = every ? gpus + 1 : gpus * 2) {
      points.push_back({gpus, rate});
      rate *= every ? 1 + rng_.Uniform(0, 1.0 / gpus) : rng_.Uniform(0.9, 2.1);
    }
    curves_.emplace_back(std::move(points));
    return &curves_.back();
  }

  void AddJob(double submit_s) {
    std::vector<const Curve*> curves;
    for (size_t p = 0; p < workload_.cluster.pools.size(); ++p) curves.push_back(RandomCurve());
    TraceJob job;
    job.submit_s = submit_s;
    job.iterations = 1 + std::exp(rng_.Uniform(0, 9));
    const double alone_s = job.iterations / curves.front()->peak_rate();
    const uint64_t kind = rng_.Below(10);
    if (kind > 0) {
      job.deadline = kind == 1 ? DeadlineKind::kSoft : DeadlineKind::kHard;
      job.deadline_s =
          submit_s + 1 + alone_s * std::exp(rng_.Uniform(-0.2, 2)) + rng_.Uniform(0, 60);
    }
    job.priority = rng_.Chance(0.1) ? 1 : 0;
    if (rng_.Chance(0.1)) job.floor_gpus = 1 << rng_.Below(3);
    workload_.trace.jobs.push_back(job);
    workload_.curves.push_back(std::move(curves));
  }

  Rng rng_;
  std::deque<Curve> curves_;
  Workload workload_;
  SimulateOptions options_;
};

int LateHard(const Workload& workload, const SimulationResult& result) {
  int late = 0;
  for (const JobResult& job : result.job_results) {
    const TraceJob& asked = workload.trace.jobs[static_cast<size_t>(job.id.value())];
    late += asked.deadline == DeadlineKind::kHard && job.admitted && !job.met ? 1 : 0;
  }
  return late;
}

// A million arrivals, ends and resizes.
TEST(RubatoPromiseTest, NobodyAdmittedIsLate) {
  int64_t events = 0, decisions = 0, admitted = 0, refused = 0;
  int mixed = 0, mixed_cooling = 0;  // Worlds with several pools, and those with a cooldown too.
  uint64_t seed = 0;
  for (; events < 1'000'000; ++seed) {
    RandomWorld world(seed);
    const auto result = world.Run();
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.status();
    ASSERT_EQ(LateHard(world.workload(), *result), 0)
        << "seed " << seed << ", cooldown " << world.options().cooldown_s << ", pauses "
        << (world.options().overhead == Overhead::kMoved) << ", pools "
        << world.workload().cluster.pools.size();
    events += result->jobs + result->completed + result->rescales;
    decisions += result->decisions;
    admitted += result->admitted;
    refused += result->refused;
    const bool several = world.workload().cluster.pools.size() > 1;
    mixed += several ? 1 : 0;
    mixed_cooling += several && world.options().cooldown_s > 0 ? 1 : 0;
  }
  printf(
      "%ld events, %ld decisions in %ld worlds (%d of several pools, %d with a cooldown too), "
      "%ld jobs admitted, %ld refused\n",
      static_cast<long>(events), static_cast<long>(decisions), static_cast<long>(seed), mixed,
      mixed_cooling, static_cast<long>(admitted), static_cast<long>(refused));
  EXPECT_GT(mixed, static_cast<int>(seed) / 4);
  EXPECT_GT(mixed_cooling, static_cast<int>(seed) / 16);
  EXPECT_GT(admitted, refused / 4);
  EXPECT_GT(refused, 0);
}

// With a node in reserve, the loss of one is survived by nearly all; without, it is not. Two at
// once remain too many.
TEST(RubatoPromiseTest, AReserveKeepsPromisesThroughFailures) {
  int64_t admitted = 0, late = 0, unprotected = 0, failures = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    for (const bool reserve : {true, false}) {
      RandomWorld world(seed);
      world.options().failures_per_node_day = 50;
      world.options().repair_s = 60;
      int node = 0;
      for (const Node& n : world.workload().cluster.nodes) node = std::max(node, n.gpus);
      world.options().reserve_gpus = reserve ? node : 0;
      const auto result = world.Run();
      ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.status();
      (reserve ? late : unprotected) += LateHard(world.workload(), *result);
      if (!reserve) continue;
      admitted += result->admitted;
      failures += result->failures;
    }
  }
  printf("%ld failures: %ld of %ld admitted jobs late with a reserve, %ld without\n",
         static_cast<long>(failures), static_cast<long>(late), static_cast<long>(admitted),
         static_cast<long>(unprotected));
  EXPECT_GT(failures, 500);
  EXPECT_GT(unprotected, 20);
  EXPECT_LE(late * 10, unprotected);
}

}  // namespace
}  // namespace rubato

// Every policy on random worlds whose jobs have floors, maxima and odd wishes: no plan is broken,
// and nobody is left waiting for ever.
#include "gtest/gtest.h"
#include "rubato/simulate/fake_world.h"

namespace rubato {
namespace {

// What Bind() would leave of the curves of a job with this floor and maximum.
std::vector<const Curve*> Fitting(const TraceJob& job, const std::vector<const Curve*>& curves,
                                  const ClusterSpec& cluster) {
  std::vector<const Curve*> fitting;
  for (size_t p = 0; p < curves.size(); ++p) {
    const int gpus = cluster.pools[p].gpus;
    const int size = curves[p]->LegalAtMost(job.max_gpus > 0 ? std::min(job.max_gpus, gpus) : gpus);
    fitting.push_back(size > 0 && size >= job.floor_gpus ? curves[p] : nullptr);
  }
  return fitting;
}

// The world's jobs, many of them with floors; `world` must outlive it.
Workload WithFloors(const RandomWorld& world, uint64_t seed) {
  Workload workload = world.workload();
  Rng rng(seed);
  for (size_t i = 0; i < workload.trace.jobs.size(); ++i) {
    TraceJob& job = workload.trace.jobs[i];
    job.name = "run-" + std::to_string(i);
    job.asked_gpus = 1 << rng.Below(5);
    job.floor_gpus = rng.Chance(0.5) ? static_cast<int>(rng.Below(20)) : 0;
    job.max_gpus = rng.Chance(0.3) ? job.floor_gpus + static_cast<int>(rng.Below(20)) : 0;
    std::vector<const Curve*> fitting = Fitting(job, workload.curves[i], workload.cluster);
    const bool runs = std::any_of(fitting.begin(), fitting.end(), [](auto* c) { return c; });
    if (!runs) {
      job.floor_gpus = job.max_gpus = 0;
      fitting = Fitting(job, workload.curves[i], workload.cluster);
    }
    workload.curves[i] = std::move(fitting);
  }
  return workload;
}

class FloorsTest : public testing::TestWithParam<std::string> {};

TEST_P(FloorsTest, PlansAreLawfulAndEveryoneIsServed) {
  const uint64_t worlds = GetParam() == "chronus" ? 4 : 25;  // Integer programmes are slow.
  for (uint64_t seed = 0; seed < worlds; ++seed) {
    const RandomWorld world(seed);
    const Workload workload = WithFloors(world, seed);
    SimulateOptions options{.overhead = Overhead::kMoved};
    options.cooldown_s = seed % 3 == 0 ? 100 : 0;
    const auto result = Simulate(workload, **MakePolicy(GetParam()), options);
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.status();
    EXPECT_EQ(result->completed + result->refused, result->jobs) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FloorsTest, testing::ValuesIn(PolicyNames()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rubato

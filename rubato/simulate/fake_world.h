// Clusters, curves and jobs that nobody chose: a workload drawn from a seed.
#ifndef RUBATO_SIMULATE_FAKE_WORLD_H_
#define RUBATO_SIMULATE_FAKE_WORLD_H_

#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

// A random world, all of it from one seed.
class RandomWorld {
 public:
  // How a cluster differs from the one drawn, jobs and curves being the same.
  struct Growth {
    int times = 1;        // As many nodes,
    int extra_nodes = 0;  // and so many more of the first type.
  };
  explicit RandomWorld(uint64_t seed) : RandomWorld(seed, Growth{}) {}
  RandomWorld(uint64_t seed, const Growth& growth) : rng_(seed) {
    const int gpus_per_node = 1 << rng_.Below(4);
    std::vector<NodeGroup> groups = {Group(gpus_per_node, "A100")};
    if (rng_.Chance(0.4)) groups.push_back(Group(4, "V100"));
    if (rng_.Chance(0.2)) groups.push_back(Group(2, "T4"));
    for (NodeGroup& group : groups) group.nodes_per_rack *= growth.times;
    groups.front().nodes_per_rack += growth.extra_nodes;
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
  // From now on jobs whose GPUs lie in several nodes are slower, each in its own measure.
  void SlowAcrossNodes() {
    for (Curve& curve : curves_) {
      const double share = rng_.Uniform(0.4, 1);
      for (const CurvePoint& point : std::vector(curve.points())) {
        if (point.gpus > 1) curve.Limit(point.gpus, Span::kRack, share * point.rate);
      }
    }
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

// Promises broken.
inline int LateHard(const Workload& workload, const SimulationResult& result) {
  int late = 0;
  for (const JobResult& job : result.job_results) {
    const TraceJob& asked = workload.trace.jobs[static_cast<size_t>(job.id.value())];
    late += asked.deadline == DeadlineKind::kHard && job.admitted && !job.met ? 1 : 0;
  }
  return late;
}

}  // namespace rubato

#endif  // RUBATO_SIMULATE_FAKE_WORLD_H_

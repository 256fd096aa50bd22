#include "rubato/simulate/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/status.h"
#include "rubato/simulate/simulation.h"

namespace rubato {

absl::Status SimulateOptions::Validate() const {
  struct Flag {
    const char* name;
    double value, low, high;
  };
  constexpr double kShortest = 1e-3, kLongest = 1e9;  // Seconds.
  for (const Flag& flag :
       {Flag{"--slot", slot_s, kShortest, kLongest}, Flag{"--cooldown", cooldown_s, 0, kLongest},
        Flag{"--repair", repair_s, kShortest, kLongest},
        Flag{"--failures", failures_per_node_day, 0, 1440},
        Flag{"--reserve", static_cast<double>(reserve_gpus), 0, kLongest}}) {
    if (flag.value >= flag.low && flag.value <= flag.high) continue;  // Never true of a nan.
    return absl::InvalidArgumentError(absl::StrFormat("%s is %g; it must be from %g to %g",
                                                      flag.name, flag.value, flag.low, flag.high));
  }
  return absl::OkStatus();
}

namespace {

// A job that runs longer on the fewest GPUs it may have is a mistake; policies that take turns of a
// minute would go round for days.
constexpr double kRunMax_s = 1e9;

// Whether some size suits the job, its curve and a pool of `gpus`.
bool HasLegalSize(const TraceJob& job, const Curve& curve, int gpus) {
  const int most = job.max_gpus > 0 ? std::min(job.max_gpus, gpus) : gpus;
  const int size = curve.LegalAtMost(most);
  return size > 0 && size >= job.floor_gpus;
}

// What comes with every GPU of a pool: its node's CPUs and memory, shared out evenly, so that nodes
// never run out of either before they run out of GPUs. Where a spec does not tell, enough.
struct GpuShare {
  double cpus = kNever;
  double memory_gb = kNever;

  bool SufficesFor(const TraceJob& job) const {
    return job.cpus_per_gpu <= cpus && job.memory_gb_per_gpu <= memory_gb;
  }
};

GpuShare ShareOf(const ClusterSpec& cluster, const Pool& pool) {
  GpuShare share;
  for (int n = pool.first_node; n < pool.first_node + pool.nodes; ++n) {
    const Node& node = cluster.nodes[static_cast<size_t>(n)];
    if (node.cpus > 0) share.cpus = std::min(share.cpus, 1.0 * node.cpus / node.gpus);
    if (node.memory_gb > 0) {
      share.memory_gb = std::min(share.memory_gb, 1.0 * node.memory_gb / node.gpus);
    }
  }
  return share;
}

absl::Status JobError(const Trace& trace, const TraceJob& job, absl::string_view message) {
  const std::string line = job.line > 0 ? absl::StrCat(":", job.line) : "";
  return absl::InvalidArgumentError(
      absl::StrCat(trace.name, line, ": job ", job.name, ": ", message));
}

}  // namespace

absl::StatusOr<Workload> Bind(Trace trace, ClusterSpec cluster, const CurveBook& book,
                              absl::string_view default_type) {
  for (Pool& pool : cluster.pools) {
    if (pool.gpu_type.empty()) pool.gpu_type = std::string(default_type);
  }
  std::vector<GpuShare> shares;
  for (const Pool& pool : cluster.pools) shares.push_back(ShareOf(cluster, pool));
  Workload workload;
  for (const TraceJob& job : trace.jobs) {
    std::vector<const Curve*> curves;
    bool known = false, has_size = false, runs = false;
    for (size_t p = 0; p < cluster.pools.size(); ++p) {
      const Pool& pool = cluster.pools[p];
      const Curve* curve = book.Find(job.model, job.batch_size, pool.gpu_type);
      known = known || curve != nullptr;
      if (curve != nullptr && !HasLegalSize(job, *curve, pool.gpus)) curve = nullptr;
      has_size = has_size || curve != nullptr;
      if (!shares[p].SufficesFor(job)) curve = nullptr;
      runs = runs || curve != nullptr;
      curves.push_back(curve);
    }
    if (!known) {
      const std::string& type = cluster.pools.front().gpu_type;
      return JobError(trace, job,
                      absl::StrFormat("no profile of %s with batch size %d that runs on this "
                                      "cluster; on \"%s\" there are %s",
                                      job.model, job.batch_size, type, book.Known(type)));
    }
    if (has_size && !runs) {
      return JobError(trace, job,
                      absl::StrFormat("cpu_per_gpu is %g and mem_per_gpu %g: no pool where it runs "
                                      "has as much for each of its GPUs",
                                      job.cpus_per_gpu, job.memory_gb_per_gpu));
    }
    if (!runs) {
      return JobError(trace, job,
                      absl::StrFormat("%s runs on no number of GPUs that is at least min_gpu (%d), "
                                      "at most max_gpu (%s) and within a pool",
                                      job.model, job.floor_gpus,
                                      job.max_gpus > 0 ? absl::StrCat(job.max_gpus) : "any"));
    }
    for (const Curve* curve : curves) {
      if (curve == nullptr || job.iterations <= kRunMax_s * curve->points().front().rate) continue;
      return JobError(trace, job,
                      absl::StrFormat("%g iterations take more than %g s (thirty years) on %d GPUs",
                                      job.iterations, kRunMax_s, curve->min_gpus()));
    }
    workload.curves.push_back(std::move(curves));
  }
  workload.trace = std::move(trace);
  workload.cluster = std::move(cluster);
  return workload;
}

absl::StatusOr<SimulationResult> Simulate(const Workload& workload, const Policy& policy,
                                          const SimulateOptions& options) {
  RUBATO_RETURN_IF_ERROR(options.Validate());
  Simulation simulation(workload, policy, options);
  return simulation.Run();
}

}  // namespace rubato

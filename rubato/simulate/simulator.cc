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

// Whether some size suits the job, its curve and a pool of `gpus`.
bool HasLegalSize(const TraceJob& job, const Curve& curve, int gpus) {
  const int most = job.max_gpus > 0 ? std::min(job.max_gpus, gpus) : gpus;
  const int size = curve.LegalAtMost(most);
  return size > 0 && size >= job.floor_gpus;
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
  Workload workload;
  for (const TraceJob& job : trace.jobs) {
    std::vector<const Curve*> curves;
    bool known = false, runs = false;
    for (const Pool& pool : cluster.pools) {
      const Curve* curve = book.Find(job.model, job.batch_size, pool.gpu_type);
      known = known || curve != nullptr;
      if (curve != nullptr && !HasLegalSize(job, *curve, pool.gpus)) curve = nullptr;
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
    if (!runs) {
      return JobError(trace, job,
                      absl::StrFormat("%s runs on no number of GPUs that is at least min_gpu (%d), "
                                      "at most max_gpu (%d; 0: any) and within a pool",
                                      job.model, job.floor_gpus, job.max_gpus));
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

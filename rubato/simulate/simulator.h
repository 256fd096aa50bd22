// Runs a trace through a policy: event-driven, exact, deterministic.
//
// Between events nothing is computed: a job's end follows from its remaining work, its rate and
// the pause of its last rescale. Events at one moment (ends, then arrivals, failures, repairs) lead
// to one decision. Every plan is checked; a broken one ends the simulation with INTERNAL.
#ifndef RUBATO_SIMULATE_SIMULATOR_H_
#define RUBATO_SIMULATE_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/base/clock.h"
#include "rubato/cluster/cluster_spec.h"
#include "rubato/cluster/curve.h"
#include "rubato/schedule/policy.h"
#include "rubato/simulate/result.h"
#include "rubato/simulate/trace.h"

namespace rubato {

enum class Overhead {
  kMoved,        // The rescale formula, charged to jobs whose GPUs changed.
  kElasticflow,  // As the public code: to every running job at every decision, with its restarts.
  kNone,
};

struct SimulateOptions {
  Overhead overhead = Overhead::kMoved;
  double slot_s = 60;     // For policies that cut time into slots.
  double cooldown_s = 0;  // No growth sooner than this after a resize.
  int reserve_gpus = 0;   // See ClusterView.
  double failures_per_node_day = 0;
  double repair_s = 3600;        // How long a failed node stays away.
  uint64_t seed = 0;             // Of failures; nothing else is left to chance.
  bool record_pieces = false;    // Costs memory in proportion to the resizes.
  const Clock* clock = nullptr;  // Of the wall; without it nothing takes time.
  // To time decisions with, if not `clock`: one that stands still while other programs run.
  const Clock* decision_clock = nullptr;
  // Called now and then with the jobs ended or refused so far.
  std::function<void(int64_t jobs_done)> progress;

  absl::Status Validate() const;
};

// A trace bound to a cluster: each job with its curve in every pool.
struct Workload {
  Trace trace;
  ClusterSpec cluster;
  std::vector<std::vector<const Curve*>> curves;  // By job, then by pool.
};

// INVALID_ARGUMENT naming the job and what is known if a job's (model, batch size) is in no profile
// of any pool, it would run for more than 1e9 seconds, or its workers need more CPUs or memory than
// come with a GPU: a node's, shared out over its GPUs. Such a pool is closed to the job. A pool
// without a GPU type takes `default_type`. `book` must outlive the workload.
absl::StatusOr<Workload> Bind(Trace trace, ClusterSpec cluster, const CurveBook& book,
                              absl::string_view default_type);

absl::StatusOr<SimulationResult> Simulate(const Workload& workload, const Policy& policy,
                                          const SimulateOptions& options);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_SIMULATOR_H_

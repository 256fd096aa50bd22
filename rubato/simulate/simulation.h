// One run of the simulator: its clock, its jobs and its cluster. See simulator.h.
#ifndef RUBATO_SIMULATE_SIMULATION_H_
#define RUBATO_SIMULATE_SIMULATION_H_

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "rubato/base/rng.h"
#include "rubato/cluster/placement.h"
#include "rubato/cluster/placement_audit.h"
#include "rubato/simulate/row.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

class Simulation {
 public:
  Simulation(const Workload& workload, const Policy& policy, const SimulateOptions& options);
  absl::StatusOr<SimulationResult> Run();

 private:
  // What the engine alone knows of an active job. While it runs, its work left at time t is
  // anchor_left - rate x (t - anchor_s), so nothing drifts however many events pass. Its end is in
  // ends_.
  struct Running {
    double rate = 0;
    double anchor_s = 0;  // Progress starts here: the end of the last pause.
    double anchor_left = 0;
    double piece_from_s = 0;  // Since when it holds what it holds.
    double served_s = 0;      // Up to when the view counts its service.
    Promise promise;          // The policy's own; views_[i].promise shows it.
  };

  double NextEvent();
  // Moves to `t` and handles all ends, arrivals, failures and repairs due by then.
  void Advance(double t);
  void EndJobs();
  void AdmitArrivals();
  void FailAndRepair();
  void ScheduleFailure();
  absl::Status Decide();
  absl::Status Apply(const Plan& plan);
  // Where everyone lies now, seen with other eyes than the placement's.
  absl::Status Audit(const Plan& plan, const std::vector<JobId>& changed);
  void Refuse(const Plan& plan);
  void Charge(const std::vector<JobId>& changed);
  // Starts a pause of `pause_s` for job i, then progress at the rate its GPUs give.
  void Restart(size_t i, double pause_s);
  void SetGpus(size_t i, int gpus);
  void ClosePiece(size_t i);
  void CountService(size_t i);
  void Remove(size_t i);
  void Refresh();  // Brings the views' figures up to now.
  double LeftNow(size_t i) const;
  size_t IndexOf(JobId id) const;
  bool KnownSet(JobId job);
  // A broken plan, in the words of the trace: whose policy it was, and its own names of jobs.
  absl::Status Broken(const absl::Status& status) const;

  const Workload& workload_;
  const Policy& policy_;
  const SimulateOptions& options_;
  const RescaleCost cost_;
  Placement placement_;
  PlacementAudit audit_;
  Rng rng_;
  SimulationResult result_;

  double now_s_ = 0;
  double wake_s_ = kNever;
  double decided_s_ = -kNever;
  bool due_ = false;  // Something happened since the last decision.
  size_t next_arrival_ = 0;
  Row<JobView> views_;    // Active jobs, ascending by id,
  Row<Running> running_;  // and what belongs to them, in the same order. Where tens of thousands
  Row<int> holds_;        // wait for the few that run, who looks for those reads no more than this:
  Row<double> ends_;      // views_[i].gpus, and when job i ends, kNever while it holds none.
  double next_end_s_ = kNever;   // The least of ends_, unless
  bool ends_changed_ = false;    // it is to be sought anew.
  bool promises_ = false;        // Whether the policy makes any.
  std::vector<JobView> lately_;  // The last to be submitted, as they came; see ClusterView.
  std::vector<std::pair<double, int>> repairs_;  // (when, node), ascending.
  double next_failure_s_ = kNever;
  absl::flat_hash_set<uint64_t>
      known_sets_;  // Hashes of GPU sets that worked together. Never walked.
  std::vector<PlacementAudit::Held> held_;  // For the audit; a member to keep its memory.
  std::vector<DecisionTime> decisions_;
};

}  // namespace rubato

#endif  // RUBATO_SIMULATE_SIMULATION_H_

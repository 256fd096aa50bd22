// What the artifact's loops share: jobs and their lists, the clock, progress, overhead and the
// books.
#ifndef RUBATO_SIMULATE_ARTIFACT_LOOP_H_
#define RUBATO_SIMULATE_ARTIFACT_LOOP_H_

#include <memory>
#include <vector>

#include "rubato/schedule/overhead.h"
#include "rubato/simulate/artifact/job.h"
#include "rubato/simulate/artifact/nodes.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

enum class ArtifactCap {
  kWidest,  // The largest profiled count, at most 64 and the batch size.
  kPeak,    // The artifact's own table of curve peaks.
};

class ArtifactLoop {
 public:
  ArtifactLoop(const Workload& workload, const SimulateOptions& options, ArtifactCap cap);
  virtual ~ArtifactLoop() = default;

  absl::StatusOr<SimulationResult> Run(absl::string_view policy);

 protected:
  // Runs until nothing is left. INTERNAL if a plan breaks the cluster's bounds.
  virtual absl::Status RunLoop() = 0;

  // Lets runnable_ work for `seconds` until now_, less their overhead. A job that turns out to be
  // done early ends now.
  void Progress(double seconds);
  // Closes the books on a job; `end` is what its deadline is tested against.
  void Finish(ArtifactJob* job, double logged_end, double tested_end);
  void Refuse(ArtifactJob* job, const char* reason);
  void Start(ArtifactJob* job);  // Its first GPUs.
  // Whether this decision restarts everyone: every k-th, k being the slot taken as a count.
  bool CountDecision();
  double OverheadOf(int gpus, bool restart, bool known_set) const;
  // Charges overhead to `job` and moves its forecast end.
  void Charge(ArtifactJob* job, bool restart);
  // INTERNAL if the GPUs held exceed the cluster or a size is not profiled.
  absl::Status CheckShares(const std::vector<ArtifactJob*>& jobs);
  // To be called around what the policy decides.
  void BeginDecision();
  void EndDecision(size_t active);
  void CountGpuSeconds(const std::vector<ArtifactJob*>& jobs, double seconds);

  const SimulateOptions& options_;
  const double slot_;
  const int gpus_;  // In the cluster.
  std::vector<std::unique_ptr<ArtifactJob>> jobs_;
  ArtifactEvents events_;
  ArtifactNodes nodes_;
  double now_ = 0;
  std::vector<ArtifactJob*>
      runnable_;  // Admitted and not ended; its order matters, as in the artifact.
  std::vector<ArtifactJob*> running_;
  std::vector<ArtifactJob*> pending_;

 private:
  SimulationResult result_;
  RescaleCost cost_;
  int64_t decisions_ = 0;
  int64_t done_ = 0;
  const Clock* decision_clock_ = nullptr;
  absl::Time decision_began_;
  std::vector<DecisionTime> times_;
};

// One maker a policy family, each in the file of its name.
struct ArtifactRepairs {
  bool one_by_one = false;     // Arrivals of one slot are tested singly.
  bool late_tolerant = false;  // A job late anyway vetoes nobody.
  bool sign = false;           // The job whose GPU time grows least is served first.
};
std::unique_ptr<ArtifactLoop> MakeElasticflowLoop(const Workload& workload,
                                                  const SimulateOptions& options,
                                                  ArtifactRepairs repairs);
std::unique_ptr<ArtifactLoop> MakeEdfLoop(const Workload& workload, const SimulateOptions& options,
                                          ArtifactCap cap, bool pays_overhead);
std::unique_ptr<ArtifactLoop> MakeEdfAdmissionLoop(const Workload& workload,
                                                   const SimulateOptions& options, ArtifactCap cap);
std::unique_ptr<ArtifactLoop> MakeTiresiasLoop(const Workload& workload,
                                               const SimulateOptions& options);
std::unique_ptr<ArtifactLoop> MakeGandivaLoop(const Workload& workload,
                                              const SimulateOptions& options);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ARTIFACT_LOOP_H_

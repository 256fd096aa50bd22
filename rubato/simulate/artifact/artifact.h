// The public ElasticFlow simulator, defects included: its clock, its events and its policies, so
// that its published figures can be reproduced and each defect sized.
//
// It differs from simulate/ in kind, which is why it has a loop of its own: decisions are merged
// onto a grid that moves with every decision, a job's end is a forecast that drifts by the overhead
// charged after each decision, and the deadline test looks at a forecast made before that.
#ifndef RUBATO_SIMULATE_ARTIFACT_ARTIFACT_H_
#define RUBATO_SIMULATE_ARTIFACT_ARTIFACT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

// Whether the public code has this policy: elasticflow-artifact, edf, edf-admission, tiresias and
// gandiva as shipped; edf-capped, edf-capped-admission and elasticflow with the repairs that the
// reference runs size (the peak as cap; arrivals one by one, late jobs tolerated, sign mended).
bool InArtifact(absl::string_view policy);

// Runs the whole trace the artifact's way; options.overhead is taken to be kElasticflow.
// UNIMPLEMENTED if the cluster has several GPU types or uneven nodes, failures are asked for, or a
// job has a floor or a maximum: the public code knows none of these.
absl::StatusOr<SimulationResult> SimulateArtifact(const Workload& workload,
                                                  absl::string_view policy,
                                                  const SimulateOptions& options);

// Simulate() or SimulateArtifact(), as the overhead and the policy ask.
absl::StatusOr<SimulationResult> SimulateAsAsked(const Workload& workload, const Policy& policy,
                                                 const SimulateOptions& options);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ARTIFACT_ARTIFACT_H_

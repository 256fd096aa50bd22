#include "rubato/simulate/artifact/artifact.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/simulate/artifact/loop.h"

namespace rubato {
namespace {

std::unique_ptr<ArtifactLoop> MakeLoop(const Workload& workload, absl::string_view policy,
                                       const SimulateOptions& options) {
  if (policy == "elasticflow-artifact") return MakeElasticflowLoop(workload, options, {});
  if (policy == "elasticflow") {
    return MakeElasticflowLoop(workload, options,
                               {.one_by_one = true, .late_tolerant = true, .sign = true});
  }
  if (policy == "edf") return MakeEdfLoop(workload, options, ArtifactCap::kWidest, false);
  if (policy == "edf-capped") return MakeEdfLoop(workload, options, ArtifactCap::kPeak, true);
  if (policy == "edf-admission")
    return MakeEdfAdmissionLoop(workload, options, ArtifactCap::kWidest);
  if (policy == "edf-capped-admission")
    return MakeEdfAdmissionLoop(workload, options, ArtifactCap::kPeak);
  if (policy == "tiresias") return MakeTiresiasLoop(workload, options);
  if (policy == "gandiva") return MakeGandivaLoop(workload, options);
  return nullptr;
}

}  // namespace

bool InArtifact(absl::string_view policy) {
  constexpr absl::string_view kNames[] = {
      "elasticflow-artifact", "elasticflow",          "edf",      "edf-capped",
      "edf-admission",        "edf-capped-admission", "tiresias", "gandiva",
  };
  return std::find(std::begin(kNames), std::end(kNames), policy) != std::end(kNames);
}

absl::StatusOr<SimulationResult> SimulateArtifact(const Workload& workload,
                                                  absl::string_view policy,
                                                  const SimulateOptions& options) {
  RUBATO_RETURN_IF_ERROR(options.Validate());
  const ClusterSpec& cluster = workload.cluster;
  const bool even = std::all_of(cluster.nodes.begin(), cluster.nodes.end(), [&](const Node& node) {
    return node.gpus == cluster.nodes[0].gpus;
  });
  if (cluster.pools.size() != 1 || !even || options.failures_per_node_day > 0 ||
      options.cooldown_s > 0 || options.reserve_gpus > 0) {
    return absl::UnimplementedError(absl::StrCat(
        policy,
        " with --overhead elasticflow follows the public code, which knows one GPU type, "
        "like nodes, no --failures, no --cooldown and no --reserve; use --overhead moved"));
  }
  for (const TraceJob& job : workload.trace.jobs) {
    if (job.floor_gpus <= 1 && job.max_gpus == 0) continue;
    return absl::UnimplementedError(absl::StrCat(
        policy, " with --overhead elasticflow follows the public code, which knows no ",
        job.floor_gpus > 1 ? "min_gpu" : "max_gpu", " as job ", job.name,
        " asks for; use --overhead moved"));
  }
  const std::unique_ptr<ArtifactLoop> loop = MakeLoop(workload, policy, options);
  if (loop == nullptr) {
    return absl::NotFoundError(absl::StrCat("the public code has no policy \"", policy, "\""));
  }
  return loop->Run(policy);
}

absl::StatusOr<SimulationResult> SimulateAsAsked(const Workload& workload, const Policy& policy,
                                                 const SimulateOptions& options) {
  if (options.overhead == Overhead::kElasticflow && InArtifact(policy.name())) {
    return SimulateArtifact(workload, policy.name(), options);
  }
  return Simulate(workload, policy, options);
}

}  // namespace rubato

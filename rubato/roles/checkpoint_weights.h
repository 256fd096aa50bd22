// The weights in a job's checkpoint, whoever wrote it: servers, each its shard, or one worker of a
// group.
#ifndef RUBATO_ROLES_CHECKPOINT_WEIGHTS_H_
#define RUBATO_ROLES_CHECKPOINT_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"
#include "rubato/params/inspection.h"
#include "rubato/params/weights.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

struct CheckpointChoice {
  std::string checkpoints;  // All of the job's,
  std::string folder;       // and this one's.
  int64_t version = 0;
  int64_t step = 0;
  int64_t servers = 0;  // Whose files are there; 0: one worker's.
  std::string file;     // That worker's.
};

// What manifest.json holds: `contents`, a JSON object, with a checksum of it and of the
// checkpoint's features.yaml, null if it has none.
std::string SealManifest(absl::string_view contents, const std::string* features);

// The one that `version` names; for 0 the best, if the job keeps it (checkpoints/BEST), or else the
// newest complete one. NOT_FOUND lists what is there; DATA_LOSS names a file that was changed.
absl::StatusOr<CheckpointChoice> ChooseCheckpoint(const JobDirectory& directory, int64_t version);

// Strategy allreduce: the newest complete one whose file is whole; what is wrong with those that
// are newer is added to `damaged`. DATA_LOSS, with all of it, if none is.
absl::StatusOr<CheckpointChoice> ChooseSoundReplica(const JobDirectory& directory,
                                                    std::vector<std::string>* damaged);

// Streams its weights, a shard at a time. `trainer` is the job's.
absl::Status VisitCheckpoint(const CheckpointChoice& checkpoint, const JobSpec& job,
                             const Trainer& trainer, WeightsSink& sink);

// What servers would say of themselves, had they just restored it. Reads all of it.
absl::StatusOr<std::vector<ServerInspection>> InspectCheckpoint(const CheckpointChoice& checkpoint);

}  // namespace rubato

#endif  // RUBATO_ROLES_CHECKPOINT_WEIGHTS_H_

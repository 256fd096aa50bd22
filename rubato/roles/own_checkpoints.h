// The checkpoints of a worker without a master, in its own job directory. Written as those that a
// master asks for, so that `rubato evaluate`, `predict` and `export` find them, and a group can be
// founded anew from them, by any number of workers.
#ifndef RUBATO_ROLES_OWN_CHECKPOINTS_H_
#define RUBATO_ROLES_OWN_CHECKPOINTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rubato/job/job_spec.h"
#include "rubato/roles/job_directory.h"
#include "rubato/roles/replica_saver.h"

namespace rubato {

class OwnCheckpoints {
 public:
  static constexpr const char* kFile = "worker-0.ckpt";  // In the folder of each.

  // `directory` may hold some already.
  OwnCheckpoints(JobDirectory directory, const CheckpointSpec& spec);

  // The version to begin, now that `steps` are taken; 0: none is due. To be asked by each member at
  // every step: what is due is that of the one who `writes`, and who comes after it knows of it.
  int64_t Due(int64_t steps, bool writes);
  int64_t Next() { return ++begun_; }
  int64_t begun() const { return begun_; }
  int64_t complete() const { return complete_; }  // The newest that counts; 0 for none.
  // Its file is there: it counts from now on, and what is older than those to keep goes.
  absl::Status Complete(const ReplicaSaver::Saved& saved);
  // Now, on this thread.
  absl::Status Save(const Replica& replica);

 private:
  const JobDirectory directory_;
  const CheckpointSpec spec_;
  int64_t begun_ = 0;  // The newest version.
  int64_t complete_ = 0;
  int64_t intervals_ = -1;  // Of every_steps, whose checkpoints are begun; -1: not asked yet.
};

}  // namespace rubato

#endif  // RUBATO_ROLES_OWN_CHECKPOINTS_H_

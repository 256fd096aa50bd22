// A replica on its way to disk, beside training: copied between two steps, written by a thread once
// that step can no longer be undone, complete or not at all.
#ifndef RUBATO_ROLES_REPLICA_SAVER_H_
#define RUBATO_ROLES_REPLICA_SAVER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "rubato/worker/replica.h"

namespace rubato {

// The compute thread owns it.
class ReplicaSaver {
 public:
  struct Saved {
    int64_t version = 0;
    int64_t steps = 0;
    int64_t records = 0;
  };

  ~ReplicaSaver();

  // The newest version copied or written.
  int64_t version() const { return copy_.version; }
  // Copies `replica`, whose state is that after `group_step`, for FOLDER/version/FILE.
  void Copy(const Replica& replica, int64_t version, int64_t group_step, std::string folder,
            std::string file);
  // Steps of the group up to this one stay: what was copied may be written.
  void Committed(int64_t group_step);
  // The copy is of a state that the group does not share, after all.
  void Drop();
  // For what is being written, if anything: TakeSaved() then tells of it.
  void Wait();
  // What could not be written may be copied anew.
  void Forget() { copy_ = {}; }
  // What has been written wholly since the last call, if anything; or why it cannot be.
  absl::StatusOr<std::optional<Saved>> TakeSaved();

 private:
  void Write();

  Saved copy_;
  int64_t group_step_ = -1;
  std::string folder_, file_, bytes_;  // Until it is written.
  std::thread writer_;
  absl::Status status_;  // The writer's, once it is done.
  std::atomic<bool> done_{false};
};

}  // namespace rubato

#endif  // RUBATO_ROLES_REPLICA_SAVER_H_

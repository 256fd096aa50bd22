// A replica on its way to disk, beside training: copied by a thread, from a snapshot that the group
// takes between two steps, and written once that step can no longer be undone, complete or not at
// all.
#ifndef RUBATO_ROLES_REPLICA_SAVER_H_
#define RUBATO_ROLES_REPLICA_SAVER_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "rubato/ring/state_snapshot.h"
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
  // Copies `replica`, of whose State() `snapshot` is, for FOLDER/version/FILE.
  void Copy(const Replica& replica, std::shared_ptr<StateSnapshot> snapshot, int64_t version,
            std::string folder, std::string file);
  // Steps of the group up to this one stay: what was copied may be written.
  void Committed(int64_t group_step);
  // The copy is of a state that the group does not share, after all.
  void Drop();
  // Whether something is still to be written, or dropped.
  bool busy() const { return busy_; }
  // For what is being written, if anything: TakeSaved() then tells of it.
  void Wait();
  // What could not be written may be copied anew.
  void Forget() { copy_ = {}; }
  // What has been written wholly since the last call, if anything; or why it cannot be.
  absl::StatusOr<std::optional<Saved>> TakeSaved();

 private:
  void Decide(bool stays);
  std::string Encode();
  void Write();

  Saved copy_;
  int64_t group_step_ = -1;      // Of the copy, until it is known whether that stays:
  std::promise<bool> decision_;  // the writer waits for it.
  std::string folder_, file_, head_;
  std::shared_ptr<StateSnapshot> snapshot_;  // The writer's.
  std::thread writer_;
  absl::Status status_;  // The writer's, once it is done.
  std::atomic<bool> done_{false};
  std::atomic<bool> busy_{false};  // The writer is not at its end.
};

}  // namespace rubato

#endif  // RUBATO_ROLES_REPLICA_SAVER_H_

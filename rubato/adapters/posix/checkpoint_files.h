// A checkpoint's files on disk: which ones a server's is made of, and which may go.
//
//     CHECKPOINTS/VERSION/server-S.ckpt    complete, or not there; full, or built on an earlier one
#ifndef RUBATO_ADAPTERS_POSIX_CHECKPOINT_FILES_H_
#define RUBATO_ADAPTERS_POSIX_CHECKPOINT_FILES_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/params/checkpoint_reader.h"

namespace rubato {

// All that one server's checkpoint needs, mapped: a full one first, then what is built on it.
class MappedChain {
 public:
  // NOT_FOUND if version `version` is not there; DATA_LOSS, naming it, if one that it is built on
  // is not, or has no head.
  static absl::StatusOr<MappedChain> Open(const std::string& checkpoints, int64_t version,
                                          int64_t server);

  const std::vector<CheckpointFile>& files() const { return files_; }
  // Where it is told how much was restored; null: nowhere.
  void Watch(std::atomic<int64_t>* read) {
    for (CheckpointFile& file : files_) file.read = read;
  }
  const CheckpointName& name() const { return name_; }  // Of the newest.
  int64_t full_bytes() const { return full_bytes_; }
  int64_t delta_bytes() const { return delta_bytes_; }

 private:
  MappedChain() = default;
  std::vector<MappedFile> maps_;
  std::vector<CheckpointFile> files_;
  CheckpointName name_;
  int64_t full_bytes_ = 0, delta_bytes_ = 0;
};

// Removes every version before the newest of `kept` that is not one of them, but for the files of
// servers that those are built on. A version that is half removed has no manifest. Nor has one
// after the newest of them: it is not complete, or was given up.
absl::Status KeepCheckpoints(const std::string& checkpoints, const std::vector<int64_t>& kept);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_CHECKPOINT_FILES_H_

// A shard made again from checkpoint files (checkpoint.h): its own, or its part of those of all
// servers, however many they were.
#ifndef RUBATO_PARAMS_CHECKPOINT_READER_H_
#define RUBATO_PARAMS_CHECKPOINT_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/record_file.h"
#include "rubato/params/shard.h"

namespace rubato {

// A whole file in memory; `bytes` start at a multiple of 8.
struct CheckpointFile {
  std::string path;  // For messages.
  absl::string_view bytes;
};

// Fills a fresh shard from the records of its own checkpoint, in order.
class CheckpointReader {
 public:
  // `file_bytes` is the size of the whole file: a head that promises more than fits into it is
  // DATA_LOSS, before anything is made for it.
  CheckpointReader(Shard& shard, size_t file_bytes) : shard_(shard), file_bytes_(file_bytes) {}

  absl::Status Add(RecordKind kind, absl::string_view body);
  // DATA_LOSS unless the end was reached and every row counted.
  absl::Status Finish() const;

 private:
  friend absl::Status RestoreShard(Shard& shard, const std::vector<CheckpointFile>& files);

  absl::Status AddHead(absl::string_view body);
  absl::Status Adopt(const CheckpointName& name, const PartitionMap& map);
  absl::Status CheckSize(const Declaration& declaration) const;
  absl::Status AddDense(absl::string_view body);
  absl::Status AddRows(absl::string_view body);
  absl::Status AddCounted(absl::string_view body);
  absl::Status AddStaged(absl::string_view body);
  bool Wants(uint64_t id) const {
    return shard_.owned_[static_cast<size_t>(PartitionOf(PointOf(id)))];
  }

  Shard& shard_;
  const size_t file_bytes_;
  bool foreign_ = false;  // Some server's, of which the shard takes what it owns.
  bool head_ = false;
  bool dense_ = false;
  bool end_ = false;
  std::vector<History> histories_;  // Of all that is in the file.
  struct Count {
    uint64_t promised = 0;
    uint64_t seen = 0;
  };
  std::vector<Count> rows_;     // By table.
  std::vector<Count> counted_;  // Likewise, ids without a row.
  uint64_t staged_ = 0;         // Gradients yet to come.
};

// Fills a fresh shard, whatever its number and that of its like, with its part of a checkpoint:
// `files` are those of all servers that wrote it. DATA_LOSS if something it owns is in none.
absl::Status RestoreShard(Shard& shard, const std::vector<CheckpointFile>& files);

// Reads the head alone. DATA_LOSS if it is not one.
absl::StatusOr<CheckpointName> ReadCheckpointName(absl::string_view head_body);
absl::StatusOr<CheckpointName> ReadCheckpointName(const CheckpointFile& file);

}  // namespace rubato

#endif  // RUBATO_PARAMS_CHECKPOINT_READER_H_

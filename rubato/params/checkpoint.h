// A shard's state at one instant, written while the shard goes on serving.
//
// CheckpointWriter is made at the instant of the cut. From then on a row that is about to change
// and has not been written yet is first copied aside; everything else is written in steps, in the
// order of the rows' keys. So a push pays one copy of a row at most, and never waits longer than
// a step.
//
//     head | dense weights | staged gradients | rows, counted ids | rows, counted ids | ... | end
//
// The head says what the server owns, with its histories: the files of all servers together are
// the whole state, whoever owned what, and RestoreShard takes any server's part from them.
//
// The rows of all records together are the rows at the cut, each once; so are the ids that were
// only counted then. CheckpointReader takes the
// records back. Both are pure: bytes come and go through RecordSink and ReadRecords.
#ifndef RUBATO_PARAMS_CHECKPOINT_H_
#define RUBATO_PARAMS_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/params/record_file.h"
#include "rubato/params/shard.h"

namespace rubato {

// Which checkpoint a file is.
struct CheckpointName {
  int64_t version = 0;
  // The log segments from this one on hold what came after the cut.
  int64_t first_segment = 0;
  int64_t server = 0;
  int64_t servers = 1;
};

// A whole file in memory; `bytes` start at a multiple of 8.
struct CheckpointFile {
  std::string path;  // For messages.
  absl::string_view bytes;
};

// Observes the shard's tables while it lives, so the shard must outlive it. One at a time.
class CheckpointWriter {
 public:
  CheckpointWriter(Shard& shard, CheckpointName name);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes about one megabyte more, which takes about a millisecond. True when all is written.
  absl::StatusOr<bool> Step(RecordSink& sink);

 private:
  class TableCut;
  enum class Stage { kHead, kDense, kStaged, kRows, kEnd, kDone };

  CheckpointName name_;
  Stage stage_ = Stage::kHead;
  std::string head_;
  std::vector<float> dense_;  // All slices.
  std::vector<std::string> staged_;
  size_t staged_written_ = 0;
  std::vector<std::unique_ptr<TableCut>> tables_;
  size_t table_ = 0;  // The one being written.
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

#endif  // RUBATO_PARAMS_CHECKPOINT_H_

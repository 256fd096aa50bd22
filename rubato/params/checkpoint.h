// A shard's state at one instant, written while the shard goes on serving.
//
// CheckpointWriter is made at the instant of the cut. From then on a row that is about to change
// and has not been written yet is first copied aside; everything else is written in steps, in the
// order of the rows' keys. So a push pays one copy of a row at most, and never waits longer than
// a step.
//
//     head | dense weights | rows, counted ids | rows, counted ids | ... | end
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
  enum class Stage { kHead, kDense, kRows, kEnd, kDone };

  CheckpointName name_;
  Stage stage_ = Stage::kHead;
  std::string head_;
  std::vector<float> dense_;
  std::vector<std::unique_ptr<TableCut>> tables_;
  size_t table_ = 0;  // The one being written.
};

// Fills a fresh shard from a checkpoint's records, in order.
class CheckpointReader {
 public:
  // `file_bytes` is the size of the whole file: a head that promises more than fits into it is
  // DATA_LOSS, before anything is made for it.
  CheckpointReader(Shard& shard, size_t file_bytes) : shard_(shard), file_bytes_(file_bytes) {}

  absl::Status Add(RecordKind kind, absl::string_view body);
  // DATA_LOSS unless the end was reached and every row counted.
  absl::Status Finish() const;

 private:
  absl::Status AddHead(absl::string_view body);
  absl::Status AddDense(absl::string_view body);
  absl::Status AddRows(absl::string_view body);
  absl::Status AddCounted(absl::string_view body);

  Shard& shard_;
  const size_t file_bytes_;
  bool head_ = false;
  bool dense_ = false;
  bool end_ = false;
  std::vector<uint64_t> rows_;     // By table, as the head promises.
  std::vector<uint64_t> counted_;  // Likewise, ids without a row.
};

// Reads the head alone. DATA_LOSS if it is not one.
absl::StatusOr<CheckpointName> ReadCheckpointName(absl::string_view head_body);

}  // namespace rubato

#endif  // RUBATO_PARAMS_CHECKPOINT_H_

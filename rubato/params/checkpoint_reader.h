// A shard made again from checkpoint files (checkpoint.h): its own, or its part of those of all
// servers, however many they were.
//
//     full ◀── delta ◀── delta     a chain: each file but the first is built on the one before
//
// The last head says what there is; every file then adds what is newer than the ones before it. A
// partition counts from the link on with which it came to that server: what earlier files of the
// chain hold of it is of an earlier stay.
#ifndef RUBATO_PARAMS_CHECKPOINT_READER_H_
#define RUBATO_PARAMS_CHECKPOINT_READER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
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
  std::atomic<int64_t>* read = nullptr;  // Grows by what was restored; null: nobody looks.
};

// What the first record of a file says.
struct CheckpointHead {
  CheckpointName name;
  IntervalSet fresh;  // A delta's: partitions of which nothing is taken from its base.
  PartitionMap map;
  std::string declaration;  // Empty: none yet.
  std::vector<History> histories;
  uint64_t staged = 0;  // Gradients that follow.
  struct Table {
    uint64_t rows = 0, counted = 0;  // At the cut; of a full one, also in the file.
  };
  std::vector<Table> tables;
  std::vector<TableCounters> counters;  // Of each at the cut. Earlier builds did not write them.
};

// Fills a fresh shard from the records of its own checkpoint, in order; or, as one link of a
// chain, adds to what the links before it brought.
class CheckpointReader {
 public:
  // For a full checkpoint. `file_bytes` is the size of the whole file: a head that promises more
  // than fits into it is DATA_LOSS, before anything is made for it.
  CheckpointReader(Shard& shard, size_t file_bytes) : shard_(shard), file_bytes_(file_bytes) {}

  // Link `number` of a chain whose files have `file_bytes` together.
  struct Chain {
    std::vector<CheckpointHead> heads;
    std::array<size_t, kPartitions> since{};  // The link with which each partition came.
    size_t file_bytes = 0;
    bool foreign = false;  // Some server's, of which the shard takes what it owns.
  };
  CheckpointReader(Shard& shard, const Chain& chain, size_t number)
      : shard_(shard), file_bytes_(chain.file_bytes), chain_(&chain), link_(number) {}

  absl::Status Add(RecordKind kind, absl::string_view body);
  // DATA_LOSS unless the end was reached and everything counted.
  absl::Status Finish() const;

 private:
  struct Counts {
    uint64_t gone = 0, counted = 0, rows = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  struct IdsOf {
    size_t table = 0;
    absl::Span<const uint64_t> ids;
    absl::string_view rest;  // What there is for each.
  };

  bool delta() const { return head_->name.base > 0; }
  bool DenseRead() const { return slices_.has_value() && slices_read_ == slices_->size(); }
  bool foreign() const { return chain_ != nullptr && chain_->foreign; }
  bool last() const { return chain_ == nullptr || link_ + 1 == chain_->heads.size(); }
  const CheckpointHead& newest() const { return chain_ == nullptr ? *head_ : chain_->heads.back(); }
  absl::Status AddHead(RecordKind kind, absl::string_view body);
  absl::Status Prepare();
  absl::Status Adopt(const CheckpointHead& head);
  absl::Status CheckSize(const Declaration& declaration) const;
  absl::Status AddDense(absl::string_view body);
  absl::Status AddSlice(int64_t slice, absl::string_view* body);
  absl::StatusOr<IdsOf> GetIds(absl::string_view body, absl::string_view what) const;
  absl::Status AddGone(absl::string_view body);
  absl::Status AddCounted(absl::string_view body);
  absl::Status AddRows(absl::string_view body);
  absl::Status AddStaged(absl::string_view body);
  absl::Status AddEnd(absl::string_view body);

  Shard& shard_;
  const size_t file_bytes_;
  const Chain* const chain_ = nullptr;
  const size_t link_ = 0;
  std::optional<CheckpointHead> head_;
  std::array<bool, kPartitions> here_{};  // Partitions that the file is about,
  std::array<bool, kPartitions> take_{};  // and those of them that the shard takes from it.
  // Slices whose weights are to come, in order, once the first record of them said so.
  std::optional<std::vector<int64_t>> slices_;
  size_t slices_read_ = 0;
  bool end_ = false;
  std::vector<Counts> seen_, promised_;  // By table.
  uint64_t staged_ = 0;                  // Gradients yet to come.
};

// Fills a fresh shard with its own checkpoint: a full one, or a chain from a full one on. What
// changes from then on is known to be since its cut.
absl::Status RestoreChain(Shard& shard, const std::vector<CheckpointFile>& chain);

// Fills a fresh shard, whatever its number and that of its like, with its part of a checkpoint:
// `files` are those of all servers that wrote it, their chains and all, in any order. DATA_LOSS if
// something it owns is in none.
absl::Status RestoreShard(Shard& shard, const std::vector<CheckpointFile>& files);

// Reads the head alone. DATA_LOSS if it is not one.
absl::StatusOr<CheckpointHead> ReadCheckpointHead(const CheckpointFile& file);

}  // namespace rubato

#endif  // RUBATO_PARAMS_CHECKPOINT_READER_H_

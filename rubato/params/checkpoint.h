// A shard's state at one instant, written while the shard goes on serving.
//
// CheckpointWriter is made at the instant of the cut. From then on a row that is about to change
// and has not been written yet is first copied aside; everything else is written in steps, in the
// order of the rows' keys. So a push pays one copy of a row at most, and never waits longer than
// a step. Staged gradients, which never change, are kept at the cut and encoded by whoever writes
// them (RecordSink::TakeLater).
//
//     head | dense weights | staged gradients | rows, counted ids | rows, counted ids | ... | end
//
// The head says what the server owns, with its histories: the files of all servers together are
// the whole state, whoever owned what, and RestoreShard takes any server's part from them.
//
// A delta is built on an earlier checkpoint of the same server, full or a delta itself, and holds
// what changed since that one's cut (changes.h); histories and staged gradients are whole in each:
//
//     head | changed slices | staged | ids that went | changed counts | changed rows | ... | end
//
// The head also says which partitions came from elsewhere meanwhile: they are there as a whole,
// and what the base holds of them is of an earlier stay.
//
// The rows of all records of a full one together are the rows at the cut, each once; so are the ids
// that were only counted then. CheckpointReader (checkpoint_reader.h) takes the records back. Both
// are pure: bytes come and go through RecordSink and ReadRecords.
#ifndef RUBATO_PARAMS_CHECKPOINT_H_
#define RUBATO_PARAMS_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
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
  // A delta: the version it is built on, and the first segment after that one's cut, which no
  // other file shares. 0: a full one.
  int64_t base = 0;
  int64_t base_segment = 0;
};

// How a record of ids begins; the ids follow, then what there is for each.
struct CheckpointIdsHead {
  uint32_t table;
  uint32_t row_floats;  // Of rows.
  uint64_t ids;
};

// Observes the shard's tables until it is closed, so the shard must live as long. One at a time.
class CheckpointWriter {
 public:
  // Where dense weights are set aside that move before they are written. A push that had to find
  // that memory itself would wait for as many fresh pages; so whoever begins a checkpoint makes it
  // beforehand, of so many floats, while nobody waits. Too little of it, or none, will do.
  using Room = std::vector<float>;
  static size_t RoomFor(const Shard& shard);

  // A delta only of a shard with changes_known(), namely since the cut of `name.base`.
  CheckpointWriter(Shard& shard, CheckpointName name, Room room = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes about 256 KB more, which takes some tenths of a millisecond, or less: now and then it
  // asks whether it has been at it for long enough, for memory may be slow that was not touched for
  // a while. True when all is written.
  absl::StatusOr<bool> Step(RecordSink& sink, absl::FunctionRef<bool()> enough);
  absl::StatusOr<bool> Step(RecordSink& sink) {
    return Step(sink, [] { return false; });
  }
  // The file is there for good: from now on changes are those since this cut. Without it, once the
  // writer is closed, they are those since the last one that was.
  void Published();
  // Lets go of the shard; its destructor does, too. What the writer holds is given back only when
  // it goes, which takes a while if much still waits, and nobody need wait for that.
  void Close();
  // Floats of the room that pushes have needed so far.
  size_t room_used() const;

 private:
  class TableCut;
  class DenseCut;
  enum class Stage { kHead, kDense, kStaged, kRows, kEnd, kDone };

  Shard& shard_;
  CheckpointName name_;
  ShardChanges changes_;  // Until the cut.
  bool published_ = false;
  bool closed_ = false;
  Stage stage_ = Stage::kHead;
  std::string head_;
  std::unique_ptr<DenseCut> dense_;
  std::vector<StagedRounds::Staged> staged_;
  size_t staged_written_ = 0;
  std::vector<std::unique_ptr<TableCut>> tables_;
  size_t table_ = 0;  // The one being written.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_CHECKPOINT_H_

// What of a shard changed since its last cut, so that a checkpoint may write that alone.
//
//     unknown ──cut──▶ since cut 1 ──cut──▶ since cut 2 ──▶ ...
//                          ▲                     │
//                          └─ that file was never finished: what changed since cut 1 is both
//
// A mark is a bit a row. Rows that went have no number any more, and ids that are only counted
// never had one, so they are noted by id; when that would be more than the table itself, nothing
// is known until the next cut, and the next checkpoint is a full one.
#ifndef RUBATO_PARAMS_CHANGES_H_
#define RUBATO_PARAMS_CHANGES_H_

#include <cstdint>
#include <vector>

#include "rubato/base/interval_set.h"
#include "rubato/params/still_list.h"

namespace rubato {

// One table's.
class RowChanges {
 public:
  // While nothing is known, nothing need be marked.
  bool known() const { return known_; }

  // A row was moved or made.
  void Mark(uint32_t number) {
    const size_t word = number / 64;
    if (word >= rows_.size()) [[unlikely]]
      rows_.Extend(word + 1);
    rows_[word] |= uint64_t{1} << (number % 64);
  }
  // An id lost its row; or was counted, which may be noted twice. `most`: so many are worth it.
  void Gone(uint64_t id, uint64_t most) { Note(id, most, &gone_); }
  void Counted(uint64_t id, uint64_t most) { Note(id, most, &counted_); }

  bool Has(uint32_t number) const {
    const size_t word = number / 64;
    return word < rows_.size() && (rows_[word] >> (number % 64) & 1);
  }
  uint64_t rows() const;  // Marked.
  const StillList<uint64_t>& gone() const { return gone_; }
  const StillList<uint64_t>& counted() const { return counted_; }

  // What changed until now, in a table of so many row numbers; from here on, what does after.
  RowChanges Cut(uint32_t numbers);
  // As if that cut had not been.
  void Join(RowChanges earlier);

 private:
  void Note(uint64_t id, uint64_t most, StillList<uint64_t>* ids);

  bool known_ = false;
  StillList<uint64_t> rows_;  // A bit a number.
  StillList<uint64_t> gone_, counted_;
};

// Of the rest of a shard.
struct ShardChanges {
  bool known = false;
  std::vector<bool> slices;  // Dense ones, by number.
  IntervalSet fresh;         // Partitions that came from another server.

  void MarkSlice(int64_t slice) {
    const auto at = static_cast<size_t>(slice);
    if (at >= slices.size()) slices.resize(at + 1);
    slices[at] = true;
  }
  bool HasSlice(int64_t slice) const {
    return static_cast<size_t>(slice) < slices.size() && slices[static_cast<size_t>(slice)];
  }
  // As those of RowChanges.
  ShardChanges Cut();
  void Join(const ShardChanges& earlier);
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_CHANGES_H_

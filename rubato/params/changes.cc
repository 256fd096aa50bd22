#include "rubato/params/changes.h"

#include <bit>
#include <utility>

namespace rubato {

void RowChanges::Note(uint64_t id, uint64_t most, StillList<uint64_t>* ids) {
  ids->push_back(id);
  if (gone_.size() + counted_.size() > most) *this = RowChanges();
}

uint64_t RowChanges::rows() const {
  uint64_t rows = 0;
  for (size_t w = 0; w < rows_.size(); ++w) rows += static_cast<uint64_t>(std::popcount(rows_[w]));
  return rows;
}

RowChanges RowChanges::Cut(uint32_t numbers) {
  RowChanges until = std::exchange(*this, RowChanges());
  known_ = true;
  rows_.Extend(numbers / 64 + 1);
  return until;
}

void RowChanges::Join(RowChanges earlier) {
  if (!known_ || !earlier.known_) {
    *this = RowChanges();
    return;
  }
  rows_.Extend(earlier.rows_.size());
  for (size_t w = 0; w < earlier.rows_.size(); ++w) rows_[w] |= earlier.rows_[w];
  for (size_t n = 0; n < earlier.gone_.size(); ++n) gone_.push_back(earlier.gone_[n]);
  for (size_t n = 0; n < earlier.counted_.size(); ++n) counted_.push_back(earlier.counted_[n]);
}

ShardChanges ShardChanges::Cut() { return std::exchange(*this, {.known = true}); }

void ShardChanges::Join(const ShardChanges& earlier) {
  known &= earlier.known;
  for (size_t s = 0; s < earlier.slices.size(); ++s) {
    if (earlier.slices[s]) MarkSlice(static_cast<int64_t>(s));
  }
  for (const Interval& run : earlier.fresh.Intervals()) fresh.Add(run.begin, run.end);
}

}  // namespace rubato

#include "rubato/worker/unique.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace rubato {
namespace {

constexpr size_t kSlotsMin = 1024;
// How many cells ahead a slot is fetched: enough to hide a miss of the second-level cache.
constexpr size_t kAhead = 12;

// Ids are hashes already, but only below their top byte: one multiplication brings all bits up.
constexpr uint64_t Hash(uint64_t id) { return (id ^ (id >> 32)) * 0x9e3779b97f4a7c15u; }

}  // namespace

void Unique::Reset() {
  if (slots_.empty()) {
    slots_.resize(kSlotsMin);
    shift_ = 64 - std::countr_zero(kSlotsMin);
  }
  if (++batch_ == 0) {  // The number came round: old slots would look new.
    std::fill(slots_.begin(), slots_.end(), Slot{});
    batch_ = 1;
  }
}

void Unique::Grow(const std::vector<uint64_t>& ids) {
  slots_.assign(slots_.size() * 2, Slot{});
  --shift_;
  batch_ = 1;
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t at = Hash(ids[i]) >> shift_;
    while (slots_[at].batch == batch_) at = (at + 1) & mask;
    slots_[at] = {ids[i], static_cast<uint32_t>(i), batch_};
  }
}

inline uint32_t Unique::Place(uint64_t id, std::vector<uint64_t>* ids) {
  const size_t mask = slots_.size() - 1;
  size_t at = Hash(id) >> shift_;
  while (slots_[at].batch == batch_) {
    if (slots_[at].id == id) return slots_[at].index;
    at = (at + 1) & mask;
  }
  const uint32_t index = static_cast<uint32_t>(ids->size());
  slots_[at] = {id, index, batch_};
  ids->push_back(id);
  if (ids->size() * 2 > slots_.size()) Grow(*ids);
  return index;
}

void Unique::PlaceBags(const Batch& batch, int64_t columns, absl::Span<const int64_t> fields,
                       UniqueIds* out) {
  const size_t width = fields.size(), rows = static_cast<size_t>(batch.rows);
  const size_t bags = batch.bag_ends.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t f = 0; f < width; ++f) {
      if (fields[f] < columns) {
        const size_t cell = row * static_cast<size_t>(columns) + static_cast<size_t>(fields[f]);
        out->position[row * width + f] = Place(batch.ids[cell], &out->ids);
        continue;
      }
      out->position[row * width + f] = 0;
      const size_t cell = row * bags + static_cast<size_t>(fields[f] - columns);
      for (size_t v = cell == 0 ? 0 : batch.bag_ends[cell - 1]; v < batch.bag_ends[cell]; ++v) {
        out->position.push_back(Place(batch.bag_ids[v], &out->ids));
      }
    }
  }
}

void Unique::Find(const Batch& batch, int64_t columns, absl::Span<const int64_t> fields,
                  UniqueIds* out) {
  Reset();
  const size_t width = fields.size();
  const size_t cells = static_cast<size_t>(batch.rows) * width;
  out->ids.clear();
  out->position.resize(cells);
  if (fields.empty()) out->ids.push_back(0);
  if (cells == 0) return;
  if (std::any_of(fields.begin(), fields.end(), [&](int64_t f) { return f >= columns; })) {
    PlaceBags(batch, columns, fields, out);
    return;
  }
  // Most tables take all columns, whose cells are contiguous; others are copied together first.
  const uint64_t* cell = batch.ids.data();
  bool all = static_cast<int64_t>(width) == columns;
  for (size_t f = 0; f < width; ++f) all = all && fields[f] == static_cast<int64_t>(f);
  if (!all) {
    cells_.resize(cells);
    for (int64_t row = 0; row < batch.rows; ++row) {
      for (size_t f = 0; f < width; ++f) {
        cells_[row * width + f] = batch.ids[row * columns + fields[f]];
      }
    }
    cell = cells_.data();
  }
  for (size_t i = 0; i < cells; ++i) {
    if (i + kAhead < cells) __builtin_prefetch(&slots_[Hash(cell[i + kAhead]) >> shift_]);
    out->position[i] = Place(cell[i], &out->ids);
  }
}

}  // namespace rubato

#include "rubato/params/embedding_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kDimMax = 65536;

// Small rows fill a power of two, so that none straddles a line; larger ones start on a line if
// that wastes at most an eighth, else on a quarter of one.
size_t StrideFor(size_t bytes) {
  if (bytes <= kLine) {
    const size_t power = std::bit_ceil(bytes);
    return power - bytes <= power / 8 ? power : (bytes + 7) / 8 * 8;
  }
  const size_t lines = (bytes + kLine - 1) / kLine * kLine;
  return lines - bytes <= lines / 8 ? lines : (bytes + 15) / 16 * 16;
}

// Copies `dim` floats; the usual sizes become a few moves instead of a call.
inline void CopyRow(const float* from, float* to, size_t dim) {
  switch (dim) {
    case 1:
      *to = *from;
      return;
    case 8:
      std::memcpy(to, from, 8 * sizeof(float));
      return;
    case 16:
      std::memcpy(to, from, 16 * sizeof(float));
      return;
    case 32:
      std::memcpy(to, from, 32 * sizeof(float));
      return;
    default:
      std::memcpy(to, from, dim * sizeof(float));
  }
}

// How far ahead of its use memory is asked for, in rows. Asking steadily beats asking in bursts,
// which takes twice as long.
constexpr size_t kAhead = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddingTable>> EmbeddingTable::Make(
    Memory& memory, const EmbeddingTableOptions& options) {
  if (options.spec.dim < 1 || options.spec.dim > kDimMax) {
    return absl::InvalidArgumentError(absl::StrCat("table ", options.spec.name, ": dim is ",
                                                   options.spec.dim, ", but must be 1 to ",
                                                   kDimMax));
  }
  auto table = std::unique_ptr<EmbeddingTable>(new EmbeddingTable);
  table->options_ = options;
  RUBATO_ASSIGN_OR_RETURN(table->initializer_, Initializer::Make(options.spec.initializer,
                                                                 options.seed, options.spec.name));
  RUBATO_ASSIGN_OR_RETURN(table->optimizer_, Optimizer::Make(options.optimizer));
  table->BeginStep({.number = 1, .learning_rate = options.optimizer.learning_rate});
  table->dim_ = static_cast<size_t>(options.spec.dim);
  table->row_floats_ = table->optimizer_.row_floats(table->dim_);
  table->stride_ = StrideFor(table->row_floats_ * sizeof(float));
  table->origin_ = FirstPoint(options.partitions.begin);
  const double share =
      static_cast<double>(options.partitions.end - options.partitions.begin) / kPartitions;
  RUBATO_ASSIGN_OR_RETURN(table->index_, RowIndex::Make(memory, options.rows_max, share));
  RUBATO_ASSIGN_OR_RETURN(table->rows_, Region::Reserve(memory, options.rows_max * table->stride_));
  return table;
}

// Finds the rows of all ids that lie in the first group they may lie in, which is most of them, and
// lists the others.
void EmbeddingTable::Resolve(absl::Span<const uint64_t> ids, Lookup* lookup) const {
  const size_t n = ids.size();
  for (size_t i = 0; i < std::min(kAhead, n); ++i) {
    index_.Fetch(lookup->keys[i] = KeyOf(ids[i]));
  }
  lookup->open_count = 0;
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) index_.Fetch(lookup->keys[i + kAhead] = KeyOf(ids[i + kAhead]));
    const uint32_t number = index_.Probe(lookup->keys[i]);
    lookup->numbers[i] = number;
    lookup->open[lookup->open_count] = static_cast<uint32_t>(i);
    lookup->open_count += number >= RowIndex::kElsewhere;
  }
}

// Row i is wanted now: fetches those some way behind it.
void EmbeddingTable::FetchRows(const Lookup& lookup, size_t i, size_t n, size_t bytes) const {
  const size_t first = i == 0 ? 0 : i + kAhead;
  for (size_t j = first; j <= i + kAhead && j < n; ++j) {
    if (lookup.numbers[j] == RowIndex::kAbsent) continue;  // Nothing there: a page walk in vain.
    const char* row = reinterpret_cast<const char*>(Row(lookup.numbers[j]));
    for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at);
  }
}

void EmbeddingTable::Gather(absl::Span<const uint64_t> ids, float* out) const {
  Lookup lookup;
  for (size_t begin = 0; begin < ids.size(); begin += kLookup) {
    const auto part = ids.subspan(begin, kLookup);
    Resolve(part, &lookup);
    for (size_t k = 0; k < lookup.open_count; ++k) {
      const uint32_t i = lookup.open[k];
      lookup.numbers[i] = index_.Find(lookup.keys[i]);
    }
    for (size_t i = 0; i < part.size(); ++i, out += dim_) {
      FetchRows(lookup, i, part.size(), dim_ * sizeof(float));
      if (lookup.numbers[i] == RowIndex::kAbsent) {
        initializer_.Fill(part[i], absl::MakeSpan(out, dim_));
      } else {
        const float* row = Row(lookup.numbers[i]);
        CopyRow(row, out, dim_);
        if (optimizer_.decays_lazily()) optimizer_.Present(row, {out, dim_}, now_);
      }
    }
  }
}

absl::Status EmbeddingTable::CheckRoom(size_t rows) const {
  if (rows <= options_.rows_max - next_row_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("table ", name(), ": ", next_row_, " rows and ",
                                                   rows, " more may pass rows_max, ",
                                                   options_.rows_max));
}

absl::Status EmbeddingTable::Update(absl::Span<const uint64_t> ids, const float* gradients) {
  RUBATO_RETURN_IF_ERROR(CheckRoom(ids.size()));
  for (size_t begin = 0; begin < ids.size(); begin += kLookup) {
    UpdatePart(ids.subspan(begin, kLookup), gradients + begin * dim_);
  }
  return absl::OkStatus();
}

// All rows are found before any is moved: a store whose address hangs on a look-up would keep the
// next look-ups from overlapping.
void EmbeddingTable::UpdatePart(absl::Span<const uint64_t> ids, const float* gradients) {
  constexpr size_t kTogether = 8;  // Rows in one call of the optimizer.
  Lookup lookup;
  Resolve(ids, &lookup);
  for (size_t k = 0; k < lookup.open_count; ++k) {
    const uint32_t i = lookup.open[k];
    lookup.numbers[i] = FindOrMake(ids[i], lookup.keys[i]);
  }
  for (size_t i = 0; observer_ != nullptr && i < ids.size(); ++i) {
    observer_->BeforeUpdate({ids[i], lookup.keys[i], lookup.numbers[i]});
  }
  float* rows[kTogether];
  for (size_t begin = 0; begin < ids.size(); begin += kTogether) {
    const size_t count = std::min(kTogether, ids.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      FetchRows(lookup, begin + i, ids.size(), row_floats_ * sizeof(float));
      rows[i] = Row(lookup.numbers[begin + i]);
    }
    optimizer_.UpdateRows({rows, count}, gradients + begin * dim_, dim_, now_);
  }
}

// An id may have been made since it was probed, if it occurs twice.
uint32_t EmbeddingTable::FindOrMake(uint64_t id, uint64_t key) {
  if (const uint32_t number = index_.Find(key); number != RowIndex::kAbsent) return number;
  const uint32_t number = next_row_++;
  float* row = Row(number);
  initializer_.Fill(id, absl::MakeSpan(row, dim_));
  optimizer_.StartRow(row, dim_, now_.step);
  index_.Insert(key, number);
  return number;
}

absl::Status EmbeddingTable::Restore(uint64_t id, absl::Span<const float> row) {
  RUBATO_CHECK(row.size() == row_floats_);
  const uint64_t key = KeyOf(id);
  uint32_t number = index_.Find(key);
  if (number == RowIndex::kAbsent) {
    RUBATO_RETURN_IF_ERROR(CheckRoom(1));
    number = next_row_++;
    index_.Insert(key, number);
  }
  std::memcpy(Row(number), row.data(), row.size() * sizeof(float));
  return absl::OkStatus();
}

}  // namespace rubato

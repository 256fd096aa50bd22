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
// Rows resolved before any is updated: enough to overlap their misses, few enough to stay cached.
constexpr size_t kBlock = 256;

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

void EmbeddingTable::PrefetchRow(const float* row, size_t bytes) const {
  const char* at = reinterpret_cast<const char*>(row);
  for (size_t offset = 0; offset < bytes; offset += kLine) __builtin_prefetch(at + offset);
}

// Three things happen in one loop, each for a later id than the next: fetch the index line, look
// the row up and fetch it, copy it. So dozens of cache misses are always under way.
void EmbeddingTable::Gather(absl::Span<const uint64_t> ids, float* out) const {
  constexpr size_t kAhead = 32;  // Ids between one stage and the next.
  constexpr size_t kRing = 64;
  uint64_t keys[kRing];
  uint32_t numbers[kRing];
  const size_t weight_bytes = dim_ * sizeof(float);
  for (size_t i = 0; i < ids.size() + 2 * kAhead; ++i) {
    if (i < ids.size()) {
      const uint64_t key = KeyOf(ids[i]);
      keys[i % kRing] = key;
      index_.Prefetch(key);
    }
    if (i >= kAhead && i - kAhead < ids.size()) {
      const size_t at = (i - kAhead) % kRing;
      numbers[at] = index_.Find(keys[at]);
      if (numbers[at] != RowIndex::kAbsent) PrefetchRow(Row(numbers[at]), weight_bytes);
    }
    if (i >= 2 * kAhead) {
      const size_t done = i - 2 * kAhead;
      float* to = out + done * dim_;
      const uint32_t number = numbers[done % kRing];
      if (number == RowIndex::kAbsent) [[unlikely]] {
        initializer_.Fill(ids[done], absl::MakeSpan(to, dim_));
      } else {
        CopyRow(Row(number), to, dim_);
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
  for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
    UpdateBlock(ids.subspan(begin, kBlock), gradients + begin * dim_);
  }
  return absl::OkStatus();
}

// Resolves all rows of the block, then moves them: a store whose address hangs on a look-up would
// keep the next look-ups from overlapping.
void EmbeddingTable::UpdateBlock(absl::Span<const uint64_t> ids, const float* gradients) {
  uint64_t keys[kBlock];
  float* rows[kBlock];
  for (size_t i = 0; i < ids.size(); ++i) {
    keys[i] = KeyOf(ids[i]);
    index_.Prefetch(keys[i]);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    uint32_t number = index_.Find(keys[i]);
    if (number == RowIndex::kAbsent) number = MakeRow(ids[i], keys[i]);
    if (observer_ != nullptr) observer_->BeforeUpdate({ids[i], keys[i], number});
    rows[i] = Row(number);
    PrefetchRow(rows[i], row_floats_ * sizeof(float));
  }
  optimizer_.UpdateRows(absl::MakeConstSpan(rows, ids.size()), gradients, dim_);
}

uint32_t EmbeddingTable::MakeRow(uint64_t id, uint64_t key) {
  const uint32_t number = next_row_++;
  float* row = Row(number);
  initializer_.Fill(id, absl::MakeSpan(row, dim_));
  optimizer_.InitializeState(row, dim_);
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

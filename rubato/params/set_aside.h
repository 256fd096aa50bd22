// What a checkpoint has copied and not written yet, and which ids it has seen.
//
// Pushes that outrun the disk may set a whole table aside, and each waits for what the next one
// needs: so nothing here takes long to grow, however much there is.
#ifndef RUBATO_PARAMS_SET_ASIDE_H_
#define RUBATO_PARAMS_SET_ASIDE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/memory.h"
#include "rubato/params/record_file.h"

namespace rubato {

// What a checkpoint writes at a time.
inline constexpr size_t kStepBytes = size_t{1} << 18;

inline void PutIds(ByteWriter& writer, uint32_t table, size_t row_floats,
                   absl::Span<const uint64_t> ids) {
  writer.Put<uint32_t>(table);
  writer.Put<uint32_t>(static_cast<uint32_t>(row_floats));
  writer.Put<uint64_t>(ids.size());
  writer.PutSpan<uint64_t>(ids);
}

// Ids of a table, each with as many values, that are copied and wait to be written, however many
// they are, in steps. They lie in blocks of their own: a vector that grew would copy all that waits
// while a push waits for it, and what is written is given back at once.
template <typename T>
class Waiting {
 public:
  struct Shape {
    RecordKind kind;
    uint32_t table;
    size_t row_floats;  // As the record says.
    size_t values;      // Of each id.
  };
  explicit Waiting(const Shape& shape) : shape_(shape) {}

  void Add(uint64_t id, const T* values) {
    if (blocks_.empty() || blocks_.back().ids == block_ids()) blocks_.push_back(NewBlock());
    Block& block = blocks_.back();
    ids_of(block)[block.ids] = id;
    std::copy_n(values, shape_.values, values_of(block) + block.ids * shape_.values);
    ++block.ids;
    ++waiting_;
  }
  size_t bytes() const { return waiting_ * each_bytes(); }
  uint64_t written() const { return written_; }

  // A step's worth at most.
  absl::Status WriteSome(RecordSink& sink) {
    if (waiting_ == 0) return absl::OkStatus();
    Block& block = blocks_.front();
    const size_t some = std::min(block.ids - block.done, 1 + kStepBytes / each_bytes());
    std::string body;
    body.reserve(sizeof(CheckpointIdsHead) + some * each_bytes());
    ByteWriter writer(body);
    PutIds(writer, shape_.table, shape_.row_floats,
           absl::MakeConstSpan(ids_of(block) + block.done, some));
    writer.PutSpan<T>(absl::MakeConstSpan(values_of(block) + block.done * shape_.values,  //
                                          some * shape_.values));
    block.done += some;
    waiting_ -= some;
    written_ += some;
    if (block.done == block.ids) blocks_.pop_front();
    return sink.Take(shape_.kind, std::move(body));
  }

 private:
  struct Block {
    Region memory;  // Ids, then values.
    size_t ids = 0;
    size_t done = 0;  // Those before are written.
  };

  static constexpr size_t kBlockBytes = size_t{2} << 20;

  size_t each_bytes() const { return sizeof(uint64_t) + shape_.values * sizeof(T); }
  size_t block_ids() const { return std::max<size_t>(1, kBlockBytes / each_bytes()); }
  uint64_t* ids_of(const Block& block) const {
    return reinterpret_cast<uint64_t*>(block.memory.data());
  }
  T* values_of(const Block& block) const {
    return reinterpret_cast<T*>(block.memory.data() + block_ids() * sizeof(uint64_t));
  }
  Block NewBlock() {
    absl::StatusOr<Region> memory = Region::Reserve(memory_, block_ids() * each_bytes());
    RUBATO_CHECK_OK(memory.status());  // As for any allocation.
    HoldBack({.begin = memory->data(), .bytes = memory->size()});
    return {.memory = *std::move(memory)};
  }

  const Shape shape_;
  SystemMemory memory_{/*huge_pages=*/false};
  std::deque<Block> blocks_;
  size_t waiting_ = 0;    // In all blocks.
  uint64_t written_ = 0;  // In all.
};

// Many small sets, so that none of them takes long to grow.
class IdSet {
 public:
  bool Insert(uint64_t id) { return SetOf(id).insert(id).second; }
  bool Has(uint64_t id) { return SetOf(id).contains(id); }

 private:
  absl::flat_hash_set<uint64_t>& SetOf(uint64_t id) { return sets_[Mix(id) % sets_.size()]; }

  std::array<absl::flat_hash_set<uint64_t>, 4096> sets_;  // Never iterated.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_SET_ASIDE_H_

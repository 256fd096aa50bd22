// One table's rows on one server: from 64-bit ids to weights and optimizer state.
//
//     id ──Mix──▶ point ──RowIndex──▶ row number ──▶ row = [weights | optimizer state]
//
// Rows lie in one long reservation and never move. A row is made when it is first pushed to; until
// then it reads as its initial value, so a table's content is a function of the pushes alone, and
// reading never writes. Not thread-safe: one shard owns it.
#ifndef RUBATO_PARAMS_EMBEDDING_TABLE_H_
#define RUBATO_PARAMS_EMBEDDING_TABLE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/params/initializer.h"
#include "rubato/params/memory.h"
#include "rubato/params/optimizer.h"
#include "rubato/params/partition.h"
#include "rubato/params/row_index.h"

namespace rubato {

struct EmbeddingTableOptions {
  TableSpec spec;
  OptimizerSpec optimizer;
  uint64_t seed = 0;
  // The stretch of partitions the table expects ids from. Others work, but waste address space.
  Interval partitions = {0, kPartitions};
  // The most rows this table may have here. Costs address space, not memory.
  uint64_t rows_max = uint64_t{1} << 30;
};

class EmbeddingTable {
 public:
  // INVALID_ARGUMENT for an impossible dim or unknown names, RESOURCE_EXHAUSTED without room.
  static absl::StatusOr<std::unique_ptr<EmbeddingTable>> Make(Memory& memory,
                                                              const EmbeddingTableOptions& options);

  // The step that the next updates belong to, and as of which rows are read: the caller counts.
  void BeginStep(OptimizerStep step) { now_ = optimizer_.At(step); }

  // Copies the weights of ids[i] to out + i * dim().
  void Gather(absl::Span<const uint64_t> ids, float* out) const;
  // Moves the rows of distinct `ids` against gradients + i * dim(), making those that are missing.
  // RESOURCE_EXHAUSTED, with nothing changed, if there is not CheckRoom for all of them.
  absl::Status Update(absl::Span<const uint64_t> ids, const float* gradients);

  // Whether `rows` more would fit into rows_max.
  absl::Status CheckRoom(size_t rows) const;

  size_t dim() const { return dim_; }
  const std::string& name() const { return options_.spec.name; }
  const EmbeddingTableOptions& options() const { return options_; }
  uint64_t rows() const { return index_.size(); }
  // Memory in use, index and all.
  uint64_t bytes() const { return index_.bytes() + uint64_t{next_row_} * stride_; }

  // ---- for checkpoints ----

  // Floats of a whole row: weights and state.
  size_t row_floats() const { return row_floats_; }
  const float* row(uint32_t number) const { return Row(number); }
  // Rows [0, row_numbers()) have been given out.
  uint32_t row_numbers() const { return next_row_; }
  // Every row whose key is in [first, last]: void(uint64_t id, uint32_t row number). Keys count
  // from the table's first partition: those of a table of n partitions lie below n << 54.
  template <typename Visitor>
  void Visit(uint64_t first, uint64_t last, Visitor visit) const {
    index_.Visit(first, last,
                 [&](uint64_t key, uint32_t number) { visit(IdOf(key + origin_), number); });
  }
  uint64_t KeyOf(uint64_t id) const { return PointOf(id) - origin_; }
  struct RowName {
    uint64_t id;
    uint64_t key;
    uint32_t number;
  };
  // Hears of every row about to change, so that a checkpoint can save what it has not written yet.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void BeforeUpdate(const RowName& row) = 0;
  };
  // Null for none.
  void set_observer(Observer* observer) { observer_ = observer; }

  // Makes room for `rows` before a restore of that many; the table must be empty.
  void Presize(uint64_t rows) { index_.Presize(rows); }
  // Sets a whole row, making it if it is missing.
  absl::Status Restore(uint64_t id, absl::Span<const float> row);

 private:
  EmbeddingTable() = default;

  float* Row(uint32_t number) const {
    return reinterpret_cast<float*>(rows_.data() + uint64_t{number} * stride_);
  }
  // Ids looked up in one go: few enough for the index lines they touch to stay in the cache.
  static constexpr size_t kLookup = 1024;
  struct Lookup {
    std::array<uint64_t, kLookup> keys;
    std::array<uint32_t, kLookup> numbers;
    std::array<uint32_t, kLookup + 1> open;  // Which are not found yet.
    size_t open_count = 0;
  };
  void Resolve(absl::Span<const uint64_t> ids, Lookup* lookup) const;
  void FetchRows(const Lookup& lookup, size_t i, size_t n, size_t bytes) const;
  uint32_t FindOrMake(uint64_t id, uint64_t key);
  void UpdatePart(absl::Span<const uint64_t> ids, const float* gradients);

  EmbeddingTableOptions options_;
  size_t dim_ = 0;
  size_t row_floats_ = 0;
  size_t stride_ = 0;  // Bytes from one row to the next.
  uint64_t origin_ = 0;
  Initializer initializer_;
  Optimizer optimizer_;
  OptimizerConstants now_;
  RowIndex index_;
  Region rows_;
  uint32_t next_row_ = 0;
  Observer* observer_ = nullptr;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_EMBEDDING_TABLE_H_

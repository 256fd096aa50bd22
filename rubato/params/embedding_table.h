// One table's rows on one server: from 64-bit ids to weights and optimizer state.
//
//     id ──Mix──▶ point ──slot──▶ key ──RowIndex──▶ row number ──▶ row
//
//     row = [weights | optimizer state | order]
//
// The partitions a table holds have slots, numbered from 0, and keys are points with the slot in
// place of the partition: whichever partitions they are, keys fill the lowest part of all numbers.
// A partition can be adopted, filled, and abandoned, while the others go on.
//
// Rows lie in one long reservation and never move. A row is made when it is first pushed to; until
// then it reads as its initial value, so a table's content is a function of the pushes alone, and
// reading never writes. The columns may fall into groups, each with its own initializer and
// optimizer, as a wide weight beside a deep vector: one key, one look-up.
//
// Not every id needs a row (RowsSpec):
//
//     unknown ──push──▶ counted ──enough pushes──▶ row ──too old, or too many──▶ unknown
//        ▲                 │
//        └── not again ────┘
//
// An id that is counted has an entry in the index, its count in place of a row number, and no
// memory beyond that; one that is not pushed again for long is forgotten
// (embedding_table_counts.cc), so ids that come once do not fill the memory. Which ids get rows,
// and which rows go, follows from the pushes and their order alone, so a log replayed makes the
// same table. Not thread-safe: one shard owns it.
#ifndef RUBATO_PARAMS_EMBEDDING_TABLE_H_
#define RUBATO_PARAMS_EMBEDDING_TABLE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/params/changes.h"
#include "rubato/params/initializer.h"
#include "rubato/params/memory.h"
#include "rubato/params/optimizer.h"
#include "rubato/params/partition.h"
#include "rubato/params/row_index.h"
#include "rubato/params/row_order.h"
#include "rubato/params/still_list.h"

namespace rubato {

struct EmbeddingTableOptions {
  TableSpec spec;
  OptimizerSpec optimizer;  // Unless the spec has its own.
  RowsSpec rows;            // Unless the spec has its own.
  uint64_t seed = 0;
  // The partitions the table has ids of, to begin with.
  IntervalSet partitions = AllPartitions();
  // The most rows this table may have here. Costs address space, not memory; where there is not so
  // much, MakeAll lowers it.
  uint64_t rows_max = uint64_t{1} << 30;
  // Rows that should have gone before and could not, as while partitions moved, go with the steps
  // that follow: in each so many, and as many as it touched.
  uint64_t late_max = 1024;
};

// Since the table was made, or what it was restored from was.
struct TableCounters {
  int64_t admitted = 0;   // Rows made.
  int64_t refused = 0;    // Gradients of ids without a row, dropped.
  int64_t evicted = 0;    // Rows dropped.
  int64_t forgotten = 0;  // Counted ids dropped.
};

class EmbeddingTable {
 public:
  // INVALID_ARGUMENT for an impossible dim or unknown names, RESOURCE_EXHAUSTED without room.
  static absl::StatusOr<std::unique_ptr<EmbeddingTable>> Make(Memory& memory,
                                                              const EmbeddingTableOptions& options);
  // All the tables of a process. Where address space is limited, each with fewer rows than asked
  // for, but not with less than a million: then RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::vector<std::unique_ptr<EmbeddingTable>>> MakeAll(
      Memory& memory, std::vector<EmbeddingTableOptions> options);

  // The step that the next update belongs to, and as of which rows are read. The caller counts:
  // `number` from 1, and the samples before it, for the learning rate. Rows that have become too
  // old or too many by the step before go now, unless not to `evict`, as while partitions are
  // adopted; what is left from then goes bit by bit, so this is to be asked once a step. `rate`
  // multiplies every learning rate, `freshness` that of the update alone (OptimizerStep).
  void BeginStep(uint32_t number, int64_t samples, double rate = 1, bool evict = true,
                 double freshness = 1);

  // To be called once for every step that `partitions` have taken, `step` of them by now: ids of
  // theirs that were counted and not pushed again for long are forgotten.
  void ForgetCounted(int64_t step, const IntervalSet& partitions);

  // Takes ids of more partitions from now on, of which it has none; about `entries` rows and
  // counted ids will be restored.
  void Adopt(const IntervalSet& partitions, uint64_t entries);
  // Drops entries of one partition until `dropped`, to which they are added, comes to `most`. True
  // once none is left: then it takes no more of its ids. Until then nobody may ask for any.
  bool Abandon(int64_t partition, uint64_t most, uint64_t* dropped);
  bool Has(int64_t partition) const { return slots_[static_cast<size_t>(partition)] != kNoSlot; }

  // Copies the weights of ids[i] to out + i * dim().
  void Gather(absl::Span<const uint64_t> ids, float* out) const;
  // Moves the rows of distinct `ids` against gradients + i * dim(), making those that are missing.
  // RESOURCE_EXHAUSTED, with nothing changed, if there is no room for those that have no entry.
  absl::Status Update(absl::Span<const uint64_t> ids, const float* gradients);

  // Adds the memory that pushes will fill next, in the order in which they will, unless it was
  // added before: whoever makes it real beside them (memory.h) spares them the wait for zeros. Of
  // what the rows fill a 32nd, or as much as the last push added, but no more than an eighth; and
  // as much of the index as it is about to grow by. What pushes filled before it was added comes
  // late and not never: it has small pages until then.
  void TakeAhead(std::vector<MemoryRange>* memory);

  // Whether so many more entries, rows or counted ids, would fit into rows_max.
  absl::Status CheckRoom(size_t entries) const;
  uint64_t room() const;  // For so many more.
  // Of these ids, which it may have, those that have no entry.
  size_t CountMissing(absl::Span<const uint64_t> ids) const;

  size_t dim() const { return dim_; }
  const std::string& name() const { return options_.spec.name; }
  const EmbeddingTableOptions& options() const { return options_; }
  const RowsSpec& policy() const { return policy_; }
  // By what its columns move, the first group first.
  std::vector<OptimizerSpec> optimizers() const;
  uint64_t rows() const { return next_row_ - free_.size(); }
  // Ids that are counted and have no row.
  uint64_t counted() const { return index_.size() - rows(); }
  const TableCounters& counters() const { return counters_; }
  void RestoreCounters(const TableCounters& counters) { counters_ = counters; }
  // Whether what is read depends on the step.
  bool moves_meanwhile() const { return moves_meanwhile_; }
  // Whether rows may go.
  bool forgets() const { return order_.has_value(); }
  // Memory in use, index and all.
  uint64_t bytes() const {
    const uint64_t order_each = order_.has_value() ? RowOrder::kBytesPerRow : 0;
    const uint64_t order_all = order_.has_value() ? order_->bytes() : 0;
    return index_.bytes() + next_row_ * (stride_ + order_each) + order_all;
  }

  // Address space.
  uint64_t bytes_reserved() const {
    return index_.bytes_reserved() + rows_.size() + (order_ ? order_->bytes_reserved() : 0);
  }

  // ---- for checkpoints ----

  // Floats of a whole row: weights, state and order.
  size_t row_floats() const { return row_floats_; }
  const float* row(uint32_t number) const { return Row(number); }
  // Rows have numbers below.
  uint32_t row_numbers() const { return next_row_; }
  // Every row whose key is in [first, last]: void(uint64_t id, uint32_t row number). Keys count
  // by slot: those of a table of n partitions lie below n << 54, unless some were abandoned.
  template <typename Visitor>
  void Visit(uint64_t first, uint64_t last, Visitor visit) const {
    index_.Visit(first, last, [&](uint64_t key, uint32_t number) {
      if (number < kCounted) visit(IdOfKey(key), number);
    });
  }
  // Every id that is only counted: void(uint64_t id, uint32_t count). Counts are for keeping and
  // restoring here and in Find: they say how long ago, too.
  template <typename Visitor>
  void VisitCounted(uint64_t first, uint64_t last, Visitor visit) const {
    index_.Visit(first, last, [&](uint64_t key, uint32_t number) {
      if (number >= kCounted) visit(IdOfKey(key), number - kCounted);
    });
  }
  // The first and the last key of a partition that it has.
  std::pair<uint64_t, uint64_t> KeysOf(int64_t partition) const {
    const uint64_t first = FirstPoint(slots_[static_cast<size_t>(partition)]);
    return {first, first + FirstPoint(1) - 1};
  }
  uint64_t KeyOf(uint64_t id) const {
    const uint64_t point = PointOf(id);
    return FirstPoint(slots_[static_cast<size_t>(PartitionOf(point))]) | (point & kWithin);
  }
  // One past the last slot in use.
  int64_t slots_end() const { return slots_end_; }
  // What there is of an id: the number of its row, or how often it was counted; or neither.
  struct Found {
    std::optional<uint32_t> row;
    uint32_t count = 0;
  };
  Found Find(uint64_t id) const;
  struct RowName {
    uint64_t id;
    uint64_t key;
    uint32_t number;
  };
  // Hears of everything about to change, so that a checkpoint can save what it has not written yet.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A row is about to be moved, or to go.
    virtual void BeforeUpdate(const RowName& row) = 0;
    // A row is about to be made with the number of one that went.
    virtual void BeforeMake(uint32_t number) = 0;
    // An id that was counted `count` times is about to be counted again, or to get a row.
    virtual void BeforeCount(uint64_t id, uint64_t key, uint32_t count) = 0;
  };
  // Null for none.
  void set_observer(Observer* observer) { observer_ = observer; }
  bool observed() const { return observer_ != nullptr; }
  // What changed since the last cut, if that is known.
  RowChanges& changes() { return changes_; }
  const RowChanges& changes() const { return changes_; }

  // Makes room for `entries` more, rows and counted ids, before a restore.
  void Reserve(uint64_t entries) { index_.Reserve(index_.size() + entries); }
  // About `ids` without an entry will be pushed soon: makes room for them, and adds the memory that
  // they will fill to `memory`. Of a table in which it cannot be known it does nothing.
  void Expect(uint64_t ids, std::vector<MemoryRange>* memory);
  // DATA_LOSS unless Restore or RestoreCounted would take these, room aside.
  absl::Status CheckRow(uint64_t id, const float* row) const;
  absl::Status CheckCount(uint64_t id, uint32_t count) const;
  // Sets a whole row, making it if it is missing.
  absl::Status Restore(uint64_t id, absl::Span<const float> row);
  // Restores rows when nobody knows how many will come: none is found before LinkAppended, which
  // says DATA_LOSS if an id came twice or had a row before. Rows mostly come in the order of their
  // keys, and would crowd an index that grows meanwhile.
  void Append(absl::Span<const uint64_t> ids, const float* rows);
  absl::Status LinkAppended();
  // DATA_LOSS unless `id` is unknown and `count` possible.
  absl::Status RestoreCounted(uint64_t id, uint32_t count);
  // Forgets an id, if it is known.
  void Erase(uint64_t id);

 private:
  EmbeddingTable() = default;
  absl::Status MakeGroups();

  // Some columns with their rule.
  struct Group {
    RowPart part;
    Optimizer optimizer;
    OptimizerConstants now;
  };

  static constexpr uint64_t kWithin = FirstPoint(1) - 1;  // A point, less its partition.
  static constexpr uint16_t kNoSlot = kPartitions;

  // Row numbers from here on are counts. RowIndex keeps the last of all for itself. A count has the
  // bit kOld if its id was not pushed since the hand last passed (embedding_table_counts.cc).
  static constexpr uint32_t kCounted = UINT32_MAX - (1 << 17);
  static constexpr uint32_t kOld = 1 << 16;

  float* Row(uint32_t number) const {
    return reinterpret_cast<float*>(rows_.data() + uint64_t{number} * stride_);
  }
  // Ids looked up in one go: few enough for the index lines they touch to stay in the cache.
  static constexpr size_t kLookup = 1024;
  struct Lookup {
    std::array<uint64_t, kLookup> keys;
    std::array<uint32_t, kLookup> homes;  // Groups of the index.
    std::array<uint32_t, kLookup> numbers;
    std::array<uint32_t, kLookup + 1> open;  // Which have no row, or are not found yet.
    size_t open_count = 0;
  };
  // With kNear memory is asked for into the first cache (ReadsNear).
  void Resolve(absl::Span<const uint64_t> ids, bool near, Lookup* lookup) const;
  template <bool kNear>
  void FetchRows(const Lookup& lookup, size_t begin, size_t end, size_t bytes) const;
  template <bool kNear>
  void CopyRows(const Lookup& lookup, absl::Span<const uint64_t> ids, float* out) const;
  template <size_t kDim, bool kNear>  // kDim 0: any.
  void CopyRowsOf(const Lookup& lookup, absl::Span<const uint64_t> ids, float* out) const;
  void UpdatePart(absl::Span<const uint64_t> ids, const float* gradients);
  uint32_t FindOrAdmit(uint64_t id, uint64_t key);
  uint32_t NextNumber();
  uint32_t MakeRow(uint64_t id, uint64_t key, bool known);
  void MoveRows(absl::Span<const RowUpdate> updates);
  void Touch(const Lookup& lookup, size_t n);
  void Evict(uint64_t touched);
  void EvictRow(uint32_t number);
  RowOrder::Place PlaceOf(uint32_t number) const;
  void Remove(uint64_t key, uint32_t number);
  void SetShare();
  uint64_t NotesMost() const { return index_.size() + 4096; }  // RowChanges.
  uint64_t IdOfKey(uint64_t key) const {
    const auto partition = partitions_[static_cast<size_t>(PartitionOf(key))];
    return IdOf(FirstPoint(partition) | (key & kWithin));
  }

  EmbeddingTableOptions options_;
  RowsSpec policy_;
  uint64_t capacity_ = 0;  // This server's share, if there is one.
  uint64_t stream_ = 0;    // Of chance.
  size_t dim_ = 0;
  size_t row_floats_ = 0;
  size_t stride_ = 0;                               // Bytes from one row to the next.
  std::array<uint16_t, kPartitions + 2> slots_{};   // Of partitions; the rest: see RowPlaces.
  std::array<uint16_t, kPartitions> partitions_{};  // Of slots; kNoSlot for those that are free.
  int64_t slots_used_ = 0;
  int64_t slots_end_ = 0;
  int64_t abandoned_ = -1;     // The partition that is being abandoned,
  uint64_t abandoned_to_ = 0;  // and how many of its keys have been looked at.
  bool moves_meanwhile_ = false;
  RowInitializer initializer_;
  std::vector<Group> groups_;
  uint32_t step_ = 1;
  uint32_t place_ = 0;  // Rows touched in this step.
  RowIndex index_;
  Region rows_;
  uint32_t next_row_ = 0;
  uint64_t rows_ahead_ = 0;         // Bytes of rows_ that were named by TakeAhead, or were before.
  uint64_t rows_seen_ = 0;          // Those that were filled when it was last called.
  StillList<uint32_t> free_;        // Numbers of rows that went.
  std::vector<uint64_t> appended_;  // Ids of the last rows, not in the index yet.
  std::optional<RowOrder> order_;   // If rows may go.
  TableCounters counters_;
  RowChanges changes_;
  Observer* observer_ = nullptr;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_EMBEDDING_TABLE_H_

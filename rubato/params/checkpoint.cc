#include "rubato/params/checkpoint.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kStepBytes = size_t{1} << 20;

// Index entries that are looked at in a step, and ids that are looked up in one of a delta.
constexpr uint64_t kStepEntries = 1 << 16;
constexpr size_t kStepLookups = 1 << 13;

constexpr size_t kCountBytes = sizeof(uint64_t) + sizeof(uint32_t);

}  // namespace

// One table as of the cut: rows with a number below `rows_`, each either still as it was, or
// copied aside before it changed.
class CheckpointWriter::TableCut : public EmbeddingTable::Observer {
 public:
  TableCut(EmbeddingTable& table, uint32_t number, uint64_t span, bool delta)
      : table_(table),
        number_(number),
        rows_(table.row_numbers()),
        span_(span),
        delta_(delta),
        changes_(table.changes().Cut(rows_)) {
    saved_.resize((rows_ + 63) / 64);
    // Stretches of the line that hold about a step's worth of rows.
    const uint64_t rows = delta ? changes_.rows() : table.rows();
    uint64_t steps = 1 + rows * table.row_floats() * sizeof(float) / kStepBytes;
    steps = std::max(steps, 1 + (table.rows() + table.counted()) / kStepEntries);
    stretch_ = std::max<uint64_t>(1, span / steps);
    table_.set_observer(this);
  }
  ~TableCut() override {
    table_.set_observer(nullptr);
    if (!published_) table_.changes().Join(std::move(changes_));
  }
  void Published() { published_ = true; }

  void BeforeUpdate(const EmbeddingTable::RowName& row) override {
    if (row.number >= rows_ || row.key < next_key_ || all_written_) return;
    if (delta_ && !changes_.Has(row.number)) return;
    uint64_t& word = saved_[row.number / 64];
    const uint64_t bit = uint64_t{1} << (row.number % 64);
    if (word & bit) return;
    word |= bit;
    Take(row.id, row.number);
  }

  void BeforeCount(uint64_t id, uint64_t key, uint32_t count) override {
    if (delta_ ? lists_written_ : key < next_key_ || all_written_) return;
    if (recounted_.insert(id).second && count > 0) TakeCount(id, count);
  }

  // True when the last row is written.
  absl::StatusOr<bool> Step(RecordSink& sink) {
    if (delta_ && !lists_written_) {
      RUBATO_RETURN_IF_ERROR(StepLists(sink));
      return false;
    }
    // What pushes have set aside meanwhile comes first, however much it is.
    if (!all_written_ && pending_bytes() < kStepBytes) {
      const uint64_t first = next_key_;
      const bool last = first + stretch_ >= span_ || first + stretch_ < first;
      const uint64_t last_key = last ? UINT64_MAX : first + stretch_ - 1;
      table_.Visit(first, last_key, [&](uint64_t id, uint32_t number) {
        const bool saved = number >= rows_ || (saved_[number / 64] >> (number % 64) & 1);
        if (!saved && (!delta_ || changes_.Has(number))) Take(id, number);
      });
      if (!delta_) {
        table_.VisitCounted(first, last_key, [&](uint64_t id, uint32_t count) {
          if (!recounted_.contains(id)) TakeCount(id, count);
        });
      }
      next_key_ = first + stretch_;
      all_written_ = last;
    }
    RUBATO_RETURN_IF_ERROR(FlushSome(sink));
    return all_written_ && pending_bytes() == 0;
  }

  // What was written, for the end of a delta.
  void PutTotals(ByteWriter& writer) const {
    writer.Put<uint64_t>(changes_.gone().size());
    writer.Put<uint64_t>(counted_flushed_);
    writer.Put<uint64_t>(rows_flushed_);
  }

 private:
  // Ids that went, as a list of what happened: one that has come back since is among the counts or
  // the rows, which are read later. Then counts, of those that have one now and had it at the cut.
  absl::Status StepLists(RecordSink& sink) {
    const auto& gone = changes_.gone();
    if (gone_written_ < gone.size()) {
      const auto some = absl::MakeConstSpan(gone).subspan(gone_written_, kStepBytes / 8);
      std::string body;
      ByteWriter writer(body);
      PutIds(writer, 0, some);
      gone_written_ += some.size();
      return sink.Append(RecordKind::kCheckpointGone, body);
    }
    const auto& counted = changes_.counted();
    for (size_t n = 0; n < kStepLookups && counted_looked_ < counted.size(); ++n) {
      const uint64_t id = counted[counted_looked_++];
      // Its partition may have been given away since it was counted.
      if (!table_.Has(PartitionOf(PointOf(id))) || !recounted_.insert(id).second) continue;
      if (const uint32_t count = table_.Find(id).count; count > 0) TakeCount(id, count);
    }
    RUBATO_RETURN_IF_ERROR(FlushSomeCounted(sink));
    lists_written_ = counted_looked_ == counted.size() && counted_ids_.empty();
    return absl::OkStatus();
  }

  void TakeCount(uint64_t id, uint32_t count) {
    counted_ids_.push_back(id);
    counts_.push_back(count);
  }
  void PutIds(ByteWriter& writer, size_t row_floats, absl::Span<const uint64_t> ids) const {
    writer.Put<uint32_t>(number_);
    writer.Put<uint32_t>(static_cast<uint32_t>(row_floats));
    writer.Put<uint64_t>(ids.size());
    writer.PutSpan<uint64_t>(ids);
  }
  void Take(uint64_t id, uint32_t number) {
    ids_.push_back(id);
    const float* row = table_.row(number);
    copies_.insert(copies_.end(), row, row + table_.row_floats());
  }

  size_t pending_bytes() const {
    return (ids_.size() - ids_written_) * row_bytes() +
           (counted_ids_.size() - counts_written_) * kCountBytes;
  }
  size_t row_bytes() const { return sizeof(uint64_t) + table_.row_floats() * sizeof(float); }

  // Of each kind a step's worth at most.
  absl::Status FlushSome(RecordSink& sink) {
    RUBATO_RETURN_IF_ERROR(FlushSomeCounted(sink));
    const size_t rows = std::min(ids_.size() - ids_written_, 1 + kStepBytes / row_bytes());
    if (rows == 0) return absl::OkStatus();
    const size_t floats = table_.row_floats();
    std::string body;
    body.reserve(sizeof(CheckpointIdsHead) + rows * row_bytes());
    ByteWriter writer(body);
    PutIds(writer, floats, absl::MakeConstSpan(ids_).subspan(ids_written_, rows));
    writer.PutSpan<float>(
        absl::MakeConstSpan(copies_).subspan(ids_written_ * floats, rows * floats));
    rows_flushed_ += rows;
    ids_written_ += rows;
    if (ids_written_ == ids_.size()) {
      ids_.clear();
      copies_.clear();
      ids_written_ = 0;
    }
    return sink.Append(RecordKind::kCheckpointRows, body);
  }

  absl::Status FlushSomeCounted(RecordSink& sink) {
    const size_t some = std::min(counted_ids_.size() - counts_written_, kStepBytes / kCountBytes);
    if (some == 0) return absl::OkStatus();
    std::string body;
    ByteWriter writer(body);
    PutIds(writer, 0, absl::MakeConstSpan(counted_ids_).subspan(counts_written_, some));
    writer.PutSpan<uint32_t>(absl::MakeConstSpan(counts_).subspan(counts_written_, some));
    counted_flushed_ += some;
    counts_written_ += some;
    if (counts_written_ == counted_ids_.size()) {
      counted_ids_.clear();
      counts_.clear();
      counts_written_ = 0;
    }
    return sink.Append(RecordKind::kCheckpointCounted, body);
  }

  EmbeddingTable& table_;
  const uint32_t number_;
  const uint32_t rows_;  // Row numbers in use at the cut.
  const uint64_t span_;  // Keys of the table lie below, but for strays.
  const bool delta_;
  RowChanges changes_;  // Until the cut.
  bool published_ = false;
  size_t gone_written_ = 0, counted_looked_ = 0;  // Of the changes.
  bool lists_written_ = false;
  uint64_t rows_flushed_ = 0, counted_flushed_ = 0;
  uint64_t stretch_ = 0;   // Keys a step.
  uint64_t next_key_ = 0;  // Rows of smaller keys are written.
  bool all_written_ = false;
  std::vector<uint64_t> saved_;  // A bit a row: copied aside.
  std::vector<uint64_t> ids_;    // Copied, and from `ids_written_` on not yet flushed.
  std::vector<float> copies_;
  size_t ids_written_ = 0;
  absl::flat_hash_set<uint64_t> recounted_;  // Ids counted since the cut. Never iterated.
  std::vector<uint64_t> counted_ids_;        // As of the cut, not yet flushed, as above.
  std::vector<uint32_t> counts_;
  size_t counts_written_ = 0;
};

CheckpointWriter::CheckpointWriter(Shard& shard, CheckpointName name)
    : shard_(shard), name_(name), changes_(shard.changes_) {
  const bool delta = name.base > 0;
  RUBATO_CHECK(!delta || shard.changes_known());
  shard.changes_.Cut();
  ByteWriter dense(dense_);
  std::vector<int64_t> slices;
  for (const auto& [s, slice] : shard.dense_) {
    if (!delta || changes_.HasSlice(s)) slices.push_back(s);
  }
  if (delta) {
    dense.Put<uint64_t>(slices.size());
    dense.PutSpan<int64_t>(slices);
  }
  for (const int64_t s : slices) dense.PutSpan<float>(shard.dense_.at(s));
  ByteWriter writer(head_);
  writer.Put<int64_t>(name.version);
  writer.Put<int64_t>(name.first_segment);
  writer.Put<int64_t>(name.server);
  writer.Put<int64_t>(name.servers);
  if (delta) {
    writer.Put<int64_t>(name.base);
    writer.Put<int64_t>(name.base_segment);
    const IntervalSet owned = PartitionsOf(shard.histories_);
    writer.PutString(EncodePartitions(changes_.fresh.Intersect(owned)));
  }
  writer.PutString(shard.map_.Encode());
  writer.PutString(shard.declaration_bytes_);
  PutHistories(writer, shard.histories_);
  shard.staged_.Visit(
      [&](const StagedGradient& gradient) { staged_.push_back(gradient.Encode()); });
  writer.Put<uint64_t>(staged_.size());
  writer.Put<uint32_t>(static_cast<uint32_t>(shard.tables_.size()));
  for (size_t t = 0; t < shard.tables_.size(); ++t) {
    EmbeddingTable& table = *shard.tables_[t];
    const int64_t slots = table.slots_end();
    const uint64_t span = slots == kPartitions ? UINT64_MAX : FirstPoint(slots);
    writer.Put<uint64_t>(table.rows());
    writer.Put<uint64_t>(table.counted());
    tables_.push_back(std::make_unique<TableCut>(table, static_cast<uint32_t>(t), span, delta));
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (!published_) shard_.changes_.Join(changes_);
}

void CheckpointWriter::Published() {
  RUBATO_CHECK(stage_ == Stage::kDone);
  published_ = true;
  for (const auto& table : tables_) table->Published();
}

absl::StatusOr<bool> CheckpointWriter::Step(RecordSink& sink) {
  switch (stage_) {
    case Stage::kHead:
      RUBATO_RETURN_IF_ERROR(sink.Append(
          name_.base > 0 ? RecordKind::kCheckpointDelta : RecordKind::kCheckpointHead, head_));
      stage_ = Stage::kDense;
      return false;
    case Stage::kDense:
      RUBATO_RETURN_IF_ERROR(sink.Append(RecordKind::kCheckpointDense, dense_));
      stage_ = Stage::kStaged;
      return false;
    case Stage::kStaged:
      for (size_t bytes = 0; bytes < kStepBytes && staged_written_ < staged_.size();) {
        const std::string& body = staged_[staged_written_++];
        RUBATO_RETURN_IF_ERROR(sink.Append(RecordKind::kCheckpointStaged, body));
        bytes += body.size();
      }
      if (staged_written_ < staged_.size()) return false;
      stage_ = tables_.empty() ? Stage::kEnd : Stage::kRows;
      return false;
    case Stage::kRows: {
      RUBATO_ASSIGN_OR_RETURN(const bool table_done, tables_[table_]->Step(sink));
      if (table_done && ++table_ == tables_.size()) stage_ = Stage::kEnd;
      return false;
    }
    case Stage::kEnd: {
      std::string totals;
      ByteWriter writer(totals);
      for (const auto& table : tables_) {
        if (name_.base > 0) table->PutTotals(writer);
      }
      RUBATO_RETURN_IF_ERROR(sink.Append(RecordKind::kCheckpointEnd, totals));
      stage_ = Stage::kDone;
      return true;
    }
    case Stage::kDone:
      return true;
  }
  return true;
}

}  // namespace rubato

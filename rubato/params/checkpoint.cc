#include "rubato/params/checkpoint.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <map>
#include <utility>

#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/set_aside.h"

namespace rubato {
namespace {

// Index entries that are looked at in a step, and ids that are looked up in one of a delta.
constexpr uint64_t kStepEntries = 1 << 14;
constexpr size_t kStepLookups = 1 << 11;
// Rows, ids or slices between two looks at whether it was enough; each may lie on a page of its
// own.
constexpr size_t kLookEvery = 32;

// A copy past the caches, for whom nobody asks soon: the lines it fills need not be fetched first.
void CopyAside(absl::Span<const float> from, float* to) {
  size_t done = 0;
#ifdef __x86_64__
  if (reinterpret_cast<uintptr_t>(to) % sizeof(__m128) == 0) {
    for (; done + 4 <= from.size(); done += 4) {
      _mm_stream_ps(to + done, _mm_loadu_ps(from.data() + done));
    }
    _mm_sfence();  // Another thread may read it next.
  }
#endif
  std::copy(from.begin() + static_cast<ptrdiff_t>(done), from.end(), to + done);
}

}  // namespace

// The dense weights as of the cut, in the order of their slices: each as it still is, or as it was
// copied before it moved.
class CheckpointWriter::DenseCut : public Shard::DenseObserver {
 public:
  DenseCut(Shard& shard, std::vector<int64_t> slices, bool delta, Room room)
      : shard_(shard), slices_(std::move(slices)), room_(std::move(room)) {
    if (delta) {
      ByteWriter writer(body_);
      writer.Put<uint64_t>(slices_.size());
      writer.PutSpan<int64_t>(slices_);
    }
    shard_.dense_observer_ = this;
  }
  void Close() { shard_.dense_observer_ = nullptr; }

  void BeforeUpdate(int64_t slice, const Shard::DenseSlice& values) override {
    const bool waits = std::binary_search(slices_.begin() + static_cast<ptrdiff_t>(written_),
                                          slices_.end(), slice);
    if (!waits || saved_.contains(slice)) return;
    Saved& saved = saved_[slice];
    if (values.size() <= room_.size() - room_used_) {
      saved.values = absl::MakeConstSpan(room_).subspan(room_used_, values.size());
      CopyAside(values, room_.data() + room_used_);
      room_used_ += values.size();
    } else {
      saved.own = values;
      saved.values = saved.own;
    }
  }
  size_t room_used() const { return room_used_; }

  // True when the last slice is written.
  absl::StatusOr<bool> Step(RecordSink& sink, absl::FunctionRef<bool()> enough) {
    body_.reserve(body_.size() + kStepBytes);
    ByteWriter writer(body_);
    for (bool last = false; !last && written_ < slices_.size() && body_.size() < kStepBytes;
         last = enough()) {
      const int64_t slice = slices_[written_++];
      const auto saved = saved_.find(slice);
      writer.PutSpan<float>(saved == saved_.end() ? shard_.dense_.at(slice) : saved->second.values);
      if (saved != saved_.end()) saved_.erase(saved);
    }
    RUBATO_RETURN_IF_ERROR(sink.Take(RecordKind::kCheckpointDense, std::exchange(body_, {})));
    return written_ == slices_.size();
  }

 private:
  Shard& shard_;
  const std::vector<int64_t> slices_;  // In order.
  size_t written_ = 0;
  std::string body_;  // Of the next record, so far.
  struct Saved {
    absl::Span<const float> values;  // In the room, or its own.
    Shard::DenseSlice own;
  };
  std::map<int64_t, Saved> saved_;
  Room room_;
  size_t room_used_ = 0;
};

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
        changes_(table.changes().Cut(rows_)),
        waiting_rows_({.kind = RecordKind::kCheckpointRows,
                       .table = number,
                       .row_floats = table.row_floats(),
                       .values = table.row_floats()}),
        waiting_counts_({.kind = RecordKind::kCheckpointCounted,
                         .table = number,
                         .row_floats = 0,
                         .values = 1}) {
    saved_.resize((rows_ + 63) / 64);
    // Stretches of the line that hold about a step's worth of rows.
    const uint64_t rows = delta ? changes_.rows() : table.rows();
    uint64_t steps = 1 + rows * table.row_floats() * sizeof(float) / kStepBytes;
    steps = std::max(steps, 1 + (table.rows() + table.counted()) / kStepEntries);
    stretch_ = std::max<uint64_t>(1, span / steps);
    table_.set_observer(this);
  }
  void Close(bool published) {
    table_.set_observer(nullptr);
    if (!published) table_.changes().Join(std::move(changes_));
  }

  void BeforeUpdate(const EmbeddingTable::RowName& row) override {
    if (row.number >= rows_ || row.key < next_key_ || all_written_) return;
    if (delta_ && !changes_.Has(row.number)) return;
    if (IsSaved(row.number)) return;
    Save(row.number);
    Take(row.id, row.number);
  }

  // Whoever had the number at the cut is written or copied aside: what has it now is no part of it.
  void BeforeMake(uint32_t number) override {
    if (number < rows_) Save(number);
  }

  void BeforeCount(uint64_t id, uint64_t key, uint32_t count) override {
    if (delta_ ? lists_written_ : key < next_key_ || all_written_) return;
    if (recounted_.Insert(id) && count > 0) TakeCount(id, count);
  }

  // True when the last row is written.
  absl::StatusOr<bool> Step(RecordSink& sink, absl::FunctionRef<bool()> enough) {
    if (delta_ && !lists_written_) {
      RUBATO_RETURN_IF_ERROR(StepLists(sink, enough));
      return false;
    }
    // What pushes have set aside meanwhile comes first, however much it is.
    if (!all_written_ && pending_bytes() < kStepBytes) {
      const uint64_t first = next_key_;
      const bool last = first + stretch_ >= span_ || first + stretch_ < first;
      const uint64_t last_key = last ? UINT64_MAX : first + stretch_ - 1;
      found_.clear();
      table_.Visit(first, last_key, [&](uint64_t id, uint32_t number) {
        const bool saved = number >= rows_ || IsSaved(number);
        if (!saved && (!delta_ || changes_.Has(number))) found_.emplace_back(id, number);
      });
      if (TakeFound(enough)) {
        if (!delta_) {
          table_.VisitCounted(first, last_key, [&](uint64_t id, uint32_t count) {
            if (!recounted_.Has(id)) TakeCount(id, count);
          });
        }
        next_key_ = first + stretch_;
        all_written_ = last;
      }
    }
    RUBATO_RETURN_IF_ERROR(waiting_counts_.WriteSome(sink));
    RUBATO_RETURN_IF_ERROR(waiting_rows_.WriteSome(sink));
    return all_written_ && pending_bytes() == 0;
  }

  // What was written, for the end of a delta.
  void PutTotals(ByteWriter& writer) const {
    writer.Put<uint64_t>(changes_.gone().size());
    writer.Put<uint64_t>(waiting_counts_.written());
    writer.Put<uint64_t>(waiting_rows_.written());
  }

 private:
  // Ids that went, as a list of what happened: one that has come back since is among the counts or
  // the rows, which are read later. Then counts, of those that have one now and had it at the cut.
  absl::Status StepLists(RecordSink& sink, absl::FunctionRef<bool()> enough) {
    const auto& gone = changes_.gone();
    if (gone_written_ < gone.size()) {
      std::vector<uint64_t> some(std::min(gone.size() - gone_written_, kStepBytes / 8));
      for (uint64_t& id : some) id = gone[gone_written_++];
      std::string body;
      ByteWriter writer(body);
      PutIds(writer, number_, 0, some);
      return sink.Take(RecordKind::kCheckpointGone, std::move(body));
    }
    const auto& counted = changes_.counted();
    for (size_t n = 0; n < kStepLookups && counted_looked_ < counted.size(); ++n) {
      if (n > 0 && n % kLookEvery == 0 && enough()) break;
      const uint64_t id = counted[counted_looked_++];
      // Its partition may have been given away since it was counted.
      if (!table_.Has(PartitionOf(PointOf(id))) || !recounted_.Insert(id)) continue;
      if (const uint32_t count = table_.Find(id).count; count > 0) TakeCount(id, count);
    }
    RUBATO_RETURN_IF_ERROR(waiting_counts_.WriteSome(sink));
    lists_written_ = counted_looked_ == counted.size() && waiting_counts_.bytes() == 0;
    return absl::OkStatus();
  }

  void TakeCount(uint64_t id, uint32_t count) { waiting_counts_.Add(id, &count); }
  void Take(uint64_t id, uint32_t number) { waiting_rows_.Add(id, table_.row(number)); }
  // Rows lie anywhere, so those further on are asked for while one is copied. False if that was
  // enough before the last: those that are taken count as saved then, and the stretch comes again.
  bool TakeFound(absl::FunctionRef<bool()> enough) {
    constexpr size_t kAhead = 16;
    for (size_t n = 0; n < found_.size(); ++n) {
      if (n > 0 && n % kLookEvery == 0 && enough()) {
        for (size_t i = 0; i < n; ++i) Save(found_[i].second);
        return false;
      }
      if (n + kAhead < found_.size()) {
        const float* row = table_.row(found_[n + kAhead].second);
        for (size_t at = 0; at < table_.row_floats(); at += 16) __builtin_prefetch(row + at, 0, 1);
      }
      Take(found_[n].first, found_[n].second);
    }
    return true;
  }
  bool IsSaved(uint32_t number) const { return saved_[number / 64] >> (number % 64) & 1; }
  void Save(uint32_t number) { saved_[number / 64] |= uint64_t{1} << (number % 64); }
  size_t pending_bytes() const { return waiting_rows_.bytes() + waiting_counts_.bytes(); }

  EmbeddingTable& table_;
  const uint32_t number_;
  const uint32_t rows_;  // Row numbers in use at the cut.
  const uint64_t span_;  // Keys of the table lie below, but for strays.
  const bool delta_;
  RowChanges changes_;                            // Until the cut.
  size_t gone_written_ = 0, counted_looked_ = 0;  // Of the changes.
  bool lists_written_ = false;
  uint64_t stretch_ = 0;   // Keys a step.
  uint64_t next_key_ = 0;  // Rows of smaller keys are written.
  bool all_written_ = false;
  std::vector<uint64_t> saved_;  // A bit a row: copied aside or written early, or made since.
  std::vector<std::pair<uint64_t, uint32_t>> found_;  // Ids and row numbers of a step.
  Waiting<float> waiting_rows_;
  IdSet recounted_;                   // Ids counted since the cut.
  Waiting<uint32_t> waiting_counts_;  // As of the cut.
};

size_t CheckpointWriter::RoomFor(const Shard& shard) {
  size_t floats = 0;
  for (const auto& [s, slice] : shard.dense_) floats += slice.size();
  return floats;
}

size_t CheckpointWriter::room_used() const { return dense_->room_used(); }

CheckpointWriter::CheckpointWriter(Shard& shard, CheckpointName name, Room room)
    : shard_(shard), name_(name), changes_(shard.changes_) {
  const bool delta = name.base > 0;
  RUBATO_CHECK(!delta || shard.changes_known());
  shard.changes_.Cut();
  std::vector<int64_t> slices;
  for (const auto& [s, slice] : shard.dense_) {
    if (!delta || changes_.HasSlice(s)) slices.push_back(s);
  }
  dense_ = std::make_unique<DenseCut>(shard, std::move(slices), delta, std::move(room));
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
  staged_ = shard.staged_.All();
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
  // Earlier builds end here, in what they write and in what they read.
  if (!shard.counts_known_) return;
  for (const auto& table : shard.tables_) {
    const TableCounters& counters = table->counters();
    for (const int64_t count :
         {counters.admitted, counters.refused, counters.evicted, counters.forgotten}) {
      writer.Put<int64_t>(count);
    }
  }
}

CheckpointWriter::~CheckpointWriter() { Close(); }

void CheckpointWriter::Published() {
  RUBATO_CHECK(stage_ == Stage::kDone);
  published_ = true;
}

void CheckpointWriter::Close() {
  if (std::exchange(closed_, true)) return;
  dense_->Close();
  for (const auto& table : tables_) table->Close(published_);
  if (!published_) shard_.changes_.Join(changes_);
}

absl::StatusOr<bool> CheckpointWriter::Step(RecordSink& sink, absl::FunctionRef<bool()> enough) {
  switch (stage_) {
    case Stage::kHead:
      RUBATO_RETURN_IF_ERROR(sink.Append(
          name_.base > 0 ? RecordKind::kCheckpointDelta : RecordKind::kCheckpointHead, head_));
      stage_ = Stage::kDense;
      return false;
    case Stage::kDense: {
      RUBATO_ASSIGN_OR_RETURN(const bool dense_done, dense_->Step(sink, enough));
      if (dense_done) stage_ = Stage::kStaged;
      return false;
    }
    case Stage::kStaged:
      for (size_t bytes = 0; bytes < kStepBytes && staged_written_ < staged_.size();) {
        StagedRounds::Staged gradient = std::move(staged_[staged_written_++]);
        bytes += static_cast<size_t>(gradient->bytes());
        RUBATO_RETURN_IF_ERROR(
            sink.TakeLater(RecordKind::kCheckpointStaged,
                           [gradient = std::move(gradient)] { return gradient->Encode(); }));
      }
      if (staged_written_ < staged_.size()) return false;
      stage_ = tables_.empty() ? Stage::kEnd : Stage::kRows;
      return false;
    case Stage::kRows: {
      RUBATO_ASSIGN_OR_RETURN(const bool table_done, tables_[table_]->Step(sink, enough));
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

// The receiver's side of a move, and what a new map does to a shard.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/shard.h"

namespace rubato {
namespace {

struct Header {
  int64_t move = 0;
  int64_t attempt = 0;
  int64_t sequence = 0;
};

Header GetHeader(ByteReader& reader) {
  Header header;
  header.move = reader.Get<int64_t>();
  header.attempt = reader.Get<int64_t>();
  header.sequence = reader.Get<int64_t>();
  return header;
}

constexpr size_t kHeaderBytes = 3 * sizeof(int64_t);
// Forgotten rows and counts that are removed at a time: half a millisecond or so.
constexpr uint64_t kTidyMost = 4096;

// Ids of one table, with something for each behind them.
struct IdBatch {
  uint64_t table = 0;
  std::vector<uint64_t> ids;
};

IdBatch GetIds(ByteReader& reader) {
  IdBatch batch;
  batch.table = reader.Get<uint64_t>();
  batch.ids = reader.GetVector<uint64_t>(reader.Get<uint64_t>());
  return batch;
}

IntervalSet Without(const IntervalSet& set, const IntervalSet& less) {
  IntervalSet left;
  for (const Interval& run : set.Intervals()) {
    for (const Interval& gap : less.Gaps(run.begin, run.end)) left.Add(gap.begin, gap.end);
  }
  return left;
}

}  // namespace

// ---- what arrives ----

absl::Status Shard::Arrive(RecordKind kind, absl::string_view body, RecordSink* log) {
  return Arrive(kind, body, log, /*replay=*/false);
}

absl::Status Shard::Arrive(RecordKind kind, absl::string_view body, RecordSink* log, bool replay) {
  ByteReader reader(body);
  const Header header = GetHeader(reader);
  RUBATO_RETURN_IF_ERROR(reader.Check("a record of a move"));
  const bool known =
      arrival_.has_value() && arrival_->move == header.move && arrival_->attempt == header.attempt;
  if (known && header.sequence >= 0 && header.sequence < arrival_->next) return absl::OkStatus();
  if (kind == RecordKind::kArriveBegin) {
    const bool older = arrival_.has_value() &&
                       (arrival_->move > header.move ||
                        (arrival_->move == header.move && arrival_->attempt >= header.attempt));
    if (older || header.sequence != 0) {
      return absl::AbortedError(absl::StrCat("move ", header.move, " has begun anew"));
    }
    if (arrival_.has_value() && arrival_->complete && arrival_->move != header.move) {
      // It may be ours by now, and we have yet to hear of it.
      return absl::AbortedError(absl::StrCat("move ", arrival_->move, " awaits the map"));
    }
    return BeginArrival(body, log, replay);
  }
  if (!known || header.sequence != arrival_->next || arrival_->complete) {
    return absl::AbortedError(absl::StrCat("move ", header.move, ": a record is missing"));
  }
  RUBATO_RETURN_IF_ERROR(CheckArriving(kind, body.substr(kHeaderBytes), replay));
  if (log != nullptr) RUBATO_RETURN_IF_ERROR(log->Append(kind, body));
  TakeArriving(kind, body.substr(kHeaderBytes));
  ++arrival_->next;
  return absl::OkStatus();
}

absl::Status Shard::BeginArrival(absl::string_view body, RecordSink* log, bool replay) {
  ByteReader reader(body);
  const Header header = GetHeader(reader);
  const absl::string_view partition_bytes = reader.GetString();
  const absl::string_view declaration_bytes = reader.GetString();
  RUBATO_RETURN_IF_ERROR(reader.Check("the beginning of a move"));
  RUBATO_ASSIGN_OR_RETURN(const IntervalSet partitions, DecodePartitions(partition_bytes));
  if (partitions.empty() || !partitions.Intersect(PartitionsOf(histories_)).empty()) {
    return absl::AbortedError(absl::StrCat("move ", header.move, " is over"));
  }
  // Counts that arrive would be in its file, though nobody here owns them.
  if (observed()) return absl::AbortedError("a checkpoint is being written; it goes first");
  if (!declaration_bytes.empty()) {
    // One that owns something has dense weights of its own to be told of first.
    if (!declared() && !histories_.empty()) {
      return absl::FailedPreconditionError("a move before the model was declared");
    }
    RUBATO_RETURN_IF_ERROR(Declare(declaration_bytes, log));
  }
  std::vector<uint64_t> entries;
  for (size_t t = 0; t < tables_.size(); ++t) entries.push_back(reader.Get<uint64_t>());
  RUBATO_RETURN_IF_ERROR(reader.Check("the beginning of a move"));
  // Remains of an earlier stay would be taken for what arrives, and take its room. Whether this
  // fits or not, they go, and rows that were to go meanwhile; bit by bit, and it is asked again.
  if (arrival_.has_value() && log != nullptr) {
    RUBATO_RETURN_IF_ERROR(LogRounds(*log));
    RUBATO_RETURN_IF_ERROR(log->Append(RecordKind::kArriveDropped, ""));
  }
  DropArrival();
  Tidy();
  while (replay && Tidy()) {
  }
  if (!forgotten_.empty()) {
    return absl::AbortedError(
        absl::StrCat("move ", header.move, ": rows of an earlier stay are still being removed"));
  }
  for (size_t t = 0; t < tables_.size(); ++t) {
    RUBATO_RETURN_IF_ERROR(replay ? tables_[t]->CheckRoom(entries[t])
                                  : CheckRoomIn(t, {}, entries[t]));
  }
  if (log != nullptr) {
    RUBATO_RETURN_IF_ERROR(LogRounds(*log));
    RUBATO_RETURN_IF_ERROR(log->Append(RecordKind::kArriveBegin, body));
  }
  arrival_ = Arrival{.move = header.move, .attempt = header.attempt, .next = 1};
  arrival_->partitions = partitions;
  for (size_t t = 0; t < tables_.size(); ++t) tables_[t]->Adopt(partitions, entries[t]);
  return absl::OkStatus();
}

// Everything that could go wrong in TakeArriving is found here, before the record is logged. Of a
// log that replays more gradients may wait than did then, so that rows have only to fit now.
absl::Status Shard::CheckArriving(RecordKind kind, absl::string_view body, bool replay) const {
  ByteReader reader(body);
  if (kind == RecordKind::kArriveEnd) {
    RUBATO_ASSIGN_OR_RETURN(const auto histories, GetHistories(reader));
    if (PartitionsOf(histories) == arrival_->partitions) return absl::OkStatus();
    return absl::DataLossError("a move that ends without all histories");
  }
  if (kind == RecordKind::kArriveDense) {
    const auto s = reader.Get<int64_t>();
    const int64_t size = declared() ? declaration_->signature.dense_size : 0;
    if (!reader.ok() || s < 0 || s >= DenseSliceCount(size) ||
        !arrival_->partitions.Contains(PartitionOfSlice(s))) {
      return absl::DataLossError("a move with dense weights of another partition");
    }
    const Interval range = DenseSliceAt(size, s);
    const auto floats = static_cast<size_t>(range.end - range.begin);
    const size_t all = floats + optimizer_->dense_state_floats(floats);
    if (reader.remaining() == all * sizeof(float)) return absl::OkStatus();
    return absl::DataLossError("a move with dense weights of another size");
  }
  if (kind == RecordKind::kArriveStaged) {
    RUBATO_ASSIGN_OR_RETURN(const auto gradient, StagedGradient::Decode(body));
    RUBATO_RETURN_IF_ERROR(CheckStaged(gradient, arrival_->partitions));
    for (size_t t = 0; t < gradient.tables.size() && !replay; ++t) {
      RUBATO_RETURN_IF_ERROR(CheckRoomIn(t, gradient.tables[t].ids));
    }
    return absl::OkStatus();
  }
  const IdBatch batch = GetIds(reader);
  RUBATO_RETURN_IF_ERROR(reader.Check("rows of a move"));
  if (batch.table >= tables_.size()) return absl::DataLossError("a move with rows of no table");
  const EmbeddingTable& table = *tables_[batch.table];
  const size_t each = kind == RecordKind::kArriveRows      ? table.row_floats() * sizeof(float)
                      : kind == RecordKind::kArriveCounted ? sizeof(uint32_t)
                                                           : 0;
  const bool fits = reader.remaining() == batch.ids.size() * each;
  const bool ours = std::all_of(batch.ids.begin(), batch.ids.end(), [&](uint64_t id) {
    return arrival_->partitions.Contains(PartitionOf(PointOf(id)));
  });
  if (!fits || !ours || kind < RecordKind::kArriveRows || kind > RecordKind::kArriveGone) {
    return absl::DataLossError(absl::StrCat("a move with rows of table ", table.name(),
                                            " that are of another shape or partition"));
  }
  for (const uint64_t id : batch.ids) {
    if (kind == RecordKind::kArriveRows) {
      const std::vector<float> row = reader.GetVector<float>(table.row_floats());
      RUBATO_RETURN_IF_ERROR(table.CheckRow(id, row.data()));
    } else if (kind == RecordKind::kArriveCounted) {
      RUBATO_RETURN_IF_ERROR(table.CheckCount(id, reader.Get<uint32_t>()));
    }
  }
  if (kind == RecordKind::kArriveGone) return absl::OkStatus();
  return replay ? table.CheckRoom(table.CountMissing(batch.ids))
                : CheckRoomIn(batch.table, batch.ids);
}

void Shard::TakeArriving(RecordKind kind, absl::string_view body) {
  ByteReader reader(body);
  if (kind == RecordKind::kArriveEnd) {
    arrival_->histories = *GetHistories(reader);
    arrival_->complete = true;
    return;
  }
  if (kind == RecordKind::kArriveDense) {
    const auto s = reader.Get<int64_t>();
    arrival_->dense[s] = reader.GetVector<float>(reader.remaining() / sizeof(float));
    return;
  }
  if (kind == RecordKind::kArriveStaged) {
    arrival_->staged.push_back(*StagedGradient::Decode(body));
    return;
  }
  const IdBatch batch = GetIds(reader);
  EmbeddingTable& table = *tables_[batch.table];
  for (const uint64_t id : batch.ids) {
    if (kind == RecordKind::kArriveRows) {
      RUBATO_CHECK_OK(table.Restore(id, reader.GetVector<float>(table.row_floats())));
      continue;
    }
    table.Erase(id);
    if (kind != RecordKind::kArriveCounted) continue;
    RUBATO_CHECK_OK(table.RestoreCounted(id, reader.Get<uint32_t>()));
  }
}

void Shard::DropArrival() {
  if (arrival_.has_value()) Forget(arrival_->partitions);
  arrival_.reset();
  if (settled() && declared()) BeginNextStep();  // Rows that were to go meanwhile.
}

IntervalSet Shard::arrived() const {
  return arrival_.has_value() && arrival_->complete ? arrival_->partitions : IntervalSet();
}

const std::vector<History>& Shard::arrived_histories() const {
  static const std::vector<History> kNone;
  return arrived().empty() ? kNone : arrival_->histories;
}

// ---- the map ----

absl::Status Shard::SetMap(const PartitionMap& map, RecordSink* log) {
  if (map.number() <= map_.number()) return absl::OkStatus();
  const IntervalSet before = PartitionsOf(histories_);
  const IntervalSet after = map.PartitionsOf(options_.server);
  const IntervalSet gained = Without(after, before);
  if (gained.Intersect(arrived()) != gained) {
    return absl::DataLossError(
        absl::StrCat("map ", map.number(), " gives server ", options_.server,
                     " partitions that never arrived: ", Without(gained, arrived()).ToString()));
  }
  if (after == before) {
    map_ = map;
    return absl::OkStatus();
  }
  if (log != nullptr) {
    RUBATO_RETURN_IF_ERROR(LogRounds(*log));
    RUBATO_RETURN_IF_ERROR(log->Append(RecordKind::kOwn, map.Encode()));
  }
  map_ = map;
  std::vector<History> histories = HistoriesOf(histories_, after);
  Forget(Without(before, after));
  staged_.Forget(Without(before, after));
  if (!gained.empty()) {
    for (History& history : HistoriesOf(arrival_->histories, gained)) {
      histories.push_back(std::move(history));
    }
    for (auto& [s, slice] : arrival_->dense) {
      dense_[s] = std::move(slice);
      changes_.MarkSlice(s);
    }
    for (const Interval& run : gained.Intervals()) changes_.fresh.Add(run.begin, run.end);
    for (const StagedGradient& gradient : arrival_->staged) staged_.Add(gradient.Of(gained));
    Forget(Without(arrival_->partitions, gained));
    arrival_.reset();
  }
  JoinHistories(histories);
  SetOwned(std::move(histories));
  if (declared()) BeginNextStep();
  return EvenRounds();
}

void Shard::Forget(const IntervalSet& partitions) {
  bool at_once = false;
  for (const auto& table : tables_) at_once |= table->forgets();
  for (const Interval& run : partitions.Intervals()) {
    for (int64_t p = run.begin; p < run.end; ++p) {
      if (!tables_.empty()) forgotten_.push_back(p);
    }
  }
  std::erase_if(dense_, [&](const auto& slice) {
    return partitions.Contains(PartitionOfSlice(slice.first));
  });
  // Rows that go for lack of room count all that are there, so the same must be there in a replay.
  while (at_once && Tidy()) {
  }
}

bool Shard::observed() const {
  return dense_observer_ != nullptr ||
         std::any_of(tables_.begin(), tables_.end(),
                     [](const auto& table) { return table->observed(); });
}

bool Shard::Tidy() {
  if (forgotten_.empty()) return false;
  for (uint64_t dropped = 0; !forgotten_.empty() && dropped < kTidyMost; forgotten_.pop_back()) {
    for (const auto& table : tables_) {
      const int64_t partition = forgotten_.back();
      if (table->Has(partition) && !table->Abandon(partition, kTidyMost, &dropped)) return true;
    }
  }
  if (settled() && declared()) BeginNextStep();
  return !forgotten_.empty();
}

}  // namespace rubato

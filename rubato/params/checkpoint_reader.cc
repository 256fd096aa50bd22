#include "rubato/params/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 62;  // A table goes on from there.

absl::StatusOr<CheckpointHead> DecodeHead(RecordKind kind, absl::string_view body) {
  ByteReader reader(body);
  CheckpointHead head;
  head.name.version = reader.Get<int64_t>();
  head.name.first_segment = reader.Get<int64_t>();
  head.name.server = reader.Get<int64_t>();
  head.name.servers = reader.Get<int64_t>();
  if (kind == RecordKind::kCheckpointDelta) {
    head.name.base = reader.Get<int64_t>();
    head.name.base_segment = reader.Get<int64_t>();
    RUBATO_ASSIGN_OR_RETURN(head.fresh, DecodePartitions(reader.GetString()));
    if (head.name.base < 1 || head.name.base >= head.name.version) {
      return absl::DataLossError(
          absl::StrCat("a delta of version ", head.name.version, " over version ", head.name.base));
    }
  }
  const absl::string_view map_bytes = reader.GetString();
  head.declaration = std::string(reader.GetString());
  RUBATO_RETURN_IF_ERROR(reader.Check("head"));
  RUBATO_ASSIGN_OR_RETURN(head.map, PartitionMap::Decode(map_bytes));
  RUBATO_ASSIGN_OR_RETURN(head.histories, GetHistories(reader));
  head.staged = reader.Get<uint64_t>();
  const auto tables = reader.Get<uint32_t>();
  for (uint32_t t = 0; t < tables && reader.ok(); ++t) {
    CheckpointHead::Table& table = head.tables.emplace_back();
    table.rows = reader.Get<uint64_t>();
    table.counted = reader.Get<uint64_t>();
  }
  RUBATO_RETURN_IF_ERROR(reader.Check("head"));
  for (size_t t = 0; t < head.tables.size() && reader.remaining() > 0; ++t) {
    TableCounters& counters = head.counters.emplace_back();
    for (int64_t* count :
         {&counters.admitted, &counters.refused, &counters.evicted, &counters.forgotten}) {
      *count = reader.Get<int64_t>();
      if (*count < 0 || *count > kCountMax) return absl::DataLossError("a count of no rows");
    }
  }
  RUBATO_RETURN_IF_ERROR(reader.Check("head"));
  if (head.declaration.empty() && !head.tables.empty()) {
    return absl::DataLossError("a head with tables that nobody declared");
  }
  return head;
}

std::array<bool, kPartitions> Marked(const std::vector<History>& histories) {
  std::array<bool, kPartitions> marked{};
  for (const History& history : histories) {
    for (const Interval& run : history.partitions.Intervals()) {
      std::fill(marked.begin() + run.begin, marked.begin() + run.end, true);
    }
  }
  return marked;
}

size_t PartitionOfId(uint64_t id) { return static_cast<size_t>(PartitionOf(PointOf(id))); }

}  // namespace

// ---- one file ----

absl::Status CheckpointReader::Add(RecordKind kind, absl::string_view body) {
  if (end_) return absl::DataLossError("a record after the end");
  switch (kind) {
    case RecordKind::kCheckpointHead:
    case RecordKind::kCheckpointDelta:
      return AddHead(kind, body);
    case RecordKind::kCheckpointDense:
      return AddDense(body);
    case RecordKind::kCheckpointGone:
      return AddGone(body);
    case RecordKind::kCheckpointRows:
      return AddRows(body);
    case RecordKind::kCheckpointCounted:
      return AddCounted(body);
    case RecordKind::kCheckpointStaged:
      return AddStaged(body);
    case RecordKind::kCheckpointEnd:
      return AddEnd(body);
    default:
      return absl::DataLossError(
          absl::StrCat("a record of kind ", static_cast<uint32_t>(kind), " in a checkpoint"));
  }
}

absl::Status CheckpointReader::AddHead(RecordKind kind, absl::string_view body) {
  if (head_.has_value()) return absl::DataLossError("two heads");
  RUBATO_ASSIGN_OR_RETURN(head_, DecodeHead(kind, body));
  if (delta() && link_ == 0) {
    return absl::DataLossError(
        absl::StrCat("built on checkpoint ", head_->name.base, ", which is not there"));
  }
  if (link_ == 0) RUBATO_RETURN_IF_ERROR(Prepare());
  if (!head_->declaration.empty()) {
    RUBATO_ASSIGN_OR_RETURN(const Declaration declaration, DecodeDeclaration(head_->declaration));
    if (!shard_.declared()) return absl::DataLossError("a declaration that was taken back");
    RUBATO_RETURN_IF_ERROR(SameDeclaration(*shard_.declaration_, declaration));
    if (shard_.tables_.size() != head_->tables.size()) {
      return absl::DataLossError("tables are missing");
    }
  }
  here_ = Marked(head_->histories);
  take_ = Marked(newest().histories);
  for (size_t p = 0; p < take_.size(); ++p) {
    take_[p] &= here_[p] && shard_.owned_[p] && (chain_ == nullptr || chain_->since[p] <= link_);
  }
  staged_ = head_->staged;
  seen_.resize(head_->tables.size());
  for (const CheckpointHead::Table& table : head_->tables) {
    promised_.push_back({.counted = table.counted, .rows = table.rows});
  }
  return absl::OkStatus();
}

// Makes all that the newest head speaks of.
absl::Status CheckpointReader::Prepare() {
  const CheckpointHead& head = newest();
  if (!foreign()) RUBATO_RETURN_IF_ERROR(Adopt(head));
  if (head.declaration.empty()) return absl::OkStatus();
  RUBATO_ASSIGN_OR_RETURN(Declaration declaration, DecodeDeclaration(head.declaration));
  RUBATO_RETURN_IF_ERROR(CheckSize(declaration));
  if (!shard_.declared()) {
    // Its dense weights follow; these are in their place.
    int64_t floats = 0;
    const int64_t size = declaration.signature.dense_size;
    for (int64_t s = 0; s < DenseSliceCount(size); ++s) {
      const Interval slice = DenseSliceAt(size, s);
      if (shard_.owned_[static_cast<size_t>(PartitionOfSlice(s))])
        floats += slice.end - slice.begin;
    }
    declaration.dense.resize(static_cast<size_t>(floats));
    RUBATO_RETURN_IF_ERROR(shard_.Declare(EncodeDeclaration(declaration, {{0, floats}}), nullptr));
  }
  if (shard_.tables_.size() != head.tables.size()) return absl::DataLossError("tables are missing");
  const double owned = static_cast<double>(PartitionsOf(shard_.histories_).size());
  const double here = static_cast<double>(PartitionsOf(head.histories).size());
  for (size_t t = 0; t < head.tables.size(); ++t) {
    const uint64_t entries = head.tables[t].rows + head.tables[t].counted;
    const double share = foreign() && here > 0 ? owned / here : 1;
    shard_.tables_[t]->Reserve(static_cast<uint64_t>(static_cast<double>(entries) * share));
  }
  shard_.counts_known_ = !foreign() && head.counters.size() == head.tables.size();
  for (size_t t = 0; t < head.tables.size() && shard_.counts_known_; ++t) {
    shard_.tables_[t]->RestoreCounters(head.counters[t]);
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Adopt(const CheckpointHead& head) {
  const ShardOptions& options = shard_.options();
  if (head.name.server != options.server || head.name.servers != options.servers) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the checkpoint of server %d of %d, not of %d of %d", head.name.server,
                        head.name.servers, options.server, options.servers));
  }
  if (PartitionsOf(head.histories) != head.map.PartitionsOf(options.server)) {
    return absl::DataLossError("a head with histories of another server's partitions");
  }
  shard_.map_ = head.map;
  shard_.SetOwned(head.histories);
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckSize(const Declaration& declaration) const {
  uint64_t promised = 0;  // At least so many floats.
  for (const CheckpointHead::Table& table : newest().tables) {
    promised = std::max({promised, table.rows, table.counted});
  }
  const int64_t slices = DenseSliceCount(declaration.signature.dense_size);
  const auto here = static_cast<int64_t>(file_bytes_ / sizeof(float) / kDenseSliceFloats) + 1;
  if (promised > file_bytes_ / sizeof(float) || slices / kPartitions > here) {
    return absl::DataLossError("a head that promises more than the file holds");
  }
  return absl::OkStatus();
}

// One record, or several that follow each other, each with some of the slices.
absl::Status CheckpointReader::AddDense(absl::string_view body) {
  if (!head_.has_value() || DenseRead()) return absl::DataLossError("dense weights out of place");
  const int64_t size = head_->declaration.empty() ? 0 : shard_.declaration_->signature.dense_size;
  if (!slices_.has_value() && delta()) {
    ByteReader reader(body);
    slices_ = reader.GetVector<int64_t>(reader.Get<uint64_t>());
    RUBATO_RETURN_IF_ERROR(reader.Check("slices"));
    body.remove_prefix(reader.position());
  } else if (!slices_.has_value()) {
    slices_.emplace();
    for (int64_t s = 0; s < DenseSliceCount(size); ++s) {
      if (here_[static_cast<size_t>(PartitionOfSlice(s))]) slices_->push_back(s);
    }
  }
  while (slices_read_ < slices_->size() && !body.empty()) {
    const int64_t s = (*slices_)[slices_read_++];
    if (s < 0 || s >= DenseSliceCount(size))
      return absl::DataLossError("dense weights of no slice");
    RUBATO_RETURN_IF_ERROR(AddSlice(s, &body));
  }
  if (!body.empty()) return absl::DataLossError("more dense weights than declared");
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddSlice(int64_t s, absl::string_view* body) {
  const auto partition = static_cast<size_t>(PartitionOfSlice(s));
  if (!here_[partition]) return absl::DataLossError("dense weights of others' slices");
  const Interval range = DenseSliceAt(shard_.declaration_->signature.dense_size, s);
  const auto floats = static_cast<size_t>(range.end - range.begin);
  const size_t bytes = (floats + shard_.optimizer_->dense_state_floats(floats)) * sizeof(float);
  if (bytes > body->size()) return absl::DataLossError("fewer dense weights than declared");
  const auto slice = shard_.dense_.find(s);
  if (slice != shard_.dense_.end() && take_[partition]) {
    RUBATO_CHECK(slice->second.size() * sizeof(float) == bytes);
    std::memcpy(slice->second.data(), body->data(), bytes);
  }
  body->remove_prefix(bytes);
  return absl::OkStatus();
}

absl::StatusOr<CheckpointReader::IdsOf> CheckpointReader::GetIds(absl::string_view body,
                                                                 absl::string_view what) const {
  CheckpointIdsHead head{};
  if (!DenseRead() || body.size() < sizeof(head)) {
    return absl::DataLossError(absl::StrCat(what, " out of place"));
  }
  std::memcpy(&head, body.data(), sizeof(head));
  if (head.table >= seen_.size()) return absl::DataLossError(absl::StrCat(what, " of no table"));
  const EmbeddingTable& table = *shard_.tables_[head.table];
  const size_t each = what == "rows"     ? table.row_floats() * sizeof(float)
                      : what == "counts" ? sizeof(uint32_t)
                                         : 0;
  body.remove_prefix(sizeof(head));
  const bool fits = head.ids == body.size() / (sizeof(uint64_t) + each) &&
                    body.size() % (sizeof(uint64_t) + each) == 0;
  if (!fits || (what == "rows" && head.row_floats != table.row_floats())) {
    return absl::DataLossError(absl::StrCat(what, " of table ", table.name(), " of another shape"));
  }
  const absl::Span<const uint64_t> ids(reinterpret_cast<const uint64_t*>(body.data()), head.ids);
  for (const uint64_t id : ids) {
    // What went may have been of a partition that is gone too.
    if (here_[PartitionOfId(id)] || each == 0) continue;
    return absl::DataLossError(absl::StrCat(what, " of table ", table.name(), " of others' ids"));
  }
  body.remove_prefix(ids.size() * sizeof(uint64_t));
  return IdsOf{.table = head.table, .ids = ids, .rest = body};
}

absl::Status CheckpointReader::AddGone(absl::string_view body) {
  RUBATO_ASSIGN_OR_RETURN(const IdsOf gone, GetIds(body, "lost ids"));
  Counts& seen = seen_[gone.table];
  if (!delta() || seen.counted > 0 || seen.rows > 0) {
    return absl::DataLossError("lost ids out of place");
  }
  seen.gone += gone.ids.size();
  for (const uint64_t id : gone.ids) {
    if (take_[PartitionOfId(id)]) shard_.tables_[gone.table]->Erase(id);
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddCounted(absl::string_view body) {
  RUBATO_ASSIGN_OR_RETURN(const IdsOf counted, GetIds(body, "counts"));
  EmbeddingTable& table = *shard_.tables_[counted.table];
  seen_[counted.table].counted += counted.ids.size();
  const auto* counts = reinterpret_cast<const uint32_t*>(counted.rest.data());
  for (size_t i = 0; i < counted.ids.size(); ++i) {
    const uint64_t id = counted.ids[i];
    if (!take_[PartitionOfId(id)]) continue;
    if (delta()) table.Erase(id);
    RUBATO_RETURN_IF_ERROR(table.RestoreCounted(id, counts[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddRows(absl::string_view body) {
  RUBATO_ASSIGN_OR_RETURN(const IdsOf part, GetIds(body, "rows"));
  EmbeddingTable& table = *shard_.tables_[part.table];
  seen_[part.table].rows += part.ids.size();
  const auto* rows = reinterpret_cast<const float*>(part.rest.data());
  for (size_t i = 0; i < part.ids.size(); ++i) {
    if (!take_[PartitionOfId(part.ids[i])]) continue;
    RUBATO_RETURN_IF_ERROR(
        table.Restore(part.ids[i], {rows + i * table.row_floats(), table.row_floats()}));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddStaged(absl::string_view body) {
  if (!DenseRead() || staged_ == 0) return absl::DataLossError("a gradient out of place");
  --staged_;
  if (!last()) return absl::OkStatus();
  RUBATO_ASSIGN_OR_RETURN(const StagedGradient gradient, StagedGradient::Decode(body));
  return shard_.RestoreStaged(gradient);
}

absl::Status CheckpointReader::AddEnd(absl::string_view body) {
  if (!head_.has_value()) return absl::DataLossError("an end without a head");
  end_ = true;
  if (!delta()) return absl::OkStatus();
  ByteReader reader(body);
  for (Counts& promised : promised_) {
    promised.gone = reader.Get<uint64_t>();
    promised.counted = reader.Get<uint64_t>();
    promised.rows = reader.Get<uint64_t>();
  }
  return reader.Check("end");
}

absl::Status CheckpointReader::Finish() const {
  const bool whole = head_.has_value() && DenseRead() && end_ && staged_ == 0;
  if (!whole) return absl::DataLossError("cut short: its end is missing");
  for (size_t t = 0; t < seen_.size(); ++t) {
    const EmbeddingTable& table = *shard_.tables_[t];
    const Counts& seen = seen_[t];
    if (seen != promised_[t]) {
      return absl::DataLossError(
          absl::StrFormat("table %s has %d rows and %d counted ids, not %d and %d", table.name(),
                          seen.rows, seen.counted, promised_[t].rows, promised_[t].counted));
    }
    const CheckpointHead::Table& all = head_->tables[t];
    if (foreign() || !last() || (table.rows() == all.rows && table.counted() == all.counted)) {
      continue;
    }
    return absl::DataLossError(
        absl::StrFormat("table %s now has %d rows and %d counted ids, not %d and %d", table.name(),
                        table.rows(), table.counted(), all.rows, all.counted));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointHead> ReadCheckpointHead(const CheckpointFile& file) {
  std::optional<absl::StatusOr<CheckpointHead>> head;
  const auto read =
      ReadRecords(file.path, file.bytes, [&](RecordKind kind, absl::string_view body) {
        if (kind == RecordKind::kCheckpointHead || kind == RecordKind::kCheckpointDelta) {
          head = DecodeHead(kind, body);
        }
        return absl::CancelledError("the first is enough");
      });
  if (head.has_value() && !head->ok()) return Annotate(head->status(), file.path);
  if (head.has_value()) return *std::move(head);
  if (!absl::IsCancelled(read.status())) RUBATO_RETURN_IF_ERROR(read.status());
  return absl::DataLossError(absl::StrCat(file.path, ": has no head"));
}

}  // namespace rubato

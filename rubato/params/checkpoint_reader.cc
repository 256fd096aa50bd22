#include "rubato/params/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

struct RowsHead {
  uint32_t table;
  uint32_t row_floats;
  uint64_t rows;
};

CheckpointName GetName(ByteReader& reader) {
  CheckpointName name;
  name.version = reader.Get<int64_t>();
  name.first_segment = reader.Get<int64_t>();
  name.server = reader.Get<int64_t>();
  name.servers = reader.Get<int64_t>();
  return name;
}

}  // namespace

absl::Status CheckpointReader::Add(RecordKind kind, absl::string_view body) {
  if (end_) return absl::DataLossError("a record after the end");
  switch (kind) {
    case RecordKind::kCheckpointHead:
      return AddHead(body);
    case RecordKind::kCheckpointDense:
      return AddDense(body);
    case RecordKind::kCheckpointRows:
      return AddRows(body);
    case RecordKind::kCheckpointCounted:
      return AddCounted(body);
    case RecordKind::kCheckpointStaged:
      return AddStaged(body);
    case RecordKind::kCheckpointEnd:
      end_ = true;
      return absl::OkStatus();
    default:
      return absl::DataLossError(
          absl::StrCat("a record of kind ", static_cast<uint32_t>(kind), " in a checkpoint"));
  }
}

absl::Status CheckpointReader::AddHead(absl::string_view body) {
  if (head_) return absl::DataLossError("two heads");
  head_ = true;
  ByteReader reader(body);
  const CheckpointName name = GetName(reader);
  const absl::string_view map_bytes = reader.GetString();
  const absl::string_view declaration_bytes = reader.GetString();
  RUBATO_RETURN_IF_ERROR(reader.Check("head"));
  RUBATO_ASSIGN_OR_RETURN(const PartitionMap map, PartitionMap::Decode(map_bytes));
  RUBATO_ASSIGN_OR_RETURN(histories_, GetHistories(reader));
  staged_ = reader.Get<uint64_t>();
  const auto tables = reader.Get<uint32_t>();
  for (uint32_t t = 0; t < tables && reader.ok(); ++t) {
    rows_.push_back({reader.Get<uint64_t>()});
    counted_.push_back({reader.Get<uint64_t>()});
  }
  RUBATO_RETURN_IF_ERROR(reader.Check("head"));
  if (!foreign_) RUBATO_RETURN_IF_ERROR(Adopt(name, map));
  if (declaration_bytes.empty()) return absl::OkStatus();
  RUBATO_ASSIGN_OR_RETURN(Declaration declaration, DecodeDeclaration(declaration_bytes));
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
  } else {
    RUBATO_RETURN_IF_ERROR(SameDeclaration(*shard_.declaration_, declaration));
  }
  if (shard_.tables_.size() != rows_.size()) return absl::DataLossError("tables are missing");
  const double owned = static_cast<double>(PartitionsOf(shard_.histories_).size());
  const double here = static_cast<double>(PartitionsOf(histories_).size());
  for (size_t t = 0; t < rows_.size(); ++t) {
    const uint64_t entries = rows_[t].promised + counted_[t].promised;
    const double share = foreign_ && here > 0 ? owned / here : 1;
    shard_.tables_[t]->Reserve(static_cast<uint64_t>(static_cast<double>(entries) * share));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Adopt(const CheckpointName& name, const PartitionMap& map) {
  const ShardOptions& options = shard_.options();
  if (name.server != options.server || name.servers != options.servers) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the checkpoint of server %d of %d, not of %d of %d", name.server,
                        name.servers, options.server, options.servers));
  }
  if (PartitionsOf(histories_) != map.PartitionsOf(options.server)) {
    return absl::DataLossError("a head with histories of another server's partitions");
  }
  shard_.map_ = map;
  shard_.SetOwned(histories_);
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckSize(const Declaration& declaration) const {
  uint64_t promised = 0;  // At least so many floats.
  for (const auto& counts : {rows_, counted_}) {
    for (const Count& count : counts) promised = std::max(promised, count.promised);
  }
  const int64_t slices = DenseSliceCount(declaration.signature.dense_size);
  const auto here = static_cast<int64_t>(file_bytes_ / sizeof(float) / kDenseSliceFloats) + 1;
  if (promised > file_bytes_ / sizeof(float) || slices / kPartitions > here) {
    return absl::DataLossError("a head that promises more than the file holds");
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddDense(absl::string_view body) {
  if (!head_ || dense_) return absl::DataLossError("dense weights out of place");
  dense_ = true;
  const int64_t size = shard_.declared() ? shard_.declaration_->signature.dense_size : 0;
  const IntervalSet here = PartitionsOf(histories_);
  for (int64_t s = 0; s < DenseSliceCount(size); ++s) {
    if (!here.Contains(PartitionOfSlice(s))) continue;
    const Interval range = DenseSliceAt(size, s);
    const auto floats = static_cast<size_t>(range.end - range.begin);
    const size_t bytes = (floats + shard_.optimizer_->dense_state_floats(floats)) * sizeof(float);
    if (bytes > body.size()) return absl::DataLossError("fewer dense weights than declared");
    if (const auto slice = shard_.dense_.find(s); slice != shard_.dense_.end()) {
      RUBATO_CHECK(slice->second.size() * sizeof(float) == bytes);
      std::memcpy(slice->second.data(), body.data(), bytes);
    }
    body.remove_prefix(bytes);
  }
  if (!body.empty()) return absl::DataLossError("more dense weights than declared");
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddRows(absl::string_view body) {
  RowsHead head{};
  if (!dense_ || body.size() < sizeof(head)) return absl::DataLossError("rows out of place");
  std::memcpy(&head, body.data(), sizeof(head));
  if (head.table >= shard_.tables_.size()) return absl::DataLossError("rows of no table");
  EmbeddingTable& table = *shard_.tables_[head.table];
  const size_t row_bytes = table.row_floats() * sizeof(float);
  body.remove_prefix(sizeof(head));
  if (head.row_floats != table.row_floats() ||
      head.rows != body.size() / (row_bytes + sizeof(uint64_t)) ||
      body.size() % (row_bytes + sizeof(uint64_t)) != 0) {
    return absl::DataLossError(absl::StrCat("rows of table ", table.name(), " of another shape"));
  }
  const auto* ids = reinterpret_cast<const uint64_t*>(body.data());
  const auto* rows = reinterpret_cast<const float*>(ids + head.rows);
  rows_[head.table].seen += head.rows;
  for (uint64_t i = 0; i < head.rows; ++i) {
    if (!Wants(ids[i])) {
      if (foreign_) continue;
      return absl::DataLossError(absl::StrCat("rows of table ", table.name(), " of others' ids"));
    }
    RUBATO_RETURN_IF_ERROR(
        table.Restore(ids[i], {rows + i * table.row_floats(), table.row_floats()}));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddCounted(absl::string_view body) {
  RowsHead head{};
  if (!dense_ || body.size() < sizeof(head)) return absl::DataLossError("counts out of place");
  std::memcpy(&head, body.data(), sizeof(head));
  if (head.table >= shard_.tables_.size()) return absl::DataLossError("counts of no table");
  body.remove_prefix(sizeof(head));
  constexpr size_t kEach = sizeof(uint64_t) + sizeof(uint32_t);
  if (head.rows != body.size() / kEach || body.size() % kEach != 0) {
    return absl::DataLossError("counts of another number of ids");
  }
  const auto* ids = reinterpret_cast<const uint64_t*>(body.data());
  const auto* counts = reinterpret_cast<const uint32_t*>(ids + head.rows);
  counted_[head.table].seen += head.rows;
  for (uint64_t i = 0; i < head.rows; ++i) {
    if (!Wants(ids[i])) {
      if (foreign_) continue;
      return absl::DataLossError("counts of others' ids");
    }
    RUBATO_RETURN_IF_ERROR(shard_.tables_[head.table]->RestoreCounted(ids[i], counts[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddStaged(absl::string_view body) {
  if (!dense_ || staged_ == 0) return absl::DataLossError("a gradient out of place");
  --staged_;
  RUBATO_ASSIGN_OR_RETURN(const StagedGradient gradient, StagedGradient::Decode(body));
  return shard_.RestoreStaged(gradient);
}

absl::Status CheckpointReader::Finish() const {
  const bool whole = head_ && dense_ && end_ && staged_ == 0;
  if (!whole) return absl::DataLossError("cut short: its end is missing");
  for (size_t t = 0; t < rows_.size() && shard_.declared(); ++t) {
    const EmbeddingTable& table = *shard_.tables_[t];
    const uint64_t rows = foreign_ ? rows_[t].seen : table.rows();
    const uint64_t counted = foreign_ ? counted_[t].seen : table.counted();
    if (rows == rows_[t].promised && counted == counted_[t].promised) continue;
    return absl::DataLossError(
        absl::StrFormat("table %s has %d rows and %d counted ids, not %d and %d", table.name(),
                        rows, counted, rows_[t].promised, counted_[t].promised));
  }
  return absl::OkStatus();
}

absl::Status RestoreShard(Shard& shard, const std::vector<CheckpointFile>& files) {
  const IntervalSet owned = PartitionsOf(shard.histories_);
  std::vector<History> histories;
  for (const CheckpointFile& file : files) {
    CheckpointReader reader(shard, file.bytes.size());
    reader.foreign_ = true;
    const auto read = ReadRecords(
        file.path, file.bytes,
        [&](RecordKind kind, absl::string_view body) { return reader.Add(kind, body); });
    RUBATO_RETURN_IF_ERROR(read.status());
    RUBATO_RETURN_IF_ERROR(Annotate(reader.Finish(), file.path));
    for (History& history : HistoriesOf(reader.histories_, owned)) {
      histories.push_back(std::move(history));
    }
  }
  int64_t partitions = 0;
  for (const History& history : histories) partitions += history.partitions.size();
  if (partitions != owned.size() || PartitionsOf(histories) != owned) {
    return absl::DataLossError(absl::StrCat("the checkpoint's files hold ", partitions, " of the ",
                                            owned.size(), " partitions of server ",
                                            shard.options().server));
  }
  JoinHistories(histories);
  shard.SetOwned(std::move(histories));
  shard.BeginNextStep();
  return absl::OkStatus();
}

absl::StatusOr<CheckpointName> ReadCheckpointName(absl::string_view head_body) {
  ByteReader reader(head_body);
  const CheckpointName name = GetName(reader);
  RUBATO_RETURN_IF_ERROR(reader.Check("head"));
  return name;
}

absl::StatusOr<CheckpointName> ReadCheckpointName(const CheckpointFile& file) {
  std::optional<absl::StatusOr<CheckpointName>> name;
  const auto read =
      ReadRecords(file.path, file.bytes, [&](RecordKind kind, absl::string_view body) {
        if (kind == RecordKind::kCheckpointHead) name = ReadCheckpointName(body);
        return absl::CancelledError("the first is enough");
      });
  if (name.has_value()) return *name;
  if (!absl::IsCancelled(read.status())) RUBATO_RETURN_IF_ERROR(read.status());
  return absl::DataLossError(absl::StrCat(file.path, ": has no head"));
}

}  // namespace rubato

#include "rubato/params/weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/shard.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr uint64_t kRowsMax = uint64_t{1} << 30;  // As a server's table.

template <typename T>
absl::string_view BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// All floats that are left; none after a failure.
std::vector<float> RestOf(ByteReader& reader) {
  return reader.ok() ? reader.GetVector<float>(reader.remaining() / sizeof(float))
                     : std::vector<float>();
}

// The first model, or whether the one that came agrees with it.
absl::Status Agree(const Declaration& model, std::optional<Declaration>* first) {
  if (first->has_value()) return SameDeclaration(**first, model);
  *first = model;
  (*first)->dense.clear();
  return absl::OkStatus();
}

absl::Status CheckRows(const ModelSignature& signature, size_t table, size_t ids, size_t floats) {
  if (table >= signature.tables.size()) return absl::DataLossError("rows of no table");
  const TableSpec& spec = signature.tables[table];
  if (floats == ids * static_cast<size_t>(spec.dim)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("rows of table ", spec.name, " of another shape"));
}

// Scoring moves nothing: no rule of any column keeps state in its rows.
TableSpec AtRest(TableSpec spec) {
  spec.optimizer.reset();
  spec.rows.reset();
  for (ColumnGroup& group : spec.groups) group.optimizer.reset();
  return spec;
}

}  // namespace

absl::Status Shard::VisitWeights(WeightsSink& sink) const {
  if (!declaration_.has_value()) return absl::FailedPreconditionError("no model was declared");
  RUBATO_RETURN_IF_ERROR(sink.Begin(*declaration_));
  for (const auto& [s, slice] : dense_) {
    const Interval range = DenseSliceAt(declaration_->signature.dense_size, s);
    const auto floats = static_cast<size_t>(range.end - range.begin);
    RUBATO_RETURN_IF_ERROR(sink.Dense(range.begin, {slice.data(), floats}));
  }
  for (size_t t = 0; t < tables_.size(); ++t) {
    const EmbeddingTable& table = *tables_[t];
    std::vector<uint64_t> ids;
    std::vector<float> rows;
    absl::Status status;
    // As a worker would pull them, so that decay that is due counts.
    const auto flush = [&] {
      rows.resize(ids.size() * table.dim());
      GatherRows(t, ids, rows.data());
      if (status.ok() && !ids.empty()) status = sink.Rows(t, ids, rows);
      ids.clear();
    };
    table.Visit(0, UINT64_MAX, [&](uint64_t id, uint32_t) {
      if (!owned_[static_cast<size_t>(PartitionOf(PointOf(id)))]) return;
      ids.push_back(id);
      if (ids.size() == 4096) flush();
    });
    flush();
    RUBATO_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// ---- to a file ----

absl::Status WeightsWriter::Begin(const Declaration& model) {
  const bool is_first = !model_.has_value();
  RUBATO_RETURN_IF_ERROR(Agree(model, &model_));
  if (!is_first) return absl::OkStatus();
  rows_.resize(model.signature.tables.size());
  return sink_.Append(RecordKind::kWeightsHead, EncodeDeclaration(*model_, {}));
}

absl::Status WeightsWriter::Dense(int64_t offset, absl::Span<const float> weights) {
  RUBATO_CHECK(model_.has_value());
  dense_ += static_cast<int64_t>(weights.size());
  std::string body;
  ByteWriter writer(body);
  writer.Put<int64_t>(offset);
  writer.PutSpan<float>(weights);
  return sink_.Append(RecordKind::kWeightsDense, body);
}

absl::Status WeightsWriter::Rows(size_t table, absl::Span<const uint64_t> ids,
                                 absl::Span<const float> rows) {
  RUBATO_CHECK(model_.has_value());
  RUBATO_RETURN_IF_ERROR(CheckRows(model_->signature, table, ids.size(), rows.size()));
  rows_[table] += static_cast<int64_t>(ids.size());
  std::string body;
  ByteWriter writer(body);
  writer.Put<uint64_t>(table);
  writer.Put<uint64_t>(ids.size());
  writer.PutSpan<uint64_t>(ids);
  writer.PutSpan<float>(rows);
  return sink_.Append(RecordKind::kWeightsRows, body);
}

absl::Status WeightsWriter::Finish() {
  if (!model_.has_value() || dense_ != model_->signature.dense_size) {
    return absl::FailedPreconditionError("not every weight of the model is there");
  }
  std::string body;
  ByteWriter writer(body);
  for (const int64_t rows : rows_) writer.Put<int64_t>(rows);
  return sink_.Append(RecordKind::kWeightsEnd, body);
}

absl::Status ReadWeights(absl::string_view file, absl::string_view bytes, WeightsSink& sink) {
  std::vector<int64_t> rows;
  std::optional<ModelSignature> signature;
  bool ended = false;
  const auto visit = [&](RecordKind kind, absl::string_view body) -> absl::Status {
    ByteReader reader(body);
    if (ended || (!signature.has_value() && kind != RecordKind::kWeightsHead)) {
      return absl::DataLossError("a record out of place");
    }
    if (kind == RecordKind::kWeightsHead) {
      RUBATO_ASSIGN_OR_RETURN(const Declaration model, DecodeDeclaration(body));
      signature = model.signature;
      if (signature->dense_size > static_cast<int64_t>(bytes.size() / sizeof(float))) {
        return absl::DataLossError("a head that promises more than the file holds");
      }
      rows.resize(signature->tables.size());
      return sink.Begin(model);
    }
    if (kind == RecordKind::kWeightsDense) {
      const auto offset = reader.Get<int64_t>();
      const std::vector<float> weights = RestOf(reader);
      return reader.ok() ? sink.Dense(offset, weights) : reader.Check("dense weights");
    }
    if (kind == RecordKind::kWeightsRows) {
      const auto table = reader.Get<uint64_t>();
      const std::vector<uint64_t> ids = reader.GetVector<uint64_t>(reader.Get<uint64_t>());
      const std::vector<float> values = RestOf(reader);
      RUBATO_RETURN_IF_ERROR(reader.Check("rows"));
      RUBATO_RETURN_IF_ERROR(CheckRows(*signature, table, ids.size(), values.size()));
      rows[table] += static_cast<int64_t>(ids.size());
      return sink.Rows(table, ids, values);
    }
    if (kind != RecordKind::kWeightsEnd) return absl::DataLossError("no record of weights");
    ended = true;
    for (const int64_t count : rows) {
      if (reader.Get<int64_t>() != count) return absl::DataLossError("rows are missing");
    }
    return reader.Check("the end");
  };
  RUBATO_RETURN_IF_ERROR(ReadRecords(file, bytes, visit).status());
  if (ended) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file, ": is cut short: its end is missing"));
}

// ---- to memory ----

absl::Status FrozenWeights::Begin(const Declaration& model) {
  const bool is_first = !model_.has_value();
  RUBATO_RETURN_IF_ERROR(Agree(model, &model_));
  if (!is_first) return absl::OkStatus();
  dense_.resize(static_cast<size_t>(std::max<int64_t>(0, model.signature.dense_size)));
  std::vector<EmbeddingTableOptions> all;
  for (const TableSpec& spec : model.signature.tables) {
    all.push_back({.spec = AtRest(spec),
                   .optimizer = {.name = "sgd"},
                   .seed = model.seed,
                   .rows_max = kRowsMax});
  }
  RUBATO_ASSIGN_OR_RETURN(tables_, EmbeddingTable::MakeAll(memory_, std::move(all)));
  for (const auto& table : tables_) RUBATO_CHECK(table->row_floats() == table->dim());
  checksum_ = Checksum(EncodeDeclaration(*model_, {}));
  return absl::OkStatus();
}

absl::Status FrozenWeights::Dense(int64_t offset, absl::Span<const float> weights) {
  const auto size = static_cast<int64_t>(weights.size());
  if (offset < 0 || size > static_cast<int64_t>(dense_.size()) - offset) {
    return absl::DataLossError("dense weights beyond those of the model");
  }
  std::copy(weights.begin(), weights.end(), dense_.begin() + offset);
  dense_seen_ += size;
  checksum_ = Mix(checksum_, Checksum(BytesOf(weights)));
  return absl::OkStatus();
}

absl::Status FrozenWeights::Rows(size_t table, absl::Span<const uint64_t> ids,
                                 absl::Span<const float> rows) {
  RUBATO_RETURN_IF_ERROR(CheckRows(model_->signature, table, ids.size(), rows.size()));
  RUBATO_RETURN_IF_ERROR(tables_[table]->CheckRoom(ids.size()));
  tables_[table]->Append(ids, rows.data());
  checksum_ = Mix(checksum_, Mix(Checksum(BytesOf(ids)), Checksum(BytesOf(rows))));
  return absl::OkStatus();
}

absl::Status FrozenWeights::Finish() {
  for (const auto& table : tables_) RUBATO_RETURN_IF_ERROR(table->LinkAppended());
  if (model_.has_value() && dense_seen_ == static_cast<int64_t>(dense_.size())) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("it holds ", dense_seen_, " dense weights of ", dense_.size()));
}

int64_t FrozenWeights::rows() const {
  int64_t rows = 0;
  for (const auto& table : tables_) rows += static_cast<int64_t>(table->rows());
  return rows;
}

}  // namespace rubato

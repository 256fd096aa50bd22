#include "rubato/params/declaration.h"

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

// No model comes near these; bytes that claim more are not worth an allocation.
constexpr uint32_t kPartsMax = 1 << 20;
constexpr int64_t kDenseMax = int64_t{1} << 40;
// A bit of the byte that says the mode.
constexpr uint8_t kScaleStale = 0x80;

void PutInts(ByteWriter& writer, const std::vector<int64_t>& values) {
  writer.Put<uint32_t>(static_cast<uint32_t>(values.size()));
  writer.PutSpan<int64_t>(values);
}

// "table deep: dim 8, but was declared as 16"
template <typename T>
absl::Status Differ(absl::string_view what, const T& later, const T& first) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " ", later, ", but was declared as ", first));
}

absl::Status SameTable(const TableSpec& first, const TableSpec& later) {
  const std::string name = absl::StrCat("table ", first.name, ": ");
  if (later.name != first.name) return Differ("table", later.name, first.name);
  if (later.dim != first.dim) return Differ(name + "dim", later.dim, first.dim);
  if (later.initializer.name != first.initializer.name) {
    return Differ(name + "initializer", later.initializer.name, first.initializer.name);
  }
  if (later.initializer.scale != first.initializer.scale) {
    return Differ(name + "scale", later.initializer.scale, first.initializer.scale);
  }
  if (later.optimizer != first.optimizer || later.groups != first.groups) {
    return absl::FailedPreconditionError(name + "another optimizer or columns than declared");
  }
  if (later.rows != first.rows) {
    return absl::FailedPreconditionError(name + "other rules for its rows than declared");
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string, std::string>> FieldsOf(const OptimizerSpec& spec) {
  std::vector<std::pair<std::string, std::string>> fields;
  VisitOptimizerFields(spec, [&](const char* key, const auto& value) {
    fields.emplace_back(key, absl::StrCat(value));
  });
  return fields;
}

absl::Status SameOptimizer(const OptimizerSpec& first, const OptimizerSpec& later) {
  const auto old_fields = FieldsOf(first), new_fields = FieldsOf(later);
  for (size_t i = 0; i < old_fields.size(); ++i) {
    const auto& [key, value] = new_fields[i];
    if (value != old_fields[i].second) return Differ(key, value, old_fields[i].second);
  }
  if (first == later) return absl::OkStatus();
  return absl::FailedPreconditionError("optimizer differs from the one declared, beyond 6 digits");
}

struct PutField {
  ByteWriter& writer;
  void operator()(const char*, const std::string& value) { writer.PutString(value); }
  template <typename T>
  void operator()(const char*, const T& value) {
    writer.Put<T>(value);
  }
};
struct GetField {
  ByteReader& reader;
  void operator()(const char*, std::string& value) { value = std::string(reader.GetString()); }
  template <typename T>
  void operator()(const char*, T& value) {
    value = reader.Get<T>();
  }
};

void PutOptimizer(ByteWriter& writer, const std::optional<OptimizerSpec>& optimizer) {
  writer.Put<uint8_t>(optimizer.has_value());
  if (optimizer.has_value()) VisitOptimizerFields(*optimizer, PutField{writer});
}
void GetOptimizer(ByteReader& reader, std::optional<OptimizerSpec>& optimizer) {
  if (reader.Get<uint8_t>() != 0) VisitOptimizerFields(optimizer.emplace(), GetField{reader});
}

void PutRows(ByteWriter& writer, const RowsSpec& rows) {
  writer.Put<int64_t>(rows.admit_count);
  writer.Put<double>(rows.admit_probability);
  writer.Put<int64_t>(rows.ttl_steps);
  writer.Put<int64_t>(rows.capacity);
}
RowsSpec GetRows(ByteReader& reader) {
  RowsSpec rows;
  rows.admit_count = reader.Get<int64_t>();
  rows.admit_probability = reader.Get<double>();
  rows.ttl_steps = reader.Get<int64_t>();
  rows.capacity = reader.Get<int64_t>();
  return rows;
}

void PutInitializer(ByteWriter& writer, const InitializerSpec& initializer) {
  writer.PutString(initializer.name);
  writer.Put<double>(initializer.scale);
}
void GetInitializer(ByteReader& reader, InitializerSpec& initializer) {
  initializer.name = std::string(reader.GetString());
  initializer.scale = reader.Get<double>();
}

void PutTable(ByteWriter& writer, const TableSpec& table) {
  writer.PutString(table.name);
  writer.Put<int64_t>(table.dim);
  PutInitializer(writer, table.initializer);
  PutInts(writer, table.fields);
  PutOptimizer(writer, table.optimizer);
  writer.Put<uint32_t>(static_cast<uint32_t>(table.groups.size()));
  for (const ColumnGroup& group : table.groups) {
    writer.Put<int64_t>(group.dim);
    PutInitializer(writer, group.initializer);
    PutOptimizer(writer, group.optimizer);
  }
  writer.Put<uint8_t>(table.rows.has_value());
  if (table.rows.has_value()) PutRows(writer, *table.rows);
}
void GetTable(ByteReader& reader, TableSpec& table) {
  table.name = std::string(reader.GetString());
  table.dim = reader.Get<int64_t>();
  GetInitializer(reader, table.initializer);
  table.fields = reader.GetVector<int64_t>(reader.Get<uint32_t>());
  GetOptimizer(reader, table.optimizer);
  for (auto n = std::min(reader.Get<uint32_t>(), kPartsMax); n > 0 && reader.ok(); --n) {
    ColumnGroup& group = table.groups.emplace_back();
    group.dim = reader.Get<int64_t>();
    GetInitializer(reader, group.initializer);
    GetOptimizer(reader, group.optimizer);
  }
  if (reader.Get<uint8_t>() != 0) table.rows = GetRows(reader);
}

}  // namespace

PushMode PushModeOf(absl::string_view name) {
  return name == "sync" ? PushMode::kSync : name == "hybrid" ? PushMode::kHybrid : PushMode::kAsync;
}

absl::string_view PushOutcomeName(PushOutcome outcome) {
  switch (outcome) {
    case PushOutcome::kApplied:
      return "applied";
    case PushOutcome::kDuplicate:
      return "duplicate";
    case PushOutcome::kFenced:
      return "fenced";
    case PushOutcome::kStale:
      return "stale";
  }
  return "?";
}

std::string EncodeDeclaration(const Declaration& declaration, const std::vector<Interval>& slices) {
  std::string body;
  ByteWriter writer(body);
  writer.Put<uint64_t>(declaration.seed);
  VisitOptimizerFields(declaration.optimizer, PutField{writer});
  PutRows(writer, declaration.rows);
  writer.Put<uint8_t>(static_cast<uint8_t>(declaration.mode) |
                      (declaration.scale_stale ? kScaleStale : 0));
  writer.Put<int64_t>(declaration.tolerance);
  writer.Put<int64_t>(declaration.signature.dense_size);
  writer.Put<uint32_t>(static_cast<uint32_t>(declaration.signature.dense.size()));
  for (const DenseParameter& dense : declaration.signature.dense) {
    writer.PutString(dense.name);
    PutInts(writer, dense.shape);
    writer.Put<int64_t>(dense.size);
    writer.Put<int64_t>(dense.offset);
  }
  writer.Put<uint32_t>(static_cast<uint32_t>(declaration.signature.tables.size()));
  for (const TableSpec& table : declaration.signature.tables) {
    PutTable(writer, table);
  }
  uint64_t floats = 0;
  for (const Interval& slice : slices) floats += static_cast<uint64_t>(slice.end - slice.begin);
  writer.Put<uint64_t>(floats);
  for (const Interval& slice : slices) {
    writer.PutSpan<float>(absl::MakeConstSpan(declaration.dense)
                              .subspan(static_cast<size_t>(slice.begin),
                                       static_cast<size_t>(slice.end - slice.begin)));
  }
  return body;
}

absl::StatusOr<Declaration> DecodeDeclaration(absl::string_view body) {
  ByteReader reader(body);
  const auto ints = [&] { return reader.GetVector<int64_t>(reader.Get<uint32_t>()); };
  const auto parts = [&] { return std::min(reader.Get<uint32_t>(), kPartsMax); };
  Declaration declaration;
  declaration.seed = reader.Get<uint64_t>();
  VisitOptimizerFields(declaration.optimizer, GetField{reader});
  declaration.rows = GetRows(reader);
  const auto mode_bits = reader.Get<uint8_t>();
  declaration.scale_stale = (mode_bits & kScaleStale) != 0;
  const auto mode = static_cast<uint8_t>(mode_bits & ~kScaleStale);
  declaration.mode = static_cast<PushMode>(mode);
  declaration.tolerance = reader.Get<int64_t>();
  declaration.signature.dense_size = reader.Get<int64_t>();
  for (uint32_t n = parts(); n > 0 && reader.ok(); --n) {
    DenseParameter& dense = declaration.signature.dense.emplace_back();
    dense.name = std::string(reader.GetString());
    dense.shape = ints();
    dense.size = reader.Get<int64_t>();
    dense.offset = reader.Get<int64_t>();
  }
  for (uint32_t n = parts(); n > 0 && reader.ok(); --n) {
    GetTable(reader, declaration.signature.tables.emplace_back());
  }
  declaration.dense = reader.GetVector<float>(reader.Get<uint64_t>());
  const bool mode_known =
      mode <= static_cast<uint8_t>(PushMode::kHybrid) && (mode == 0 || !declaration.scale_stale);
  const int64_t dense_size = declaration.signature.dense_size;
  if (!reader.ok() || reader.remaining() > 0 || !mode_known || declaration.tolerance < 0 ||
      dense_size < 0 || dense_size > kDenseMax) {
    return absl::InvalidArgumentError("bytes that are no declaration of a model");
  }
  return declaration;
}

absl::Status SameDeclaration(const Declaration& first, const Declaration& later) {
  if (later.seed != first.seed) return Differ("seed", later.seed, first.seed);
  RUBATO_RETURN_IF_ERROR(SameOptimizer(first.optimizer, later.optimizer));
  if (later.mode != first.mode) {
    return Differ("mode", static_cast<int>(later.mode), static_cast<int>(first.mode));
  }
  if (later.scale_stale != first.scale_stale) {
    return Differ("params.staleness", later.scale_stale, first.scale_stale);
  }
  if (later.tolerance != first.tolerance && first.mode != PushMode::kAsync) {
    return Differ("rounds.tolerance", later.tolerance, first.tolerance);
  }
  if (later.rows != first.rows) {
    return absl::FailedPreconditionError("other rules for rows of tables than declared");
  }
  if (later.signature.dense_size != first.signature.dense_size) {
    return Differ("dense weights", later.signature.dense_size, first.signature.dense_size);
  }
  if (later.signature.tables.size() != first.signature.tables.size()) {
    return Differ("tables", later.signature.tables.size(), first.signature.tables.size());
  }
  for (size_t t = 0; t < first.signature.tables.size(); ++t) {
    RUBATO_RETURN_IF_ERROR(SameTable(first.signature.tables[t], later.signature.tables[t]));
  }
  return absl::OkStatus();
}

}  // namespace rubato

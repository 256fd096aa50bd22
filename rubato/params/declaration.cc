#include "rubato/params/declaration.h"

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

// No model comes near these; bytes that claim more are not worth an allocation.
constexpr uint32_t kPartsMax = 1 << 20;

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

}  // namespace

absl::string_view PushOutcomeName(PushOutcome outcome) {
  switch (outcome) {
    case PushOutcome::kApplied:
      return "applied";
    case PushOutcome::kDuplicate:
      return "duplicate";
    case PushOutcome::kFenced:
      return "fenced";
  }
  return "?";
}

std::string EncodeDeclaration(const Declaration& declaration, Interval slice) {
  std::string body;
  ByteWriter writer(body);
  writer.Put<uint64_t>(declaration.seed);
  VisitOptimizerFields(declaration.optimizer, PutField{writer});
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
    writer.PutString(table.name);
    writer.Put<int64_t>(table.dim);
    writer.PutString(table.initializer.name);
    writer.Put<double>(table.initializer.scale);
    PutInts(writer, table.fields);
  }
  const auto part =
      absl::MakeConstSpan(declaration.dense)
          .subspan(static_cast<size_t>(slice.begin), static_cast<size_t>(slice.end - slice.begin));
  writer.Put<uint64_t>(part.size());
  writer.PutSpan<float>(part);
  return body;
}

absl::StatusOr<Declaration> DecodeDeclaration(absl::string_view body) {
  ByteReader reader(body);
  const auto ints = [&] { return reader.GetVector<int64_t>(reader.Get<uint32_t>()); };
  const auto parts = [&] { return std::min(reader.Get<uint32_t>(), kPartsMax); };
  Declaration declaration;
  declaration.seed = reader.Get<uint64_t>();
  VisitOptimizerFields(declaration.optimizer, GetField{reader});
  declaration.signature.dense_size = reader.Get<int64_t>();
  for (uint32_t n = parts(); n > 0 && reader.ok(); --n) {
    DenseParameter& dense = declaration.signature.dense.emplace_back();
    dense.name = std::string(reader.GetString());
    dense.shape = ints();
    dense.size = reader.Get<int64_t>();
    dense.offset = reader.Get<int64_t>();
  }
  for (uint32_t n = parts(); n > 0 && reader.ok(); --n) {
    TableSpec& table = declaration.signature.tables.emplace_back();
    table.name = std::string(reader.GetString());
    table.dim = reader.Get<int64_t>();
    table.initializer.name = std::string(reader.GetString());
    table.initializer.scale = reader.Get<double>();
    table.fields = ints();
  }
  declaration.dense = reader.GetVector<float>(reader.Get<uint64_t>());
  if (!reader.ok() || reader.remaining() > 0) {
    return absl::InvalidArgumentError("bytes that are no declaration of a model");
  }
  return declaration;
}

absl::Status SameDeclaration(const Declaration& first, const Declaration& later) {
  if (later.seed != first.seed) return Differ("seed", later.seed, first.seed);
  RUBATO_RETURN_IF_ERROR(SameOptimizer(first.optimizer, later.optimizer));
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

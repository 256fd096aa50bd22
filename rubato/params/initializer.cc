#include "rubato/params/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// 24 random bits each: (0, 1] and [-1, 1).
double Positive(uint32_t bits) { return ((bits >> 8) + 1) * 0x1.0p-24; }
float Symmetric(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 8) - (1 << 23)) * 0x1.0p-23f;
}

// Two independent standard normal values (Box and Muller).
std::array<double, 2> NormalPair(uint64_t draw) {
  const double radius = std::sqrt(-2 * std::log(Positive(static_cast<uint32_t>(draw))));
  const double angle = 2 * std::numbers::pi * Positive(static_cast<uint32_t>(draw >> 32));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Drawn again until it is within two deviations, which 95 of 100 are at once.
double Truncated(uint64_t stream) {
  for (uint64_t attempt = 0;; ++attempt) {
    const double value = NormalPair(Mix(stream, attempt))[0];
    if (std::abs(value) <= 2) return value;
  }
}

}  // namespace

// Adding one is one line here, or one more Kind.
struct Initializer::Named {
  const char* name;
  Kind kind;
  double fan;
};
// A row leads from one id to `dim` values, which the next layer reads: fan-in and fan-out of the
// textbook are both taken to be dim.
const Initializer::Named Initializer::kNames[] = {
    {"zeros", Kind::kConstant, 0},
    {"constant", Kind::kConstant, 0},
    {"uniform", Kind::kUniform, 0},
    {"normal", Kind::kNormal, 0},
    {"truncated_normal", Kind::kTruncatedNormal, 0},
    {"xavier_uniform", Kind::kUniform, 3},
    {"xavier_normal", Kind::kNormal, 1},
    {"he_uniform", Kind::kUniform, 6},
    {"he_normal", Kind::kNormal, 2},
};

absl::StatusOr<Initializer> Initializer::Make(const InitializerSpec& spec, uint64_t seed,
                                              absl::string_view table) {
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const Named& named) { return spec.name == named.name; });
  if (found == std::end(kNames)) {
    const auto name = [](std::string* out, const Named& named) { out->append(named.name); };
    return absl::InvalidArgumentError(absl::StrCat("table ", table, ": unknown initializer '",
                                                   spec.name, "'; there are ",
                                                   absl::StrJoin(kNames, ", ", name)));
  }
  Initializer made;
  made.stream_ = Mix(seed, HashText(table, 0));
  made.kind_ = found->kind;
  made.fan_ = found->fan;
  made.scale_ = spec.name == "zeros" ? 0 : spec.scale;
  if (!std::isfinite(static_cast<float>(made.scale_))) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table, ": initializer scale ", spec.scale, " is not finite"));
  }
  return made;
}

void Initializer::Fill(uint64_t id, absl::Span<float> row) const {
  const uint64_t stream = Mix(stream_, id);
  const double scale =
      fan_ == 0 ? scale_ : scale_ * std::sqrt(fan_ / static_cast<double>(row.size()));
  const auto narrow = static_cast<float>(scale);
  switch (kind_) {
    case Kind::kConstant:
      std::fill(row.begin(), row.end(), narrow);
      break;
    case Kind::kUniform:
      for (size_t i = 0; i < row.size(); ++i) {  // Two values from each draw.
        const uint64_t draw = Mix(stream + (i & ~size_t{1}));
        row[i] = narrow * Symmetric(static_cast<uint32_t>(i & 1 ? draw >> 32 : draw));
      }
      break;
    case Kind::kNormal:
      for (size_t i = 0; i < row.size(); i += 2) {
        const auto pair = NormalPair(Mix(stream + i));
        row[i] = static_cast<float>(scale * pair[0]);
        if (i + 1 < row.size()) row[i + 1] = static_cast<float>(scale * pair[1]);
      }
      break;
    case Kind::kTruncatedNormal:
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<float>(scale * Truncated(stream + i));
      }
      break;
  }
}

absl::StatusOr<RowInitializer> RowInitializer::Make(const TableSpec& table, uint64_t seed) {
  std::vector<ColumnGroup> groups = table.groups;
  if (groups.empty()) groups = {{table.dim, table.initializer}};
  RowInitializer made;
  int64_t columns = 0;
  for (const ColumnGroup& group : groups) {
    if (group.dim < 1 || group.dim > table.dim - columns) {
      return absl::InvalidArgumentError(absl::StrCat("table ", table.name, ": a group of ",
                                                     group.dim, " columns does not fit into ",
                                                     table.dim - columns));
    }
    columns += group.dim;
    // The first group starts as it would alone; the others need values of their own.
    const std::string name =
        made.groups_.empty() ? table.name : absl::StrCat(table.name, "/", made.groups_.size());
    RUBATO_ASSIGN_OR_RETURN(Initializer initializer,
                            Initializer::Make(group.initializer, seed, name));
    made.groups_.push_back({initializer, static_cast<size_t>(group.dim)});
  }
  if (columns == table.dim) return made;
  return absl::InvalidArgumentError(absl::StrCat("table ", table.name, ": groups of ", columns,
                                                 " columns in all, but dim is ", table.dim));
}

void RowInitializer::Fill(uint64_t id, float* row) const {
  for (const Group& group : groups_) {
    group.initializer.Fill(id, {row, group.dim});
    row += group.dim;
  }
}

}  // namespace rubato

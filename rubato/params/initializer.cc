#include "rubato/params/initializer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// 24 random bits each: (0, 1] and [-1, 1).
double Positive(uint32_t bits) { return ((bits >> 8) + 1) * 0x1.0p-24; }
float Symmetric(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 8) - (1 << 23)) * 0x1.0p-23f;
}

// Two values for each 64-bit draw `draw(k)`; `pair` makes them from its halves.
template <typename Pair>
void FillPairs(uint64_t stream, absl::Span<float> row, Pair pair) {
  for (size_t i = 0; i < row.size(); i += 2) {
    const uint64_t draw = Mix(stream + i);
    float values[2];
    pair(static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), values);
    row[i] = values[0];
    if (i + 1 < row.size()) row[i + 1] = values[1];
  }
}

}  // namespace

absl::StatusOr<Initializer> Initializer::Make(const InitializerSpec& spec, uint64_t seed,
                                              absl::string_view table) {
  Initializer made;
  made.stream_ = Mix(seed, HashText(table, 0));
  made.scale_ = static_cast<float>(spec.scale);
  if (!std::isfinite(made.scale_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table, ": initializer scale ", spec.scale, " is not finite"));
  }
  if (spec.name == "zeros") {
    made.scale_ = 0;
  } else if (spec.name == "constant") {
    made.kind_ = Kind::kConstant;
  } else if (spec.name == "uniform") {
    made.kind_ = Kind::kUniform;
  } else if (spec.name == "normal") {
    made.kind_ = Kind::kNormal;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table, ": unknown initializer '", spec.name,
                     "'; there are zeros, constant, uniform, normal"));
  }
  return made;
}

void Initializer::Fill(uint64_t id, absl::Span<float> row) const {
  const uint64_t stream = Mix(stream_, id);
  switch (kind_) {
    case Kind::kConstant:
      std::fill(row.begin(), row.end(), scale_);
      break;
    case Kind::kUniform:
      FillPairs(stream, row, [scale = scale_](uint32_t a, uint32_t b, float* out) {
        out[0] = scale * Symmetric(a);
        out[1] = scale * Symmetric(b);
      });
      break;
    case Kind::kNormal:
      FillPairs(stream, row, [scale = scale_](uint32_t a, uint32_t b, float* out) {
        const double radius = scale * std::sqrt(-2 * std::log(Positive(a)));
        const double angle = 2 * std::numbers::pi * Positive(b);
        out[0] = static_cast<float>(radius * std::cos(angle));
        out[1] = static_cast<float>(radius * std::sin(angle));
      });
      break;
  }
}

}  // namespace rubato

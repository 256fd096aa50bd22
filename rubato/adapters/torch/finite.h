// Whether numbers are numbers.
#ifndef RUBATO_ADAPTERS_TORCH_FINITE_H_
#define RUBATO_ADAPTERS_TORCH_FINITE_H_

#include <bit>
#include <cstdint>

#include "absl/types/span.h"

namespace rubato {

// True if a value is infinite or not a number. Integer arithmetic, so that it vectorizes.
inline bool AnyNotFinite(absl::Span<const float> values) {
  uint32_t bad = 0;
  for (const float value : values) {
    const uint32_t exponent = std::bit_cast<uint32_t>(value) & 0x7f800000u;
    bad |= static_cast<uint32_t>(exponent == 0x7f800000u);
  }
  return bad != 0;
}

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_FINITE_H_

#include "rubato/schedule/overhead.h"

#include <bit>
#include <cmath>

namespace rubato {

RescaleCost RescaleCost::ForCluster(int gpus) {
  return {.base_s = gpus >= 256 ? 7.0 : 2.0, .per_doubling_s = 2};
}

double RescaleCost::Seconds(int gpus) const {
  if (gpus <= 0) return 0;
  const auto count = static_cast<unsigned>(gpus);
  // Asked by the million, mostly about powers of two.
  const double doublings = std::has_single_bit(count) ? std::countr_zero(count) : std::log2(count);
  return base_s + per_doubling_s * (doublings + 1);
}

}  // namespace rubato

#include "rubato/schedule/overhead.h"

#include <cmath>

namespace rubato {

RescaleCost RescaleCost::ForCluster(int gpus) {
  return {.base_s = gpus >= 256 ? 7.0 : 2.0, .per_doubling_s = 2};
}

double RescaleCost::Seconds(int gpus) const {
  if (gpus <= 0) return 0;
  return base_s + per_doubling_s * (std::log2(static_cast<double>(gpus)) + 1);
}

}  // namespace rubato

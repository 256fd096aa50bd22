#include "rubato/models/lane_kernels.h"

namespace rubato {

const LaneKernels& ChosenLanes() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return kLanesAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kLanesAvx2;
#endif
  return kLanesPlain;
}

}  // namespace rubato

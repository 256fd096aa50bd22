#include "rubato/adapters/torch_loader/kernels.h"

#include <stdlib.h>

namespace rubato {

bool ChooseKernels() {
#if defined(__x86_64__)
  if (getenv("OPENBLAS_CORETYPE") != nullptr) return false;
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!avx512 && !avx2) return false;
  return setenv("OPENBLAS_CORETYPE", avx512 ? "SkylakeX" : "Haswell", /*replace=*/0) == 0;
#else
  return false;
#endif
}

}  // namespace rubato

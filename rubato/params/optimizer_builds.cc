#include "rubato/params/optimizer_builds.h"

namespace rubato {

std::vector<const OptimizerKernels*> OptimizerBuilds() {
  std::vector<const OptimizerKernels*> builds = {&kKernelsPlain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) builds.push_back(&kKernelsAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    builds.push_back(&kKernelsAvx512);
    // Another maker's estimates of roots were not tried.
    if (__builtin_cpu_is("intel")) builds.push_back(&kKernelsAvx512Roots);
  }
#endif
  return builds;
}

}  // namespace rubato

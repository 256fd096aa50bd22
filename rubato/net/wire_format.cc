#include "rubato/net/wire_format.h"

#include <cstring>

namespace rubato {
namespace {

const WireKernels& Kernels() {
  static const WireKernels& chosen = []() -> const WireKernels& {
    const WireKernels* kernels[3];
    return *kernels[WireKernelsHere(kernels) - 1];
  }();
  return chosen;
}

}  // namespace

size_t WireKernelsHere(const WireKernels* (&kernels)[3]) {
  size_t count = 0;
  kernels[count++] = &kWireKernelsPlain;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Whatever has AVX2 has F16C, which is older, and which clang cannot be asked about.
  if (__builtin_cpu_supports("avx2")) {
    kernels[count++] = &kWireKernelsAvx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
      kernels[count++] = &kWireKernelsAvx512;
    }
  }
#endif
  return count;
}

void PackFloats(WireFormat format, const float* values, size_t count, void* wire) {
  if (count == 0) return;
  switch (format) {
    case WireFormat::kFp32:
      std::memcpy(wire, values, count * sizeof(float));
      return;
    case WireFormat::kBf16:
      return Kernels().to_bf16(values, count, static_cast<uint16_t*>(wire));
    case WireFormat::kFp16:
      return Kernels().to_fp16(values, count, static_cast<uint16_t*>(wire));
  }
}

void UnpackFloats(WireFormat format, const void* wire, size_t count, float* values) {
  if (count == 0) return;
  switch (format) {
    case WireFormat::kFp32:
      std::memcpy(values, wire, count * sizeof(float));
      return;
    case WireFormat::kBf16:
      return Kernels().from_bf16(static_cast<const uint16_t*>(wire), count, values);
    case WireFormat::kFp16:
      return Kernels().from_fp16(static_cast<const uint16_t*>(wire), count, values);
  }
}

}  // namespace rubato

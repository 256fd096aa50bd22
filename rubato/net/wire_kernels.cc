// Compiled once for each instruction set, which RUBATO_WIRE_KERNELS names.
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "rubato/net/wire_format.h"

namespace rubato {
namespace {

void ToBf16s(const float* __restrict from, size_t count, uint16_t* __restrict to) {
  for (size_t i = 0; i < count; ++i) to[i] = ToBf16(from[i]);
}

void FromBf16s(const uint16_t* __restrict from, size_t count, float* __restrict to) {
  for (size_t i = 0; i < count; ++i) to[i] = FromBf16(from[i]);
}

void ToFp16s(const float* __restrict from, size_t count, uint16_t* __restrict to) {
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    // Masked by all ones: gcc 12 warns of the plain ones.
    const __m256i halves = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i),
                                                 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), halves);
  }
#endif
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#endif
  for (; i < count; ++i) to[i] = ToFp16(from[i]);
}

void FromFp16s(const uint16_t* __restrict from, size_t count, float* __restrict to) {
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(0xffff, halves));
  }
#endif
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < count; ++i) to[i] = FromFp16(from[i]);
}

}  // namespace

extern const WireKernels RUBATO_WIRE_KERNELS;
const WireKernels RUBATO_WIRE_KERNELS = {ToBf16s, FromBf16s, ToFp16s, FromFp16s};

}  // namespace rubato

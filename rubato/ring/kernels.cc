#include "rubato/ring/kernels.h"

#include <cstring>

namespace rubato {
namespace {

// One function body, compiled for each width of vector, the best chosen when the program starts.
// Sanitizers run before the choice can be made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RUBATO_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RUBATO_WIDEST
#endif

RUBATO_WIDEST void Add(float* __restrict sum, const float* __restrict part, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += part[i];
}

RUBATO_WIDEST void Add2(float* __restrict sum, const float* __restrict a, const float* __restrict b,
                        int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

RUBATO_WIDEST void Add4(float* __restrict sum, const float* __restrict a, const float* __restrict b,
                        const float* __restrict c, const float* __restrict d, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] = ((a[i] + b[i]) + c[i]) + d[i];
}

RUBATO_WIDEST void AddMore2(float* __restrict sum, const float* __restrict a,
                            const float* __restrict b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] = (sum[i] + a[i]) + b[i];
}

template <typename From>
void AddEach(const void* wire, absl::Span<float> sum, From from) {
  const uint16_t* in = static_cast<const uint16_t*>(wire);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += from(in[i]);
}

}  // namespace

void AddTo(absl::Span<float> sum, const float* part) {
  Add(sum.data(), part, static_cast<int64_t>(sum.size()));
}

void SumOf(absl::Span<float> sum, absl::Span<const float* const> parts, int64_t offset) {
  const int64_t n = static_cast<int64_t>(sum.size());
  const int count = static_cast<int>(parts.size());
  int next = 1;
  if (count >= 4) {
    Add4(sum.data(), parts[0] + offset, parts[1] + offset, parts[2] + offset, parts[3] + offset, n);
    next = 4;
  } else if (count >= 2) {
    Add2(sum.data(), parts[0] + offset, parts[1] + offset, n);
    next = 2;
  } else if (count == 1) {
    std::memmove(sum.data(), parts[0] + offset, n * sizeof(float));
  }
  for (; next + 1 < count; next += 2) {
    AddMore2(sum.data(), parts[next] + offset, parts[next + 1] + offset, n);
  }
  if (next < count) Add(sum.data(), parts[next] + offset, n);
}

void Pack(WireFormat format, absl::Span<const float> values, void* wire) {
  PackFloats(format, values.data(), values.size(), wire);
}

void Unpack(WireFormat format, const void* wire, absl::Span<float> values) {
  UnpackFloats(format, wire, values.size(), values.data());
}

void UnpackAdd(WireFormat format, const void* wire, absl::Span<float> sum) {
  switch (format) {
    case WireFormat::kFp32:
      return AddTo(sum, static_cast<const float*>(wire));
    case WireFormat::kBf16:
      return AddEach(wire, sum, [](uint16_t bits) { return FromBf16(bits); });
    case WireFormat::kFp16:
      return AddEach(wire, sum, [](uint16_t bits) { return FromFp16(bits); });
  }
}

void RoundTo(WireFormat format, absl::Span<float> values) {
  if (format == WireFormat::kFp32) return;
  for (float& value : values) {
    value = format == WireFormat::kBf16 ? FromBf16(ToBf16(value)) : FromFp16(ToFp16(value));
  }
}

void Scale(absl::Span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

}  // namespace rubato

#include "rubato/ring/kernels.h"

#include <bit>
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

inline uint16_t Bf16Bits(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <typename To>
void PackEach(absl::Span<const float> values, void* wire, To to) {
  uint16_t* out = static_cast<uint16_t*>(wire);
  for (size_t i = 0; i < values.size(); ++i) out[i] = to(values[i]);
}

template <typename From, typename Into>
void UnpackEach(const void* wire, absl::Span<float> values, From from, Into into) {
  const uint16_t* in = static_cast<const uint16_t*>(wire);
  for (size_t i = 0; i < values.size(); ++i) into(values[i], from(in[i]));
}

constexpr auto kReplace = [](float& to, float value) { to = value; };
constexpr auto kAdd = [](float& to, float value) { to += value; };

}  // namespace

int WireBytes(WireFormat format) { return format == WireFormat::kFp32 ? 4 : 2; }

uint16_t ToBf16(float value) { return Bf16Bits(std::bit_cast<uint32_t>(value)); }

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Scaling by a power of two lets the float unit do the rounding, denormals included.
uint16_t ToFp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;           // From 65520 up, infinity.
  if (magnitude < 0x38800000u) {                                 // Denormal: in units of 2^-24.
    const float units = std::bit_cast<float>(magnitude) + 0.5f;  // Shifts them to the last bits.
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(units) - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float FromFp16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  // Multiplying by 2^112 moves the exponent's bias and makes denormals normal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1.0p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

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
  switch (format) {
    case WireFormat::kFp32:
      std::memcpy(wire, values.data(), values.size() * sizeof(float));
      return;
    case WireFormat::kBf16:
      return PackEach(values, wire, ToBf16);
    case WireFormat::kFp16:
      return PackEach(values, wire, ToFp16);
  }
}

void Unpack(WireFormat format, const void* wire, absl::Span<float> values) {
  switch (format) {
    case WireFormat::kFp32:
      std::memcpy(values.data(), wire, values.size() * sizeof(float));
      return;
    case WireFormat::kBf16:
      return UnpackEach(wire, values, FromBf16, kReplace);
    case WireFormat::kFp16:
      return UnpackEach(wire, values, FromFp16, kReplace);
  }
}

void UnpackAdd(WireFormat format, const void* wire, absl::Span<float> sum) {
  switch (format) {
    case WireFormat::kFp32:
      return AddTo(sum, static_cast<const float*>(wire));
    case WireFormat::kBf16:
      return UnpackEach(wire, sum, FromBf16, kAdd);
    case WireFormat::kFp16:
      return UnpackEach(wire, sum, FromFp16, kAdd);
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

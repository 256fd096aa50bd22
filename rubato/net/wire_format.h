// How floats travel: as they are, or as half as many bytes. The scalar functions say what is meant;
// Pack and Unpack do the same with the widest vectors the machine has.
#ifndef RUBATO_NET_WIRE_FORMAT_H_
#define RUBATO_NET_WIRE_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace rubato {

// kBf16 keeps the range and 8 bits of precision, kFp16 11 bits up to 65504.
enum class WireFormat : uint8_t { kFp32, kBf16, kFp16 };
inline constexpr uint32_t kWireFormats = 3;

// Bytes of one element on the wire.
constexpr int WireBytes(WireFormat format) { return format == WireFormat::kFp32 ? 4 : 2; }

// "fp32", "bf16" or "fp16", as the job file has checked it.
constexpr const char* WireFormatName(WireFormat format) {
  constexpr const char* kNames[] = {"fp32", "bf16", "fp16"};
  return kNames[static_cast<int>(format)];
}
template <typename Text>
constexpr WireFormat WireFormatOf(const Text& name) {
  return name == "bf16"   ? WireFormat::kBf16
         : name == "fp16" ? WireFormat::kFp16
                          : WireFormat::kFp32;
}

// Round to nearest even; a NaN stays one. Above 65504 fp16 is infinite. Always inline, so that no
// copy made for one instruction set can end up in a program's code for another.
#define RUBATO_INLINE [[gnu::always_inline]] inline
RUBATO_INLINE uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

RUBATO_INLINE float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Adding a half lets the float unit do the rounding of denormals.
RUBATO_INLINE uint16_t ToFp16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
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

RUBATO_INLINE float FromFp16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  // Multiplying by 2^112 moves the exponent's bias and makes denormals normal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1.0p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}
#undef RUBATO_INLINE

// To the wire and back: `count` floats, count * WireBytes(format) bytes.
void PackFloats(WireFormat format, const float* values, size_t count, void* wire);
void UnpackFloats(WireFormat format, const void* wire, size_t count, float* values);

// ---- the loops, once for each instruction set ----

struct WireKernels {
  void (*to_bf16)(const float* from, size_t count, uint16_t* to);
  void (*from_bf16)(const uint16_t* from, size_t count, float* to);
  void (*to_fp16)(const float* from, size_t count, uint16_t* to);
  void (*from_fp16)(const uint16_t* from, size_t count, float* to);
};
// Defined by wire_kernels.cc, compiled three times. Only the first runs on every machine.
extern const WireKernels kWireKernelsPlain;
extern const WireKernels kWireKernelsAvx2;
extern const WireKernels kWireKernelsAvx512;
// Those that run here, the best last.
size_t WireKernelsHere(const WireKernels* (&kernels)[3]);

}  // namespace rubato

#endif  // RUBATO_NET_WIRE_FORMAT_H_

#include "rubato/features/fingerprint.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace rubato {
namespace {

constexpr uint64_t kA = 0xc3a5c85c97cb3127u;
constexpr uint64_t kB = 0xb492b66fbe98f273u;
constexpr uint64_t kC = 0x9ae16a3b2f90404fu;

uint64_t Word(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t HalfWord(const char* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t Fold(uint64_t x) { return x ^ (x >> 47); }

uint64_t Join(uint64_t u, uint64_t v, uint64_t mul) {
  const uint64_t a = Fold((u ^ v) * mul);
  return Fold((v ^ a) * mul) * mul;
}

using Pair = std::pair<uint64_t, uint64_t>;

// Of 32 bytes and two seeds.
Pair Weak(const char* at, uint64_t a, uint64_t b) {
  const uint64_t w = Word(at), x = Word(at + 8), y = Word(at + 16), z = Word(at + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += std::rotr(a, 44);
  return {a + z, b + c};
}

uint64_t OfTiny(const char* s, size_t size) {
  if (size >= 8) {
    const uint64_t mul = kC + size * 2;
    const uint64_t a = Word(s) + kC, b = Word(s + size - 8);
    return Join(std::rotr(b, 37) * mul + a, (std::rotr(a, 25) + b) * mul, mul);
  }
  if (size >= 4) {
    return Join(size + (HalfWord(s) << 3), HalfWord(s + size - 4), kC + size * 2);
  }
  if (size == 0) return kC;
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(s[i])); };
  const uint32_t y = byte(0) + (byte(size >> 1) << 8);
  const uint32_t z = static_cast<uint32_t>(size) + (byte(size - 1) << 2);
  return Fold(y * kC ^ z * kA) * kC;
}

uint64_t OfSmall(const char* s, size_t size) {  // 17 to 32 bytes.
  const uint64_t mul = kC + size * 2;
  const uint64_t a = Word(s) * kB, b = Word(s + 8);
  const uint64_t c = Word(s + size - 8) * mul, d = Word(s + size - 16) * kC;
  return Join(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kC, 18) + c, mul);
}

uint64_t OfMedium(const char* s, size_t size) {  // 33 to 64 bytes.
  const uint64_t mul = kC + size * 2;
  const uint64_t a = Word(s) * kC, b = Word(s + 8);
  const uint64_t c = Word(s + size - 8) * mul, d = Word(s + size - 16) * kC;
  const uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const uint64_t z = Join(y, a + std::rotr(b + kC, 18) + c, mul);
  const uint64_t e = Word(s + 16) * mul, f = Word(s + 24);
  const uint64_t g = (y + Word(s + size - 32)) * mul, h = (z + Word(s + size - 24)) * mul;
  return Join(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, mul);
}

// The state of 56 bytes that a long text is folded into, 64 bytes at a time.
struct LongState {
  uint64_t x, y, z;
  Pair v = {0, 0}, w = {0, 0};

  void Take(const char* s, uint64_t mul, uint64_t factor) {
    x = std::rotr(x + y + v.first + Word(s + 8), 37) * mul;
    y = std::rotr(y + v.second + Word(s + 48), 42) * mul;
    x ^= w.second * factor;
    y += v.first * factor + Word(s + 40);
    z = std::rotr(z + w.first, 33) * mul;
    v = Weak(s, v.second * mul, x + w.first);
    w = Weak(s + 32, z + w.second, y + Word(s + 16));
    std::swap(z, x);
  }
};

uint64_t OfLong(const char* s, size_t size) {
  constexpr uint64_t kSeed = 81;
  LongState state = {.x = kSeed * kC + Word(s), .y = kSeed * kB + 113, .z = 0};
  state.z = Fold(state.y * kC + 113) * kC;
  const size_t tail = (size - 1) & 63;
  const char* const end = s + (size - 1) / 64 * 64;
  for (; s != end; s += 64) state.Take(s, kB, 1);
  const uint64_t mul = kB + ((state.z & 0xff) << 1);
  state.w.first += tail;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.Take(end + tail - 63, mul, 9);
  return Join(Join(state.v.first, state.w.first, mul) + Fold(state.y) * kA + state.z,
              Join(state.v.second, state.w.second, mul) + state.x, mul);
}

}  // namespace

uint64_t Fingerprint(absl::string_view text) {
  if (text.size() <= 16) return OfTiny(text.data(), text.size());
  if (text.size() <= 32) return OfSmall(text.data(), text.size());
  if (text.size() <= 64) return OfMedium(text.data(), text.size());
  return OfLong(text.data(), text.size());
}

}  // namespace rubato

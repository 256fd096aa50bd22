// Where a cell ends.
#ifndef RUBATO_DATA_FIND_BYTE_H_
#define RUBATO_DATA_FIND_BYTE_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace rubato {

// The first `wanted` at or after `at`, or `end`. Most cells are of at most eight bytes, so those
// are looked at as one word before memchr is called.
inline const char* FindByte(const char* at, const char* end, char wanted) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  if (end - at > 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= kOnes * static_cast<unsigned char>(wanted);
    const uint64_t zeros = (word - kOnes) & ~word & (kOnes << 7);
    if (zeros != 0) return at + std::countr_zero(zeros) / 8;
    if (at[8] == wanted) return at + 8;
  }
  const void* found = at == end ? nullptr : std::memchr(at, wanted, static_cast<size_t>(end - at));
  return found == nullptr ? end : static_cast<const char*>(found);
}

}  // namespace rubato

#endif  // RUBATO_DATA_FIND_BYTE_H_

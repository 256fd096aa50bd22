// Little-endian bytes in and out of a buffer: the journal, the push log, checkpoints and frames
// are all written with these two, so that hostile bytes meet one bounds check.
#ifndef RUBATO_BASE_BYTES_H_
#define RUBATO_BASE_BYTES_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rubato {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian memory");

// Appends to a string it does not own.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  template <typename T>
  requires std::is_arithmetic_v<T>
  void Put(T value) { out_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  // Seven bits at a time: small numbers of either sign take one byte.
  void PutVarint(int64_t value) {
    uint64_t bits = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
    for (; bits >= 0x80; bits >>= 7) Put<uint8_t>(static_cast<uint8_t>(bits | 0x80));
    Put<uint8_t>(static_cast<uint8_t>(bits));
  }
  void PutBytes(absl::string_view bytes) { out_.append(bytes.data(), bytes.size()); }
  // A 32-bit length, then the bytes.
  void PutString(absl::string_view text) {
    Put<uint32_t>(static_cast<uint32_t>(text.size()));
    PutBytes(text);
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void PutSpan(absl::Span<const T> values) {
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }

 private:
  std::string& out_;
};

// Reads from bytes it does not own. Once a read runs past the end, every later read gives zeros
// and ok() is false: check it once, after the last field.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t remaining() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }
  // DATA_LOSS naming `what` unless everything was read within bounds.
  absl::Status Check(absl::string_view what) const;

  template <typename T>
  requires std::is_arithmetic_v<T> T Get() {
    T value{};
    const absl::string_view bytes = GetBytes(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  int64_t GetVarint() {
    uint64_t bits = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Get<uint8_t>();
      bits |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
  }
  // Views into the input; empty after a failure.
  absl::string_view GetBytes(size_t n);
  absl::string_view GetString() { return GetBytes(Get<uint32_t>()); }
  // Copies, since the input need not be aligned.
  template <typename T>
  requires std::is_arithmetic_v<T> std::vector<T> GetVector(size_t n) {
    if (!ok_ || n > remaining() / sizeof(T)) {
      ok_ = false;
      return {};
    }
    const absl::string_view bytes = GetBytes(n * sizeof(T));
    std::vector<T> values(n);
    if (n > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  absl::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// XXH3, 64 bits: the checksum of every file and frame.
uint64_t Checksum(absl::string_view bytes);
// A stable hash of text with a seed, for ids made from strings.
uint64_t HashText(absl::string_view text, uint64_t seed);

}  // namespace rubato

#endif  // RUBATO_BASE_BYTES_H_

#include "rubato/roles/tensorboard.h"

#include <array>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"

namespace rubato {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Protobuf fields by hand: key = number << 3 | wire type (0 varint, 1 double, 2 bytes, 5 float).
void PutBytesField(int number, absl::string_view bytes, std::string& out) {
  PutVarint(static_cast<uint64_t>(number) << 3 | 2, out);
  PutVarint(bytes.size(), out);
  absl::StrAppend(&out, bytes);
}

std::string Framed(absl::string_view event) {
  std::string length, record;
  ByteWriter(length).Put<uint64_t>(event.size());
  ByteWriter writer(record);
  writer.PutBytes(length);
  writer.Put(MaskedCrc32c(length));
  writer.PutBytes(event);
  writer.Put(MaskedCrc32c(event));
  return record;
}

std::string EventAt(absl::Time now) {
  std::string event;
  PutVarint(1 << 3 | 1, event);  // wall_time
  ByteWriter(event).Put(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  return event;
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = 0xffffffffu;
  for (char c : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string VersionRecord(absl::Time now) {
  std::string event = EventAt(now);
  PutBytesField(3, "brain.Event:2", event);  // file_version
  return Framed(event);
}

std::string ScalarRecord(absl::Time now, int64_t step, absl::string_view tag, double value) {
  std::string scalar;
  PutBytesField(1, tag, scalar);
  PutVarint(2 << 3 | 5, scalar);  // simple_value
  ByteWriter(scalar).Put(static_cast<float>(value));
  std::string summary;
  PutBytesField(1, scalar, summary);
  std::string event = EventAt(now);
  PutVarint(2 << 3 | 0, event);  // step
  PutVarint(static_cast<uint64_t>(step), event);
  PutBytesField(5, summary, event);
  return Framed(event);
}

absl::StatusOr<TensorBoard> TensorBoard::Open(const std::string& folder, absl::Time now) {
  TensorBoard board(
      absl::StrCat(folder, "/events.out.tfevents.", absl::ToUnixMillis(now), ".rubato"));
  std::ofstream file(board.path_, std::ios::binary);
  file << VersionRecord(now) << std::flush;
  if (!file) return absl::UnavailableError(absl::StrCat(board.path_, ": cannot be written"));
  return board;
}

void TensorBoard::Scalar(absl::Time now, int64_t step, absl::string_view tag, double value) {
  // Curves are a comfort: a full disk must not stop the job for their sake.
  std::ofstream(path_, std::ios::binary | std::ios::app) << ScalarRecord(now, step, tag, value);
}

}  // namespace rubato

#include "rubato/data/idx.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

constexpr int64_t kItemBytesMax = 1 << 26;

int64_t BigEndian(absl::string_view bytes, size_t at) {
  int64_t value = 0;
  for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

absl::StatusOr<IdxHeader> ParseIdxHeader(absl::string_view bytes) {
  constexpr char kUnsignedBytes = 0x08;
  if (bytes.size() < 8 || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedBytes ||
      bytes[3] < 1 || bytes[3] > 4) {
    return absl::InvalidArgumentError("not an idx file of unsigned bytes");
  }
  const size_t dimensions = static_cast<size_t>(bytes[3]);
  IdxHeader header;
  header.bytes = static_cast<int64_t>(4 + 4 * dimensions);
  if (bytes.size() < 4 + 4 * dimensions) return absl::InvalidArgumentError("idx header cut short");
  header.items = BigEndian(bytes, 4);
  for (size_t d = 1; d < dimensions; ++d) {
    header.shape.push_back(BigEndian(bytes, 4 + 4 * d));
    if (header.shape.back() == 0 || header.shape.back() > kItemBytesMax / header.item_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("idx item of a dimension ", header.shape.back(), " makes no sense"));
    }
    header.item_bytes *= header.shape.back();
  }
  return header;
}

IdxParser::IdxParser(int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i) shape_.dense.push_back(absl::StrCat("p", i));
}

absl::Status IdxParser::Parse(absl::string_view record, Batch* batch) const {
  const size_t pixels = shape_.dense.size();
  if (record.size() != pixels + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", record.size(), " bytes, not ", pixels, " pixels and a label"));
  }
  for (size_t i = 0; i < pixels; ++i) {
    batch->dense.push_back(static_cast<float>(static_cast<unsigned char>(record[i])) / 255.0f);
  }
  batch->labels.push_back(static_cast<float>(static_cast<unsigned char>(record[pixels])));
  ++batch->rows;
  return absl::OkStatus();
}

}  // namespace rubato

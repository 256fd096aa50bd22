#include "rubato/data/idx.h"

#include <algorithm>

#include "absl/strings/escaping.h"
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
  const absl::string_view magic = bytes.substr(0, 4);
  if (magic.size() < 4 || magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedBytes ||
      magic[3] < 1 || magic[3] > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an idx file of unsigned bytes: it starts with ",
                     magic.empty() ? "nothing" : absl::BytesToHexString(magic),
                     ", not with 00000803 as images or 00000801 as labels do"));
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

std::string FormatIdxHeader(const std::vector<int64_t>& shape) {
  std::string header = {0, 0, 8, static_cast<char>(shape.size())};
  for (const int64_t n : shape) {
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<char>(n >> shift));
  }
  return header;
}

IdxParser::IdxParser(std::vector<int64_t> image_shape) {
  int64_t pixels = 1;
  for (const int64_t n : image_shape) pixels *= n;
  shape_.dense_shape = std::move(image_shape);
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

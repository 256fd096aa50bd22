#include "rubato/data/record_index.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr absl::string_view kMagic = "rubato index\n";
constexpr uint32_t kVersion = 1;

// Seven bits a byte, low ones first: distances between marks take three bytes, not eight.
void PutVarint(ByteWriter& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.Put<uint8_t>(static_cast<uint8_t>(value | 0x80));
  out.Put<uint8_t>(static_cast<uint8_t>(value));
}

int64_t GetVarint(ByteReader& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = in.Get<uint8_t>();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return static_cast<int64_t>(value);
}

void PutFile(ByteWriter& out, const IndexedFile& file) {
  out.PutString(file.path);
  out.Put<int64_t>(file.size);
  out.Put<int64_t>(file.modified_ns);
  out.Put<uint8_t>(file.gzip);
  out.Put<int64_t>(file.records);
  out.Put<int64_t>(static_cast<int64_t>(file.marks.size()));
  RecordMark last = {0, 0};
  for (const RecordMark& mark : file.marks) {
    PutVarint(out, static_cast<uint64_t>(mark.offset - last.offset));
    PutVarint(out, static_cast<uint64_t>(mark.line - last.line));
    last = mark;
  }
  out.Put<int64_t>(static_cast<int64_t>(file.points.size()));
  for (const GzipPoint& point : file.points) {
    out.Put<int64_t>(point.output);
    out.Put<int64_t>(point.input);
    out.Put<uint8_t>(point.member_start);
    out.Put<uint8_t>(point.bits);
    out.PutString(point.window);
  }
}

// Counts are believed only as far as the bytes last, so a damaged one cannot ask for memory.
IndexedFile GetFile(ByteReader& in) {
  IndexedFile file;
  file.path = std::string(in.GetString());
  file.size = in.Get<int64_t>();
  file.modified_ns = in.Get<int64_t>();
  file.gzip = in.Get<uint8_t>() != 0;
  file.records = in.Get<int64_t>();
  RecordMark last = {0, 0};
  for (int64_t n = in.Get<int64_t>(); n > 0 && in.ok(); --n) {
    last.offset += GetVarint(in);
    last.line += GetVarint(in);
    file.marks.push_back(last);
  }
  for (int64_t n = in.Get<int64_t>(); n > 0 && in.ok(); --n) {
    GzipPoint point;
    point.output = in.Get<int64_t>();
    point.input = in.Get<int64_t>();
    point.member_start = in.Get<uint8_t>() != 0;
    point.bits = in.Get<uint8_t>();
    point.window = std::string(in.GetString());
    file.points.push_back(std::move(point));
  }
  return file;
}

}  // namespace

int64_t RecordIndex::records() const {
  int64_t records = 0;
  for (const IndexedFile& file : files) records += file.records;
  return records;
}

std::string RecordIndex::Encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.PutBytes(kMagic);
  out.Put<uint32_t>(kVersion);
  out.PutString(format);
  out.PutString(schema);
  out.Put<uint32_t>(static_cast<uint32_t>(files.size()));
  for (const IndexedFile& file : files) PutFile(out, file);
  out.Put<uint64_t>(Checksum(bytes));
  return bytes;
}

absl::StatusOr<RecordIndex> RecordIndex::Decode(absl::string_view bytes) {
  ByteReader in(bytes);
  if (in.GetBytes(kMagic.size()) != kMagic) return absl::DataLossError("not an index of records");
  if (const uint32_t version = in.Get<uint32_t>(); version != kVersion) {
    return absl::DataLossError(
        absl::StrCat("an index of version ", version, "; this program reads version ", kVersion));
  }
  uint64_t checksum = 0;
  if (bytes.size() < in.position() + sizeof(checksum)) return absl::DataLossError("cut short");
  const absl::string_view body = bytes.substr(0, bytes.size() - sizeof(checksum));
  checksum = ByteReader(bytes.substr(body.size())).Get<uint64_t>();
  if (Checksum(body) != checksum) return absl::DataLossError("damaged: the checksum is wrong");

  RecordIndex index;
  index.format = std::string(in.GetString());
  index.schema = std::string(in.GetString());
  for (uint32_t n = in.Get<uint32_t>(); n > 0 && in.ok(); --n) index.files.push_back(GetFile(in));
  RUBATO_RETURN_IF_ERROR(in.Check("index of records"));
  return index;
}

FileStarts::FileStarts(const RecordIndex& index) {
  for (const IndexedFile& file : index.files) {
    first_.push_back(records_);
    records_ += file.records;
  }
}

size_t FileStarts::FileOf(int64_t record) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), record);
  return static_cast<size_t>(after - first_.begin() - 1);
}

}  // namespace rubato

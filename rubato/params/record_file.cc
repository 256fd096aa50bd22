#include "rubato/params/record_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"

namespace rubato {
namespace {

struct FileHeader {
  char magic[8] = {'R', 'U', 'B', 'A', 'T', 'O', '\r', '\n'};
  uint32_t version = kFileVersion;
  uint32_t reserved = 0;
  uint64_t spare = 0;
  uint64_t checksum = 0;  // Of all before it.
};
static_assert(sizeof(FileHeader) == kFileHeaderBytes);

struct RecordHeader {
  uint32_t magic = 0x44434552;  // "RECD"
  uint32_t kind = 0;
  uint64_t body_bytes = 0;
  uint64_t body_checksum = 0;
  uint64_t checksum = 0;  // Of all before it.
};
static_assert(sizeof(RecordHeader) == kRecordHeaderBytes);

template <typename Header>
uint64_t HeaderChecksum(const Header& header) {
  return Checksum({reinterpret_cast<const char*>(&header), sizeof(Header) - sizeof(uint64_t)});
}

template <typename Header>
std::array<char, sizeof(Header)> Sealed(Header header) {
  header.checksum = HeaderChecksum(header);
  std::array<char, sizeof(Header)> bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

absl::Status Damaged(absl::string_view file, size_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(file, ": damaged at byte ", offset, ": ", what));
}

absl::Status CheckFileHeader(absl::string_view file, absl::string_view bytes) {
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, FileHeader().magic, sizeof(header.magic)) != 0) {
    return Damaged(file, 0, "not a file of Rubato's servers");
  }
  if (header.checksum != HeaderChecksum(header)) return Damaged(file, 0, "its header changed");
  if (header.version != kFileVersion) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": written in format ", header.version,
                                                   ", this Rubato reads format ", kFileVersion));
  }
  return absl::OkStatus();
}

}  // namespace

FileHeaderBytes EncodeFileHeader(uint32_t version) {
  FileHeader header;
  header.version = version;
  return Sealed(header);
}

RecordHeaderBytes EncodeRecordHeader(RecordKind kind, absl::string_view body) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(kind);
  header.body_bytes = body.size();
  header.body_checksum = Checksum(body);
  return Sealed(header);
}

absl::StatusOr<RecordsRead> ReadRecords(
    absl::string_view file, absl::string_view bytes,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> visit) {
  RecordsRead read;
  if (bytes.size() < kFileHeaderBytes) {
    read.torn = true;
    return read;
  }
  RUBATO_RETURN_IF_ERROR(CheckFileHeader(file, bytes));
  for (read.bytes = kFileHeaderBytes; read.bytes < bytes.size(); ++read.records) {
    const absl::string_view rest = bytes.substr(read.bytes);
    read.torn = rest.size() < kRecordHeaderBytes;
    if (read.torn) break;
    RecordHeader header;
    std::memcpy(&header, rest.data(), sizeof(header));
    if (header.magic != RecordHeader().magic || header.checksum != HeaderChecksum(header)) {
      return Damaged(file, read.bytes, "the header of a record changed");
    }
    // The header is sound, so the length is what was written; what lacks was never written.
    read.torn = header.body_bytes > rest.size() - kRecordHeaderBytes ||
                Padded(header.body_bytes) > rest.size() - kRecordHeaderBytes;
    if (read.torn) break;
    const absl::string_view body = rest.substr(kRecordHeaderBytes, header.body_bytes);
    if (Checksum(body) != header.body_checksum) {
      return Damaged(file, read.bytes + kRecordHeaderBytes, "the body of a record changed");
    }
    const absl::string_view padding = rest.substr(kRecordHeaderBytes + header.body_bytes,
                                                  Padded(header.body_bytes) - header.body_bytes);
    if (std::any_of(padding.begin(), padding.end(), [](char c) { return c != 0; })) {
      return Damaged(file, read.bytes + kRecordHeaderBytes + header.body_bytes, "padding changed");
    }
    RUBATO_RETURN_IF_ERROR(Annotate(visit(static_cast<RecordKind>(header.kind), body),
                                    absl::StrCat(file, ": record at byte ", read.bytes)));
    read.bytes += kRecordHeaderBytes + Padded(header.body_bytes);
  }
  return read;
}

void SkimRecords(absl::string_view bytes,
                 absl::FunctionRef<void(RecordKind kind, absl::string_view body)> visit) {
  if (bytes.size() < kFileHeaderBytes || !CheckFileHeader("", bytes).ok()) return;
  bytes.remove_prefix(kFileHeaderBytes);
  while (bytes.size() >= kRecordHeaderBytes) {
    RecordHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    bytes.remove_prefix(kRecordHeaderBytes);
    if (header.checksum != HeaderChecksum(header) || header.body_bytes > bytes.size()) return;
    visit(static_cast<RecordKind>(header.kind), bytes.substr(0, header.body_bytes));
    bytes.remove_prefix(std::min(bytes.size(), Padded(header.body_bytes)));
  }
}

}  // namespace rubato

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
  uint64_t segment = 0;   // Of a log; in other files 0.
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

// What the header of a file says about its records.
struct Format {
  bool is_segment = false;
  uint64_t segment = 0;
  size_t Pad(size_t body_bytes) const {
    return is_segment ? SegmentPadded(body_bytes) : Padded(body_bytes);
  }
};

absl::StatusOr<Format> ReadFileHeader(absl::string_view file, absl::string_view bytes) {
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, FileHeader().magic, sizeof(header.magic)) != 0) {
    return Damaged(file, 0, "not a file of Rubato's servers");
  }
  if (header.checksum != HeaderChecksum(header)) return Damaged(file, 0, "its header changed");
  if (header.version != kFileVersion && header.version != kSegmentVersion) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": written in format ", header.version,
                                                   ", this Rubato reads formats ", kFileVersion,
                                                   " and ", kSegmentVersion));
  }
  return Format{.is_segment = header.version == kSegmentVersion, .segment = header.segment};
}

// Of a record's header in a segment: one that lay there before, or elsewhere, has another.
uint64_t PlacedChecksum(const RecordHeader& header, uint64_t segment, uint64_t offset) {
  struct {
    RecordHeader header;
    uint64_t offset;
  } all = {header, offset};
  all.header.checksum = segment;
  return Checksum({reinterpret_cast<const char*>(&all), sizeof(all)});
}

RecordHeader HeaderAt(absl::string_view bytes, size_t offset) {
  RecordHeader header;
  std::memcpy(&header, bytes.data() + offset, sizeof(header));
  return header;
}

bool IsSound(const RecordHeader& header, const Format& format, size_t offset) {
  if (header.magic != RecordHeader().magic) return false;
  return header.checksum == (format.is_segment ? PlacedChecksum(header, format.segment, offset)
                                               : HeaderChecksum(header));
}

bool IsZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

bool IsEnd(const Format& format, absl::string_view header) {
  return format.is_segment && IsZero(header);
}

// Whether a record of this very segment stands within so far behind `offset`: then that is no end,
// but a place whose bytes were lost.
bool IsFollowed(absl::string_view bytes, const Format& format, size_t offset) {
  constexpr size_t kLookBytes = size_t{16} << 20;
  const size_t last = std::min(bytes.size(), offset + kLookBytes) - kRecordHeaderBytes;
  for (size_t at = offset + kRecordHeaderBytes; at <= last; at += kSegmentAlign) {
    uint32_t magic = 0;
    std::memcpy(&magic, bytes.data() + at, sizeof(magic));
    if (magic == RecordHeader().magic && IsSound(HeaderAt(bytes, at), format, at)) return true;
  }
  return false;
}

// Whether the record is all there with which `rest` begins. The header is sound, so the length is
// what was written; what lacks was never written.
bool IsWhole(const RecordHeader& header, const Format& format, absl::string_view rest) {
  return header.body_bytes <= rest.size() - kRecordHeaderBytes &&
         format.Pad(header.body_bytes) <= rest.size() - kRecordHeaderBytes;
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

FileHeaderBytes EncodeSegmentHeader(int64_t segment) {
  FileHeader header;
  header.version = kSegmentVersion;
  header.segment = static_cast<uint64_t>(segment);
  return Sealed(header);
}

RecordHeaderBytes EncodeRecordHeader(RecordKind kind, absl::string_view body, LogPlace place) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(kind);
  header.body_bytes = body.size();
  header.body_checksum = Checksum(body);
  header.checksum = PlacedChecksum(header, static_cast<uint64_t>(place.segment),
                                   static_cast<uint64_t>(place.offset));
  RecordHeaderBytes bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

std::optional<int64_t> SegmentNumber(absl::string_view bytes) {
  if (bytes.size() < kFileHeaderBytes) return std::nullopt;
  const absl::StatusOr<Format> format = ReadFileHeader("", bytes);
  if (!format.ok() || !format->is_segment) return std::nullopt;
  return static_cast<int64_t>(format->segment);
}

absl::StatusOr<RecordsRead> ReadRecords(
    absl::string_view file, absl::string_view bytes,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> visit) {
  RecordsRead read;
  if (bytes.size() < kFileHeaderBytes) {
    read.torn = read.cut = true;
    return read;
  }
  RUBATO_ASSIGN_OR_RETURN(const Format format, ReadFileHeader(file, bytes));
  read.cut = format.is_segment;
  for (read.bytes = kFileHeaderBytes; read.bytes < bytes.size(); ++read.records) {
    const absl::string_view rest = bytes.substr(read.bytes);
    read.torn = rest.size() < kRecordHeaderBytes;
    if (read.torn) break;
    const RecordHeader header = HeaderAt(bytes, read.bytes);
    if (!IsSound(header, format, read.bytes)) {
      if (!IsEnd(format, rest.substr(0, kRecordHeaderBytes))) {
        return Damaged(file, read.bytes, "the header of a record changed");
      }
      if (IsFollowed(bytes, format, read.bytes)) {
        return Damaged(file, read.bytes, "a record is lost, others follow");
      }
      read.cut = false;
      break;
    }
    read.torn = !IsWhole(header, format, rest);
    if (read.torn) break;
    const absl::string_view body = rest.substr(kRecordHeaderBytes, header.body_bytes);
    if (Checksum(body) != header.body_checksum) {
      return Damaged(file, read.bytes + kRecordHeaderBytes, "the body of a record changed");
    }
    const size_t padding = kRecordHeaderBytes + header.body_bytes;
    if (!IsZero(rest.substr(padding, format.Pad(header.body_bytes) - header.body_bytes))) {
      return Damaged(file, read.bytes + padding, "padding changed");
    }
    RUBATO_RETURN_IF_ERROR(Annotate(visit(static_cast<RecordKind>(header.kind), body),
                                    absl::StrCat(file, ": record at byte ", read.bytes)));
    read.bytes += kRecordHeaderBytes + format.Pad(header.body_bytes);
  }
  return read;
}

RecordsRead SkimRecords(absl::string_view bytes,
                        absl::FunctionRef<void(RecordKind kind, absl::string_view body)> visit) {
  RecordsRead read = {.torn = true, .cut = true};
  if (bytes.size() < kFileHeaderBytes) return read;
  const absl::StatusOr<Format> format = ReadFileHeader("", bytes);
  if (!format.ok()) return read;
  read.cut = format->is_segment;
  for (read.bytes = kFileHeaderBytes; bytes.size() - read.bytes >= kRecordHeaderBytes;
       ++read.records) {
    const absl::string_view rest = bytes.substr(read.bytes);
    const RecordHeader header = HeaderAt(bytes, read.bytes);
    if (IsEnd(*format, rest.substr(0, kRecordHeaderBytes))) {
      read.torn = read.cut = false;
      return read;
    }
    if (!IsSound(header, *format, read.bytes) || !IsWhole(header, *format, rest)) return read;
    visit(static_cast<RecordKind>(header.kind), rest.substr(kRecordHeaderBytes, header.body_bytes));
    read.bytes += kRecordHeaderBytes + format->Pad(header.body_bytes);
  }
  read.torn = read.bytes < bytes.size();
  return read;
}

}  // namespace rubato

#include "rubato/master/journal.h"

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

constexpr absl::string_view kMagic = "rubato journal ";
constexpr size_t kFrameBytes = sizeof(uint32_t) + sizeof(uint32_t) + sizeof(uint64_t);

// Guards the length, which must be trusted before the checksum can be looked at: a damaged one
// would otherwise make the rest of the file pass for a torn tail.
uint32_t LengthGuard(uint32_t length) { return static_cast<uint32_t>(Mix(length)); }

// Whether `bytes` are all zero, as a file system may leave the end of a file after power loss.
bool AllZero(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

}  // namespace

std::string JournalHeader(absl::string_view version) { return absl::StrCat(kMagic, version, "\n"); }

std::string FrameRecord(absl::string_view record) {
  std::string framed;
  ByteWriter writer(framed);
  writer.Put<uint32_t>(static_cast<uint32_t>(record.size()));
  writer.Put<uint32_t>(LengthGuard(static_cast<uint32_t>(record.size())));
  writer.Put<uint64_t>(Checksum(record));
  writer.PutBytes(record);
  return framed;
}

absl::StatusOr<Journal> DecodeJournal(absl::string_view bytes, absl::string_view version) {
  const std::string expected = JournalHeader(version);
  if (absl::string_view(expected).substr(0, bytes.size()) == bytes &&
      bytes.size() < expected.size()) {
    return Journal{};  // Empty, or torn within the header: nothing was ever promised.
  }
  const size_t header_end = bytes.substr(0, 256).find('\n');
  if (bytes.substr(0, kMagic.size()) != kMagic || header_end == absl::string_view::npos) {
    return absl::DataLossError("journal: damaged at byte 0: this is not the start of a journal");
  }
  const absl::string_view written = bytes.substr(kMagic.size(), header_end - kMagic.size());
  if (written != version) {
    return absl::FailedPreconditionError(
        absl::StrCat("journal: written by version ", std::string(written), ", this is version ",
                     std::string(version), ": go on with the binary that began the job"));
  }
  Journal journal;
  size_t at = header_end + 1;  // Good only with a record: a new master writes its own header.
  while (bytes.size() - at >= kFrameBytes && !AllZero(bytes.substr(at))) {
    ByteReader reader(bytes.substr(at));
    const uint32_t length = reader.Get<uint32_t>();
    const bool length_good = reader.Get<uint32_t>() == LengthGuard(length);
    const uint64_t checksum = reader.Get<uint64_t>();
    if (length_good && length > reader.remaining()) break;  // Torn: it runs past the end.
    const absl::string_view record = reader.GetBytes(length);
    if (!length_good || Checksum(record) != checksum) {
      return absl::DataLossError(absl::StrCat("journal: damaged at byte ", at,
                                              ": the checksum of record ", journal.records.size(),
                                              " does not match; restore the file from a copy, or "
                                              "begin the job anew in another directory"));
    }
    journal.records.emplace_back(record);
    at += kFrameBytes + length;
    journal.good_bytes = static_cast<int64_t>(at);
  }
  return journal;
}

}  // namespace rubato

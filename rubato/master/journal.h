// The journal as bytes: a header with the version that writes it, then framed records.
//
//     header | length u32, guard of the length u32, checksum u64, bytes | ...
//
// A crash can leave the last record cut short; nobody has seen its consequences, so the tail is
// dropped. Damage anywhere before the tail is an error: what it hid was promised to somebody.
#ifndef RUBATO_MASTER_JOURNAL_H_
#define RUBATO_MASTER_JOURNAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

std::string JournalHeader(absl::string_view version);
std::string FrameRecord(absl::string_view record);

struct Journal {
  std::vector<std::string> records;
  // Truncate the file to this before appending; less than its size after a torn write, and 0 if
  // no record is whole: the journal begins anew, header and all.
  int64_t good_bytes = 0;
};

// FAILED_PRECONDITION if `bytes` were written by another version, naming both; DATA_LOSS naming
// the byte offset of the first damaged record.
absl::StatusOr<Journal> DecodeJournal(absl::string_view bytes, absl::string_view version);

}  // namespace rubato

#endif  // RUBATO_MASTER_JOURNAL_H_

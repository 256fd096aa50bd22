// The shape of every file a server writes: a header, then records, each with its own checksums.
//
//     | file header, 32 bytes | record header, 32 bytes | body, padded to 8 | record header | ...
//
// The header of a record has a checksum apart from the body's, so that a length can be trusted
// before it is used, and a file that stops within a record (a SIGKILL in mid-write) can be told
// from one whose bytes changed. Pure: the caller brings the bytes, in memory or mapped.
//
// A segment of a push log (format 5, log_segment.h) may lie over an older one. Its number is in
// the file header, number and place go into the checksum of each record's header, and a header of
// zeros is the end: nothing of the older one is ever taken for a record.
#ifndef RUBATO_PARAMS_RECORD_FILE_H_
#define RUBATO_PARAMS_RECORD_FILE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

enum class RecordKind : uint32_t {
  kDeclare = 1,         // In a log: a declaration, as received.
  kPush = 2,            // In a log: a push, as received.
  kCheckpointHead = 3,  // Versions, declaration, applied sets, row counts.
  kCheckpointDense = 4,
  kCheckpointRows = 5,
  kCheckpointEnd = 6,      // The last record of a checkpoint: without it the file is incomplete.
  kCheckpointCounted = 7,  // Ids that have been counted and have no row.
  kWeightsHead = 8,        // Of an export: the declaration,
  kWeightsDense = 9,       // some dense weights,
  kWeightsRows = 10,       // some rows of a table,
  kWeightsEnd = 11,        // and how many rows there were: the last record.
  // In a log: partitions arrive from another server (params/move.h).
  kArriveBegin = 12,
  kArriveRows = 13,
  kArriveCounted = 14,
  kArriveGone = 15,
  kArriveDense = 16,
  kArriveStaged = 17,
  kArriveEnd = 18,
  kOwn = 19,               // In a log: the map from now on.
  kCheckpointStaged = 20,  // A gradient that waits for the others of its round.
  kCheckpointDelta = 21,   // The head of a delta.
  kCheckpointGone = 22,    // In a delta: ids that have had no row since.
  kRounds = 23,            // In a log: so many rounds moved the weights before what follows.
  kArriveDropped = 24,     // In a log: what has arrived so far is dropped.
};

inline constexpr uint32_t kFileVersion = 4;     // Of all files but the next; once of those too.
inline constexpr uint32_t kSegmentVersion = 5;  // Of segments of a log.
inline constexpr size_t kFileHeaderBytes = 32;
inline constexpr size_t kRecordHeaderBytes = 32;
// In a segment records begin at multiples of this: no header lies across two pages, so a process
// that dies while it writes one has written all of it or nothing.
inline constexpr size_t kSegmentAlign = 32;
constexpr size_t SegmentPadded(size_t bytes) {
  return (bytes + kSegmentAlign - 1) / kSegmentAlign * kSegmentAlign;
}

using FileHeaderBytes = std::array<char, kFileHeaderBytes>;
using RecordHeaderBytes = std::array<char, kRecordHeaderBytes>;

// `version` for tests of files to come.
FileHeaderBytes EncodeFileHeader(uint32_t version = kFileVersion);
// What comes before `body`; the body follows, then zeros up to a multiple of 8; in a segment, 32.
RecordHeaderBytes EncodeRecordHeader(RecordKind kind, absl::string_view body);

// The same for a segment of a log, and for the record that stands at byte `offset` of it.
FileHeaderBytes EncodeSegmentHeader(int64_t segment);
struct LogPlace {
  int64_t segment = 0;
  int64_t offset = 0;
};
RecordHeaderBytes EncodeRecordHeader(RecordKind kind, absl::string_view body, LogPlace place);
// The number in such a file header. Nothing if it is another, or damaged.
std::optional<int64_t> SegmentNumber(absl::string_view bytes);

// Where a file ended.
struct RecordsRead {
  int64_t records = 0;
  size_t bytes = 0;   // Of whole records and the file header.
  bool torn = false;  // More bytes follow, too few for the record they begin.
  // Of a segment: the end that is written behind its records is not there. No death of its writer
  // and no full disk leaves that, but a copy of the records alone is such a file.
  bool cut = false;
  // How much of a file so long is a log: what follows an end that was written is an older one.
  int64_t used(absl::string_view file) const {
    return static_cast<int64_t>(torn ? file.size() : bytes);
  }
};

// Calls `visit` with every whole record in order, and stops at its first error. DATA_LOSS naming
// `file` and the offset if a byte was changed, INVALID_ARGUMENT if it is of another version. A file
// that ends within a record, or within its own header, is `torn`: the caller decides. `bytes` must
// start at a multiple of 8, and so do the bodies.
//
// A segment of a log ends with a header of zeros; one that ends with its file is `cut`, for the
// caller to judge. A flipped bit in either kind of header is damage; so is an end that a record
// follows within 16 MB, as when a page was lost. What else follows an end is not looked at.
absl::StatusOr<RecordsRead> ReadRecords(
    absl::string_view file, absl::string_view bytes,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> visit);

// The same without a look at the bodies, for a first impression: they may be damaged. Stops at
// whatever is odd, which is `torn`.
RecordsRead SkimRecords(absl::string_view bytes,
                        absl::FunctionRef<void(RecordKind kind, absl::string_view body)> visit);

// Where records go. The posix adapter writes a file; tests keep a string.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // After an error nothing of the record is there.
  virtual absl::Status Append(RecordKind kind, absl::string_view body) = 0;
  // The same of a body that its maker needs no more.
  virtual absl::Status Take(RecordKind kind, std::string body) { return Append(kind, body); }
  // The same of a body that is still to be made, once, whenever the sink likes and by whatever
  // thread.
  virtual absl::Status TakeLater(RecordKind kind, std::function<std::string()> body) {
    return Take(kind, body());
  }
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_RECORD_FILE_H_

// The shape of every file a server writes: a header, then records, each with its own checksums.
//
//     | file header, 32 bytes | record header, 32 bytes | body, padded to 8 | record header | ...
//
// The header of a record has a checksum apart from the body's, so that a length can be trusted
// before it is used, and a file that stops within a record (a SIGKILL in mid-write) can be told
// from one whose bytes changed. Pure: the caller brings the bytes, in memory or mapped.
#ifndef RUBATO_PARAMS_RECORD_FILE_H_
#define RUBATO_PARAMS_RECORD_FILE_H_

#include <array>
#include <cstdint>

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
};

inline constexpr uint32_t kFileVersion = 4;
inline constexpr size_t kFileHeaderBytes = 32;
inline constexpr size_t kRecordHeaderBytes = 32;

using FileHeaderBytes = std::array<char, kFileHeaderBytes>;
using RecordHeaderBytes = std::array<char, kRecordHeaderBytes>;

// `version` for tests of files to come.
FileHeaderBytes EncodeFileHeader(uint32_t version = kFileVersion);
// What comes before `body`; the body follows, then zeros up to a multiple of 8.
RecordHeaderBytes EncodeRecordHeader(RecordKind kind, absl::string_view body);

// Where a file ended.
struct RecordsRead {
  int64_t records = 0;
  size_t bytes = 0;   // Of whole records and the file header.
  bool torn = false;  // More bytes follow, too few for the record they begin.
};

// Calls `visit` with every whole record in order, and stops at its first error. DATA_LOSS naming
// `file` and the offset if a byte was changed, INVALID_ARGUMENT if it is of another version. A file
// that ends within a record, or within its own header, is `torn`: the caller decides. `bytes` must
// start at a multiple of 8, and so do the bodies.
absl::StatusOr<RecordsRead> ReadRecords(
    absl::string_view file, absl::string_view bytes,
    absl::FunctionRef<absl::Status(RecordKind kind, absl::string_view body)> visit);

// The same without a look at the bodies, for a first impression: they may be damaged. Stops at
// whatever is odd.
void SkimRecords(absl::string_view bytes,
                 absl::FunctionRef<void(RecordKind kind, absl::string_view body)> visit);

// Where records go. The posix adapter writes a file; tests keep a string.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // After an error nothing of the record is there.
  virtual absl::Status Append(RecordKind kind, absl::string_view body) = 0;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_RECORD_FILE_H_

// A segment of a push log on its way into a file that may have been another one before.
//
//     | file header | record | ... | record | zeros, 32 bytes or more, to the end of a page | older
//
//     Append   1. the body, where a header of zeros stands before it, and zeros behind it
//              2. the header: now it is a record
//
// Whoever writes into pages that the system has at hand is spared fresh ones, which cost several
// times the copy (docs/design/0003-tables.md). So a segment that a checkpoint made needless is
// written over, and where the log ends is no longer where its file does: a header of zeros is the
// end. It is there at every moment, so a SIGKILL between any two bytes leaves whole records and an
// end, and so does a full disk: a segment without its end was cut off. What an older life of the
// file left behind is never taken for a record: the segment's number and the place are in the
// checksum of each record's header (record_file.h), and numbers grow.
#ifndef RUBATO_PARAMS_LOG_SEGMENT_H_
#define RUBATO_PARAMS_LOG_SEGMENT_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/params/record_file.h"

namespace rubato {

// Where the bytes go: a file in adapters/posix, a string in tests.
class SegmentFile {
 public:
  virtual ~SegmentFile() = default;
  // `first` and then `second`, from byte `offset` on. After an error some of it may be there.
  virtual absl::Status WriteAt(int64_t offset, absl::string_view first,
                               absl::string_view second) = 0;
};

class SegmentWriter : public RecordSink {
 public:
  SegmentWriter(SegmentFile& file, int64_t segment) : file_(file), segment_(segment) {}

  // Makes it an empty segment, whatever it was. Once, before anything else.
  absl::Status Begin();
  // After an error nothing of it is there; if that cannot be brought about, every later call fails.
  absl::Status Append(RecordKind kind, absl::string_view body) override;
  // Undoes the last Append.
  absl::Status TakeBack();
  // Of records and the file header. From any thread.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  absl::Status WriteEnd(int64_t at);

  SegmentFile& file_;
  const int64_t segment_;
  std::atomic<int64_t> bytes_ = 0;
  int64_t last_ = 0;      // Where the last record begins.
  int64_t zeros_to_ = 0;  // From `bytes_` up to here there are zeros.
  absl::Status broken_;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_LOG_SEGMENT_H_

// Walks the records of one file, chunk by chunk: a file of any size takes the memory of one chunk,
// or of its longest record if that is longer.
#ifndef RUBATO_ADAPTERS_FILES_RECORD_SCANNER_H_
#define RUBATO_ADAPTERS_FILES_RECORD_SCANNER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/data/record_index.h"
#include "rubato/data/record_splitter.h"

namespace rubato {

// Longer than any sane record, and so the sign of a quote that was never closed.
constexpr size_t kRecordBytesMax = 64 << 20;

class RecordScanner {
 public:
  // `stream` stands at `start`, the beginning of a line of `path`.
  RecordScanner(std::string path, std::unique_ptr<ByteStream> stream, RecordMark start,
                RecordRule rule, size_t chunk_bytes);

  // Moves to the next record that is not blank; false at the end of the file. INVALID_ARGUMENT
  // with file and line if a quote is never closed or a record is too long.
  absl::StatusOr<bool> Next();
  // The record Next() moved to; lives until the next call.
  absl::string_view record() const { return record_; }
  // Where it starts.
  const RecordMark& mark() const { return mark_; }
  const ByteStream& stream() const { return *stream_; }

 private:
  // Reads behind the bytes not yet used. Sets at_end_ when there are no more.
  absl::Status Refill();

  const std::string path_;
  const std::unique_ptr<ByteStream> stream_;
  const RecordRule rule_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // Of buffer_, not yet used.
  bool at_end_ = false;
  RecordMark next_;  // Of buffer_[begin_].
  RecordMark mark_;
  absl::string_view record_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_RECORD_SCANNER_H_

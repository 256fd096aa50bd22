// The bytes of a data file from some place on, inflated if it is gzip: what records are cut from.
#ifndef RUBATO_ADAPTERS_FILES_BYTE_STREAM_H_
#define RUBATO_ADAPTERS_FILES_BYTE_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/data/record_index.h"

namespace rubato {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Up to `size` bytes into `out`; 0 only at the end. DATA_LOSS if the file is damaged, or if it is
  // no longer what it was when it was opened.
  virtual absl::StatusOr<size_t> Read(char* out, size_t size) = 0;
  // Bytes of the file on disk used so far, for progress.
  virtual int64_t file_position() const = 0;
  // DATA_LOSS if the file has been changed since it was indexed. Cheap.
  virtual absl::Status CheckUnchanged() const = 0;

  // All of `size` bytes; DATA_LOSS if the file ends before. `path` is for the message.
  absl::Status ReadExactly(char* out, size_t size, const std::string& path);
};

// What a file is before anyone has counted its records: path, size, time and whether it is gzip.
// NOT_FOUND if missing, INVALID_ARGUMENT if it is empty, a folder or no plain file.
absl::StatusOr<IndexedFile> InspectFile(const std::string& path);

// Opens `file` at inflated byte `offset`. DATA_LOSS if it is not as `file` says. A gzip file is
// inflated from the last of its points before `offset`.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenStream(const IndexedFile& file, int64_t offset);

// Opens `file` at its start and adds to `file.points` while it is read, if it is gzip: a point
// about every `spacing` bytes of output, thinned out so that they stay few. `file` outlives the
// stream.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenStreamForIndexing(IndexedFile& file,
                                                                  int64_t spacing = 4 << 20);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_BYTE_STREAM_H_

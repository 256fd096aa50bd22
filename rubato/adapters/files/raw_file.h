// A file read at any place, on watch for changes: under both kinds of stream.
#ifndef RUBATO_ADAPTERS_FILES_RAW_FILE_H_
#define RUBATO_ADAPTERS_FILES_RAW_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/adapters/files/files.h"
#include "rubato/data/record_index.h"

namespace rubato {

class RawFile {
 public:
  // DATA_LOSS unless the file has the size and time that `file` says.
  static absl::StatusOr<RawFile> Open(const IndexedFile& file);

  const std::string& path() const { return path_; }
  absl::Status CheckUnchanged() const;
  // Up to `size` bytes at `offset`; 0 only at the end. DATA_LOSS if the file has shrunk.
  absl::StatusOr<size_t> ReadAt(int64_t offset, char* out, size_t size) const;

 private:
  std::string path_;
  int64_t size_ = 0;
  int64_t modified_ns_ = 0;
  FileDescriptor fd_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_RAW_FILE_H_

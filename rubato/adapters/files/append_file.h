// A file that only grows at its end, one whole entry at a time: under the journal and the push log.
#ifndef RUBATO_ADAPTERS_FILES_APPEND_FILE_H_
#define RUBATO_ADAPTERS_FILES_APPEND_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"

namespace rubato {

// What Append() took is in the kernel's hands when it returns: it survives SIGKILL of this process,
// and a power cut once Sync() has returned too. Dying in the middle of an Append() may leave part
// of an entry at the end, so entries carry checksums, and a reader cuts the torn tail off with
// Truncate(). One process writes a file at a time; not thread-safe.
class AppendFile {
 public:
  // Opens `path` at its end, making it if it is not there.
  static absl::StatusOr<AppendFile> Open(std::string path);

  // All of `bytes`, or nothing: if the disk fills up halfway (RESOURCE_EXHAUSTED), the file is cut
  // back to what it was. If even that fails, every later Append() is FAILED_PRECONDITION.
  absl::Status Append(absl::string_view bytes);
  absl::Status Sync();
  // Cuts the file to its first `size` bytes.
  absl::Status Truncate(int64_t size);
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  AppendFile(std::string path, FileDescriptor fd, int64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  FileDescriptor fd_;
  int64_t size_ = 0;
  bool torn_ = false;  // Holds part of an entry that could not be cut off.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_APPEND_FILE_H_

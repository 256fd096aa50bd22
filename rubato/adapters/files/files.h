// Whole files and folders, with errors that name the path: what the rest of Rubato keeps on disk
// goes through here, so that a crash leaves the old file or the new one, never half of one.
//
// Codes follow errno: NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED; a full disk or a file over its
// limit is RESOURCE_EXHAUSTED.
#ifndef RUBATO_ADAPTERS_FILES_FILES_H_
#define RUBATO_ADAPTERS_FILES_FILES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

// "`path`: cannot `action`: `errno's text`", e.g. PathError(errno, "open", path).
absl::Status PathError(int error_number, absl::string_view action, absl::string_view path);

// A descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();
  // Lets go of it; the caller closes.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// open(2), close-on-exec, retried when a signal interrupts it.
absl::StatusOr<FileDescriptor> OpenFile(const std::string& path, int flags, int mode = 0644);
// write(2) until all is written. On failure some of `bytes` may have been.
absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path);

// Whether a file must outlast a power cut, or only the death of its writer.
enum class Durability { kDisk, kProcess };

// A file that appears under its name complete or not at all. Bytes go to a neighbour with a
// temporary name; Commit() moves it into place; without Commit() it is removed.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(std::string path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  absl::Status Write(absl::string_view bytes);
  // At most once; nothing may be written after it.
  absl::Status Commit(Durability durability = Durability::kDisk);
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string temporary, FileDescriptor fd);

  std::string path_;
  std::string temporary_;  // Empty once committed or moved from.
  FileDescriptor fd_;
  int64_t size_ = 0;
};

// Replaces `path` by a file of `bytes`.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes,
                                 Durability durability = Durability::kDisk);
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// The names in a folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);
// Makes `path` and what is missing above it; fine if it is there already.
absl::Status MakeDirectories(const std::string& path);
// Removes a file, or a folder with all it holds; fine if it is gone already. Does not follow links.
absl::Status RemoveTree(const std::string& path);
// False also of what lies where one may not look, see CheckMayLook().
bool PathExists(const std::string& path);
// PERMISSION_DENIED if it is not for us to know whether `path` is there.
absl::Status CheckMayLook(const std::string& path);
// Removing or renaming lasts through a power cut only once its folder is synced.
absl::Status SyncDirectory(const std::string& path);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_FILES_H_

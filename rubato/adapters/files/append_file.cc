#include "rubato/adapters/files/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {

absl::StatusOr<AppendFile> AppendFile::Open(std::string path) {
  const bool is_new = !PathExists(path);
  RUBATO_ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(path, O_WRONLY | O_CREAT | O_APPEND));
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return PathError(errno, "stat", path);
  if (is_new) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    RUBATO_RETURN_IF_ERROR(SyncDirectory(parent.empty() ? "." : parent));
  }
  return AppendFile(std::move(path), std::move(fd), status.st_size);
}

absl::Status AppendFile::Append(absl::string_view bytes) {
  if (torn_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_,
                     ": an earlier write failed and could not be undone; the file ends "
                     "with part of an entry after byte ",
                     size_));
  }
  const absl::Status written = WriteAll(fd_.get(), bytes, path_);
  if (written.ok()) {
    size_ += static_cast<int64_t>(bytes.size());
    return written;
  }
  torn_ = ftruncate(fd_.get(), size_) != 0;
  return written;
}

absl::Status AppendFile::Sync() {
  if (fdatasync(fd_.get()) != 0) return PathError(errno, "sync", path_);
  return absl::OkStatus();
}

absl::Status AppendFile::Truncate(int64_t size) {
  RUBATO_CHECK(size >= 0 && size <= size_);
  if (ftruncate(fd_.get(), size) != 0) return PathError(errno, "truncate", path_);
  size_ = size;
  torn_ = false;
  return absl::OkStatus();
}

}  // namespace rubato

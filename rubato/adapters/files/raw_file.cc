#include "rubato/adapters/files/raw_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

int64_t ModifiedNs(const struct stat& status) {
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

absl::Status Changed(absl::string_view path, absl::string_view how) {
  return absl::DataLossError(
      absl::StrCat(path, ": ", how, " since its records were counted; begin the job anew"));
}

}  // namespace

absl::StatusOr<RawFile> RawFile::Open(const IndexedFile& file) {
  RawFile raw;
  raw.path_ = file.path;
  raw.size_ = file.size;
  raw.modified_ns_ = file.modified_ns;
  absl::StatusOr<FileDescriptor> fd = OpenFile(file.path, O_RDONLY);
  if (absl::IsNotFound(fd.status())) return Changed(file.path, "the file was removed");
  if (!fd.ok()) return fd.status();
  raw.fd_ = *std::move(fd);
  RUBATO_RETURN_IF_ERROR(raw.CheckUnchanged());
  return raw;
}

absl::Status RawFile::CheckUnchanged() const {
  struct stat status;
  if (fstat(fd_.get(), &status) != 0) return PathError(errno, "stat", path_);
  if (status.st_size != size_ || ModifiedNs(status) != modified_ns_) {
    return Changed(path_, "the file was changed");
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> RawFile::ReadAt(int64_t offset, char* out, size_t size) const {
  if (offset >= size_) return 0;
  size = std::min(size, static_cast<size_t>(size_ - offset));
  while (true) {
    const ssize_t n = pread(fd_.get(), out, size, offset);
    if (n > 0) return static_cast<size_t>(n);
    if (n == 0) return Changed(path_, "the file was cut short");
    if (errno != EINTR) return PathError(errno, "read", path_);
  }
}

absl::StatusOr<IndexedFile> InspectFile(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return PathError(errno, "open", path);
  if (S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a folder; name its files, as in ", path, "/*"));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a plain file; records are read by their place in it"));
  }
  if (status.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  IndexedFile file = {.path = path, .size = status.st_size, .modified_ns = ModifiedNs(status)};
  RUBATO_ASSIGN_OR_RETURN(const RawFile raw, RawFile::Open(file));
  char magic[2] = {};
  RUBATO_ASSIGN_OR_RETURN(const size_t n, raw.ReadAt(0, magic, sizeof(magic)));
  file.gzip = n == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
  return file;
}

}  // namespace rubato

#include "rubato/adapters/files/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace fs = std::filesystem;
namespace {

// A name beside `path` that no other process or thread uses.
std::string TemporaryName(const std::string& path) {
  static std::atomic<int64_t> counter = 0;
  return absl::StrCat(path, ".tmp-", getpid(), "-", counter.fetch_add(1));
}

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

absl::Status PathError(int error_number, absl::string_view action, absl::string_view path) {
  const std::string message =
      absl::StrCat(path, ": cannot ", action, ": ", std::generic_category().message(error_number));
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      // How to go on is for the command to say.
      return absl::ResourceExhaustedError(absl::StrCat(message, "; make room first"));
    case EISDIR:
    case ENOTDIR:
      return absl::InvalidArgumentError(message);
    default:
      return absl::Status(absl::ErrnoToStatusCode(error_number), message);
  }
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

absl::StatusOr<FileDescriptor> OpenFile(const std::string& path, int flags, int mode) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return PathError(errno, "open", path);
  return FileDescriptor(fd);
}

absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return PathError(errno, "write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

AtomicFile::AtomicFile(std::string path, std::string temporary, FileDescriptor fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      fd_(std::move(other.fd_)),
      size_(other.size_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path) {
  std::string temporary = TemporaryName(path);
  absl::StatusOr<FileDescriptor> fd = OpenFile(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  // The user knows `path`, not the temporary name.
  if (!fd.ok()) return PathError(errno, "create", path);
  return AtomicFile(std::move(path), std::move(temporary), *std::move(fd));
}

absl::Status AtomicFile::Write(absl::string_view bytes) {
  RUBATO_RETURN_IF_ERROR(WriteAll(fd_.get(), bytes, path_));
  size_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit(Durability durability) {
  if (durability == Durability::kDisk && fsync(fd_.get()) != 0) {
    return PathError(errno, "sync", path_);
  }
  // Some file systems report a full disk only here.
  if (close(fd_.Release()) != 0) return PathError(errno, "write", path_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return PathError(errno, "replace", path_);
  temporary_.clear();
  return durability == Durability::kDisk ? SyncDirectory(ParentOf(path_)) : absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes,
                                 Durability durability) {
  RUBATO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RUBATO_RETURN_IF_ERROR(file.Write(bytes));
  return file.Commit(durability);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(path, O_RDONLY));
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return PathError(errno, "stat", path);
  std::string bytes;
  size_t size = 0;
  // One byte more than the file has, so that its end is seen without growing.
  bytes.resize(static_cast<size_t>(std::max<off_t>(status.st_size, 0)) + 1);
  while (true) {
    if (size == bytes.size()) bytes.resize(2 * bytes.size());
    const ssize_t n = read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return PathError(errno, "read", path);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  bytes.resize(size);
  return bytes;
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return PathError(error.value(), "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? PathError(error.value(), "make folder", path) : absl::OkStatus();
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? PathError(error.value(), "remove", path) : absl::OkStatus();
}

bool PathExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::Status CheckMayLook(const std::string& path) {
  struct stat ignored;
  const bool may_not = stat(path.c_str(), &ignored) != 0 && (errno == EACCES || errno == EPERM);
  return may_not ? PathError(errno, "open", path) : absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(path, O_RDONLY | O_DIRECTORY));
  if (fsync(fd.get()) != 0) return PathError(errno, "sync", path);
  return absl::OkStatus();
}

}  // namespace rubato

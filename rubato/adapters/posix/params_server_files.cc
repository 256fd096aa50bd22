#include "rubato/adapters/posix/params_server_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"

namespace rubato {
absl::StatusOr<FileDescriptor> LockDirectory(const std::string& directory) {
  RUBATO_ASSIGN_OR_RETURN(FileDescriptor fd,
                          OpenFile(absl::StrCat(directory, "/lock"), O_RDWR | O_CREAT));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, " is in use by another server process"));
  }
  return fd;
}

absl::Status WriteParts(int fd, const std::string& path, absl::string_view first,
                        absl::string_view second, int64_t* at) {
  while (!first.empty() || !second.empty()) {
    const iovec parts[] = {{const_cast<char*>(first.data()), first.size()},
                           {const_cast<char*>(second.data()), second.size()}};
    const ssize_t written = pwritev(fd, parts, std::size(parts), *at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return PathError(errno, "write", path);
    *at += written;
    const size_t of_first = std::min(static_cast<size_t>(written), first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(static_cast<size_t>(written) - of_first);
  }
  return absl::OkStatus();
}

// ---- RecordFile ----

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Create(const std::string& path) {
  auto file = std::make_unique<RecordFile>();
  file->path_ = path;
  RUBATO_ASSIGN_OR_RETURN(file->fd_, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  const FileHeaderBytes header = EncodeFileHeader();
  RUBATO_RETURN_IF_ERROR(file->WriteAll({header.data(), header.size()}, ""));
  return file;
}

absl::Status RecordFile::Append(RecordKind kind, absl::string_view body) {
  const RecordHeaderBytes header = EncodeRecordHeader(kind, body);
  return WriteAll({header.data(), header.size()}, body);
}

absl::Status RecordFile::WriteAll(absl::string_view header, absl::string_view body) {
  static constexpr char kZeros[8] = {};
  const absl::string_view padding(kZeros, Padded(body.size()) - body.size());
  int64_t at = bytes_;
  absl::Status status = WriteParts(fd_.get(), path_, header, body.substr(0, kWriteBytes), &at);
  for (size_t done = kWriteBytes; status.ok() && done < body.size(); done += kWriteBytes) {
    status = WriteParts(fd_.get(), path_, body.substr(done, kWriteBytes), "", &at);
  }
  if (status.ok()) status = WriteParts(fd_.get(), path_, padding, "", &at);
  if (!status.ok()) {
    // Half a record would read as damage once another follows it.
    if (ftruncate(fd_.get(), bytes_) != 0) return PathError(errno, "write", path_);
    return status;
  }
  bytes_ = at;
  return absl::OkStatus();
}

absl::Status RecordFile::Sync() {
  return fdatasync(fd_.get()) == 0 ? absl::OkStatus() : PathError(errno, "write", path_);
}

// ---- MappedFile ----

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(path, O_RDONLY));
  struct stat stat {};
  if (fstat(fd.get(), &stat) != 0) return PathError(errno, "read", path);
  if (stat.st_size == 0) return MappedFile(path, {});
  const auto size = static_cast<size_t>(stat.st_size);
  void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (bytes == MAP_FAILED) return PathError(errno, "read", path);
  madvise(bytes, size, MADV_SEQUENTIAL);
  return MappedFile(path, {static_cast<const char*>(bytes), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

// ---- names ----

absl::Status Publish(const std::string& temporary, const std::string& path) {
  if (rename(temporary.c_str(), path.c_str()) != 0) return PathError(errno, "read", path);
  const std::string parent = std::filesystem::absolute(path).parent_path().string();
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(parent, O_RDONLY | O_DIRECTORY));
  return fsync(fd.get()) == 0 ? absl::OkStatus() : PathError(errno, "sync", parent);
}

std::string SegmentPath(const std::string& directory, int64_t segment) {
  return absl::StrFormat("%s/push-%06d.log", directory, segment);
}

absl::StatusOr<std::map<int64_t, int64_t>> ListSegments(const std::string& directory) {
  std::map<int64_t, int64_t> segments;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; it != end && !error;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view digits = name;
    int64_t segment = 0;
    if (!absl::ConsumePrefix(&digits, "push-") || !absl::ConsumeSuffix(&digits, ".log") ||
        !absl::SimpleAtoi(digits, &segment)) {
      continue;
    }
    // One that cannot be read is in the list all the same: whoever opens it will say why.
    std::error_code unreadable;
    const auto bytes = static_cast<int64_t>(it->file_size(unreadable));
    segments[segment] = unreadable ? 0 : bytes;
  }
  if (error) return PathError(error.value(), "list", directory);
  return segments;
}

std::string CheckpointPath(const std::string& checkpoints, int64_t version, int64_t server) {
  return absl::StrFormat("%s/%d/server-%d.ckpt", checkpoints, version, server);
}

absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& checkpoints,
                                                     int64_t server) {
  std::vector<int64_t> versions;
  std::error_code error;
  for (std::filesystem::directory_iterator it(checkpoints, error), end; it != end && !error;
       it.increment(error)) {
    int64_t version = 0;
    if (!absl::SimpleAtoi(it->path().filename().string(), &version)) continue;
    if (std::filesystem::exists(CheckpointPath(checkpoints, version, server))) {
      versions.push_back(version);
    }
  }
  if (error) return PathError(error.value(), "list", checkpoints);
  std::sort(versions.begin(), versions.end());
  return versions;
}

}  // namespace rubato

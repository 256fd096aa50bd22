#include "rubato/adapters/posix/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// A checkpoint begins one segment and frees one, most of the time.
constexpr size_t kSparesMax = 2;

std::string SparePath(const std::string& directory, int64_t segment) {
  return absl::StrFormat("%s/spare-%06d.log", directory, segment);
}

// Whether all that the file may hold of earlier segments is of smaller numbers. Their records, not
// those of the segment to come, must be the ones that do not verify in it.
bool IsOlder(const FileDescriptor& fd, int64_t segment) {
  std::array<char, kFileHeaderBytes> header;
  if (pread(fd.get(), header.data(), header.size(), 0) != std::ssize(header)) return false;
  const absl::string_view bytes(header.data(), header.size());
  const std::optional<int64_t> number = SegmentNumber(bytes);
  // One of the format before has no numbers, and its records verify nowhere else.
  const FileHeaderBytes before = EncodeFileHeader();
  return number.has_value() ? *number < segment
                            : bytes == absl::string_view(before.data(), before.size());
}

}  // namespace

// ---- LogFile ----

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::Make(const std::string& made,
                                                       const std::string& path, int64_t segment) {
  RUBATO_ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(made, O_WRONLY | O_CREAT | O_TRUNC));
  std::unique_ptr<LogFile> file(new LogFile(made, path, std::move(fd), segment));
  RUBATO_RETURN_IF_ERROR(file->writer_.Begin());
  return file;
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::MakeOver(const std::string& spare,
                                                           const std::string& path,
                                                           int64_t segment) {
  RUBATO_ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(spare, O_RDWR));
  if (!IsOlder(fd, segment)) {
    return absl::FailedPreconditionError(
        absl::StrCat(spare, " is no older segment than ", segment));
  }
  std::unique_ptr<LogFile> file(new LogFile(spare, path, std::move(fd), segment));
  RUBATO_RETURN_IF_ERROR(file->writer_.Begin());
  return file;
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::Create(const std::string& path, int64_t segment) {
  // Under its name it is whole, if empty: one of no bytes would be missing in a follower's copy.
  RUBATO_ASSIGN_OR_RETURN(auto file, Make(path + ".tmp", path, segment));
  RUBATO_RETURN_IF_ERROR(file->Place());
  return file;
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::Over(const std::string& spare,
                                                       const std::string& path, int64_t segment) {
  RUBATO_ASSIGN_OR_RETURN(auto file, MakeOver(spare, path, segment));
  RUBATO_RETURN_IF_ERROR(file->Place());
  return file;
}

absl::Status LogFile::Place() {
  if (rename(made_.c_str(), path_.c_str()) != 0) return PathError(errno, "rename", made_);
  made_.clear();
  return absl::OkStatus();
}

LogFile::~LogFile() {
  if (!made_.empty()) std::remove(made_.c_str());
}

absl::Status LogFile::AppendSynced(RecordKind kind, absl::string_view body) {
  RUBATO_RETURN_IF_ERROR(writer_.Append(kind, body));
  absl::Status status = Sync();
  if (!status.ok()) (void)writer_.TakeBack();  // If it cannot, nothing more is appended.
  return status;
}

absl::Status LogFile::Sync() {
  return fdatasync(fd_.get()) == 0 ? absl::OkStatus() : PathError(errno, "write", path_);
}

absl::Status LogFile::WriteAt(int64_t offset, absl::string_view first, absl::string_view second) {
  while (first.size() > kWriteBytes) {
    RUBATO_RETURN_IF_ERROR(WriteParts(fd_.get(), path_, first.substr(0, kWriteBytes), "", &offset));
    first.remove_prefix(kWriteBytes);
  }
  return WriteParts(fd_.get(), path_, first, second, &offset);
}

// ---- LogSpares ----

absl::Status LogSpares::Open() {
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, "spare-") || !absl::EndsWith(name, ".log")) continue;
    Add({.path = absl::StrCat(directory_, "/", name)});
  }
  return absl::OkStatus();
}

void LogSpares::Keep(const std::vector<int64_t>& segments) {
  for (const int64_t segment : segments) {
    const std::string path = SegmentPath(directory_, segment);
    const std::string spare = SparePath(directory_, segment);
    if (rename(path.c_str(), spare.c_str()) == 0) Add({.path = spare});
  }
}

// Files are cut and removed without the lock: that may take as long as they are.
void LogSpares::Add(Spare spare) {
  struct stat stat {};
  if (::stat(spare.path.c_str(), &stat) != 0) return;
  spare.bytes = std::min<int64_t>(stat.st_size, bytes_max_);
  std::vector<Spare> needless;
  if (spare.bytes < stat.st_size && truncate(spare.path.c_str(), spare.bytes) != 0) {
    needless.push_back(spare);
  } else {
    MutexLock lock(mu_);
    spares_.push_back(std::move(spare));
    std::stable_sort(spares_.begin(), spares_.end(),
                     [](const Spare& a, const Spare& b) { return a.bytes > b.bytes; });
    std::vector<Spare> kept;
    int64_t left = bytes_max_;
    for (Spare& one : spares_) {
      const bool keeps = kept.size() < kSparesMax && one.bytes > 0 && one.bytes <= left;
      if (keeps) left -= one.bytes;
      (keeps ? kept : needless).push_back(std::move(one));
    }
    spares_ = std::move(kept);
  }
  for (const Spare& one : needless) std::remove(one.path.c_str());
}

std::unique_ptr<LogFile> LogSpares::OverSpare(int64_t segment) {
  Spare spare;
  {
    MutexLock lock(mu_);
    if (spares_.empty()) return nullptr;
    spare = std::move(spares_.front());
    spares_.erase(spares_.begin());
  }
  auto file = LogFile::MakeOver(spare.path, SegmentPath(directory_, segment), segment);
  if (file.ok()) return *std::move(file);
  std::remove(spare.path.c_str());
  return nullptr;
}

std::unique_ptr<LogFile> LogSpares::Take(int64_t segment) {
  std::unique_ptr<LogFile> file = OverSpare(segment);
  return file != nullptr && file->Place().ok() ? std::move(file) : nullptr;
}

absl::StatusOr<std::unique_ptr<LogFile>> LogSpares::Ahead(int64_t segment) {
  if (std::unique_ptr<LogFile> file = OverSpare(segment); file != nullptr) return file;
  return LogFile::Make(directory_ + "/next.log", SegmentPath(directory_, segment), segment);
}

bool LogSpares::Clear() {
  std::vector<Spare> all;
  {
    MutexLock lock(mu_);
    all.swap(spares_);
  }
  for (const Spare& spare : all) std::remove(spare.path.c_str());
  return !all.empty();
}

int64_t LogSpares::bytes() {
  MutexLock lock(mu_);
  int64_t bytes = 0;
  for (const Spare& spare : spares_) bytes += spare.bytes;
  return bytes;
}

}  // namespace rubato

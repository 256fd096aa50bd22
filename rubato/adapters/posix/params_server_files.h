// A parameter server's files: the lock on its directory, the segments of its push log, checkpoints.
//
//     DIRECTORY/lock                       held while the process lives
//     DIRECTORY/push-000007.log            one segment of the log; a new one for every life of the
//                                          process and for every checkpoint (log_file.h)
//     CHECKPOINTS/VERSION/server-S.ckpt    complete, or not there
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_FILES_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_FILES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/read_guard.h"
#include "rubato/params/record_file.h"

namespace rubato {

// Holds DIRECTORY/lock until destroyed or until the process dies. FAILED_PRECONDITION if another
// process holds it.
absl::StatusOr<FileDescriptor> LockDirectory(const std::string& directory);

// Written in one call at most. For a longer stretch the kernel takes 2 MiB of memory at once, which
// is what a virtual machine gives back to its host when it is free: to touch it again costs up to
// eight times the copy.
inline constexpr size_t kWriteBytes = size_t{1} << 20;

// Both of them at `*at` of the file, which is moved on.
absl::Status WriteParts(int fd, const std::string& path, absl::string_view first,
                        absl::string_view second, int64_t* at);

// A file of records being written, from its header on.
class RecordFile : public RecordSink {
 public:
  // A new, empty file; one that is there already is replaced.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Create(const std::string& path);

  // RESOURCE_EXHAUSTED if the disk is full; the file then is as it was before.
  absl::Status Append(RecordKind kind, absl::string_view body) override;
  absl::Status Sync();
  // From any thread.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  const std::string& path() const { return path_; }

 private:
  absl::Status WriteAll(absl::string_view header, absl::string_view body);

  std::string path_;
  FileDescriptor fd_;
  std::atomic<int64_t> bytes_ = 0;
};

// A whole file in memory, mapped and read-only. A byte that cannot be read ends the process, which
// names it (read_guard.h).
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), guard_(std::move(other.guard_)) {}
  ~MappedFile();
  absl::string_view bytes() const { return bytes_; }

 private:
  MappedFile(const std::string& path, absl::string_view bytes)
      : bytes_(bytes), guard_(path, bytes) {}
  absl::string_view bytes_;
  ReadGuard guard_;
};

// Renames a finished file into place so that it is there wholly or not at all, power cut or not.
absl::Status Publish(const std::string& temporary, const std::string& path);

std::string SegmentPath(const std::string& directory, int64_t segment);
// Numbers of the log segments in `directory`, with their sizes, in order.
absl::StatusOr<std::map<int64_t, int64_t>> ListSegments(const std::string& directory);

std::string CheckpointPath(const std::string& checkpoints, int64_t version, int64_t server);
// Versions of which this server's file is there, in order.
absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& checkpoints,
                                                     int64_t server);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_FILES_H_

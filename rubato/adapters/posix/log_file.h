// The segments of a push log as files, and those kept to be written over.
//
//     DIRECTORY/push-000007.log     a segment; what follows its end in the file is of no meaning
//     DIRECTORY/spare-000003.log    was one until a checkpoint made it needless
//     DIRECTORY/next.log            is to be the next one, unless a spare is
//
//     new ──▶ segment ──Keep──▶ spare ──Take──▶ segment of a larger number
//                         └── too many, or the disk is full ──▶ removed
#ifndef RUBATO_ADAPTERS_POSIX_LOG_FILE_H_
#define RUBATO_ADAPTERS_POSIX_LOG_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/mutex.h"
#include "rubato/params/log_segment.h"

namespace rubato {

// One segment being written.
class LogFile : public RecordSink, private SegmentFile {
 public:
  // A new file; one that is there already is replaced.
  static absl::StatusOr<std::unique_ptr<LogFile>> Create(const std::string& path, int64_t segment);
  // Over the file `spare`, which then has the name `path`. If we die on the way it is a spare yet.
  static absl::StatusOr<std::unique_ptr<LogFile>> Over(const std::string& spare,
                                                       const std::string& path, int64_t segment);
  // Both, but for the name, which Place gives it: so that whoever begins a segment while others
  // wait need not make its file then. One that goes without a name is removed.
  static absl::StatusOr<std::unique_ptr<LogFile>> Make(const std::string& made,
                                                       const std::string& path, int64_t segment);
  static absl::StatusOr<std::unique_ptr<LogFile>> MakeOver(const std::string& spare,
                                                           const std::string& path,
                                                           int64_t segment);
  ~LogFile() override;
  absl::Status Place();
  int64_t segment() const { return segment_; }

  // RESOURCE_EXHAUSTED if the disk is full; the segment then is as it was before.
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    return writer_.Append(kind, body);
  }
  // As Append, and on the disk when it returns.
  absl::Status AppendSynced(RecordKind kind, absl::string_view body);
  absl::Status Sync();
  // Of the log, not of the file. From any thread.
  int64_t bytes() const { return writer_.bytes(); }

 private:
  LogFile(std::string made, std::string path, FileDescriptor fd, int64_t segment)
      : made_(std::move(made)),
        path_(std::move(path)),
        segment_(segment),
        fd_(std::move(fd)),
        writer_(*this, segment) {}
  absl::Status WriteAt(int64_t offset, absl::string_view first, absl::string_view second) override;

  std::string made_;  // Its name until it is placed; then empty.
  const std::string path_;
  const int64_t segment_;
  const FileDescriptor fd_;
  SegmentWriter writer_;
};

// Segments that are needed no more, a few, of so many bytes at most. Thread-safe: a push that
// begins a segment does not wait for a file that is removed meanwhile.
class LogSpares {
 public:
  // None are kept if `bytes_max` is 0.
  LogSpares(std::string directory, int64_t bytes_max)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}

  // Finds those that earlier lives kept.
  absl::Status Open();
  // These segments are needed no more. One that is too long is cut.
  void Keep(const std::vector<int64_t>& segments);
  // Segment `segment`, written over the longest spare; null if there is none that will do.
  std::unique_ptr<LogFile> Take(int64_t segment);
  // The same without its name yet, and a new file where there is no spare.
  absl::StatusOr<std::unique_ptr<LogFile>> Ahead(int64_t segment);
  // Gives the room back. False if there was none.
  bool Clear();
  int64_t bytes();

 private:
  struct Spare {
    std::string path;
    int64_t bytes = 0;
  };
  void Add(Spare spare);
  std::unique_ptr<LogFile> OverSpare(int64_t segment);  // Without its name; null if there is none.

  const std::string directory_;
  const int64_t bytes_max_;
  Mutex mu_;
  std::vector<Spare> spares_ ABSL_GUARDED_BY(mu_);  // The longest first.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_LOG_FILE_H_

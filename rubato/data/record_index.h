// Where records are in files, without the files: the offset of every 1024th record, how many there
// are, and what the files looked like, so that a changed one is noticed.
//
// 50 GB of Criteo rows make an index of about 1 MB. A gzip file adds places where inflating can
// begin, at most 2048 of about 10 kB each.
#ifndef RUBATO_DATA_RECORD_INDEX_H_
#define RUBATO_DATA_RECORD_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

constexpr int64_t kRecordsPerMark = 1024;

// Where a record starts, in inflated bytes, and on which line, counted from 1.
struct RecordMark {
  int64_t offset = 0;
  int64_t line = 1;
  friend bool operator==(const RecordMark&, const RecordMark&) = default;
};

// Where inflating can begin in the middle of a gzip file.
struct GzipPoint {
  int64_t output = 0;  // The inflated byte that comes next.
  int64_t input = 0;   // The file's byte that comes next.
  // A member's header comes next. Otherwise a deflate block does, whose first `bits` bits are the
  // high ones of the byte before `input`, and which may refer to `window`.
  bool member_start = false;
  uint8_t bits = 0;
  std::string window;  // The 32 kB of output before, deflated.
  friend bool operator==(const GzipPoint&, const GzipPoint&) = default;
};

struct IndexedFile {
  std::string path;
  int64_t size = 0;         // On disk, in bytes.
  int64_t modified_ns = 0;  // Since 1970.
  bool gzip = false;
  int64_t records = 0;            // 0 for the labels of idx, whose records are the images.
  std::vector<RecordMark> marks;  // Of records 0, 1024, 2048, ... of this file.
  std::vector<GzipPoint> points;  // By growing output. The file's start is not among them.
  friend bool operator==(const IndexedFile&, const IndexedFile&) = default;
};

struct RecordIndex {
  std::string format;  // What was taken for a record, e.g. "csv with header".
  std::string schema;  // What the parser must know of the files: see MakeParser().
  std::vector<IndexedFile> files;
  friend bool operator==(const RecordIndex&, const RecordIndex&) = default;

  int64_t records() const;
  std::string Encode() const;
  // DATA_LOSS if the bytes are cut, damaged or of another version.
  static absl::StatusOr<RecordIndex> Decode(absl::string_view bytes);
};

// The first record of each file, counted over all files.
class FileStarts {
 public:
  explicit FileStarts(const RecordIndex& index);
  int64_t records() const { return records_; }
  int64_t operator[](size_t file) const { return first_[file]; }
  // The file of a record below records().
  size_t FileOf(int64_t record) const;

 private:
  std::vector<int64_t> first_;
  int64_t records_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_DATA_RECORD_INDEX_H_

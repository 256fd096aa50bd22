// Files of records in memory, for tests.
#ifndef RUBATO_PARAMS_STRING_SINK_H_
#define RUBATO_PARAMS_STRING_SINK_H_

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rubato/net/frame.h"
#include "rubato/params/log_segment.h"
#include "rubato/params/record_file.h"

namespace rubato {

class StringSink : public RecordSink {
 public:
  StringSink() {
    const FileHeaderBytes header = EncodeFileHeader();
    bytes_.assign(header.data(), header.size());
  }
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    if (full_) return absl::ResourceExhaustedError("disk full");
    const RecordHeaderBytes header = EncodeRecordHeader(kind, body);
    bytes_.append(header.data(), header.size());
    bytes_.append(body.data(), body.size());
    bytes_.resize(Padded(bytes_.size()));
    ends_.push_back(bytes_.size());
    return absl::OkStatus();
  }
  const std::string& bytes() const { return bytes_; }
  const std::vector<size_t>& ends() const { return ends_; }
  void set_full(bool full) { full_ = full; }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;  // Where each record ends.
  bool full_ = false;
};

// The file of a segment, which may be told how many bytes can still be written to it: after those
// the disk is full, or the process dead. As in a kernel that copies page by page, a write may end
// between two stretches of 32 bytes and not within one.
class StringSegment : public SegmentFile {
 public:
  explicit StringSegment(std::string bytes = "") : bytes_(std::move(bytes)) {}

  absl::Status WriteAt(int64_t offset, absl::string_view first, absl::string_view second) override {
    const std::string all = absl::StrCat(first, second);
    const auto at = static_cast<size_t>(offset);
    const size_t whole =
        left_ < all.size() ? std::max(at, (at + left_) / 32 * 32) - at : all.size();
    const size_t some = std::min(all.size(), whole);
    if (bytes_.size() < at + some) bytes_.resize(at + some);
    bytes_.replace(at, some, all, 0, some);
    left_ = some == all.size() ? left_ - some : 0;
    return some == all.size() ? absl::OkStatus() : absl::ResourceExhaustedError("disk full");
  }
  const std::string& bytes() const { return bytes_; }
  void set_left(size_t left) { left_ = left; }

 private:
  std::string bytes_;
  size_t left_ = std::numeric_limits<size_t>::max();
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_STRING_SINK_H_

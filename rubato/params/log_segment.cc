#include "rubato/params/log_segment.h"

#include "rubato/base/status.h"

namespace rubato {
namespace {

// What is written first into a page goes to its end: the system need not read the page for it.
constexpr int64_t kPageBytes = 4096;
constexpr auto kHeader = static_cast<int64_t>(kRecordHeaderBytes);
// To the end of a page, at most: the padding of a body, an empty header, and up to a page.
constexpr char kZeros[kSegmentAlign + kRecordHeaderBytes + kPageBytes] = {};

// Where the zeros end that begin at `at` or some bytes before it.
constexpr int64_t ZerosEnd(int64_t at) {
  return (at + kHeader + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

absl::Status SegmentWriter::Begin() {
  const FileHeaderBytes header = EncodeSegmentHeader(segment_);
  const auto end = static_cast<int64_t>(header.size());
  zeros_to_ = ZerosEnd(end);
  RUBATO_RETURN_IF_ERROR(file_.WriteAt(0, {header.data(), header.size()},
                                       {kZeros, static_cast<size_t>(zeros_to_ - end)}));
  bytes_ = last_ = end;
  return absl::OkStatus();
}

absl::Status SegmentWriter::Append(RecordKind kind, absl::string_view body) {
  RUBATO_RETURN_IF_ERROR(broken_);
  const int64_t at = bytes_;
  const int64_t body_end = at + kHeader + static_cast<int64_t>(body.size());
  const int64_t end = at + kHeader + static_cast<int64_t>(SegmentPadded(body.size()));
  const bool has_end = end + kHeader <= zeros_to_;  // There is room in the zeros of before.
  const int64_t zeros_to = has_end ? zeros_to_ : ZerosEnd(end);
  const absl::string_view zeros(kZeros, has_end ? 0 : static_cast<size_t>(zeros_to - body_end));
  zeros_to_ = 0;  // Until all is written.
  RUBATO_RETURN_IF_ERROR(file_.WriteAt(at + kHeader, body, zeros));
  const RecordHeaderBytes header =
      EncodeRecordHeader(kind, body, {.segment = segment_, .offset = at});
  const absl::Status status = file_.WriteAt(at, {header.data(), header.size()}, "");
  if (!status.ok()) {
    broken_ = WriteEnd(at);
    return status;
  }
  zeros_to_ = zeros_to;
  last_ = at;
  bytes_ = end;
  return absl::OkStatus();
}

absl::Status SegmentWriter::TakeBack() {
  RUBATO_RETURN_IF_ERROR(broken_);
  broken_ = WriteEnd(last_);
  if (broken_.ok()) bytes_ = last_;
  zeros_to_ = 0;
  return broken_;
}

absl::Status SegmentWriter::WriteEnd(int64_t at) {
  return file_.WriteAt(at, {kZeros, kRecordHeaderBytes}, "");
}

}  // namespace rubato

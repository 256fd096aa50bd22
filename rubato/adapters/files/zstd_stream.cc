#include "rubato/adapters/files/zstd_stream.h"

#include <zstd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kInputBytes = 1 << 17;

}  // namespace

absl::StatusOr<bool> IsZstd(const RawFile& file) {
  unsigned char head[4] = {};
  RUBATO_ASSIGN_OR_RETURN(const size_t n,
                          file.ReadAt(0, reinterpret_cast<char*>(head), sizeof(head)));
  constexpr unsigned char kMagic[4] = {0x28, 0xb5, 0x2f, 0xfd};
  return n == sizeof(head) && std::memcmp(head, kMagic, sizeof(head)) == 0;
}

ZstdStream::ZstdStream(RawFile file)
    : file_(std::move(file)), context_(ZSTD_createDCtx(), ZSTD_freeDCtx), input_(kInputBytes, 0) {
  RUBATO_CHECK(context_ != nullptr);
}

ZstdStream::~ZstdStream() = default;

void ZstdStream::StartAt(const GzipPoint& point) {
  output_ = point.output;
  input_offset_ = point.input;
}

void ZstdStream::RecordPoints(std::vector<GzipPoint>* points, int64_t spacing) {
  points_ = points;
  spacing_ = spacing;
}

int64_t ZstdStream::file_position() const {
  return input_offset_ - static_cast<int64_t>(end_ - begin_);
}

absl::StatusOr<size_t> ZstdStream::Read(char* out, size_t size) {
  while (true) {
    if (begin_ == end_) {
      begin_ = end_ = 0;
      RUBATO_ASSIGN_OR_RETURN(end_, file_.ReadAt(input_offset_, input_.data(), input_.size()));
      input_offset_ += static_cast<int64_t>(end_);
      if (end_ == 0 && !within_frame_) return size_t{0};
      if (end_ == 0) {
        return absl::DataLossError(
            absl::StrCat(file_.path(), ": damaged zstd: it ends too early; the file is truncated"));
      }
    }
    if (!within_frame_ && points_ != nullptr && output_ > 0 &&
        output_ - (points_->empty() ? 0 : points_->back().output) >= spacing_) {
      points_->push_back({.output = output_, .input = file_position(), .member_start = true});
    }
    ZSTD_inBuffer in = {input_.data(), end_, begin_};
    ZSTD_outBuffer to = {out, size, 0};
    const size_t result = ZSTD_decompressStream(context_.get(), &to, &in);
    if (ZSTD_isError(result)) {
      return absl::DataLossError(absl::StrCat(file_.path(), ": damaged zstd near byte ",
                                              file_position(), ": ", ZSTD_getErrorName(result)));
    }
    begin_ = in.pos;
    within_frame_ = result != 0;
    output_ += static_cast<int64_t>(to.pos);
    if (to.pos > 0) return to.pos;
  }
}

}  // namespace rubato

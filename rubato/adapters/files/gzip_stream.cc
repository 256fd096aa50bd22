#include "rubato/adapters/files/gzip_stream.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int kGzipBits = 15 + 16;  // A gzip header, a 32 kB window.
constexpr int kRawBits = -15;       // Deflate alone.
constexpr size_t kWindowBytes = 1 << 15;
constexpr size_t kInputBytes = 1 << 16;
constexpr size_t kPointsMax = 2048;
constexpr size_t kTrailerBytes = 8;

Bytef* Writable(const char* bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes)); }

std::string Deflate(absl::string_view bytes) {
  std::string out(compressBound(bytes.size()), 0);
  uLongf size = out.size();
  RUBATO_CHECK(compress2(Writable(out.data()), &size, Writable(bytes.data()), bytes.size(), 6) ==
               Z_OK);
  out.resize(size);
  return out;
}

}  // namespace

GzipStream::GzipStream(RawFile file) : file_(std::move(file)), input_(kInputBytes, 0) {
  RUBATO_CHECK(inflateInit2(&z_, kGzipBits) == Z_OK);
  z_.next_in = Writable(input_.data());
}

GzipStream::~GzipStream() { inflateEnd(&z_); }

absl::Status GzipStream::Damaged(absl::string_view how) const {
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": damaged gzip near byte ", file_position(), ": ", how));
}

absl::Status GzipStream::StartAt(const GzipPoint& point) {
  output_ = point.output;
  input_offset_ = point.input;
  if (point.member_start) return absl::OkStatus();

  raw_ = true;
  RUBATO_CHECK(inflateReset2(&z_, kRawBits) == Z_OK);
  if (point.bits > 0) {
    --input_offset_;
    RUBATO_RETURN_IF_ERROR(Refill(1));
    if (z_.avail_in == 0) return Damaged("it ends too early");
    inflatePrime(&z_, point.bits, *z_.next_in >> (8 - point.bits));
    ++z_.next_in;
    --z_.avail_in;
  }
  std::string window(kWindowBytes, 0);
  uLongf size = window.size();
  if (uncompress(Writable(window.data()), &size, Writable(point.window.data()),
                 point.window.size()) != Z_OK ||
      inflateSetDictionary(&z_, Writable(window.data()), static_cast<uInt>(size)) != Z_OK) {
    return Damaged("its index does not fit");
  }
  return absl::OkStatus();
}

void GzipStream::RecordPoints(std::vector<GzipPoint>* points, int64_t spacing) {
  points_ = points;
  spacing_ = spacing;
}

absl::Status GzipStream::Refill(size_t need) {
  if (z_.avail_in >= need) return absl::OkStatus();
  std::memmove(input_.data(), z_.next_in, z_.avail_in);
  z_.next_in = Writable(input_.data());
  while (z_.avail_in < need) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, file_.ReadAt(input_offset_, input_.data() + z_.avail_in,
                                                         input_.size() - z_.avail_in));
    if (n == 0) break;
    input_offset_ += static_cast<int64_t>(n);
    z_.avail_in += static_cast<uInt>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> GzipStream::Read(char* out, size_t size) {
  const int flush = points_ == nullptr ? Z_NO_FLUSH : Z_BLOCK;
  z_.next_out = Writable(out);
  z_.avail_out = static_cast<uInt>(std::min<size_t>(size, 1 << 30));
  const uInt wanted = z_.avail_out;
  while (z_.avail_out == wanted && !ended_) {
    RUBATO_RETURN_IF_ERROR(Refill(1));
    if (z_.avail_in == 0) return Damaged("it ends too early; the file is truncated");
    const uInt room = z_.avail_out;
    const int result = inflate(&z_, flush);
    output_ += room - z_.avail_out;
    if (result == Z_STREAM_END) {
      RUBATO_RETURN_IF_ERROR(EndMember());
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return Damaged(z_.msg != nullptr ? z_.msg : "it cannot be inflated");
    } else if ((z_.data_type & 128) != 0 && (z_.data_type & 64) == 0) {
      MaybeAddPoint(/*member_start=*/false);
    }
  }
  return wanted - z_.avail_out;
}

absl::Status GzipStream::EndMember() {
  if (raw_) {
    // zlib leaves the checksum behind, and it covers bytes that were not seen.
    RUBATO_RETURN_IF_ERROR(Refill(kTrailerBytes));
    if (z_.avail_in < kTrailerBytes) return Damaged("it ends too early; the file is truncated");
    z_.next_in += kTrailerBytes;
    z_.avail_in -= kTrailerBytes;
    raw_ = false;
  }
  RUBATO_RETURN_IF_ERROR(Refill(1));
  // Tapes and block devices pad with zeros.
  while (z_.avail_in > 0 && *z_.next_in == 0) {
    ++z_.next_in;
    --z_.avail_in;
    RUBATO_RETURN_IF_ERROR(Refill(1));
  }
  ended_ = z_.avail_in == 0;
  if (ended_) return absl::OkStatus();
  RUBATO_CHECK(inflateReset2(&z_, kGzipBits) == Z_OK);
  MaybeAddPoint(/*member_start=*/true);
  return absl::OkStatus();
}

void GzipStream::MaybeAddPoint(bool member_start) {
  if (points_ == nullptr) return;
  if (output_ - (points_->empty() ? 0 : points_->back().output) < spacing_) return;
  GzipPoint point = {.output = output_, .input = file_position(), .member_start = member_start};
  if (!member_start) {
    std::string window(kWindowBytes, 0);
    uInt size = 0;
    RUBATO_CHECK(inflateGetDictionary(&z_, Writable(window.data()), &size) == Z_OK);
    point.bits = static_cast<uint8_t>(z_.data_type & 7);
    point.window = Deflate({window.data(), size});
  }
  points_->push_back(std::move(point));
  if (points_->size() < kPointsMax) return;
  // Every second one goes, and the rest of the file gets half as many.
  for (size_t i = 0; 2 * i + 1 < points_->size(); ++i) {
    (*points_)[i] = std::move((*points_)[2 * i + 1]);
  }
  points_->resize(points_->size() / 2);
  spacing_ *= 2;
}

}  // namespace rubato

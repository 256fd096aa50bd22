#include "rubato/adapters/files/byte_stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/gzip_stream.h"
#include "rubato/adapters/files/raw_file.h"
#include "rubato/adapters/files/zstd_stream.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

class PlainStream : public ByteStream {
 public:
  PlainStream(RawFile file, int64_t offset) : file_(std::move(file)), position_(offset) {}

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, file_.ReadAt(position_, out, size));
    position_ += static_cast<int64_t>(n);
    return n;
  }
  int64_t file_position() const override { return position_; }
  absl::Status CheckUnchanged() const override { return file_.CheckUnchanged(); }

 private:
  RawFile file_;
  int64_t position_;
};

// Reads and forgets until the stream is at `offset`.
template <typename Stream>
absl::Status SkipTo(Stream& stream, int64_t offset, const std::string& path) {
  std::string scratch(std::min<size_t>(1 << 16, static_cast<size_t>(offset - stream.output())), 0);
  while (stream.output() < offset) {
    const size_t want = std::min(scratch.size(), static_cast<size_t>(offset - stream.output()));
    RUBATO_RETURN_IF_ERROR(stream.ReadExactly(scratch.data(), want, path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ByteStream::ReadExactly(char* out, size_t size, const std::string& path) {
  while (size > 0) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, Read(out, size));
    if (n == 0) return absl::DataLossError(absl::StrCat(path, ": ends too early"));
    out += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ByteStream>> OpenStream(const IndexedFile& file, int64_t offset) {
  RUBATO_ASSIGN_OR_RETURN(RawFile raw, RawFile::Open(file));
  RUBATO_ASSIGN_OR_RETURN(const bool zstd, IsZstd(raw));
  if (!file.gzip && !zstd) return std::make_unique<PlainStream>(std::move(raw), offset);
  const auto after = std::upper_bound(
      file.points.begin(), file.points.end(), offset,
      [](int64_t offset, const GzipPoint& point) { return offset < point.output; });
  if (zstd) {
    auto stream = std::make_unique<ZstdStream>(std::move(raw));
    if (after != file.points.begin()) stream->StartAt(*std::prev(after));
    RUBATO_RETURN_IF_ERROR(SkipTo(*stream, offset, file.path));
    return stream;
  }
  auto stream = std::make_unique<GzipStream>(std::move(raw));
  if (after != file.points.begin()) RUBATO_RETURN_IF_ERROR(stream->StartAt(*std::prev(after)));
  RUBATO_RETURN_IF_ERROR(SkipTo(*stream, offset, file.path));
  return stream;
}

absl::StatusOr<std::unique_ptr<ByteStream>> OpenStreamForIndexing(IndexedFile& file,
                                                                  int64_t spacing) {
  RUBATO_ASSIGN_OR_RETURN(RawFile raw, RawFile::Open(file));
  RUBATO_ASSIGN_OR_RETURN(const bool zstd, IsZstd(raw));
  if (zstd) {
    auto stream = std::make_unique<ZstdStream>(std::move(raw));
    stream->RecordPoints(&file.points, spacing);
    return stream;
  }
  if (!file.gzip) return std::make_unique<PlainStream>(std::move(raw), 0);
  auto stream = std::make_unique<GzipStream>(std::move(raw));
  stream->RecordPoints(&file.points, spacing);
  return stream;
}

}  // namespace rubato

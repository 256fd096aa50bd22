#include "rubato/adapters/files/idx_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/base/status.h"
#include "rubato/data/idx.h"

namespace rubato {
namespace {

absl::StatusOr<IdxHeader> ReadHeader(const IndexedFile& file) {
  RUBATO_ASSIGN_OR_RETURN(const auto stream, OpenStream(file, 0));
  char bytes[kIdxHeaderBytesMax];
  size_t size = 0;
  while (size < sizeof(bytes)) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, stream->Read(bytes + size, sizeof(bytes) - size));
    if (n == 0) break;
    size += n;
  }
  absl::StatusOr<IdxHeader> header = ParseIdxHeader({bytes, size});
  if (!header.ok()) return Annotate(header.status(), file.path);
  return header;
}

// Items of one file, in order or not.
class ItemReader {
 public:
  ItemReader(IndexedFile file, const IdxHeader& header) : file_(std::move(file)), header_(header) {}

  // Opens the file at `item` unless that is where it stands.
  absl::Status MoveTo(int64_t item) {
    if (stream_ != nullptr && item == next_) return stream_->CheckUnchanged();
    RUBATO_ASSIGN_OR_RETURN(stream_, OpenStream(file_, header_.bytes + item * header_.item_bytes));
    next_ = item;
    return absl::OkStatus();
  }
  absl::Status Next(char* out) {
    ++next_;
    return stream_->ReadExactly(out, item_bytes(), file_.path);
  }
  size_t item_bytes() const { return static_cast<size_t>(header_.item_bytes); }
  const IndexedFile& file() const { return file_; }

 private:
  const IndexedFile file_;
  const IdxHeader header_;
  std::unique_ptr<ByteStream> stream_;
  int64_t next_ = 0;
};

class IdxSource : public RecordSource {
 public:
  IdxSource(ItemReader images, ItemReader labels)
      : images_(std::move(images)), labels_(std::move(labels)) {}

  int64_t records() const override { return images_.file().records; }

  absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) override {
    RUBATO_CHECK(0 <= begin && begin <= end && end <= records());
    if (begin == end) return absl::OkStatus();
    RUBATO_RETURN_IF_ERROR(images_.MoveTo(begin));
    RUBATO_RETURN_IF_ERROR(labels_.MoveTo(begin));
    std::string record(images_.item_bytes() + labels_.item_bytes(), 0);
    for (; begin < end; ++begin) {
      RUBATO_RETURN_IF_ERROR(images_.Next(record.data()));
      RUBATO_RETURN_IF_ERROR(labels_.Next(record.data() + images_.item_bytes()));
      RUBATO_RETURN_IF_ERROR(visit(begin, record));
    }
    return absl::OkStatus();
  }

  std::string Locate(int64_t record) const override {
    return absl::StrCat(images_.file().path, ", image ", record);
  }

 private:
  ItemReader images_;
  ItemReader labels_;
};

}  // namespace

absl::StatusOr<RecordIndex> BuildIdxIndex(std::vector<IndexedFile> files) {
  if (files.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("idx needs two files, images and then labels, not ", files.size()));
  }
  RecordIndex index = {.format = "idx"};
  std::vector<IdxHeader> headers;
  for (IndexedFile& file : files) {
    RUBATO_ASSIGN_OR_RETURN(const IdxHeader header, ReadHeader(file));
    if (header.items == 0) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": holds no records"));
    }
    // One pass, to find places to begin at, and to know that the end is there.
    RUBATO_ASSIGN_OR_RETURN(const auto stream, OpenStreamForIndexing(file));
    int64_t rest = header.bytes + header.items * header.item_bytes;
    std::string chunk(1 << 16, 0);
    while (rest > 0) {
      const size_t want = static_cast<size_t>(std::min<int64_t>(rest, 1 << 16));
      RUBATO_RETURN_IF_ERROR(stream->ReadExactly(chunk.data(), want, file.path));
      rest -= static_cast<int64_t>(want);
    }
    headers.push_back(header);
  }
  if (headers[0].shape.empty() || !headers[1].shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("idx needs images and then labels, but ",
                                                   files[0].path, " and ", files[1].path,
                                                   " are not in this order"));
  }
  if (headers[0].items != headers[1].items) {
    return absl::InvalidArgumentError(absl::StrCat(files[0].path, " holds ", headers[0].items,
                                                   " images, but ", files[1].path, " holds ",
                                                   headers[1].items, " labels"));
  }
  files[0].records = headers[0].items;  // The labels belong to these, and are no records of theirs.
  index.schema = absl::StrCat(headers[0].item_bytes);
  index.files = std::move(files);
  return index;
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenIdxSource(RecordIndex index) {
  if (index.files.size() != 2) return absl::DataLossError("an index of idx without two files");
  RUBATO_ASSIGN_OR_RETURN(const IdxHeader images, ReadHeader(index.files[0]));
  RUBATO_ASSIGN_OR_RETURN(const IdxHeader labels, ReadHeader(index.files[1]));
  return std::make_unique<IdxSource>(ItemReader(std::move(index.files[0]), images),
                                     ItemReader(std::move(index.files[1]), labels));
}

}  // namespace rubato

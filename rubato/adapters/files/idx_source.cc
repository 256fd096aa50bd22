#include "rubato/adapters/files/idx_source.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/files.h"
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

// Reads all of a file, to find places to begin at, and to know that what the header promises is
// there and nothing else.
absl::Status ScanItems(IndexedFile& file, const IdxHeader& header) {
  RUBATO_ASSIGN_OR_RETURN(const auto stream, OpenStreamForIndexing(file));
  std::string chunk(1 << 16, 0);
  int64_t bytes = -header.bytes;  // Of items.
  while (true) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, stream->Read(chunk.data(), chunk.size()));
    if (n == 0) break;
    bytes += static_cast<int64_t>(n);
  }
  const int64_t promised = header.items * header.item_bytes;
  if (bytes < promised) {
    return absl::DataLossError(absl::StrCat(file.path, ": is cut short: its header promises ",
                                            header.items, " items, and it ends in item ",
                                            bytes / header.item_bytes));
  }
  if (bytes > promised) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path, ": its header promises ", header.items, " items of ",
                     header.item_bytes, " bytes, and ", bytes - promised, " bytes follow them"));
  }
  return stream->CheckUnchanged();
}

// `name` or `name`.gz in `folder`.
absl::StatusOr<std::string> FindPlainOrGzip(const std::string& folder, const std::string& name) {
  const std::string plain = absl::StrCat(folder, "/", name), gzip = plain + ".gz";
  const bool has_plain = PathExists(plain), has_gzip = PathExists(gzip);
  if (has_plain && has_gzip) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": holds both ", name, " and ", name, ".gz; name the files you want"));
  }
  if (has_plain || has_gzip) return has_plain ? plain : gzip;
  return absl::NotFoundError(absl::StrCat(folder, ": holds no ", name, ", plain or .gz"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindIdxFiles(const std::vector<std::string>& paths,
                                                      absl::string_view part) {
  if (paths.size() != 1) return paths;
  const std::filesystem::path path(paths[0]);
  if (std::filesystem::is_directory(path)) {
    const std::string name = absl::StrCat(part, "-images-idx3-ubyte");
    RUBATO_ASSIGN_OR_RETURN(std::string images, FindPlainOrGzip(paths[0], name));
    return FindIdxFiles({std::move(images)}, part);
  }
  const std::string name = path.filename().string();
  if (!absl::StrContains(name, "images") || !PathExists(paths[0])) return paths;
  std::string labels = absl::StrReplaceAll(name, {{"images", "labels"}, {"idx3", "idx1"}});
  labels = std::string(absl::StripSuffix(labels, ".gz"));
  RUBATO_ASSIGN_OR_RETURN(std::string found, FindPlainOrGzip(path.parent_path().string(), labels));
  return std::vector<std::string>{paths[0], std::move(found)};
}

absl::StatusOr<RecordIndex> BuildIdxIndex(std::vector<IndexedFile> files) {
  if (files.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("idx needs two files, images and labels, not ", files.size()));
  }
  std::vector<IdxHeader> headers;
  for (IndexedFile& file : files) {
    RUBATO_ASSIGN_OR_RETURN(const IdxHeader header, ReadHeader(file));
    if (header.items == 0) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": holds no records"));
    }
    RUBATO_RETURN_IF_ERROR(ScanItems(file, header));
    headers.push_back(header);
  }
  if (headers[0].shape.empty() == headers[1].shape.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("idx needs images and labels, but ", files[0].path, " and ", files[1].path,
                     " both hold ", headers[0].shape.empty() ? "labels" : "images"));
  }
  const size_t images = headers[0].shape.empty() ? 1 : 0, labels = 1 - images;
  if (headers[0].items != headers[1].items) {
    return absl::InvalidArgumentError(
        absl::StrCat(files[images].path, " holds ", headers[images].items, " images, but ",
                     files[labels].path, " holds ", headers[labels].items, " labels"));
  }
  // The labels belong to the images, and are no records of their own.
  files[images].records = headers[images].items;
  return RecordIndex{.format = "idx",
                     .schema = absl::StrJoin(headers[images].shape, "x"),
                     .files = std::move(files)};
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenIdxSource(RecordIndex index) {
  if (index.files.size() != 2) return absl::DataLossError("an index of idx without two files");
  if (index.files[0].records == 0) std::swap(index.files[0], index.files[1]);
  RUBATO_ASSIGN_OR_RETURN(const IdxHeader images, ReadHeader(index.files[0]));
  RUBATO_ASSIGN_OR_RETURN(const IdxHeader labels, ReadHeader(index.files[1]));
  return std::make_unique<IdxSource>(ItemReader(std::move(index.files[0]), images),
                                     ItemReader(std::move(index.files[1]), labels));
}

}  // namespace rubato

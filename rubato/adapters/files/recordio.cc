#include "rubato/adapters/files/recordio.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/raw_file.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"

namespace rubato {
namespace {

using Visit = absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)>;

// A block of more is not read into memory at once.
constexpr size_t kBlockBytesMax = size_t{1} << 31;

absl::Status ReadFully(const RawFile& file, int64_t offset, char* out, size_t size) {
  while (size > 0) {
    RUBATO_ASSIGN_OR_RETURN(const size_t n, file.ReadAt(offset, out, size));
    if (n == 0) return absl::DataLossError(absl::StrCat(file.path(), ": is cut short"));
    offset += static_cast<int64_t>(n);
    out += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordsHead> ReadHead(const RawFile& file, int64_t file_bytes) {
  size_t used = 0;
  absl::Status status;
  // Column names are short, but nobody says how short.
  for (int64_t bytes = 1 << 16;; bytes *= 4) {
    std::string start(static_cast<size_t>(std::min(bytes, file_bytes)), '\0');
    RUBATO_RETURN_IF_ERROR(ReadFully(file, 0, start.data(), start.size()));
    absl::StatusOr<RecordsHead> head = DecodeRecordsHead(start, &used);
    if (head.ok()) return head;
    status = head.status();
    if (!absl::IsOutOfRange(status) || bytes >= std::min(file_bytes, int64_t{1} << 26)) break;
  }
  return absl::DataLossError(absl::StrCat(file.path(), ": ", status.message()));
}

absl::StatusOr<BlockIndex> ReadBlockIndex(const RawFile& file, int64_t file_bytes) {
  const auto tail_bytes = static_cast<int64_t>(kRecordsTailBytes);
  std::string tail(static_cast<size_t>(std::min(file_bytes, tail_bytes)), '\0');
  RUBATO_RETURN_IF_ERROR(
      ReadFully(file, std::max<int64_t>(0, file_bytes - tail_bytes), tail.data(), tail.size()));
  const absl::StatusOr<int64_t> offset = IndexOffset(tail);
  if (!offset.ok()) return Annotate(offset.status(), file.path());
  if (*offset < 0 || *offset > file_bytes - tail_bytes) {
    return absl::DataLossError(absl::StrCat(file.path(), ": its index is not where it should be"));
  }
  std::string bytes(static_cast<size_t>(file_bytes - *offset), '\0');
  RUBATO_RETURN_IF_ERROR(ReadFully(file, *offset, bytes.data(), bytes.size()));
  absl::StatusOr<BlockIndex> index = DecodeBlockIndex(bytes);
  if (!index.ok()) return Annotate(index.status(), file.path());
  return index;
}

class RecordsSource : public RecordSource {
 public:
  explicit RecordsSource(RecordIndex index) : index_(std::move(index)), first_(index_) {}

  int64_t records() const override { return first_.records(); }

  absl::Status Read(int64_t begin, int64_t end, Visit visit) override {
    RUBATO_CHECK(0 <= begin && begin <= end && end <= records());
    while (begin < end) {
      const size_t file = first_.FileOf(begin);
      const int64_t local = begin - first_[file];
      RUBATO_RETURN_IF_ERROR(MoveTo(file, local / kRecordsPerBlock));
      const int64_t block_begin = begin - local % kRecordsPerBlock;
      const int64_t stop = std::min(end, block_begin + view_.records());
      for (; begin < stop; ++begin) {
        RUBATO_RETURN_IF_ERROR(visit(begin, view_.record(begin - block_begin)));
      }
    }
    return absl::OkStatus();
  }

  std::string Locate(int64_t record) const override {
    const size_t file = first_.FileOf(record);
    return absl::StrCat(index_.files[file].path, ", record ", record - first_[file]);
  }

 private:
  absl::Status MoveTo(size_t file, int64_t block) {
    if (raw_.has_value() && file == file_) {
      RUBATO_RETURN_IF_ERROR(raw_->CheckUnchanged());
      if (block == block_) return absl::OkStatus();
    } else {
      raw_.reset();
      RUBATO_ASSIGN_OR_RETURN(raw_, RawFile::Open(index_.files[file]));
      file_ = file;
    }
    block_ = -1;
    RUBATO_RETURN_IF_ERROR(ReadBlock(index_.files[file], block));
    block_ = block;
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const IndexedFile& file, int64_t block) {
    const auto at = static_cast<size_t>(block);
    const int64_t offset = file.marks[at].offset;
    const int64_t limit = at + 1 < file.marks.size() ? file.marks[at + 1].offset : file.size;
    char head[kBlockHeadBytes];
    RUBATO_RETURN_IF_ERROR(ReadFully(*raw_, offset, head, sizeof(head)));
    const size_t size = BlockBytes({head, sizeof(head)});
    const int64_t expected = std::min(kRecordsPerBlock, file.records - block * kRecordsPerBlock);
    absl::StatusOr<BlockView> view = absl::DataLossError("block is damaged: its length is wrong");
    if (size <= static_cast<size_t>(limit - offset)) {
      bytes_.resize(size);
      RUBATO_RETURN_IF_ERROR(ReadFully(*raw_, offset, bytes_.data(), size));
      view = BlockView::Decode(bytes_);
    }
    if (view.ok() && view->records() != expected) {
      view = absl::DataLossError("block is damaged: it holds other records than the index says");
    }
    if (!view.ok()) {
      return absl::DataLossError(absl::StrCat(file.path, ": records ", block * kRecordsPerBlock,
                                              " to ", block * kRecordsPerBlock + expected - 1, ": ",
                                              view.status().message()));
    }
    view_ = *std::move(view);
    return absl::OkStatus();
  }

  const RecordIndex index_;
  const FileStarts first_;
  std::optional<RawFile> raw_;  // Of file_.
  size_t file_ = 0;
  int64_t block_ = -1;  // Of that file, what view_ shows; -1: none.
  std::string bytes_;
  BlockView view_;
};

}  // namespace

absl::StatusOr<RecordsWriter> RecordsWriter::Create(const std::string& path,
                                                    const RecordsHead& head) {
  RUBATO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RUBATO_RETURN_IF_ERROR(file.Write(EncodeRecordsHead(head)));
  return RecordsWriter(std::move(file));
}

absl::Status RecordsWriter::Add(absl::string_view record) {
  if (block_.bytes() + record.size() > kBlockBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", kRecordsPerBlock, " records up to here are more than 2 GB"));
  }
  block_.Add(record);
  ++index_.records;
  return block_.records() < kRecordsPerBlock ? absl::OkStatus() : EndBlock();
}

absl::Status RecordsWriter::EndBlock() {
  index_.offsets.push_back(file_.size());
  return file_.Write(block_.Finish());
}

absl::StatusOr<int64_t> RecordsWriter::Commit() {
  if (block_.records() > 0) RUBATO_RETURN_IF_ERROR(EndBlock());
  RUBATO_RETURN_IF_ERROR(file_.Write(EncodeBlockIndex(index_, file_.size())));
  RUBATO_RETURN_IF_ERROR(file_.Commit());
  return file_.size();
}

absl::StatusOr<RecordIndex> IndexRecordsFiles(std::vector<IndexedFile> files) {
  RecordIndex index = {.format = "recordio", .files = std::move(files)};
  for (IndexedFile& file : index.files) {
    if (file.gzip) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path, ": is gzip; recordio is read by place: unpack it"));
    }
    RUBATO_ASSIGN_OR_RETURN(const RawFile raw, RawFile::Open(file));
    RUBATO_ASSIGN_OR_RETURN(const RecordsHead head, ReadHead(raw, file.size));
    RUBATO_ASSIGN_OR_RETURN(const BlockIndex blocks, ReadBlockIndex(raw, file.size));
    if (blocks.records == 0) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": holds no records"));
    }
    const std::string schema = WrapSchema(head);
    if (&file == &index.files[0]) index.schema = schema;
    if (schema != index.schema) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": its columns, '", schema,
                                                     "', are not those of ", index.files[0].path,
                                                     ", '", index.schema, "'"));
    }
    file.records = blocks.records;
    for (const int64_t offset : blocks.offsets) file.marks.push_back({.offset = offset});
  }
  return index;
}

std::unique_ptr<RecordSource> OpenRecordsFiles(RecordIndex index) {
  return std::make_unique<RecordsSource>(std::move(index));
}

}  // namespace rubato

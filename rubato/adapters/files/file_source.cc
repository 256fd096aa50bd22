#include "rubato/adapters/files/file_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/byte_stream.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/idx_source.h"
#include "rubato/adapters/files/record_scanner.h"
#include "rubato/adapters/files/recordio.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"
#include "rubato/data/record_index.h"

namespace rubato {
namespace {

using Visit = absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)>;

// Records of text files, one after another.
class FileSource : public RecordSource {
 public:
  FileSource(RecordIndex index, RecordRule rule, size_t chunk_bytes)
      : index_(std::move(index)), first_(index_), rule_(rule), chunk_bytes_(chunk_bytes) {}

  int64_t records() const override { return first_.records(); }

  absl::Status Read(int64_t begin, int64_t end, Visit visit) override {
    RUBATO_CHECK(0 <= begin && begin <= end && end <= records());
    while (begin < end) {
      const size_t file = first_.FileOf(begin);
      const int64_t file_end = first_[file] + index_.files[file].records;
      RUBATO_RETURN_IF_ERROR(MoveTo(file, begin - first_[file]));
      for (; begin < std::min(end, file_end); ++begin) {
        RUBATO_RETURN_IF_ERROR(Step());
        RUBATO_RETURN_IF_ERROR(visit(begin, scanner_->record()));
      }
    }
    return absl::OkStatus();
  }

  std::string Locate(int64_t record) const override {
    const IndexedFile& file = index_.files[first_.FileOf(record)];
    const int64_t local = record - first_[first_.FileOf(record)];
    // Lines and records need not march in step, so the line is counted from the mark before.
    absl::StatusOr<std::unique_ptr<RecordScanner>> scanner = ScanFrom(file, local);
    if (scanner.ok()) {
      bool found = true;
      for (int64_t i = local / kRecordsPerMark * kRecordsPerMark; i <= local && found; ++i) {
        found = (*scanner)->Next().value_or(false);
      }
      if (found) return absl::StrCat(file.path, ":", (*scanner)->mark().line);
    }
    return absl::StrCat(file.path, ", record ", local);
  }

 private:
  // A scanner at the last mark at or before record `local` of `file`.
  absl::StatusOr<std::unique_ptr<RecordScanner>> ScanFrom(const IndexedFile& file,
                                                          int64_t local) const {
    const RecordMark& mark = file.marks[static_cast<size_t>(local / kRecordsPerMark)];
    RUBATO_ASSIGN_OR_RETURN(auto stream, OpenStream(file, mark.offset));
    return std::make_unique<RecordScanner>(file.path, std::move(stream), mark, rule_, chunk_bytes_);
  }

  // Whether walking on to record `local` beats starting again at its mark.
  bool CanWalkTo(size_t file, int64_t local) const {
    if (scanner_ == nullptr || file != file_ || local < next_) return false;
    const std::vector<GzipPoint>& points = index_.files[file].points;
    const int64_t here = scanner_->mark().offset;
    const int64_t there =
        index_.files[file].marks[static_cast<size_t>(local / kRecordsPerMark)].offset;
    if (!index_.files[file].gzip) return local == next_ || there <= here;
    // Inflating cannot jump, except to a point.
    return std::none_of(points.begin(), points.end(), [&](const GzipPoint& point) {
      return point.output > here && point.output <= there;
    });
  }

  absl::Status MoveTo(size_t file, int64_t local) {
    if (CanWalkTo(file, local)) {
      RUBATO_RETURN_IF_ERROR(scanner_->stream().CheckUnchanged());
    } else {
      scanner_ = nullptr;
      RUBATO_ASSIGN_OR_RETURN(scanner_, ScanFrom(index_.files[file], local));
      file_ = file;
      next_ = local / kRecordsPerMark * kRecordsPerMark;
    }
    while (next_ < local) RUBATO_RETURN_IF_ERROR(Step());
    return absl::OkStatus();
  }

  absl::Status Step() {
    absl::StatusOr<bool> found = scanner_->Next();
    if (found.ok() && *found) {
      ++next_;
      return absl::OkStatus();
    }
    scanner_ = nullptr;
    if (!found.ok()) return found.status();
    return absl::DataLossError(absl::StrCat(index_.files[file_].path, ": holds fewer than the ",
                                            index_.files[file_].records, " records counted"));
  }

  const RecordIndex index_;
  const FileStarts first_;
  const RecordRule rule_;
  const size_t chunk_bytes_;
  std::unique_ptr<RecordScanner> scanner_;  // In file_, before its record next_; or null.
  size_t file_ = 0;
  int64_t next_ = 0;
};

absl::StatusOr<RecordIndex> LoadIndex(const DataSpec& data, const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  absl::StatusOr<RecordIndex> index = RecordIndex::Decode(bytes);
  if (!index.ok()) return Annotate(index.status(), path);
  if (index->format != FormatName(data)) {
    return absl::DataLossError(
        absl::StrCat(path, ": an index for ", index->format, ", not for ", FormatName(data)));
  }
  return index;
}

// By the index alone, which all processes of a job share.
void DescribeFiles(const RecordIndex& index, OpenedData* opened) {
  opened->bytes = 0;
  opened->seeks = true;
  for (const IndexedFile& file : index.files) {
    const int64_t last_mark = file.marks.empty() ? 0 : file.marks.back().offset;
    const bool is_plain = !file.gzip && file.points.empty() && last_mark <= file.size;
    opened->seeks = opened->seeks && is_plain;
    // Behind the last mark of what is inflated are as many records as between two of them, at most.
    const auto marks = static_cast<int64_t>(file.marks.size());
    const int64_t inflated = marks > 1 ? last_mark + last_mark / (marks - 1) : 20 * file.size;
    opened->bytes += is_plain ? file.size : inflated;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const DataSpec& data,
                                                         const std::string& index_path,
                                                         const FileSourceOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(OpenedData opened, OpenData(data, index_path, options));
  return std::move(opened.source);
}

absl::StatusOr<OpenedData> OpenData(const DataSpec& data, const std::string& index_path,
                                    const FileSourceOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(RecordIndex index, LoadIndex(data, index_path));
  // Opening a stream compares the file with the index.
  for (const IndexedFile& file : index.files) {
    RUBATO_RETURN_IF_ERROR(OpenStream(file, 0).status());
  }
  OpenedData opened;
  opened.schema = index.schema;
  DescribeFiles(index, &opened);
  if (options.check == nullptr) {
    RUBATO_ASSIGN_OR_RETURN(opened.parser, MakeParser(data, index.schema));
  }
  if (data.format == "idx") {
    RUBATO_ASSIGN_OR_RETURN(opened.source, OpenIdxSource(std::move(index)));
  } else if (data.format == "recordio") {
    opened.source = OpenRecordsFiles(std::move(index));
  } else {
    opened.source =
        std::make_unique<FileSource>(std::move(index), RuleOf(data), options.chunk_bytes);
  }
  return opened;
}

}  // namespace rubato

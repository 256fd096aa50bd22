#include "rubato/roles/convert_data.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/packed_file.h"
#include "rubato/adapters/files/recordio.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/quote.h"
#include "rubato/data/record_blocks.h"
#include "rubato/data/record_writer.h"
#include "rubato/job/checks.h"
#include "rubato/job/suggest.h"
#include "rubato/roles/open_data.h"

namespace rubato {
namespace {

absl::StatusOr<size_t> FindColumn(absl::string_view flag, const std::string& name,
                                  const std::vector<std::string>& columns) {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found != columns.end()) return static_cast<size_t>(found - columns.begin());
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": the data has no column '", name, "'", DidYouMean(name, columns)));
}

// Records of one format as records of another.
class Recoder {
 public:
  // `from` and `schema` are those of the records, unwrapped.
  static absl::StatusOr<Recoder> Make(const DataSpec& from, absl::string_view schema,
                                      const ConvertOptions& options) {
    Recoder recoder(options);
    RUBATO_ASSIGN_OR_RETURN(recoder.reader_, CellReader::Make(from, schema));
    const std::vector<std::string>& columns = recoder.reader_->columns();
    if (!options.label.empty()) {
      RUBATO_ASSIGN_OR_RETURN(recoder.label_, FindColumn("--label", options.label, columns));
    }
    recoder.is_number_.resize(columns.size());
    for (const std::string& name : options.numeric) {
      RUBATO_ASSIGN_OR_RETURN(const size_t column, FindColumn("--numeric", name, columns));
      recoder.is_number_[column] = true;
    }
    recoder.makes_entries_ = !HasEntries(from) && HasEntries({.format = options.to});
    RUBATO_ASSIGN_OR_RETURN(recoder.writer_,
                            RecordWriter::Make({.format = options.to}, recoder.ColumnsTo()));
    return recoder;
  }

  std::string Header() const { return writer_->Header(); }

  absl::Status Recode(absl::string_view record, std::string* out) {
    RUBATO_RETURN_IF_ERROR(reader_->Read(record, &cells_));
    out_cells_.clear();
    made_.clear();
    if (IsDelimited({.format = options_.to})) {
      return writer_->Write(cells_.views, out);
    }
    out_cells_.push_back(cells_.views[label_]);
    std::string together;
    for (size_t c = 0, k = 0; c < cells_.views.size(); ++c) {
      if (c == label_) continue;
      ++k;
      absl::string_view cell = cells_.views[c];
      if (makes_entries_) {
        RUBATO_RETURN_IF_ERROR(MakeEntry(c, k, cell));
        cell = made_.back();
      }
      if (options_.to == "libsvm") {
        absl::StrAppend(&together, " ", cell);
      } else {
        out_cells_.push_back(cell);
      }
    }
    if (options_.to == "libsvm") out_cells_.push_back(together);
    return writer_->Write(out_cells_, out);
  }

 private:
  explicit Recoder(const ConvertOptions& options) : options_(options) {}

  std::vector<std::string> ColumnsTo() const {
    const std::vector<std::string>& from = reader_->columns();
    if (IsDelimited({.format = options_.to})) return from;
    if (options_.to == "libsvm") return {"label", "entries"};
    std::vector<std::string> columns = {from[label_]};
    for (size_t c = 0; c < from.size(); ++c) {
      if (c == label_) continue;
      columns.push_back(options_.to == "libffm" ? absl::StrCat(columns.size() - 1) : from[c]);
    }
    return columns;
  }

  // The entry of column `c`, the k-th without the label.
  absl::Status MakeEntry(size_t c, size_t k, absl::string_view cell) {
    double number = 0;
    if (!is_number_[c]) {
      const uint64_t bucket = HashText(cell, k) % static_cast<uint64_t>(options_.buckets);
      made_.push_back(absl::StrCat(cells_.views.size() + bucket, ":1"));
    } else if (cell.empty()) {
      // What libsvm leaves out is 0; the others need an entry for every column.
      made_.push_back(options_.to == "libsvm" ? "" : absl::StrCat(k, ":0"));
    } else if (absl::SimpleAtod(cell, &number) && std::isfinite(number)) {
      made_.push_back(absl::StrCat(k, ":", cell));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("column ", Quote(reader_->columns()[c]), ", ",
                                                     Quote(cell), ", is not a number"));
    }
    return absl::OkStatus();
  }

  const ConvertOptions& options_;
  std::optional<CellReader> reader_;
  std::optional<RecordWriter> writer_;
  size_t label_ = 0;
  std::vector<bool> is_number_;
  bool makes_entries_ = false;
  Cells cells_;
  std::deque<std::string> made_;
  std::vector<absl::string_view> out_cells_;
};

absl::Status ForAll(RecordSource& source, const ConvertProgress& progress,
                    absl::FunctionRef<absl::Status(absl::string_view record)> write) {
  const int64_t total = source.records();
  RUBATO_RETURN_IF_ERROR(source.Read(0, total, [&](int64_t record, absl::string_view bytes) {
    const absl::Status status = write(bytes);
    if (!status.ok()) {
      return absl::IsInvalidArgument(status) ? Annotate(status, source.Locate(record)) : status;
    }
    return record % 1024 == 0 ? progress(record, total) : absl::OkStatus();
  }));
  return progress(total, total);
}

absl::StatusOr<int64_t> WriteRecords(const ConvertOptions& options, RecordSource& source,
                                     const RecordsHead& head, const ConvertProgress& progress) {
  RUBATO_ASSIGN_OR_RETURN(RecordsWriter file, RecordsWriter::Create(options.out, head));
  RUBATO_RETURN_IF_ERROR(
      ForAll(source, progress, [&](absl::string_view record) { return file.Add(record); }));
  return file.Commit();
}

absl::StatusOr<int64_t> WriteText(const ConvertOptions& options, RecordSource& source,
                                  const RecordsHead& head, const DataSpec& from,
                                  const ConvertProgress& progress) {
  RUBATO_ASSIGN_OR_RETURN(Recoder recoder, Recoder::Make(from, head.schema, options));
  RUBATO_ASSIGN_OR_RETURN(PackedFile file, PackedFile::Create(options.out, options.gzip));
  const bool as_they_are = head.format == options.to;
  std::string line = options.header ? recoder.Header() : "";
  if (!line.empty()) RUBATO_RETURN_IF_ERROR(file.Write(line + "\n"));
  RUBATO_RETURN_IF_ERROR(ForAll(source, progress, [&](absl::string_view record) {
    if (as_they_are) {
      line.assign(record.data(), record.size());
    } else {
      RUBATO_RETURN_IF_ERROR(recoder.Recode(record, &line));
    }
    line.push_back('\n');
    return file.Write(line);
  }));
  return file.Commit();
}

}  // namespace

absl::Status ConvertOptions::Validate() const {
  RUBATO_RETURN_IF_ERROR(CheckOneOf(
      "--to", to, {"criteo", "csv", "tsv", "ssv", "psv", "libfm", "libsvm", "libffm", "recordio"}));
  if (to == "recordio" && gzip) {
    return absl::InvalidArgumentError("--out: recordio is read by place and cannot be gzip");
  }
  return CheckRange("--buckets", buckets, 1);
}

absl::StatusOr<Converted> ConvertData(const ConvertOptions& options, const std::string& index_path,
                                      const ConvertProgress& indexing,
                                      const ConvertProgress& converting) {
  RUBATO_RETURN_IF_ERROR(options.Validate());
  Converted converted;
  RUBATO_ASSIGN_OR_RETURN(converted.records,
                          IndexAnyData(options.from, options.from.train, index_path, indexing));
  RUBATO_ASSIGN_OR_RETURN(const OpenedData data, OpenAnyData(options.from, index_path));
  auto [from, schema] = UnwrapSchema(options.from, data.schema);
  if (from.format == "idx") {
    return absl::UnimplementedError("images of idx have no cells to convert");
  }
  if (from.format == "sql") from.format = "csv";  // What rows of a database are read as.
  converted.format = from.format;
  const RecordsHead head = {.format = from.format, .schema = std::string(schema)};
  RUBATO_ASSIGN_OR_RETURN(converted.bytes,
                          options.to == "recordio"
                              ? WriteRecords(options, *data.source, head, converting)
                              : WriteText(options, *data.source, head, from, converting));
  return converted;
}

}  // namespace rubato

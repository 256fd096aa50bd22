#include "rubato/roles/convert_data.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

  // What is to be said after the last record.
  absl::Status Finish(Converted* converted) const {
    converted->list_column = list_column_;
    converted->list_text = list_text_;
    if (options_.positive.empty() || saw_positive_ || !HasEntries({.format = options_.to})) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("--positive: column ",
                                                   Quote(reader_->columns()[label_]), " never is ",
                                                   Quote(options_.positive[0])));
  }

  absl::Status Recode(absl::string_view record, std::string* out) {
    RUBATO_RETURN_IF_ERROR(reader_->Read(record, &cells_));
    out_cells_.clear();
    made_.clear();
    if (IsDelimited({.format = options_.to})) {
      return writer_->Write(cells_.views, out);
    }
    RUBATO_ASSIGN_OR_RETURN(const absl::string_view label, LabelOf(cells_.views[label_]));
    out_cells_.push_back(label);
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

  // As the format has it, which is a number among entries.
  absl::StatusOr<absl::string_view> LabelOf(absl::string_view cell) {
    if (!HasEntries({.format = options_.to}) || cell.empty()) return cell;
    if (!options_.positive.empty()) {
      const auto& yes = options_.positive;
      const bool is_yes = std::find(yes.begin(), yes.end(), cell) != yes.end();
      saw_positive_ |= is_yes;
      return absl::string_view(is_yes ? "1" : "0");
    }
    double number = 0;
    if (absl::SimpleAtod(cell, &number) && std::isfinite(number)) return cell;
    return absl::InvalidArgumentError(
        absl::StrCat("column ", Quote(reader_->columns()[label_]), ", ", Quote(cell),
                     ", is not a number, as a label of ", options_.to,
                     " is; --label names another column, --positive says which values are 1"));
  }

  std::string TextEntry(absl::string_view text, size_t k) const {
    const uint64_t bucket = HashText(text, k) % static_cast<uint64_t>(options_.buckets);
    return absl::StrCat(cells_.views.size() + bucket, ":1");
  }

  // Entries in a cell of a table, "9 12 18:0.5", as they are.
  absl::Status KeepEntries(absl::string_view cell) {
    for (const absl::string_view word : absl::StrSplit(cell, ' ', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(word, absl::MaxSplits(':', 1));
      uint64_t index = 0;
      double value = 0;
      const bool has_value = word.find(':') != absl::string_view::npos;
      if (!absl::SimpleAtoi(parts.first, &index) ||
          (has_value && !absl::SimpleAtod(parts.second, &value))) {
        return absl::InvalidArgumentError(
            absl::StrCat("column 'entries', ", Quote(word), ", is no entry, index or index:value"));
      }
    }
    made_.emplace_back(cell);
    return absl::OkStatus();
  }

  void MakeTexts(size_t c, size_t k, absl::string_view cell) {
    if (!options_.separator.empty()) {
      std::string& made = made_.emplace_back();
      for (absl::string_view part : absl::StrSplit(cell, options_.separator[0])) {
        part = absl::StripAsciiWhitespace(part);
        if (part.empty() && !cell.empty()) continue;
        absl::StrAppend(&made, made.empty() ? "" : " ", TextEntry(part, k));
      }
      if (made.empty()) made = TextEntry("", k);
      return;
    }
    if (list_column_.empty() && cell.find_first_of("|;^") != absl::string_view::npos) {
      list_column_ = reader_->columns()[c];
      list_text_ = std::string(cell);
    }
    made_.push_back(TextEntry(cell, k));
  }

  // What column `c`, the k-th without the label, becomes.
  absl::Status MakeEntry(size_t c, size_t k, absl::string_view cell) {
    double number = 0;
    if (!is_number_[c] && reader_->columns()[c] == "entries") {
      return KeepEntries(cell);
    } else if (!is_number_[c]) {
      MakeTexts(c, k, cell);
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
  bool saw_positive_ = false;
  std::string list_column_, list_text_;  // The first cell that looks like a list.
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
                                  const ConvertProgress& progress, Converted* converted) {
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
  if (!as_they_are) RUBATO_RETURN_IF_ERROR(recoder.Finish(converted));
  return file.Commit();
}

}  // namespace

absl::Status ConvertOptions::Validate() const {
  RUBATO_RETURN_IF_ERROR(CheckOneOf(
      "--to", to, {"criteo", "csv", "tsv", "ssv", "psv", "libfm", "libsvm", "libffm", "recordio"}));
  if (to == "recordio" && gzip) {
    return absl::InvalidArgumentError("--out: recordio is read by place and cannot be gzip");
  }
  if (separator.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--separator: ", Quote(separator), " is more than one letter"));
  }
  return CheckRange("--buckets", buckets, 1);
}

absl::StatusOr<Converted> ConvertData(const ConvertOptions& options, const std::string& index_path,
                                      const ConvertProgress& indexing,
                                      const ConvertProgress& converting) {
  RUBATO_RETURN_IF_ERROR(options.Validate());
  if (options.from.format == "idx") {
    return absl::UnimplementedError("images of idx have no cells to convert");
  }
  // Cells are all that is wanted of a record: whether a model could read so many is no matter.
  FileSourceOptions as_cells;
  as_cells.check = [&](const std::string& schema) {
    const auto [from, columns] = UnwrapSchema(options.from, schema);
    return CellReader::Make(from, columns).status();
  };
  Converted converted;
  RUBATO_ASSIGN_OR_RETURN(converted.records, IndexAnyData(options.from, options.from.train,
                                                          index_path, indexing, as_cells));
  RUBATO_ASSIGN_OR_RETURN(const OpenedData data, OpenAnyData(options.from, index_path, as_cells));
  auto [from, schema] = UnwrapSchema(options.from, data.schema);
  if (from.format == "sql") from.format = "csv";  // What rows of a database are read as.
  converted.format = from.format;
  const RecordsHead head = {.format = from.format, .schema = std::string(schema)};
  RUBATO_ASSIGN_OR_RETURN(
      converted.bytes, options.to == "recordio"
                           ? WriteRecords(options, *data.source, head, converting)
                           : WriteText(options, *data.source, head, from, converting, &converted));
  return converted;
}

}  // namespace rubato

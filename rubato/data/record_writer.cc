#include "rubato/data/record_writer.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rubato/base/status.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/quote.h"

namespace rubato {
namespace {

absl::Status Unfit(absl::string_view column, absl::string_view cell, absl::string_view format) {
  return absl::InvalidArgumentError(absl::StrCat("column ", Quote(column), ", ", Quote(cell),
                                                 ", cannot stand in a record of ", format));
}

}  // namespace

absl::StatusOr<RecordWriter> RecordWriter::Make(const DataSpec& data,
                                                std::vector<std::string> columns) {
  RecordWriter writer;
  writer.format_ = data.format == "sql" ? "csv" : data.format;
  writer.columns_ = std::move(columns);
  if (data.format == "criteo" && writer.columns_.size() != 1 + kCriteoIntegers + kCriteoTexts) {
    return absl::InvalidArgumentError(
        absl::StrCat("criteo has 40 columns, not ", writer.columns_.size()));
  }
  const bool is_known = data.format == "criteo" || writer.format_ == "csv" ||
                        data.format == "tsv" || HasEntries(data);
  if (is_known) return writer;
  return absl::UnimplementedError(absl::StrCat("format ", data.format, " has no cells to write"));
}

absl::Status RecordWriter::Write(absl::Span<const absl::string_view> cells,
                                 std::string* record) const {
  record->clear();
  if (cells.size() != columns_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", cells.size(), " columns, not ", columns_.size()));
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (format_ == "csv" || format_ == "tsv") {
      if (i > 0) record->push_back(format_ == "csv" ? ',' : '\t');
      RUBATO_RETURN_IF_ERROR(AppendQuoted(i, cells[i], record));
    } else if (format_ == "criteo") {
      if (i > 0) record->push_back('\t');
      if (cells[i].find_first_of("\t\r\n") != absl::string_view::npos) {
        return Unfit(columns_[i], cells[i], format_);
      }
      absl::StrAppend(record, cells[i]);
    } else {
      RUBATO_RETURN_IF_ERROR(AppendEntries(i, cells[i], record));
    }
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::AppendQuoted(size_t column, absl::string_view cell,
                                        std::string* record) const {
  if (format_ == "tsv" && cell.find_first_of("\r\n") != absl::string_view::npos) {
    return Unfit(columns_[column], cell, format_);
  }
  // Readers take the blanks around a cell without quotes for no part of it.
  const bool plain =
      cell.find_first_of(format_ == "csv" ? ",\"\r\n" : "\t\"") == absl::string_view::npos &&
      absl::StripAsciiWhitespace(cell).size() == cell.size();
  if (plain) {
    absl::StrAppend(record, cell);
  } else {
    absl::StrAppend(record, "\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::AppendEntries(size_t column, absl::string_view cell,
                                         std::string* record) const {
  const std::vector<absl::string_view> words =
      absl::StrSplit(cell, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (cell.find_first_of("\r\n") != absl::string_view::npos) {
    return Unfit(columns_[column], cell, format_);
  }
  if (column == 0) {
    if (words.size() != 1) return Unfit(columns_[column], cell, format_);
    absl::StrAppend(record, words[0]);
    return absl::OkStatus();
  }
  // libfm knows a column by its place alone.
  if (format_ == "libfm" && words.size() != 1) return Unfit(columns_[column], cell, format_);
  for (const absl::string_view word : words) {
    absl::StrAppend(record, " ", format_ == "libffm" ? absl::StrCat(columns_[column], ":") : "",
                    word, word.find(':') == absl::string_view::npos ? ":1" : "");
  }
  return absl::OkStatus();
}

std::string RecordWriter::Header() const {
  std::string header;
  if (format_ != "csv" && format_ != "tsv") return header;
  const std::vector<absl::string_view> names(columns_.begin(), columns_.end());
  return Write(names, &header).ok() ? header : "";
}

}  // namespace rubato

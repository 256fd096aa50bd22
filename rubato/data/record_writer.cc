#include "rubato/data/record_writer.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// What stands between the cells of a table of text; nothing for what is none.
std::optional<char> DelimiterOfTable(absl::string_view format) {
  if (format == "csv") return ',';
  if (format == "tsv") return '\t';
  if (format == "ssv") return ';';
  if (format == "psv") return '|';
  return std::nullopt;
}

void AppendQuoted(absl::string_view cell, char delimiter, std::string* record) {
  cell = absl::StripAsciiWhitespace(cell);  // As readers do.
  const bool plain = cell.find(delimiter) == absl::string_view::npos &&
                     cell.find_first_of("\"\r\n") == absl::string_view::npos;
  if (plain) {
    absl::StrAppend(record, cell);
  } else {
    absl::StrAppend(record, "\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
  }
}

// Puts the entries of a row of libsvm in the order of their indices, as the format has it. Of two
// with one index, as where hashes meet, the values are added: that is what a sum makes of them.
// An index that is no number leaves the row as it is.
void SortEntries(std::string* record) {
  struct Entry {
    int64_t index = 0;
    std::string value;
  };
  const std::vector<absl::string_view> words = absl::StrSplit(*record, ' ');
  std::vector<Entry> entries;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t colon = words[i].find(':');
    Entry& entry = entries.emplace_back();
    if (!absl::SimpleAtoi(words[i].substr(0, colon), &entry.index)) return;
    entry.value = std::string(words[i].substr(colon + 1));
  }
  absl::c_stable_sort(entries, [](const Entry& a, const Entry& b) { return a.index < b.index; });
  std::string sorted(words[0]);
  for (size_t i = 0; i < entries.size(); ++i) {
    double sum = 0, next = 0;
    if (i + 1 < entries.size() && entries[i].index == entries[i + 1].index &&
        absl::SimpleAtod(entries[i].value, &sum) && absl::SimpleAtod(entries[i + 1].value, &next)) {
      entries[i + 1].value = absl::StrFormat("%.9g", sum + next);
      continue;
    }
    absl::StrAppend(&sorted, " ", entries[i].index, ":", entries[i].value);
  }
  *record = std::move(sorted);
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
  const bool is_known =
      data.format == "criteo" || HasEntries(data) || DelimiterOfTable(writer.format_).has_value();
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
  const std::optional<char> delimiter = DelimiterOfTable(format_);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (delimiter.has_value()) {
      if (i > 0) record->push_back(*delimiter);
      AppendQuoted(cells[i], *delimiter, record);
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
  if (format_ == "libsvm") SortEntries(record);
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
  if (!DelimiterOfTable(format_).has_value()) return header;
  const std::vector<absl::string_view> names(columns_.begin(), columns_.end());
  return Write(names, &header).ok() ? header : "";
}

}  // namespace rubato

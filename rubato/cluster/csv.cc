#include "rubato/cluster/csv.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "rubato/base/status.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/record_splitter.h"

namespace rubato {
namespace {

std::vector<absl::string_view> SplitCells(absl::string_view line,
                                          std::deque<std::string>& unquoted) {
  std::vector<absl::string_view> cells;
  VisitFields(line, ',', [&](absl::string_view field) {
    const bool within =
        field.data() >= line.data() && field.data() + field.size() <= line.data() + line.size();
    cells.push_back(within ? field : absl::string_view(unquoted.emplace_back(field)));
    return true;
  });
  return cells;
}

// A column given twice could be read either way.
absl::Status CheckHeader(std::vector<absl::string_view> header, absl::string_view name, int line) {
  std::sort(header.begin(), header.end());
  const auto twice = std::adjacent_find(header.begin(), header.end());
  if (twice == header.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s:%d: the column \"%s\" appears twice", name, line, *twice));
}

}  // namespace

std::optional<size_t> CsvTable::Find(std::initializer_list<absl::string_view> names) const {
  for (absl::string_view name : names) {
    const auto at = std::find(header.begin(), header.end(), name);
    if (at != header.end()) return static_cast<size_t>(at - header.begin());
  }
  return std::nullopt;
}

absl::StatusOr<size_t> CsvTable::Require(std::initializer_list<absl::string_view> names) const {
  if (const auto column = Find(names)) return *column;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ":1: no column \"", *names.begin(), "\" in the header"));
}

absl::Status CsvTable::AtMostOne(std::initializer_list<absl::string_view> names) const {
  absl::string_view found;
  for (absl::string_view one : names) {
    if (std::find(header.begin(), header.end(), one) == header.end()) continue;
    if (!found.empty()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s:1: the columns \"%s\" and \"%s\" say the same; keep one of them", name, found, one));
    }
    found = one;
  }
  return absl::OkStatus();
}

absl::Status CsvTable::Error(const Row& row, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(name, ":", row.line, ": ", message));
}

absl::StatusOr<double> CsvTable::Number(const Row& row, size_t column) const {
  double value = 0;
  if (!absl::SimpleAtod(row.cells[column], &value) || !std::isfinite(value)) {
    return Error(row, absl::StrFormat("%s is \"%s\", which is not a number", header[column],
                                      row.cells[column]));
  }
  return value;
}

absl::StatusOr<int64_t> CsvTable::Whole(const Row& row, size_t column, int64_t low,
                                        int64_t high) const {
  RUBATO_ASSIGN_OR_RETURN(const double value, Number(row, column));
  if (value != std::floor(value) || value < static_cast<double>(low) ||
      value > static_cast<double>(high)) {
    return Error(row, absl::StrFormat("%s is %s, which is not a whole number from %d to %d",
                                      header[column], row.cells[column], low, high));
  }
  return static_cast<int64_t>(value);
}

absl::StatusOr<CsvTable> ParseCsv(absl::string_view text, absl::string_view name) {
  CsvTable table;
  table.name = std::string(name);
  absl::ConsumePrefix(&text, kByteOrderMark);
  table.unquoted = std::make_unique<std::deque<std::string>>();
  int line = 1;
  for (int lines = 0; !text.empty(); line += lines) {
    const SplitRecord record = *FirstRecord(text, /*at_end=*/true, RecordRule::kQuoted);
    text.remove_prefix(record.size);
    lines = static_cast<int>(record.lines);
    if (record.open_quote) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", line, ": a quote is opened here and never closed"));
    }
    if (absl::StripAsciiWhitespace(record.bytes).empty()) continue;
    std::vector<absl::string_view> cells = SplitCells(record.bytes, *table.unquoted);
    if (table.header.empty()) {
      table.header = std::move(cells);
      RUBATO_RETURN_IF_ERROR(CheckHeader(table.header, name, line));
      continue;
    }
    if (cells.size() != table.header.size()) {
      return absl::InvalidArgumentError(absl::StrFormat("%s:%d: %d fields where the header has %d",
                                                        name, line, cells.size(),
                                                        table.header.size()));
    }
    table.rows.push_back({.line = line, .cells = std::move(cells)});
  }
  if (table.header.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":1: the file is empty"));
  }
  return table;
}

std::string CsvField(absl::string_view cell) {
  const bool plain = cell.find_first_of(",\"\r\n") == absl::string_view::npos &&
                     absl::StripAsciiWhitespace(cell) == cell;
  if (plain) return std::string(cell);
  return absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
}

bool IsEmptyCell(absl::string_view cell) {
  return cell.empty() || absl::EqualsIgnoreCase(cell, "nan");
}

}  // namespace rubato

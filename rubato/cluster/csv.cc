#include "rubato/cluster/csv.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

std::vector<absl::string_view> SplitCells(absl::string_view line) {
  std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
  for (absl::string_view& cell : cells) cell = absl::StripAsciiWhitespace(cell);
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
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");  // Spreadsheets like to write a byte-order mark.
  int line = 0;
  for (absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++line;
    if (absl::StripAsciiWhitespace(raw).empty()) continue;
    std::vector<absl::string_view> cells = SplitCells(raw);
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

bool IsEmptyCell(absl::string_view cell) {
  return cell.empty() || absl::EqualsIgnoreCase(cell, "nan");
}

}  // namespace rubato

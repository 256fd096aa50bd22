// Comma-separated text with a header, as traces, profiles and cluster specs come. Fields may stand
// in quotes, as they may in data (data/delimited_parser.h).
#ifndef RUBATO_CLUSTER_CSV_H_
#define RUBATO_CLUSTER_CSV_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

// Cells are views into the text given to ParseCsv, which must outlive them, or into `unquoted`.
struct CsvTable {
  struct Row {
    int line = 0;  // 1 is the header.
    std::vector<absl::string_view> cells;
  };
  std::string name;  // The file, for messages.
  std::vector<absl::string_view> header;
  std::vector<Row> rows;  // As wide as the header; blank lines are left out.
  std::unique_ptr<std::deque<std::string>> unquoted;  // Cells that were in quotes.

  // The column called any of `names`, if there is one.
  std::optional<size_t> Find(std::initializer_list<absl::string_view> names) const;
  // INVALID_ARGUMENT naming the first of `names` if no column is called so.
  absl::StatusOr<size_t> Require(std::initializer_list<absl::string_view> names) const;

  // INVALID_ARGUMENT naming both if more than one column is called any of `names`: either could be
  // meant.
  absl::Status AtMostOne(std::initializer_list<absl::string_view> names) const;

  // "name:line: " and the message, as INVALID_ARGUMENT.
  absl::Status Error(const Row& row, absl::string_view message) const;
  // The cell as a number; INVALID_ARGUMENT naming place, column and text if it is none or not
  // finite.
  absl::StatusOr<double> Number(const Row& row, size_t column) const;
  // The same, and INVALID_ARGUMENT unless it is whole and within [low, high].
  absl::StatusOr<int64_t> Whole(const Row& row, size_t column, int64_t low, int64_t high) const;
};

// INVALID_ARGUMENT if there is no header, a row is wider or narrower than it, or quotes stay open.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view text, absl::string_view name);

// `cell` as a field, in quotes if it needs them.
std::string CsvField(absl::string_view cell);

// Whether a cell says "nothing here": empty, or nan in any case.
bool IsEmptyCell(absl::string_view cell);

}  // namespace rubato

#endif  // RUBATO_CLUSTER_CSV_H_

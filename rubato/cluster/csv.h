// Comma-separated text with a header, as traces, profiles and cluster specs come. No quoting: none
// of these files needs it, and a stray quote is an error of the field that holds it.
#ifndef RUBATO_CLUSTER_CSV_H_
#define RUBATO_CLUSTER_CSV_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

// Rows are views into the text given to ParseCsv, which must outlive them.
struct CsvTable {
  struct Row {
    int line = 0;  // 1 is the header.
    std::vector<absl::string_view> cells;
  };
  std::string name;  // The file, for messages.
  std::vector<absl::string_view> header;
  std::vector<Row> rows;  // As wide as the header; blank lines are left out.

  // The column called any of `names`, if there is one.
  std::optional<size_t> Find(std::initializer_list<absl::string_view> names) const;
  // INVALID_ARGUMENT naming the first of `names` if no column is called so.
  absl::StatusOr<size_t> Require(std::initializer_list<absl::string_view> names) const;

  // "name:line: " and the message, as INVALID_ARGUMENT.
  absl::Status Error(const Row& row, absl::string_view message) const;
  // The cell as a number; INVALID_ARGUMENT naming place, column and text if it is none or not
  // finite.
  absl::StatusOr<double> Number(const Row& row, size_t column) const;
  // The same, and INVALID_ARGUMENT unless it is whole and within [low, high].
  absl::StatusOr<int64_t> Whole(const Row& row, size_t column, int64_t low, int64_t high) const;
};

// INVALID_ARGUMENT if there is no header or a row is wider or narrower than it.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view text, absl::string_view name);

// Whether a cell says "nothing here": empty, or nan in any case.
bool IsEmptyCell(absl::string_view cell);

}  // namespace rubato

#endif  // RUBATO_CLUSTER_CSV_H_

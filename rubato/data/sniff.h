// What a file of rows seems to be, from its beginning.
#ifndef RUBATO_DATA_SNIFF_H_
#define RUBATO_DATA_SNIFF_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// What is known of a file besides its text; "" where nothing is.
struct SniffHints {
  std::string format;  // Somebody says so: of tables there is the header to be found.
  std::string named;   // The format that the file's name says.
  std::string label;   // The label's column: a first line with that name is a header.
};

// Format and header for the text with which a file begins (whole lines; a few hundred are enough).
// A first line is a header if it has a name above a column of numbers, or no number at all where a
// later one has some, or where none of its names comes back in its column; dates and amounts, as
// $5 and 12,34, are numbers here. Of two separators that cut all lines it is the one of
// `hints.named`, unless it is csv, as which many call any table; else the one that makes more
// columns is. INVALID_ARGUMENT if there are no rows, or nothing separates their cells, or most
// lines of a table are not cut as its first.
absl::StatusOr<DataSpec> SniffFormat(absl::string_view beginning, const SniffHints& hints = {});

// INVALID_ARGUMENT for what is no text (Parquet, a zip archive), for JSON, and for text that is
// UTF-16 or whose lines end in CR alone: says so, and how to mend it. `beginning` is a file's first
// record or more.
absl::Status CheckText(absl::string_view beginning);

}  // namespace rubato

#endif  // RUBATO_DATA_SNIFF_H_

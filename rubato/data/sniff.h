// What a file of rows seems to be, from its beginning.
#ifndef RUBATO_DATA_SNIFF_H_
#define RUBATO_DATA_SNIFF_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Format and header for the text with which a file begins (whole lines; a few hundred are enough).
// A first line is a header if it has a name above a column of numbers, or no number at all where a
// later one has some. INVALID_ARGUMENT if
// there are no rows, or nothing separates their cells.
absl::StatusOr<DataSpec> SniffFormat(absl::string_view beginning);

// INVALID_ARGUMENT for what is no text (Parquet, a zip archive), for JSON, and for text that is
// UTF-16 or whose lines end in CR alone: says so, and how to mend it. `beginning` is a file's first
// record or more.
absl::Status CheckText(absl::string_view beginning);

}  // namespace rubato

#endif  // RUBATO_DATA_SNIFF_H_

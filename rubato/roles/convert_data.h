// A data set of one format as a file of another: `rubato convert`.
//
// To recordio, and to the format that the records have already, records go as they are. Between
// others they go cell by cell (data/cell_reader.h). Cells of a table become entries of libfm,
// libsvm and libffm so: column k, counted from 1 without the label, is field k - 1 (libffm); a text
// has the index columns + 1 + hash % buckets and the value 1, a missing one too; a number has index
// k. With a separator every part of a text is one. A column called `entries`, as libsvm becomes in
// a table, holds entries already.
#ifndef RUBATO_ROLES_CONVERT_DATA_H_
#define RUBATO_ROLES_CONVERT_DATA_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/job/job_spec.h"

namespace rubato {

struct ConvertOptions {
  DataSpec from;    // `train` names the files, or a table or query.
  std::string to;   // criteo, csv, tsv, libfm, libsvm, libffm or recordio.
  std::string out;  // There as a whole or not at all.
  bool gzip = false;
  bool header = true;  // csv, tsv: a first line of column names.
  // For formats in which the label comes first: its column; by default the first.
  std::string label;
  std::vector<std::string> numeric;   // Columns of a table that become numbers among entries.
  int64_t buckets = 1'000'000;        // For texts of a table among entries.
  std::string separator;              // One letter, between several texts of a cell; empty: none.
  std::vector<std::string> positive;  // The label's values that are 1 among entries, others 0.

  absl::Status Validate() const;
};

struct Converted {
  std::string format;  // Of the records that were read, for recordio those within.
  int64_t records = 0;
  int64_t bytes = 0;  // Of `out`.
  // A column whose cells look like lists, as "a|b", and became one index each; empty: none.
  std::string list_column, list_text;
};

using ConvertProgress = std::function<absl::Status(int64_t done, int64_t total)>;

// Keeps the index of what is read at `index_path`. INVALID_ARGUMENT names the record that cannot be
// written in the new format, and why. An error from `indexing` or `converting` stops the work.
absl::StatusOr<Converted> ConvertData(const ConvertOptions& options, const std::string& index_path,
                                      const ConvertProgress& indexing,
                                      const ConvertProgress& converting);

}  // namespace rubato

#endif  // RUBATO_ROLES_CONVERT_DATA_H_

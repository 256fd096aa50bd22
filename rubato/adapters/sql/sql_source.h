// A table or a query as a data set: rows numbered by their key, each a record of csv.
//
// Rows that come with larger keys after the index was made are not seen. Others that come, go or
// change their key make the numbers wrong: DATA_LOSS to whoever reads a block of rows, from mark to
// mark, to an end that is not where it was, as often as it is read.
#ifndef RUBATO_ADAPTERS_SQL_SQL_SOURCE_H_
#define RUBATO_ADAPTERS_SQL_SQL_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/data/record_index.h"
#include "rubato/data/source.h"

namespace rubato {

struct SqlOptions {
  // How long to knock at a database that has gone away before giving up.
  absl::Duration patience = absl::Minutes(5);
  int64_t page_rows = 4096;  // Fetched at a time.
};

// Numbers the rows by one pass over their keys. INVALID_ARGUMENT if keys are NULL, no integers, or
// there twice; UNAVAILABLE if the database does not answer.
absl::StatusOr<RecordIndex> IndexTable(const std::string& uri, const SqlOptions& options = {});

// `index` is IndexTable()'s. Connects when first read.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenTable(const RecordIndex& index,
                                                        const SqlOptions& options = {});

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SQL_SQL_SOURCE_H_

// Records by number, and a row turned into numbers: the two halves of reading.
#ifndef RUBATO_DATA_SOURCE_H_
#define RUBATO_DATA_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/data/batch.h"

namespace rubato {

// A data set of numbered records. Not thread-safe; open one a thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual int64_t records() const = 0;
  // Calls `visit` with records [begin, end) in order; the view lives until `visit` returns. Stops
  // at the first error, the visitor's or its own (a file that vanished or changed: DATA_LOSS).
  virtual absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) = 0;
  // "train.tsv:1204", for messages about record `record`.
  virtual std::string Locate(int64_t record) const = 0;
};

// Turns one record's bytes into a row of a batch. Stateless, so one serves all threads.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  virtual const BatchShape& shape() const = 0;
  // Appends one row; INVALID_ARGUMENT says what is wrong with the record ("column 3, 'abc', is
  // not an integer") and leaves `batch` as it was. The caller adds where the record is.
  virtual absl::Status Parse(absl::string_view record, Batch* batch) const = 0;
};

}  // namespace rubato

#endif  // RUBATO_DATA_SOURCE_H_

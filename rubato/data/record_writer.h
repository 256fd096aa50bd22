// Cells of named columns as a record of a format: what CellReader reads, the other way round.
#ifndef RUBATO_DATA_RECORD_WRITER_H_
#define RUBATO_DATA_RECORD_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/job/job_spec.h"

namespace rubato {

class RecordWriter {
 public:
  // For records of `columns`. UNIMPLEMENTED for formats without cells; INVALID_ARGUMENT if the
  // format has other columns, as criteo its forty.
  static absl::StatusOr<RecordWriter> Make(const DataSpec& data, std::vector<std::string> columns);

  // Replaces `record`, without a line's end. INVALID_ARGUMENT names the column whose text the
  // format cannot hold: a tab in criteo, no entry where libfm wants one.
  absl::Status Write(absl::Span<const absl::string_view> cells, std::string* record) const;
  // The column names as a first record; empty if the format has none.
  std::string Header() const;

 private:
  absl::Status AppendEntries(size_t column, absl::string_view cell, std::string* record) const;

  std::string format_;
  std::vector<std::string> columns_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_RECORD_WRITER_H_

// Rows as JSON into batches: each becomes a record of the job's format, and is read by the parser
// that training used. There is no second pipeline that could differ.
//
//     {"rows": [{"age": 39, "town": "Oslo"}, ...]}     by column; what is left out is missing
//     {"records": ["39,Oslo,...", ...]}                as the job's files have them
//
// true and false are what the features' vocabularies have for them (SpellBoolean()), 1 and 0 where
// the job's data is a table of a database, and otherwise refused: nobody knows how files spell
// them. A list, ["drama", "war"], is the cell "drama|war" where the features have a separator for
// the column.
#ifndef RUBATO_ROLES_ROW_READER_H_
#define RUBATO_ROLES_ROW_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/data/batch.h"
#include "rubato/data/cell_reader.h"
#include "rubato/data/record_writer.h"
#include "rubato/data/source.h"
#include "rubato/roles/servable.h"

namespace rubato {

// What a column has for true and false, and for a list.
struct ColumnWords {
  std::string yes = "true", no = "false";
  std::string refusal;    // Not empty: why it has neither.
  std::string separator;  // Between the values of a list; empty: it takes none.
};

// Immutable; one serves all threads. `servable` outlives it.
class RowReader {
 public:
  static absl::StatusOr<RowReader> Make(const Servable& servable);

  // INVALID_ARGUMENT says which row is wrong, and how: "rows[2]: no column 'agee'; did you mean
  // 'age'?". Any bytes may come.
  absl::StatusOr<Batch> Read(absl::string_view json) const;

  const std::vector<std::string>& columns() const { return columns_; }
  const BatchShape& shape() const { return parser().shape(); }  // Of the batches.
  static constexpr size_t kRowsMax = 10000;                     // Of one request.

 private:
  absl::Status NameColumns(const Servable& servable);
  // With its label, whether it came with one or not.
  absl::StatusOr<std::string> Labelled(std::string record) const;
  const RecordParser& parser() const { return owned_ != nullptr ? *owned_ : *model_parser_; }

  std::unique_ptr<const RecordParser> owned_;
  const RecordParser* model_parser_ = nullptr;
  std::vector<std::string> columns_;  // Empty if rows are taken as records only.
  std::optional<RecordWriter> writer_;
  bool is_libfm_ = false;  // The columns of its records go by place.
  // Reads records that lack the label, of data whose columns go by place; none: they have names.
  std::optional<CellReader> unlabelled_;
  size_t label_ = 0;                // Column; a row without it gets a 0 there.
  std::vector<ColumnWords> words_;  // By column.
};

}  // namespace rubato

#endif  // RUBATO_ROLES_ROW_READER_H_

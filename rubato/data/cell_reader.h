// A record as text, cell by cell in named columns: what statistics and features read, whatever the
// format.
//
//   criteo    label, I1..I13, C1..C26
//   csv, tsv  as the header names them, or 1, 2, ...
//   libfm     label 12:1 340:1 ...       every row as many entries: label, 1, 2, ... by position
//   libsvm    label 12:1 340:0.5 ...     as many as there are: label, and all entries in one cell
//   libffm    label 0:12:1 1:340:1 ...   label, and a cell for each field of the data set
//
// A row of entries may lack its label, which is an empty cell then: a first word with a ':' is an
// entry. So may criteo's rows, all or none of a data set's, as its schema says.
//
// No cell has blanks around it. A cell of entries holds them with blanks between, each as its
// index; a value other than 1 stays behind it: "12 340:0.5".
#ifndef RUBATO_DATA_CELL_READER_H_
#define RUBATO_DATA_CELL_READER_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// The cells of one record. Views live as long as the record and until the next Read().
struct Cells {
  std::vector<absl::string_view> views;
  std::deque<std::string> made;  // Cells that are not in the record as they are.
};

// Whether a format is one of libfm, libsvm and libffm.
bool HasEntries(const DataSpec& data);
// The schema of a data set of entries whose first record is this: its columns, by commas.
std::string EntriesSchema(const DataSpec& data, absl::string_view first_record);

// The schema of libffm, whose records name their fields: the union of all records' fields, in the
// order in which they come up. Rows without some of them are its normal case.
class FieldsSeen {
 public:
  void See(absl::string_view record);
  // INVALID_ARGUMENT if there are more than any model has: something else is in the fields' place.
  absl::StatusOr<std::string> Schema() const;

 private:
  std::vector<std::string> columns_ = {"label"};
};

// For other data of libffm than a model was trained on: INVALID_ARGUMENT if it has none of the
// fields that training saw. One that only one of both has is no matter (CellReader::Read).
absl::Status CheckFieldsKnown(absl::string_view trained_schema, absl::string_view schema);

// The schema of criteo without labels, as its published test data; with them it has none.
constexpr absl::string_view kUnlabelledCriteo = "unlabelled";
std::string CriteoSchema(absl::string_view first_record);

class CellReader {
 public:
  // For data whose index says `schema`; UNIMPLEMENTED for formats that have no cells (idx).
  static absl::StatusOr<CellReader> Make(const DataSpec& data, absl::string_view schema);

  const std::vector<std::string>& columns() const { return columns_; }
  // INVALID_ARGUMENT if the record has another number of columns, or entries that are none. An
  // entry of a field that the schema does not have is left out: nothing was learned of it.
  absl::Status Read(absl::string_view record, Cells* cells) const;

 private:
  enum class Kind { kQuoted, kPlain, kByPosition, kTogether, kByField };
  absl::Status ReadEntries(absl::string_view record, Cells* cells) const;
  absl::Status ReadFields(absl::string_view entries, Cells* cells) const;

  std::vector<std::string> columns_;
  Kind kind_ = Kind::kQuoted;
  char delimiter_ = ',';
};

}  // namespace rubato

#endif  // RUBATO_DATA_CELL_READER_H_

// Tables of text, csv and tsv: columns by name, as DataSpec picks them.
#ifndef RUBATO_DATA_DELIMITED_PARSER_H_
#define RUBATO_DATA_DELIMITED_PARSER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "rubato/data/source.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Whether a format's records are fields with a delimiter between: csv, tsv, ssv (semicolons), psv
// (bars), and sql, whose rows are records of csv.
bool IsDelimited(const DataSpec& data);
char DelimiterOf(const DataSpec& data);

// Calls `visit` with every field of `record`, without the quotes around it, if it has some, and
// without the blanks around it, within quotes or not, or around these: here, and nowhere else, they
// are dropped for files, databases and JSON alike. Stops early if `visit` answers false. Returns
// whether all quotes that it met are closed.
bool VisitFields(absl::string_view record, char delimiter,
                 absl::FunctionRef<bool(absl::string_view field)> visit);
// INVALID_ARGUMENT unless quotes are closed and there are as many fields as expected.
absl::Status CheckFields(absl::string_view record, bool is_closed, size_t fields, size_t expected);
std::vector<std::string> SplitFields(absl::string_view record, char delimiter);

// What a first column without a name is called: pandas writes its index so. Nobody reads it who
// does not ask for it.
constexpr absl::string_view kUnnamedColumn = "unnamed";
// The names in a header.
std::vector<std::string> ColumnNames(absl::string_view header, char delimiter);

// The label and `data.numeric` must be finite numbers, a missing number of data.numeric being 0;
// `data.categorical` is any text.
class DelimitedParser : public RecordParser {
 public:
  struct Options {
    // Whose order the batch's columns have, if they are the same ones; null: the data's.
    const BatchShape* order = nullptr;
    // Otherwise nobody looks at the label, which is 0, and its column need not be there.
    bool has_labels = true;
  };
  // INVALID_ARGUMENT if a column of `data` is not among `columns`, or if one's name is there twice.
  static absl::StatusOr<std::unique_ptr<DelimitedParser>> Create(
      const DataSpec& data, const std::vector<std::string>& columns, const Options& options);

  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override;

 private:
  enum class Role { kIgnored, kLabel, kNumeric, kCategorical };
  struct Column {
    std::string name;
    Role role = Role::kIgnored;
    int slot = 0;  // Among the batch's dense or id columns.
  };

  DelimitedParser(char delimiter, std::vector<Column> columns);
  // The same columns, each at the slot that `order` has for its name.
  void Reorder(const BatchShape& order);
  // Puts one field where it belongs in the row that starts at `dense` and `ids`.
  absl::Status Place(const Column& column, absl::string_view field, float* label, float* dense,
                     uint64_t* ids) const;

  char delimiter_;
  std::vector<Column> columns_;
  BatchShape shape_;
};

}  // namespace rubato

#endif  // RUBATO_DATA_DELIMITED_PARSER_H_

// What DataSpec::format means: how records are cut, and who parses them.
#ifndef RUBATO_DATA_FORMATS_H_
#define RUBATO_DATA_FORMATS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/data/record_splitter.h"
#include "rubato/data/source.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Everything of `data` that moves the border between records: "csv with header". An index holds
// for the format it was built for.
std::string FormatName(const DataSpec& data);
// Not for idx and recordio.
RecordRule RuleOf(const DataSpec& data);
// Whether the first record of every file names the columns.
bool HasHeader(const DataSpec& data);
// What a parser must know of a data set whose first record is this: for csv and tsv a line of
// column names, "1", "2", ... if the record is no header; CriteoSchema() for criteo. For idx the
// schema is the shape of an image, "28x28"; for recordio WrapSchema()'s.
std::string SchemaOf(const DataSpec& data, absl::string_view first_record);
// Whether columns have no names but their places, "1", "2", ...
bool AreByPlace(const std::vector<std::string>& columns);
// Without `has_labels` nobody looks at a label, and there need not be one.
absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const DataSpec& data,
                                                         absl::string_view schema,
                                                         bool has_labels = true);

struct KnownData {
  const DataSpec& data;
  absl::string_view schema;
};
// Data by the columns of the data that a model was trained with. Where those are known by their
// place alone, as in csv without a header, the number of columns must be training's; without
// `has_labels` there may be one less, the one called `label` ("": the first), and the others keep
// their names. A label that training found by its place goes by its name. Fields of libffm are
// training's, whichever of them the rows have. Anything else is as it is. INVALID_ARGUMENT names
// both numbers of columns.
struct NamedData {
  DataSpec data;  // Of the records, that is without recordio around them.
  std::string schema;
};
absl::StatusOr<NamedData> NameAsTrained(const KnownData& trained, const KnownData& known,
                                        const std::string& label, bool has_labels);
// For records of `data` that become batches as those of `trained` do: columns go by name, in
// whatever order the files have them. INVALID_ARGUMENT if the columns are not the same.
absl::StatusOr<std::unique_ptr<RecordParser>> MakeParserLike(const KnownData& trained,
                                                             const KnownData& known,
                                                             bool has_labels);

}  // namespace rubato

#endif  // RUBATO_DATA_FORMATS_H_

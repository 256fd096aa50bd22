// What DataSpec::format means: how records are cut, and who parses them.
#ifndef RUBATO_DATA_FORMATS_H_
#define RUBATO_DATA_FORMATS_H_

#include <memory>
#include <string>

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
// column names, "1", "2", ... if the record is no header; nothing for criteo. For idx the schema is
// the shape of an image, "28x28"; for recordio WrapSchema()'s.
std::string SchemaOf(const DataSpec& data, absl::string_view first_record);
absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const DataSpec& data,
                                                         absl::string_view schema);
// For records of `data` that become batches as those of `trained` do: columns go by name, in
// whatever order the files have them. INVALID_ARGUMENT if the columns are not the same. Without
// `has_labels` nobody looks at a label of csv, tsv or sql.
struct KnownData {
  const DataSpec& data;
  absl::string_view schema;
};
absl::StatusOr<std::unique_ptr<RecordParser>> MakeParserLike(const KnownData& trained,
                                                             const KnownData& known,
                                                             bool has_labels);

}  // namespace rubato

#endif  // RUBATO_DATA_FORMATS_H_

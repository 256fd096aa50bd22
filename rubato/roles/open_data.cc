#include "rubato/roles/open_data.h"

#include "rubato/adapters/files/files.h"
#include "rubato/adapters/source_loader/custom_data.h"
#include "rubato/adapters/sql/sql_source.h"
#include "rubato/base/status.h"
#include "rubato/data/formats.h"
#include "rubato/data/record_index.h"
#include "rubato/job/plugin_name.h"

namespace rubato {

absl::StatusOr<int64_t> IndexAnyData(
    const DataSpec& data, const std::vector<std::string>& patterns, const std::string& index_path,
    absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress,
    const FileSourceOptions& options) {
  if (data.format != "sql" && !IsPlugin(data.format)) {
    return BuildIndex(data, patterns, index_path, progress, options);
  }
  if (data.format == "sql" && patterns.size() != 1) {
    return absl::InvalidArgumentError("sql needs one table or query at a time");
  }
  RUBATO_ASSIGN_OR_RETURN(const RecordIndex index, data.format == "sql"
                                                       ? IndexTable(patterns[0])
                                                       : IndexCustomData(data.format, patterns));
  RUBATO_RETURN_IF_ERROR(options.check != nullptr ? options.check(index.schema)
                                                  : MakeParser(data, index.schema).status());
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(index_path, index.Encode()));
  return index.records();
}

absl::StatusOr<OpenedData> OpenAnyData(const DataSpec& data, const std::string& index_path,
                                       const FileSourceOptions& options) {
  if (data.format != "sql" && !IsPlugin(data.format)) {
    return OpenData(data, index_path, options);
  }
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(index_path));
  const absl::StatusOr<RecordIndex> index = RecordIndex::Decode(bytes);
  if (!index.ok()) return Annotate(index.status(), index_path);
  OpenedData opened;
  opened.schema = index->schema;
  if (options.check == nullptr) {
    RUBATO_ASSIGN_OR_RETURN(opened.parser, MakeParser(data, index->schema));
  }
  if (data.format == "sql") {
    RUBATO_ASSIGN_OR_RETURN(opened.source, OpenTable(*index));
    opened.seeks = true;
  } else {
    opened.source = OpenCustomData(*index);
  }
  return opened;
}

}  // namespace rubato

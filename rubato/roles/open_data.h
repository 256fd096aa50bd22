// A data set wherever it is, in files or in a database: indexed once, opened by every process.
#ifndef RUBATO_ROLES_OPEN_DATA_H_
#define RUBATO_ROLES_OPEN_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// As BuildIndex() and OpenData() of files, for data.format sql with tables and queries, and for
// that of a plug-in with whatever it understands.
absl::StatusOr<int64_t> IndexAnyData(
    const DataSpec& data, const std::vector<std::string>& patterns, const std::string& index_path,
    absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress,
    const FileSourceOptions& options = {});
absl::StatusOr<OpenedData> OpenAnyData(const DataSpec& data, const std::string& index_path,
                                       const FileSourceOptions& options = {});

}  // namespace rubato

#endif  // RUBATO_ROLES_OPEN_DATA_H_

// The statistics of a data set, in one pass over its files: one thread finds the records, a few
// others read them. The answer does not depend on how fast any of them is.
#ifndef RUBATO_ROLES_ANALYZE_DATA_H_
#define RUBATO_ROLES_ANALYZE_DATA_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/features/analysis.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Of the files that `patterns` name. `progress` hears of bytes done and of all, now and then; an
// error from it stops the pass. Rows with a wrong number of columns are counted and left out; if
// nothing else is there, INVALID_ARGUMENT says what was wrong with the first.
absl::StatusOr<Analysis> AnalyzeData(
    const DataSpec& data, const std::vector<std::string>& patterns,
    const std::function<absl::Status(int64_t done, int64_t total)>& progress);

}  // namespace rubato

#endif  // RUBATO_ROLES_ANALYZE_DATA_H_

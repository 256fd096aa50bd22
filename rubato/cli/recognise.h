// What a user's data is, by looking at it.
#ifndef RUBATO_CLI_RECOGNISE_H_
#define RUBATO_CLI_RECOGNISE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Format and header of the first file, with absolute paths to all of `train` and `validation`,
// which are files or globs, or a table or query of a database.
absl::StatusOr<DataSpec> RecogniseData(const std::vector<std::string>& train,
                                       const std::vector<std::string>& validation);

}  // namespace rubato

#endif  // RUBATO_CLI_RECOGNISE_H_

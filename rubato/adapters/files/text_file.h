// A small text file, plain or gzip, in one go: traces, specs, profiles.
#ifndef RUBATO_ADAPTERS_FILES_TEXT_FILE_H_
#define RUBATO_ADAPTERS_FILES_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace rubato {

// The whole text, inflated if need be. Errors name the path; DATA_LOSS if the gzip is damaged.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_TEXT_FILE_H_

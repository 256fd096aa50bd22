// Whether a file can be made somewhere, before the work for it is done.
#ifndef RUBATO_ADAPTERS_FILES_CAN_WRITE_H_
#define RUBATO_ADAPTERS_FILES_CAN_WRITE_H_

#include <string>

#include "absl/status/status.h"

namespace rubato {

// With kMade the folders of a path need not be there yet.
enum class Folders { kThere, kMade };

// An error as that of writing `path` if its folder does not take files; nothing is written.
absl::Status CheckCanWrite(const std::string& path, Folders folders);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_CAN_WRITE_H_

// What the members of a group know and strangers do not, in a file that only its owner may read.
// It is never on a command line, where everyone on the machine would see it.
#ifndef RUBATO_ADAPTERS_POSIX_SECRET_FILE_H_
#define RUBATO_ADAPTERS_POSIX_SECRET_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace rubato {

// The text of the file without the white space around it. INVALID_ARGUMENT if that is empty, or if
// others than the owner may read or write the file.
absl::StatusOr<std::string> ReadSecret(const std::string& path);
// The same; a file that is not there is made, with 128 bits of chance. Of several that make one at
// once all read the same.
absl::StatusOr<std::string> ReadOrMakeSecret(const std::string& path);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_SECRET_FILE_H_

// A server that is to begin from a checkpoint, whatever it has since:
//
//     DIRECTORY/set-aside-1/     its push log and the copies of others' that were here
//     CHECKPOINTS/VERSION/       its file, for each later version: gone
#ifndef RUBATO_ADAPTERS_POSIX_SET_ASIDE_LOG_H_
#define RUBATO_ADAPTERS_POSIX_SET_ASIDE_LOG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace rubato {

// FAILED_PRECONDITION while a process has the directory. May be interrupted anywhere and done
// again: only when all of it is done may the server begin.
absl::Status SetAsideLog(const std::string& directory, const std::string& checkpoints,
                         int64_t server, int64_t version);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_SET_ASIDE_LOG_H_

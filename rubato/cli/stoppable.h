// Long work with a bar that Ctrl-C ends early, and without harm.
#ifndef RUBATO_CLI_STOPPABLE_H_
#define RUBATO_CLI_STOPPABLE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/cli/cli.h"

namespace rubato {

// A bar called `title`, and an ear for Ctrl-C: then CANCELLED.
std::function<absl::Status(int64_t done, int64_t total)> Shown(Console& console,
                                                               const std::string& title,
                                                               const std::string& unit);

// Runs a command; one that was stopped is no error, says so, `and_then`, and exits with 130.
absl::StatusOr<int> UntilStopped(const std::function<absl::StatusOr<int>()>& run,
                                 const std::string& and_then, Console& console);

}  // namespace rubato

#endif  // RUBATO_CLI_STOPPABLE_H_

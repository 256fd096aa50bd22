// Asks one parameter server about itself. No greeting is needed: the answer tells nobody's weights.
// Beyond this machine it is told only to those who know the job's `secret`, as everything is.
#ifndef RUBATO_ADAPTERS_POSIX_INSPECT_SERVER_H_
#define RUBATO_ADAPTERS_POSIX_INSPECT_SERVER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/params/inspection.h"

namespace rubato {

// UNAVAILABLE if nobody answers there, DEADLINE_EXCEEDED if not within `patience`,
// PERMISSION_DENIED if whoever answers does not know the secret.
absl::StatusOr<ServerInspection> InspectServer(const std::string& address, absl::Duration patience,
                                               const std::string& secret = "");
// The same of several, side by side: all of it takes no longer than `patience`.
std::vector<absl::StatusOr<ServerInspection>> InspectServers(
    const std::vector<std::string>& addresses, absl::Duration patience,
    const std::string& secret = "");

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_INSPECT_SERVER_H_

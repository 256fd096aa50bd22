// How the process of a parameter server comes back: from its own files, and from the copies that
// other servers have of its push log.
#ifndef RUBATO_ROLES_SERVER_RECOVERY_H_
#define RUBATO_ROLES_SERVER_RECOVERY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/roles/server_host.h"

namespace rubato {

// The server as its files tell. With replicas, whatever is wrong with its own log, a copy takes its
// place; without, a damaged log ends where the damage is. Whatever was wrong is added to `damage`,
// by file and place, and said on stderr. `begin_from`, if not 0, is the checkpoint from which it is
// to begin: what it has since, and copies of that, are set aside first.
absl::StatusOr<std::unique_ptr<ParamsServer>> RecoverServer(const ServerHostOptions& options,
                                                            ParamsServerOptions params,
                                                            int64_t begin_from,
                                                            std::vector<std::string>* damage);

}  // namespace rubato

#endif  // RUBATO_ROLES_SERVER_RECOVERY_H_

// A parameter server as a process: the shard behind its socket, and the heartbeat that ties it to
// the master.
#ifndef RUBATO_ROLES_SERVER_HOST_H_
#define RUBATO_ROLES_SERVER_HOST_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/base/ids.h"
#include "rubato/job/job_spec.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

struct ServerHostOptions {
  JobSpec job;
  std::string job_dir;
  std::string secret;  // Of the job, for what leaves the machine.
  std::string master;  // Where to dial it.
  std::string listen;  // Where the data plane listens.
  ServerId id{0};
  int64_t incarnation = 1;
  std::string version;
  std::function<bool()> stop;  // True once this process was asked to end.
};

// Recovers, registers, and serves until the master says leave or `stop` does. Answers with the
// process's exit code; an error means it cannot serve, and is for the last line of its log.
absl::StatusOr<int> RunServer(const ServerHostOptions& options);

}  // namespace rubato

#endif  // RUBATO_ROLES_SERVER_HOST_H_

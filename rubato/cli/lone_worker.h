// A worker without a master, as its user sees it: a live line, what happens, and a summary in its
// directory, as of a job that `rubato train` runs.
#ifndef RUBATO_CLI_LONE_WORKER_H_
#define RUBATO_CLI_LONE_WORKER_H_

#include "absl/status/statusor.h"
#include "rubato/cli/cli.h"
#include "rubato/roles/group_loop.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

struct LoneWorker {
  GroupLoopOptions options;  // But for who shows and says.
  Trainer& trainer;
  Readable train;
  Readable validation;
};

// What is trained goes to `console.out` as a line, or with `json` the summary as one object.
// `joined`: whether it was in a group, so that there is something to keep.
absl::StatusOr<int> RunLoneWorker(LoneWorker worker, const JobDirectory& directory, bool json,
                                  Console& console, bool* joined);

}  // namespace rubato

#endif  // RUBATO_CLI_LONE_WORKER_H_

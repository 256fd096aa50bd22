// A server whose push log is gone, or lacks something, gets it back from whoever has a copy
// (params/log_replica.h), before it serves anybody.
#ifndef RUBATO_ADAPTERS_POSIX_FETCH_LOG_H_
#define RUBATO_ADAPTERS_POSIX_FETCH_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/params/log_replica.h"

namespace rubato {

struct FetchLogOptions {
  std::string job;
  std::string directory;  // Where the log belongs. Made if missing.
  int64_t server = 0;     // Whose log it is,
  int64_t incarnation = 1;
  std::map<int64_t, std::string> others;       // and where all other servers are.
  std::string secret;                          // The job's, for those beyond this machine.
  absl::Duration patience = absl::Seconds(5);  // For one answer.
};

// Whether there is a log in `directory` at all.
absl::StatusOr<bool> HasLog(const std::string& directory);

// Which segments of the log began from a copy is told by its file `joints`. What is wrong with
// that, most often nothing; it is then set aside as joints.damaged, for without it no copy is ever
// told to forget what the log does not have, and nothing that was acknowledged is lost. Before
// anything below, which is refused while it is damaged.
std::string SetAsideDamagedJoints(const std::string& directory);

struct FetchedLog {
  LogSizes sizes;      // What it got; nothing if nobody has a copy,
  int64_t server = 0;  // and from whom.
  // Segments that were other than in the copy, by name and the first byte that differs. They are
  // kept as push-N.log.damaged.
  std::vector<std::string> replaced;
};

// Asks all others, takes the longest copy and puts it in the place of what is in `directory`: all
// of it, or nothing. UNAVAILABLE, naming it, if one of the others does not answer: it may be the
// one that has the copy.
absl::StatusOr<FetchedLog> FetchLog(const FetchLogOptions& options);

// What the log in `directory` lacks of its copies, a line a segment, naming both; most often
// nothing. A cut between two records is seen nowhere else. Copies of what never became part of the
// log are told to forget it. UNAVAILABLE as above.
absl::StatusOr<std::vector<std::string>> CompareWithCopies(const FetchLogOptions& options);
// Takes it, segment by segment; one that is replaced is kept as push-N.log.damaged. No server may
// run on the folder. DATA_LOSS, naming both, if the copy is damaged too.
absl::Status TakeFromCopies(const FetchLogOptions& options);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_FETCH_LOG_H_

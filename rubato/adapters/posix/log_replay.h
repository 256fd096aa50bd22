// A push log read back into a shard, as fast as two cores can.
//
//     one thread    reads ahead, checks every byte, finds the records
//     another       makes the memory real that the tables will fill (log_forecast.h)
//     the caller's  applies them, one after the other, in the order of the log
//
// What is applied, in which order, and what is said of a damaged log, is what a plain loop over
// the records would do and say. A short log is read by such a loop, and so is any log where the
// system has no thread to give.
#ifndef RUBATO_ADAPTERS_POSIX_LOG_REPLAY_H_
#define RUBATO_ADAPTERS_POSIX_LOG_REPLAY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rubato/params/record_file.h"
#include "rubato/params/shard.h"

namespace rubato {

struct LogReplayOptions {
  // Logs of at least so many bytes are worth the threads.
  int64_t ahead_from_bytes = int64_t{16} << 20;
  std::atomic<int64_t>* applied = nullptr;  // Grows by the bytes of records; null: nobody looks.
};

// Replays the segments at `paths`, in that order, and counts their pushes in `*pushes`. DATA_LOSS
// naming file and byte if one is damaged, cut off (log_joints.h), or does not follow from those
// before it; everything before that has been applied then.
absl::Status ReplayLog(const std::vector<std::string>& paths, Shard& shard, int64_t* pushes,
                       const LogReplayOptions& options = {});

// One of their records. DATA_LOSS, too, if the shard cannot come to it from where it is.
absl::Status ReplayRecord(RecordKind kind, absl::string_view body, Shard& shard);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_LOG_REPLAY_H_

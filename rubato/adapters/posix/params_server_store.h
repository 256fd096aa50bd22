// What makes a parameter server survive: which files there are, how a shard comes back from them,
// and where the next push is logged. Used by the server's loop alone.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_STORE_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_STORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/log_replica.h"
#include "rubato/params/shard.h"

namespace rubato {

// Hears what becomes of the log: the copies of it on other disks follow (replica_lines.h).
class LogWatcher {
 public:
  virtual ~LogWatcher() = default;
  virtual void Grew(int64_t segment, int64_t bytes) = 0;  // To so many.
  virtual void DroppedBefore(int64_t segment) = 0;
};

class ParamsStore : public RecordSink {
 public:
  // Locks the directory; nothing is read yet.
  static absl::StatusOr<std::unique_ptr<ParamsStore>> Open(const ParamsServerOptions& options);

  // The shard as of the last acknowledged push: the newest sound checkpoint and the log since it.
  // An older checkpoint serves if the log still reaches back to it. Then starts a new segment.
  absl::StatusOr<std::unique_ptr<Shard>> Recover(Memory& memory);

  // Appends to the segment at hand. After an error the push has not been logged.
  absl::Status Append(RecordKind kind, absl::string_view body) override;

  // The server owns nothing any more by `map`: what was logged before no longer matters. Starts a
  // segment that says so first, and returns those before it, for spares().Keep().
  absl::StatusOr<std::vector<int64_t>> BeginAnew(const PartitionMap& map);

  // Starts a new segment: everything logged from now on comes after the cut. The checkpoint is to
  // be a delta if `shard` knows what changed since the one that is to be its base, and that one
  // is not a long way from a full one by now. `ahead` is what spares().Ahead() made of
  // next_segment(), or null: then the file is made while others wait.
  absl::StatusOr<CheckpointName> Cut(const CheckpointOrder& order, const Shard& shard,
                                     std::unique_ptr<LogFile> ahead = nullptr);
  // Which one a cut is to start as things stand; 0 if the one being written will do.
  int64_t next_segment() const { return fresh() ? 0 : segment_ + 1; }
  // The checkpoint of that cut is published, in a file of so many bytes.
  void Checkpointed(const CheckpointName& name, int64_t bytes);
  // Forgets the segments that checkpoint `version` makes needless and returns them, for
  // spares().Keep(). None if this server does not have that checkpoint.
  std::vector<int64_t> DropLogBefore(int64_t version);
  // Segments to be written over. May outlive the store, and be used by any thread.
  std::shared_ptr<LogSpares> spares() const { return spares_; }

  // Tells `watcher` of every change from now on. Not owned.
  void Watch(LogWatcher* watcher) { watcher_ = watcher; }
  LogSizes log() const;  // All of it.
  LogPosition end() const { return {segment_, log_ == nullptr ? 0 : log_->bytes()}; }

  // Grows with every life of the server.
  int64_t life() const { return segment_; }
  int64_t checkpointed() const { return cuts_.empty() ? 0 : cuts_.rbegin()->first; }
  int64_t replayed() const { return replayed_; }
  // The newest version that was cut or restored from, and how many rounds had moved the weights.
  int64_t cut() const { return cut_; }
  int64_t cut_rounds() const { return cut_rounds_; }
  // What was wrong with the files it recovered from, each thing by file and place.
  const std::vector<std::string>& damage() const { return damage_; }
  int64_t log_bytes() const;
  int64_t replay_bytes() const;  // Of them, since the cut of the newest checkpoint.

 private:
  ParamsStore() = default;
  absl::Status StartSegment(std::unique_ptr<LogFile> next = nullptr);
  // A cut whose checkpoint could not be written left a segment; while nothing stands in it, it is
  // as good as a new one.
  bool fresh() const;
  // What each file in `segments_` holds of the log.
  absl::Status MeasureSegments();
  // The newest sound checkpoint, and the segment from which the log is to be replayed. `damage` is
  // what was wrong with a newer one.
  absl::StatusOr<std::unique_ptr<Shard>> LoadNewest(Memory& memory, int64_t* first_segment,
                                                    absl::Status* damage);
  absl::StatusOr<CheckpointName> Load(int64_t version, Shard& shard);
  absl::Status Replay(int64_t first_segment, Shard& shard);
  // Makes the log one that replays; `shard` is for trying that. What was wrong, or nothing.
  absl::StatusOr<std::string> Mend(int64_t first_segment, Shard& shard);
  // Where to count what is replayed from there on, once it is told; null if nobody looks.
  std::atomic<int64_t>* ExpectLog(int64_t first_segment) const;
  // The last segment with which the server began anew; 0 if there is none.
  absl::StatusOr<int64_t> LastBeginning() const;

  ParamsServerOptions options_;
  FileDescriptor lock_;
  std::map<int64_t, int64_t> segments_;  // Finished ones: number -> bytes of the log in it.
  std::map<int64_t, int64_t> cuts_;      // Sound checkpoints here: version -> first segment after.
  CheckpointName newest_;                // Of them: what changes in the shard is since then.
  int64_t cut_ = 0, cut_rounds_ = 0;
  int64_t full_bytes_ = 0;   // Of the full one it is or is built on,
  int64_t delta_bytes_ = 0;  // and of the deltas since, itself included.
  int64_t segment_ = 0;      // The one being written.
  std::unique_ptr<LogFile> log_;
  std::shared_ptr<LogSpares> spares_;
  int64_t replayed_ = 0;
  std::vector<std::string> damage_;
  LogWatcher* watcher_ = nullptr;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_STORE_H_

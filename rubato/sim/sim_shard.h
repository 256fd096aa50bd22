// The parameters of a simulated server: the real Shard, the real MoveSource and real checkpoints,
// on a disk that is kept in memory. What a crash leaves is the disk.
#ifndef RUBATO_SIM_SIM_SHARD_H_
#define RUBATO_SIM_SIM_SHARD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rubato/params/checkpoint.h"
#include "rubato/params/memory.h"
#include "rubato/params/move.h"
#include "rubato/params/record_list.h"
#include "rubato/params/shard.h"
#include "rubato/params/string_sink.h"

namespace rubato {

// As the files of ParamsStore, which see for what each is good for.
struct ShardDisk : RecordSink {
  absl::Status Append(RecordKind kind, absl::string_view body) override;

  std::map<int64_t, RecordList> segments;                     // The push log.
  std::vector<std::pair<CheckpointName, std::string>> chain;  // Of the newest checkpoint.
};

// Takes the last `most` pushes off the log, but none before the last record of another kind.
// Returns how many.
int64_t CutPushes(ShardDisk& disk, int64_t most);

// Server `server` of a job that began with `servers`, as its disk tells. DATA_LOSS naming what the
// disk lacks.
absl::StatusOr<std::unique_ptr<Shard>> RecoverShard(Memory& memory, const ShardDisk& disk,
                                                    int64_t server, int64_t servers);

class SimShard {
 public:
  // Begins a new segment of the log. `life` is larger in every life of the server.
  static absl::StatusOr<std::unique_ptr<SimShard>> Recover(ShardDisk& disk, int64_t server,
                                                           int64_t servers, int64_t life);

  Shard& shard() { return *shard_; }
  const Shard& shard() const { return *shard_; }
  MoveSource& source() { return *source_; }
  ShardDisk& log() { return disk_; }

  // The master's word. DATA_LOSS if it takes for granted what never arrived.
  absl::Status Hear(const PartitionMap& map, const MoveOrder& order);

  // A checkpoint is cut now, unless partitions are on the move, and written step by step. Finish,
  // once WriteOn is false, puts it in place of the last.
  bool Cut(int64_t version, int64_t base);
  bool writing() const { return writer_ != nullptr; }
  bool WriteOn();
  int64_t Finish();  // Its version.

  // For the story: what it is in the midst of, or nothing.
  std::string Doing() const;

 private:
  SimShard(ShardDisk& disk, int64_t server, int64_t servers)
      : disk_(disk), server_(server), servers_(servers) {}
  int64_t StartSegment();

  ShardDisk& disk_;
  const int64_t server_, servers_;
  SystemMemory memory_{/*huge_pages=*/false};
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<MoveSource> source_;
  std::unique_ptr<CheckpointWriter> writer_;
  CheckpointName name_;
  std::unique_ptr<StringSink> file_;
};

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_SHARD_H_

#include "rubato/sim/sim_shard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/wire.h"
#include "rubato/sim/sim_model.h"

namespace rubato {
namespace {

// The last segment with which the server began anew, owning nothing; 0 for none.
int64_t LastBeginning(const ShardDisk& disk, int64_t server) {
  for (auto it = disk.segments.rbegin(); it != disk.segments.rend(); ++it) {
    const auto& records = it->second.records;
    if (records.empty() || records.front().first != RecordKind::kOwn) continue;
    const auto map = PartitionMap::Decode(records.front().second);
    if (map.ok() && !map->Owns(server)) return it->first;
  }
  return 0;
}

}  // namespace

absl::Status ShardDisk::Append(RecordKind kind, absl::string_view body) {
  return segments.rbegin()->second.Append(kind, body);
}

absl::StatusOr<std::unique_ptr<Shard>> RecoverShard(Memory& memory, const ShardDisk& disk,
                                                    int64_t server, int64_t servers) {
  auto shard = std::make_unique<Shard>(
      memory, ShardOptions{.server = server, .servers = servers, .rows_max = 1 << 14});
  const int64_t beginning = LastBeginning(disk, server);
  int64_t segment = std::max<int64_t>(1, beginning);
  if (!disk.chain.empty() && disk.chain.back().first.first_segment > beginning) {
    std::vector<CheckpointFile> files;
    for (const auto& [name, bytes] : disk.chain) files.push_back({"server.ckpt", bytes});
    RUBATO_RETURN_IF_ERROR(RestoreChain(*shard, files));
    segment = disk.chain.back().first.first_segment;
  }
  const int64_t last = disk.segments.empty() ? 0 : disk.segments.rbegin()->first;
  for (; segment <= last; ++segment) {
    const auto it = disk.segments.find(segment);
    if (it == disk.segments.end()) {
      return absl::DataLossError(absl::StrCat("segment ", segment, " is missing"));
    }
    RUBATO_RETURN_IF_ERROR(it->second.ReplayInto(*shard));
  }
  return shard;
}

int64_t CutPushes(ShardDisk& disk, int64_t most) {
  int64_t cut = 0;
  for (auto segment = disk.segments.rbegin(); segment != disk.segments.rend(); ++segment) {
    auto& records = segment->second.records;
    while (cut < most && !records.empty() && records.back().first == RecordKind::kPush) {
      records.pop_back();
      ++cut;
    }
    if (!records.empty()) break;
  }
  return cut;
}

absl::StatusOr<std::unique_ptr<SimShard>> SimShard::Recover(ShardDisk& disk, int64_t server,
                                                            int64_t servers, int64_t life) {
  auto sim = std::unique_ptr<SimShard>(new SimShard(disk, server, servers));
  RUBATO_ASSIGN_OR_RETURN(sim->shard_, RecoverShard(sim->memory_, disk, server, servers));
  const int64_t segment = sim->StartSegment();
  // Every worker says the same before its first push; those who never owned anything hear of the
  // model with the first partitions that arrive.
  const PartitionMap first = PartitionMap::Even(servers);
  if (segment == 1 && first.Owns(server)) {
    const Declaration model = SimModel();
    const auto slices = DenseSlices(model.signature.dense_size, first, server);
    RUBATO_RETURN_IF_ERROR(sim->shard_->Declare(EncodeDeclaration(model, slices), &disk));
  }
  sim->source_ = std::make_unique<MoveSource>(*sim->shard_, life);
  return sim;
}

int64_t SimShard::StartSegment() {
  const int64_t next = disk_.segments.empty() ? 1 : disk_.segments.rbegin()->first + 1;
  disk_.segments[next];
  return next;
}

absl::Status SimShard::Hear(const PartitionMap& map, const MoveOrder& order) {
  source_->SetOrder(order);
  const bool owned = !shard_->histories().empty();
  RUBATO_RETURN_IF_ERROR(shard_->SetMap(map, &disk_));
  if (!owned || !shard_->histories().empty()) return absl::OkStatus();
  const int64_t segment = StartSegment();  // Whatever was logged before is of no use any more.
  RUBATO_RETURN_IF_ERROR(disk_.Append(RecordKind::kOwn, map.Encode()));
  disk_.segments.erase(disk_.segments.begin(), disk_.segments.find(segment));
  return absl::OkStatus();
}

bool SimShard::Cut(int64_t version, int64_t base) {
  if (!shard_->settled() || shard_->observed()) return false;
  name_ = {
      .version = version, .first_segment = StartSegment(), .server = server_, .servers = servers_};
  const bool known = !disk_.chain.empty() && disk_.chain.back().first.version == base;
  if (base > 0 && known && shard_->changes_known()) {
    name_.base = base;
    name_.base_segment = disk_.chain.back().first.first_segment;
  }
  file_ = std::make_unique<StringSink>();
  writer_ = std::make_unique<CheckpointWriter>(*shard_, name_);
  return true;
}

bool SimShard::WriteOn() { return !*writer_->Step(*file_); }

int64_t SimShard::Finish() {
  writer_->Published();
  writer_.reset();
  if (name_.base == 0) disk_.chain.clear();
  disk_.chain.emplace_back(name_, file_->bytes());
  disk_.segments.erase(disk_.segments.begin(), disk_.segments.find(name_.first_segment));
  return name_.version;
}

std::string SimShard::Doing() const {
  if (source_->ready() > 0) return "handing over";
  if (source_->frozen()) return "sending the rest";
  if (source_->busy()) return "copying";
  if (!shard_->arrived().empty()) return "taking over";
  if (writing()) return "writing a checkpoint";
  return shard_->settled() ? "" : "receiving";
}

}  // namespace rubato

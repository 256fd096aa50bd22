// What must hold of the real shards in a simulated world.
#include "absl/strings/str_cat.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/sim/sim_model.h"
#include "rubato/sim/sim_server.h"
#include "rubato/sim/world.h"

namespace rubato {

// Of those servers that are up. What the others have on disk is looked at by the master when they
// are back, and here in the end.
std::string World::CommittedIsInShards() const {
  const PartitionMap& map = master_->view().map;
  for (const auto& [key, process] : processes_) {
    const auto* server = dynamic_cast<const SimServer*>(process);
    if (server == nullptr || server->shard() == nullptr) continue;
    const IntervalSet owned = map.PartitionsOf(std::get<1>(key));
    for (const History& history : server->shard()->shard().histories()) {
      if (history.partitions.Intersect(owned).empty()) continue;
      for (int64_t epoch = 0; epoch < master_->ledger().plan().epochs(); ++epoch) {
        const IntervalSet committed = master_->ledger().Committed(epoch);
        const auto it = history.applied.by_epoch().find(epoch);
        const IntervalSet applied =
            it == history.applied.by_epoch().end() ? IntervalSet() : it->second;
        if (applied.Intersect(committed) == committed) continue;
        return absl::StrCat("epoch ", epoch, ": committed ", committed.ToString(), ", but ",
                            server->name(), " applied ", applied.ToString());
      }
    }
  }
  return "";
}

std::string World::CheckShards() const {
  const SimState wanted = SerialReplay(checker_.acknowledged());
  const PartitionMap& map = master_->view().map;
  SystemMemory memory(/*huge_pages=*/false);
  SimState found;
  std::vector<CheckpointFile> files;
  for (size_t i = 0; i < disks_.size(); ++i) {
    const auto s = static_cast<int64_t>(i);
    if (!map.Owns(s)) continue;
    auto shard = RecoverShard(memory, disks_[i].params, s, options_.master.job.servers);
    if (!shard.ok()) return absl::StrCat("server-", s, ": ", shard.status().message());
    if ((*shard)->map().PartitionsOf(s) != map.PartitionsOf(s)) {
      return absl::StrCat("server-", s, " ends with partitions that are not its own");
    }
    AddState(**shard, &found);
    for (const auto& [name, bytes] : disks_[i].params.chain) {
      files.push_back({absl::StrCat("server-", s, ".ckpt"), bytes});
    }
  }
  if (const std::string wrong = Difference(wanted, found); !wrong.empty()) return wrong;
  // The last checkpoint was cut after the last push: onto one server it is the same again.
  Shard restored(memory, {.rows_max = 1 << 14});
  if (const absl::Status status = RestoreShard(restored, files); !status.ok()) {
    return absl::StrCat("the last checkpoint: ", status.message());
  }
  SimState last;
  AddState(restored, &last);
  const std::string wrong = Difference(wanted, last);
  return wrong.empty() ? "" : absl::StrCat("the last checkpoint: ", wrong);
}

}  // namespace rubato

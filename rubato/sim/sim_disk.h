// The disk of a simulated server.
#ifndef RUBATO_SIM_SIM_DISK_H_
#define RUBATO_SIM_SIM_DISK_H_

#include <cstdint>
#include <map>
#include <set>

#include "rubato/base/interval_set.h"
#include "rubato/sim/sim_shard.h"

namespace rubato {

// What a server keeps through a crash.
struct SimDisk {
  std::map<int64_t, IntervalSet> log;         // Applied, as its log and checkpoint tell.
  std::map<int64_t, IntervalSet> checkpoint;  // Applied, as its newest checkpoint tells.
  int64_t version = 0;
  // Of every version that is kept: what was applied, and how many rounds were whole.
  struct Cut {
    std::map<int64_t, IntervalSet> applied;
    int64_t rounds = 0;
  };
  std::map<int64_t, Cut> cuts;
  std::set<int64_t> damaged;  // Versions that were found to be.
  ShardDisk params;           // With real shards.
};

}  // namespace rubato

#endif  // RUBATO_SIM_SIM_DISK_H_

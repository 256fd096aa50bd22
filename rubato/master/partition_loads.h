// How busy each partition is, in keys a second, by what servers tell in their heartbeats: a mean of
// the first ten seconds, later of the last ten or so. Loads are the partitions' and stay known when
// those move. Never journaled: a master that comes back counts anew, and moves nothing meanwhile.
#ifndef RUBATO_MASTER_PARTITION_LOADS_H_
#define RUBATO_MASTER_PARTITION_LOADS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rubato/params/partition.h"

namespace rubato {

class PartitionLoads {
 public:
  // `keys` came to `server` in the last `period`, by partition. What it does not own by `map` is
  // passed over: it was moved meanwhile.
  void Add(const PartitionMap& map, int64_t server, absl::Span<const int64_t> keys,
           absl::Duration period);
  void Forget() { *this = {}; }
  // By partition; empty until each was counted for long enough to be compared.
  absl::Span<const double> known() const;

 private:
  std::vector<double> loads_ = std::vector<double>(kPartitions);
  std::vector<double> seconds_ = std::vector<double>(kPartitions);  // Counted so long.
};

}  // namespace rubato

#endif  // RUBATO_MASTER_PARTITION_LOADS_H_

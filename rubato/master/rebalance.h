// Which partitions should move next, so that so many servers share them evenly. A pure function
// of the map: asked again after every move, it comes to an end.
#ifndef RUBATO_MASTER_REBALANCE_H_
#define RUBATO_MASTER_REBALANCE_H_

#include <cstdint>
#include <optional>

#include "rubato/params/partition.h"

namespace rubato {

// At most so many partitions at once: the fewer, the less changes while they are copied, and the
// shorter the moment at the end of it.
inline constexpr int64_t kMovePartitionsMax = 64;

// Without a number. Nothing when servers 0 to `servers` - 1 have equal numbers of partitions,
// within one, and the others none.
std::optional<MoveOrder> NextMove(const PartitionMap& map, int64_t servers);

}  // namespace rubato

#endif  // RUBATO_MASTER_REBALANCE_H_

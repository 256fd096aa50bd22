// Which partitions should move next, so that so many servers share them evenly: first their
// numbers, then what there is to do. Pure functions of the map and of how busy each partition is:
// asked again after every move, they come to an end.
#ifndef RUBATO_MASTER_REBALANCE_H_
#define RUBATO_MASTER_REBALANCE_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rubato/params/partition.h"

namespace rubato {

// At most so many partitions at once: the fewer, the less changes while they are copied, and the
// shorter the moment at the end of it.
inline constexpr int64_t kMovePartitionsMax = 64;

// Without a number. Nothing when servers 0 to `servers` - 1 have equal numbers of partitions,
// within one, and the others none. `loads`, by partition or empty, decides which of the giver's
// partitions go: those by which load evens out along with number.
std::optional<MoveOrder> NextMove(const PartitionMap& map, int64_t servers,
                                  absl::Span<const double> loads = {});

// When a server is too busy to be left alone.
struct BusyOptions {
  double times_mean = 1.25;  // More than so many times the mean load,
  double keys_min = 100000;  // and no fewer keys a second: less is no burden.
  double gain = 0.02;        // What is moved lowers its load by this share at least.
  absl::Duration patience = absl::Seconds(5);   // So long it must have been so,
  absl::Duration cooldown = absl::Seconds(30);  // and so long nothing was moved for load.
};

struct BusyMove {
  MoveOrder order;
  double times_mean = 0;  // The giver's load.
};

// What the busiest server of those that are too busy hands to the idlest: partitions that, with
// equally many of the idlest ones coming back by NextMove, halve the gap between the two. Nothing
// while numbers are uneven, or if nothing helps: a single partition that is busier than the gap is
// wide stays where it is. Each of these, with what NextMove makes of it, lowers the sum of squares
// of the servers' loads: for fixed loads there is a last one.
std::optional<BusyMove> NextBusyMove(const PartitionMap& map, int64_t servers,
                                     absl::Span<const double> loads, const BusyOptions& options);

}  // namespace rubato

#endif  // RUBATO_MASTER_REBALANCE_H_

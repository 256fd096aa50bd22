// Where a parameter lives. Ids are mixed into positions on a line of 2^64 points; 1,024 equal
// stretches of that line are the partitions, the units that servers own and hand over. None of
// this depends on the number of servers but the map from partition to server.
#ifndef RUBATO_PARAMS_PARTITION_H_
#define RUBATO_PARAMS_PARTITION_H_

#include <array>
#include <cstdint>

#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/base/rng.h"

namespace rubato {

inline constexpr int64_t kPartitions = 1024;

// An id's point on the line. Mix is a bijection, so the point stands for the id.
constexpr uint64_t PointOf(uint64_t id) { return Mix(id); }
uint64_t IdOf(uint64_t point);

constexpr int64_t PartitionOf(uint64_t point) { return static_cast<int64_t>(point >> 54); }
// The first point of a partition; kPartitions gives 0, the line being a ring of 64 bits.
constexpr uint64_t FirstPoint(int64_t partition) { return static_cast<uint64_t>(partition) << 54; }

// Which server owns which partition: a plain table, so that it can one day change partition by
// partition while training goes on.
class PartitionMap {
 public:
  // Contiguous ranges, equal within one. 1 <= servers <= kPartitions.
  static PartitionMap Even(int64_t servers);

  int64_t servers() const { return servers_; }
  int64_t ServerOf(uint64_t point) const { return owner_[static_cast<size_t>(PartitionOf(point))]; }
  // The partitions of one server, as intervals.
  IntervalSet PartitionsOf(int64_t server) const;

 private:
  int64_t servers_ = 1;
  std::array<int32_t, kPartitions> owner_{};
};

// The part of the flat dense vector that server `server` of `servers` holds: [begin, end), cut at
// multiples of 16 floats, so that slices stay whole cache lines.
Interval DenseSlice(int64_t dense_size, int64_t server, int64_t servers);

}  // namespace rubato

#endif  // RUBATO_PARAMS_PARTITION_H_

// Where a parameter lives. Ids are mixed into positions on a line of 2^64 points; 1,024 equal
// stretches of that line are the partitions, the units that servers own and hand over. None of
// this depends on the number of servers but the map from partition to server.
#ifndef RUBATO_PARAMS_PARTITION_H_
#define RUBATO_PARAMS_PARTITION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

IntervalSet AllPartitions();

// Which server owns which partition. Numbered: each change makes the next number, and the master
// issues them. A server and a client agree about what the server owns if they agree about the
// number of the map by which that last changed, its version.
class PartitionMap {
 public:
  // Map 0: contiguous ranges, equal within one. 1 <= servers <= kPartitions.
  static PartitionMap Even(int64_t servers);

  int64_t number() const { return number_; }
  // One more than the last that owns something or ever did.
  int64_t servers() const { return static_cast<int64_t>(versions_.size()); }
  int64_t OwnerOf(int64_t partition) const { return owner_[static_cast<size_t>(partition)]; }
  int64_t ServerOf(uint64_t point) const { return OwnerOf(PartitionOf(point)); }
  // The partitions of one server, as intervals; none for a server that never was.
  IntervalSet PartitionsOf(int64_t server) const;
  bool Owns(int64_t server) const;  // Anything at all.
  int64_t VersionOf(int64_t server) const;

  // The next map: `partitions` are `to`'s.
  void Move(const IntervalSet& partitions, int64_t to);

  std::string Encode() const;
  // DATA_LOSS if the bytes are no map.
  static absl::StatusOr<PartitionMap> Decode(absl::string_view bytes);

  friend bool operator==(const PartitionMap&, const PartitionMap&) = default;

 private:
  int64_t number_ = 0;
  std::vector<int64_t> versions_;  // By server.
  std::array<int32_t, kPartitions> owner_{};
};

// The master wants `from` to hand partitions to `to`. Numbered from 1; 0 is no move at all.
struct MoveOrder {
  int64_t number = 0;
  int64_t from = -1;
  int64_t to = -1;
  IntervalSet partitions;
  friend bool operator==(const MoveOrder&, const MoveOrder&) = default;
};

// Intervals as bytes; DATA_LOSS unless they are partitions.
std::string EncodePartitions(const IntervalSet& partitions);
absl::StatusOr<IntervalSet> DecodePartitions(absl::string_view bytes);

// The flat vector of dense weights falls into slices of so many floats, the last one shorter. A
// slice belongs to a partition, and moves with it; the first few lie far apart, so that every
// server of a few has some.
inline constexpr int64_t kDenseSliceFloats = 4096;
constexpr int64_t DenseSliceCount(int64_t dense_size) {
  return (dense_size + kDenseSliceFloats - 1) / kDenseSliceFloats;
}
Interval DenseSliceAt(int64_t dense_size, int64_t slice);
int64_t PartitionOfSlice(int64_t slice);
// What of the dense vector a server holds, in order, a slice each.
std::vector<Interval> DenseSlices(int64_t dense_size, const PartitionMap& map, int64_t server);

}  // namespace rubato

#endif  // RUBATO_PARAMS_PARTITION_H_

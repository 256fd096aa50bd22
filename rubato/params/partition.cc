#include "rubato/params/partition.h"

#include <algorithm>

#include "rubato/base/status.h"

namespace rubato {
namespace {

// The inverse of x ^ (x >> shift).
constexpr uint64_t UndoShift(uint64_t y, int shift) {
  uint64_t x = y;
  for (int known = shift; known < 64; known += shift) x = y ^ (x >> shift);
  return x;
}

// The inverse of an odd number modulo 2^64, by Newton: each turn doubles the right bits.
constexpr uint64_t Inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int turn = 0; turn < 6; ++turn) x *= 2 - odd * x;
  return x;
}

}  // namespace

uint64_t IdOf(uint64_t point) {
  uint64_t x = UndoShift(point, 31) * Inverse(0x94d049bb133111ebu);
  x = UndoShift(x, 27) * Inverse(0xbf58476d1ce4e5b9u);
  return UndoShift(x, 30) - 0x9e3779b97f4a7c15u;
}

PartitionMap PartitionMap::Even(int64_t servers) {
  RUBATO_CHECK(servers >= 1 && servers <= kPartitions);
  PartitionMap map;
  map.servers_ = servers;
  for (int64_t p = 0; p < kPartitions; ++p) {
    map.owner_[static_cast<size_t>(p)] = static_cast<int32_t>(p * servers / kPartitions);
  }
  return map;
}

IntervalSet PartitionMap::PartitionsOf(int64_t server) const {
  IntervalSet partitions;
  for (int64_t p = 0; p < kPartitions; ++p) {
    if (owner_[static_cast<size_t>(p)] == server) partitions.Add(p, p + 1);
  }
  return partitions;
}

Interval DenseSlice(int64_t dense_size, int64_t server, int64_t servers) {
  constexpr int64_t kLine = 16;
  const int64_t lines = (dense_size + kLine - 1) / kLine;
  const auto cut = [&](int64_t s) { return std::min(dense_size, lines * s / servers * kLine); };
  return {cut(server), cut(server + 1)};
}

}  // namespace rubato

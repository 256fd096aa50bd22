#include "rubato/params/partition.h"

#include <algorithm>

#include "rubato/base/bytes.h"
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

IntervalSet AllPartitions() {
  IntervalSet all;
  all.Add(0, kPartitions);
  return all;
}

PartitionMap PartitionMap::Even(int64_t servers) {
  RUBATO_CHECK(servers >= 1 && servers <= kPartitions);
  PartitionMap map;
  map.versions_.assign(static_cast<size_t>(servers), 0);
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

bool PartitionMap::Owns(int64_t server) const {
  return std::find(owner_.begin(), owner_.end(), server) != owner_.end();
}

int64_t PartitionMap::VersionOf(int64_t server) const {
  return server >= 0 && server < servers() ? versions_[static_cast<size_t>(server)] : 0;
}

void PartitionMap::Move(const IntervalSet& partitions, int64_t to) {
  RUBATO_CHECK(to >= 0 && to < kPartitions);
  ++number_;
  if (to >= servers()) versions_.resize(static_cast<size_t>(to) + 1);
  versions_[static_cast<size_t>(to)] = number_;
  for (const Interval& run : partitions.Intervals()) {
    for (int64_t p = run.begin; p < run.end; ++p) {
      versions_[static_cast<size_t>(OwnerOf(p))] = number_;
      owner_[static_cast<size_t>(p)] = static_cast<int32_t>(to);
    }
  }
}

std::string PartitionMap::Encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.PutVarint(number_);
  out.PutVarint(servers());
  for (const int64_t version : versions_) out.PutVarint(version);
  for (int64_t p = 0; p < kPartitions;) {
    int64_t end = p + 1;
    while (end < kPartitions && OwnerOf(end) == OwnerOf(p)) ++end;
    out.PutVarint(end);
    out.PutVarint(OwnerOf(p));
    p = end;
  }
  return bytes;
}

absl::StatusOr<PartitionMap> PartitionMap::Decode(absl::string_view bytes) {
  const auto wrong = [] { return absl::DataLossError("bytes that are no map of partitions"); };
  ByteReader in(bytes);
  PartitionMap map;
  map.number_ = in.GetVarint();
  const int64_t servers = in.GetVarint();
  if (!in.ok() || map.number_ < 0 || servers < 1 || servers > kPartitions) return wrong();
  map.versions_.assign(static_cast<size_t>(servers), 0);
  for (int64_t& version : map.versions_) {
    version = in.GetVarint();
    if (version < 0 || version > map.number_) return wrong();
  }
  for (int64_t p = 0; p < kPartitions;) {
    const int64_t end = in.GetVarint();
    const int64_t owner = in.GetVarint();
    if (!in.ok() || end <= p || end > kPartitions || owner < 0 || owner >= servers) return wrong();
    for (; p < end; ++p) map.owner_[static_cast<size_t>(p)] = static_cast<int32_t>(owner);
  }
  if (!in.ok() || in.remaining() > 0) return wrong();
  return map;
}

std::string EncodePartitions(const IntervalSet& partitions) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const Interval& run : partitions.Intervals()) {
    out.PutVarint(run.begin);
    out.PutVarint(run.end);
  }
  return bytes;
}

absl::StatusOr<IntervalSet> DecodePartitions(absl::string_view bytes) {
  ByteReader in(bytes);
  IntervalSet partitions;
  while (in.ok() && in.remaining() > 0) {
    const int64_t begin = in.GetVarint();
    const int64_t end = in.GetVarint();
    if (!in.ok() || begin < 0 || begin >= end || end > kPartitions) {
      return absl::DataLossError("bytes that are no partitions");
    }
    partitions.Add(begin, end);
  }
  return partitions;
}

Interval DenseSliceAt(int64_t dense_size, int64_t slice) {
  const int64_t begin = slice * kDenseSliceFloats;
  return {begin, std::min(dense_size, begin + kDenseSliceFloats)};
}

// The bits of the number in reverse: 0, 512, 256, 768, 128, ...
int64_t PartitionOfSlice(int64_t slice) {
  int64_t partition = 0;
  for (int64_t bit = 1, place = kPartitions / 2; bit < kPartitions; bit *= 2, place /= 2) {
    if (slice & bit) partition += place;
  }
  return partition;
}

std::vector<Interval> DenseSlices(int64_t dense_size, const PartitionMap& map, int64_t server) {
  std::vector<Interval> slices;
  for (int64_t slice = 0; slice < DenseSliceCount(dense_size); ++slice) {
    if (map.OwnerOf(PartitionOfSlice(slice)) == server) {
      slices.push_back(DenseSliceAt(dense_size, slice));
    }
  }
  return slices;
}

}  // namespace rubato

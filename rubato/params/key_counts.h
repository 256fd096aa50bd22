// How many keys of each partition came: what makes one partition busier than another, and so one
// server. Every kStride-th key is looked at, a tenth of a nanosecond a key.
#ifndef RUBATO_PARAMS_KEY_COUNTS_H_
#define RUBATO_PARAMS_KEY_COUNTS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rubato/base/rng.h"
#include "rubato/params/partition.h"

namespace rubato {

// Not thread-safe: each thread keeps its own.
class KeyCounts {
 public:
  void Count(absl::Span<const uint64_t> ids) {
    // Anywhere, so that equal requests are not looked at in the same places.
    for (size_t i = Mix(++requests_) % kStride; i < ids.size(); i += kStride) {
      counts_[static_cast<size_t>(PartitionOf(PointOf(ids[i])))] += kStride;
    }
  }
  // Adds about how many keys came since the last time to `sums`, by partition.
  void TakeInto(std::vector<int64_t>& sums) {
    for (size_t p = 0; p < counts_.size(); ++p) sums[p] += counts_[p];
    counts_.fill(0);
  }

 private:
  static constexpr size_t kStride = 16;
  std::array<int64_t, kPartitions> counts_{};
  uint64_t requests_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_KEY_COUNTS_H_

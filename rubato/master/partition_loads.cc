#include "rubato/master/partition_loads.h"

#include <algorithm>

namespace rubato {
namespace {

constexpr double kMemorySeconds = 10;
constexpr double kKnownSeconds = 5;

}  // namespace

void PartitionLoads::Add(const PartitionMap& map, int64_t server, absl::Span<const int64_t> keys,
                         absl::Duration period) {
  const double seconds = absl::ToDoubleSeconds(period);
  if (keys.size() != loads_.size() || !(seconds > 0)) return;
  for (size_t p = 0; p < loads_.size(); ++p) {
    if (map.OwnerOf(static_cast<int64_t>(p)) != server) continue;
    seconds_[p] += seconds;
    const double weight = std::min(1.0, seconds / std::min(seconds_[p], kMemorySeconds));
    loads_[p] += (static_cast<double>(keys[p]) / seconds - loads_[p]) * weight;
  }
}

absl::Span<const double> PartitionLoads::known() const {
  const double least = *std::min_element(seconds_.begin(), seconds_.end());
  return least < kKnownSeconds ? absl::Span<const double>() : absl::MakeConstSpan(loads_);
}

}  // namespace rubato

#include "rubato/params/hot_ids.h"

#include <algorithm>
#include <map>
#include <utility>

#include "rubato/base/rng.h"

namespace rubato {

void HotIds::Count(uint32_t table, absl::Span<const uint64_t> ids) {
  size_t i = next_;
  for (; i < ids.size(); i += kStride) {
    HotId& place = places_[Mix(table, ids[i]) % kPlaces];
    if (place.count > 0 && place.id == ids[i] && place.table == table) {
      ++place.count;
    } else if (place.count <= 1) {
      place = {table, ids[i], 1};
    } else {
      --place.count;
    }
  }
  next_ = i - ids.size();
}

std::vector<HotId> HotIds::All() const {
  std::vector<HotId> all;
  for (const HotId& place : places_) {
    if (place.count == 0) continue;
    all.push_back(place);
    all.back().count *= kStride;
  }
  return all;
}

std::vector<HotId> HottestOf(absl::Span<const std::vector<HotId>> counted, size_t count) {
  std::map<std::pair<uint32_t, uint64_t>, int64_t> sums;
  for (const std::vector<HotId>& some : counted) {
    for (const HotId& hot : some) sums[{hot.table, hot.id}] += hot.count;
  }
  std::vector<HotId> all;
  for (const auto& [name, sum] : sums) all.push_back({name.first, name.second, sum});
  std::stable_sort(all.begin(), all.end(),
                   [](const HotId& a, const HotId& b) { return a.count > b.count; });
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace rubato

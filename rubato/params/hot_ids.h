// Which ids are asked for most, in constant memory and a few nanoseconds an id.
//
// Every kStride-th id is looked at. Each id has one place among kPlaces, which belongs to the id
// that came more often than all others of that place together: a match raises its count, another
// id lowers it, and takes the place once it is empty. So counts are too low rather than too high,
// and an id that makes up a thousandth of all does not go unseen.
#ifndef RUBATO_PARAMS_HOT_IDS_H_
#define RUBATO_PARAMS_HOT_IDS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rubato {

struct HotId {
  uint32_t table = 0;
  uint64_t id = 0;
  int64_t count = 0;  // About how often it came.
  friend bool operator==(const HotId&, const HotId&) = default;
};

// Not thread-safe: each thread keeps its own.
class HotIds {
 public:
  void Count(uint32_t table, absl::Span<const uint64_t> ids);
  // Every id that has a place.
  std::vector<HotId> All() const;

 private:
  static constexpr size_t kStride = 8;
  static constexpr size_t kPlaces = 4096;
  std::vector<HotId> places_ = std::vector<HotId>(kPlaces);
  size_t next_ = 0;  // The first of the next ids to look at.
};

// The `count` most frequent of what several threads have counted, the most frequent first.
std::vector<HotId> HottestOf(absl::Span<const std::vector<HotId>> counted, size_t count);

}  // namespace rubato

#endif  // RUBATO_PARAMS_HOT_IDS_H_

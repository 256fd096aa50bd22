// How slow something that is counted became at worst while something else went on: for those who
// ask what a change of servers cost.
#ifndef RUBATO_MASTER_SLOWEST_SECOND_H_
#define RUBATO_MASTER_SLOWEST_SECOND_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace rubato {

class SlowestSecond {
 public:
  SlowestSecond() = default;
  SlowestSecond(absl::Time now, int64_t count) { samples_.emplace_back(now, count); }

  // So many were counted by now. Looks at the last second, as far as it is since the beginning;
  // where samples are rare, at a stretch that is longer.
  void Sample(absl::Time now, int64_t count);
  // A second, in the slowest of them; of less than a second, in all of it. Never negative, though
  // what was counted may be taken back.
  double Rate(absl::Time now, int64_t count) const;

 private:
  std::deque<std::pair<absl::Time, int64_t>> samples_;  // The first is a second old, or the first.
  std::optional<double> lowest_;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_SLOWEST_SECOND_H_

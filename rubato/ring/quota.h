// Who computes how much of the global batch.
#ifndef RUBATO_RING_QUOTA_H_
#define RUBATO_RING_QUOTA_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rubato {

// The microbatches [begin, end) of a step's `count`, for one rank.
struct Quota {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  friend bool operator==(const Quota&, const Quota&) = default;
};

// Deals `count` microbatches in runs, in the order of ranks, in proportion to `speeds`
// (microbatches a second; 0 means not yet measured, and counts as the mean of those that are).
// Ranks from `holders` on get none. Each holder gets at least one while there are enough, so that
// its speed is measured again; while there are not, the fastest get one each: how many compute is
// then a matter of the numbers alone, and no batch that grows with them follows a clock. The sum is
// always `count`: the global batch does not change with the number of workers. A pure function of
// its arguments, so all members deal alike.
std::vector<Quota> DealMicrobatches(int count, absl::Span<const float> speeds, int holders);
// How many of them have something to compute.
int Computing(absl::Span<const Quota> quotas);

// A member's own speed, smoothed over steps: 2x slower shows after about 3 steps.
class SpeedMeter {
 public:
  void Record(int microbatches, double seconds);
  float microbatches_per_second() const { return static_cast<float>(speed_); }

 private:
  double speed_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_RING_QUOTA_H_

// Who is slow beside the others of its group.
#ifndef RUBATO_RING_STRAGGLER_H_
#define RUBATO_RING_STRAGGLER_H_

#include "absl/types/span.h"

namespace rubato {

// The speed of `rank` over the median of the holders' (of an even number of them, the faster of the
// middle two, so that of two members one can lag). 1 while there is nothing to compare: it is no
// holder, or fewer than two are measured. `speeds` are as for DealMicrobatches.
double PaceOf(absl::Span<const float> speeds, int holders, int rank);

// One member's own watch over its pace. Quotas follow the speed by themselves; this is for people,
// who must hear of it once and not at every step.
//
//     even ──8 steps in a row below 0.6──▶ lagging ──8 in a row above 0.75──▶ even
//
// Speeds are smoothed (SpeedMeter), so a member slowed 2x is below 0.6 after about 5 steps, and
// named after about 13; one held up for a moment is not.
class StragglerWatch {
 public:
  struct Options {
    double lags_below = 0.6;  // Lower names fewer, and later.
    double even_above = 0.75;
    int steps = 8;  // In a row. More of them name fewer, and later.
  };
  StragglerWatch() : StragglerWatch(Options()) {}
  explicit StragglerWatch(const Options& options) : options_(options) {}

  // After each step that it has computed a part of. True if the verdict has changed.
  bool Observe(double pace);
  bool lagging() const { return lagging_; }
  // The mean over the steps that made the last verdict; 1 before the first.
  double pace() const { return pace_; }

 private:
  const Options options_;
  bool lagging_ = false;
  double pace_ = 1;
  int row_ = 0;     // Steps against the verdict so far,
  double sum_ = 0;  // and their pace.
};

}  // namespace rubato

#endif  // RUBATO_RING_STRAGGLER_H_

// How planners lay one job into the free GPUs that earlier jobs left.
//
// Both walk the steps of a Profile once a level and take what they use out of it. The job runs at
// one pool's curve; nothing here knows of rescaling costs.
#ifndef RUBATO_SCHEDULE_FILL_H_
#define RUBATO_SCHEDULE_FILL_H_

#include "rubato/schedule/policy.h"
#include "rubato/schedule/profile.h"

namespace rubato {

struct FillRequest {
  const Curve* curve = nullptr;
  double work = 0;             // Iterations to place.
  double from_s = 0;           // Not before this,
  double deadline_s = kNever;  // and done by this.
  int max_gpus = 0;            // 0: the curve's peak.
};

struct Filling {
  bool in_time = false;
  int first_gpus = 0;  // Held at from_s.
  double end_s = 0;
  double gpu_seconds = 0;
};

// The paper's progressive filling: the lowest level j such that min(j, free) from the deadline
// back gathers enough; earlier steps stay at the level below. Levels are the curve's useful sizes.
// Takes nothing if even the highest is not enough.
Filling FillByLevels(const FillRequest& request, Profile& profile);

// As wide as allowed and as soon as possible, however late that ends: every step takes the largest
// legal size of at most max_gpus that is free.
Filling FillEarly(const FillRequest& request, Profile& profile);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_FILL_H_

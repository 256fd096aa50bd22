// Growth one useful size at a time, to whoever gains most: what optimus and pollux share.
#ifndef RUBATO_SCHEDULE_GREEDY_H_
#define RUBATO_SCHEDULE_GREEDY_H_

#include <functional>

#include "rubato/schedule/policy.h"

namespace rubato {

// What going from `from` GPUs (0: none) to `to` in `pool` is worth to a job. Only positive gains
// are taken.
using Gain = std::function<double(const JobView& job, int pool, int from, int to)>;

// Every job starts with nothing and may grow by its useful sizes; each time the largest gain per
// GPU that still fits is granted. Deterministic; equal gains go to the earlier job.
std::vector<Share> GrowGreedily(const ClusterView& view, const Gain& gain);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_GREEDY_H_

// GPUs still to be given out in one decision, for policies that serve jobs one after the other.
#ifndef RUBATO_SCHEDULE_BUDGET_H_
#define RUBATO_SCHEDULE_BUDGET_H_

#include <algorithm>
#include <numeric>
#include <vector>

#include "rubato/schedule/policy.h"

namespace rubato {

class Budget {
 public:
  explicit Budget(const ClusterView& view);

  int free(int pool) const { return free_[static_cast<size_t>(pool)]; }
  void Take(const Share& share);
  void Give(const Share& share);

  // The size the user asked for (the next smaller legal one where that is none), in the pool the
  // job holds already or the one where it is fastest; nothing unless a pool has it free.
  Share Asked(const JobView& job) const;
  // The largest legal size of at most `want` that is free, where it runs fastest.
  Share UpTo(const JobView& job, int want) const;

 private:
  std::vector<int> pool_gpus_;
  std::vector<int> free_;
};

// Indices of view.jobs by `key` (anything with <), equal keys by arrival.
template <typename Key>
std::vector<size_t> OrderBy(const ClusterView& view, Key key) {
  std::vector<size_t> order(view.jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(view.jobs[a]) < key(view.jobs[b]); });
  return order;
}

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_BUDGET_H_

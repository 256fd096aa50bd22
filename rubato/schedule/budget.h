// GPUs still to be given out in one decision, for policies that serve jobs one after the other.
#ifndef RUBATO_SCHEDULE_BUDGET_H_
#define RUBATO_SCHEDULE_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "rubato/schedule/policy.h"

namespace rubato {

class Budget {
 public:
  explicit Budget(const ClusterView& view);

  int free(int pool) const { return free_[static_cast<size_t>(pool)]; }
  // Nobody further in line can be given anything.
  bool empty() const {
    return std::all_of(free_.begin(), free_.end(), [](int free) { return free <= 0; });
  }
  void Take(const Share& share);
  void Give(const Share& share);

  // The size the user asked for (the next smaller legal one where that is none, or the floor where
  // that is more), in the pool the job holds already or the one where it is fastest; nothing unless
  // a pool has it free.
  Share Asked(const JobView& job) const;
  // The largest legal size of at most `want`, or the floor where that is more, that is free, where
  // it runs fastest.
  Share UpTo(const JobView& job, int want) const;

 private:
  std::vector<int> pool_gpus_;
  std::vector<int> free_;
};

// For policies that plan without floors: shares below their job's floor are given back and then, in
// order of arrival, raised to the floor while it fits. Who finds no room waits without GPUs.
void RaiseToFloors(const ClusterView& view, std::vector<Share>& shares);

// Indices of view.jobs by `key` (anything with <, asked once for each), equal keys by arrival.
template <typename Key>
std::vector<size_t> OrderBy(const ClusterView& view, Key key) {
  std::vector<std::pair<decltype(key(view.jobs[0])), size_t>> keyed;
  keyed.reserve(view.jobs.size());
  for (size_t i = 0; i < view.jobs.size(); ++i) keyed.emplace_back(key(view.jobs[i]), i);
  std::sort(keyed.begin(), keyed.end());
  std::vector<size_t> order;
  order.reserve(keyed.size());
  for (const auto& [unused, i] : keyed) order.push_back(i);
  return order;
}
// The same order, for who may stop early: visit(i) says whether to go on. Finds the first few
// hundred of all by one look at each, then four times as many, and so on.
template <typename Key, typename Visit>
void VisitBy(const ClusterView& view, Key key, Visit visit) {
  using Keyed = std::pair<decltype(key(view.jobs[0])), size_t>;
  std::vector<Keyed> next;
  std::optional<Keyed> visited;  // The last.
  for (size_t count = 256;; count *= 4) {
    next.clear();
    std::optional<Keyed> bound;  // `count` come no later than this.
    const auto cut = [&] {
      std::nth_element(next.begin(), next.begin() + static_cast<ptrdiff_t>(count) - 1, next.end());
      next.resize(count);
      bound = next.back();
    };
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const Keyed keyed(key(view.jobs[i]), i);
      if ((bound && *bound < keyed) || (visited && keyed <= *visited)) continue;
      next.push_back(keyed);
      if (next.size() == 2 * count) cut();
    }
    if (bound) cut();
    std::make_heap(next.begin(), next.end(), std::greater<Keyed>());
    while (!next.empty()) {
      visited = next.front();
      if (!visit(visited->second)) return;
      std::pop_heap(next.begin(), next.end(), std::greater<Keyed>());
      next.pop_back();
    }
    if (!bound) return;
  }
}

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_BUDGET_H_

#include "rubato/schedule/turns.h"

#include <algorithm>

#include "rubato/schedule/budget.h"

namespace rubato {

Plan TakeTurns(const ClusterView& view, absl::Span<const size_t> order,
               const std::function<double(const JobView&)>& left_s) {
  Plan plan;
  plan.shares.resize(view.jobs.size());
  Budget budget(view);
  bool waits = false;
  double turn_ends_s = kNever;
  for (size_t i : order) {
    if (budget.empty()) {
      waits = true;
      break;
    }
    const JobView& job = view.jobs[i];
    plan.shares[i] = budget.Asked(job);
    budget.Take(plan.shares[i]);
    if (plan.shares[i].gpus == 0) {
      waits = true;
    } else {
      turn_ends_s = std::min(turn_ends_s, view.now_s + std::max(1.0, left_s(job)));
    }
  }
  if (waits) plan.wake_s = turn_ends_s;
  return plan;
}

}  // namespace rubato

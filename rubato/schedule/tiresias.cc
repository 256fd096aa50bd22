// tiresias: least attained service, in three queues by GPU seconds already had. Jobs of the asked
// size, first fit, those running before those waiting; knows neither deadlines nor durations.
#include <algorithm>
#include <tuple>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

constexpr double kQueueEnds[] = {3250, 7200};  // GPU seconds.

int QueueOf(const JobView& job) {
  int queue = 0;
  for (double end : kQueueEnds) queue += job.gpu_seconds >= end - 1e-6 ? 1 : 0;
  return queue;
}

class Tiresias : public Policy {
 public:
  absl::string_view name() const override { return "tiresias"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    const auto order = OrderBy(
        view, [](const JobView& job) { return std::make_tuple(QueueOf(job), job.gpus == 0); });
    for (size_t i : order) {
      if (budget.empty()) break;
      const JobView& job = view.jobs[i];
      plan.shares[i] = budget.Asked(job);
      budget.Take(plan.shares[i]);
      const int queue = QueueOf(job);
      if (plan.shares[i].gpus == 0 || queue >= 2) continue;
      const double left = kQueueEnds[queue] - job.gpu_seconds;
      plan.wake_s = std::min(plan.wake_s, view.now_s + std::max(1.0, left / plan.shares[i].gpus));
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeTiresias() { return std::make_unique<Tiresias>(); }

}  // namespace rubato

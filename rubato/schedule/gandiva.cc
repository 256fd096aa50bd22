// gandiva: when not all fit, jobs take turns of a minute, the one with the fewest turns first.
// Jobs of the asked size; nothing is packed, since no profile says how two models share a GPU.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

constexpr double kTurn_s = 60;

double TurnsHad(const JobView& job) { return std::floor(job.ran_s / kTurn_s + 1e-6); }

class Gandiva : public Policy {
 public:
  absl::string_view name() const override { return "gandiva"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    bool waits = false;
    double turn_ends_s = kNever;
    const auto order = OrderBy(
        view, [](const JobView& job) { return std::make_tuple(TurnsHad(job), job.gpus == 0); });
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
        continue;
      }
      const double turn_left_s = (TurnsHad(job) + 1) * kTurn_s - job.ran_s;
      turn_ends_s = std::min(turn_ends_s, view.now_s + std::max(1.0, turn_left_s));
    }
    if (waits) plan.wake_s = turn_ends_s;
    return plan;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeGandiva() { return std::make_unique<Gandiva>(); }

}  // namespace rubato

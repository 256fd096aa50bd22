// gandiva: when not all fit, jobs take turns of a minute, the one with the fewest turns first.
// Jobs of the asked size; nothing is packed, since no profile says how two models share a GPU.
#include <cmath>
#include <tuple>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"
#include "rubato/schedule/turns.h"

namespace rubato {
namespace {

constexpr double kTurn_s = 60;

double TurnsHad(const JobView& job) { return std::floor(job.ran_s / kTurn_s + 1e-6); }

class Gandiva : public Policy {
 public:
  absl::string_view name() const override { return "gandiva"; }

  Plan Decide(const ClusterView& view) const override {
    const auto order = OrderBy(
        view, [](const JobView& job) { return std::make_tuple(TurnsHad(job), job.gpus == 0); });
    return TakeTurns(view, order,
                     [](const JobView& job) { return (TurnsHad(job) + 1) * kTurn_s - job.ran_s; });
  }
};

}  // namespace

std::unique_ptr<Policy> MakeGandiva() { return std::make_unique<Gandiva>(); }

}  // namespace rubato

// optimus: GPUs go where they shorten the remaining time of a job most, per GPU. Everybody gets a
// first worker before anyone grows. Knows no deadlines.
#include "rubato/schedule/greedy.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

constexpr double kFirst = 1e18;  // Above any remaining time.

class Optimus : public Policy {
 public:
  absl::string_view name() const override { return "optimus"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares = GrowGreedily(view, [](const JobView& job, int pool, int from, int to) -> double {
      const Curve& curve = *job.curve(pool);
      if (from == 0) return kFirst;
      return job.remaining / curve.Rate(from) - job.remaining / curve.Rate(to);
    });
    return plan;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeOptimus() { return std::make_unique<Optimus>(); }

}  // namespace rubato

// pollux: the harmonic mean of speedups over a fair share, as large as can be.
//
// Two things of the paper have no place here. Goodput is throughput, since the batch size of a
// trace's job is fixed; and instead of a genetic search the sum of 1/speedup is driven down by its
// steepest descent, which for concave curves and one pool ends at the optimum. A resize must earn
// back its pause within the time the job has lived, as the paper's restart penalty asks.
#include <algorithm>

#include "rubato/schedule/greedy.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

constexpr double kFirst = 1e18;

class Pollux : public Policy {
 public:
  absl::string_view name() const override { return "pollux"; }

  Plan Decide(const ClusterView& view) const override {
    const int fair = std::max(1, view.gpus() / std::max(1, static_cast<int>(view.jobs.size())));
    Plan plan;
    plan.shares = GrowGreedily(view, [&](const JobView& job, int pool, int from, int to) -> double {
      if (from == 0) return kFirst;
      return 1 / Speedup(view, job, pool, from, fair) - 1 / Speedup(view, job, pool, to, fair);
    });
    return plan;
  }

 private:
  static double Speedup(const ClusterView& view, const JobView& job, int pool, int gpus, int fair) {
    const Curve& curve = *job.curve(pool);
    const int fair_gpus = std::max(curve.min_gpus(), curve.UsefulAtMost(fair));
    const double speedup = curve.Rate(gpus) / curve.Rate(fair_gpus);
    if (gpus == job.gpus) return speedup;
    const double age_s = std::max(1.0, view.now_s - job.submitted_s);
    return speedup * age_s / (age_s + view.cost.Seconds(gpus));
  }
};

}  // namespace

std::unique_ptr<Policy> MakePollux() { return std::make_unique<Pollux>(); }

}  // namespace rubato

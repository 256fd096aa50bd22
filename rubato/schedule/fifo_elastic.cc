// fifo-elastic: in order of arrival, everyone gets what it asked for or what is left of it. Nobody
// waits while a GPU is free; a job that started small grows as others end.
#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

class FifoElastic : public Policy {
 public:
  absl::string_view name() const override { return "fifo-elastic"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    for (size_t i = 0; i < view.jobs.size() && !budget.empty(); ++i) {
      plan.shares[i] = budget.UpTo(view.jobs[i], view.jobs[i].asked_gpus);
      budget.Take(plan.shares[i]);
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeFifoElastic() { return std::make_unique<FifoElastic>(); }

}  // namespace rubato

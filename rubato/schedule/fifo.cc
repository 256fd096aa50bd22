// fifo: gang scheduling in order of arrival. A job waits for all the GPUs it asked for, keeps them
// to the end, and those behind it wait too.
#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

class Fifo : public Policy {
 public:
  absl::string_view name() const override { return "fifo"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    // Who runs goes on; a node failure may have put some of them out.
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      if (view.jobs[i].gpus == 0) continue;
      plan.shares[i] = {view.jobs[i].gpus, view.jobs[i].pool};
      budget.Take(plan.shares[i]);
    }
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      if (view.jobs[i].gpus > 0) continue;
      plan.shares[i] = budget.Asked(view.jobs[i]);
      if (plan.shares[i].gpus == 0) break;
      budget.Take(plan.shares[i]);
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeFifo() { return std::make_unique<Fifo>(); }

}  // namespace rubato

// edf: earliest deadline first, each job as wide as it can go.
//
// `edf` is the baseline as ElasticFlow's authors coded it: it scales to the largest profiled count
// (at most 64 and the batch size), even past the peak where throughput falls. `edf-capped` stops
// at the peak. Neither refuses anyone, so late jobs keep their place at the head.
#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {

int WidestGpus(const JobView& job, int pool) {
  const Curve* curve = job.curve(pool);
  if (curve == nullptr) return 0;
  const int batch = job.batch_size > 0 ? job.batch_size : curve->max_gpus();
  return std::min({curve->max_gpus(), 64, batch});
}

namespace {

class Edf : public Policy {
 public:
  explicit Edf(bool capped) : capped_(capped) {}
  absl::string_view name() const override { return capped_ ? "edf-capped" : "edf"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    const auto deadline = [](const JobView& job) { return job.deadline_s; };
    VisitBy(view, deadline, [&](size_t i) {
      plan.shares[i] = budget.UpTo(view.jobs[i], Want(view.jobs[i]));
      budget.Take(plan.shares[i]);
      return !budget.empty();
    });
    return plan;
  }

 private:
  int Want(const JobView& job) const {
    int want = 0;
    for (int pool = 0; pool < static_cast<int>(job.curves.size()); ++pool) {
      if (job.curve(pool) == nullptr) continue;
      want = std::max(want, capped_ ? job.curve(pool)->peak_gpus() : WidestGpus(job, pool));
    }
    return want;
  }

  const bool capped_;
};

}  // namespace

std::unique_ptr<Policy> MakeEdf() { return std::make_unique<Edf>(false); }
std::unique_ptr<Policy> MakeEdfCapped() { return std::make_unique<Edf>(true); }

}  // namespace rubato

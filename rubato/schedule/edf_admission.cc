// edf-admission: earliest deadline first, and a newcomer is refused if taking it in would make
// anyone late who would not be late anyway. `edf-capped-admission` stops at the peak of the curve.
//
// Plans in the first pool where a job runs; the forecast knows nothing of rescaling costs.
#include <algorithm>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/fill.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

class EdfAdmission : public Policy {
 public:
  explicit EdfAdmission(bool capped) : capped_(capped) {}
  absl::string_view name() const override {
    return capped_ ? "edf-capped-admission" : "edf-admission";
  }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    std::vector<size_t> order = OrderBy(view, [](const JobView& job) { return job.deadline_s; });
    std::vector<bool> in(view.jobs.size());
    for (size_t i = 0; i < view.jobs.size(); ++i) in[i] = view.jobs[i].admitted;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      if (in[i]) continue;
      const size_t late_before = Late(view, order, in);
      in[i] = true;
      const bool fits = Late(view, order, in) <= late_before;
      if (fits || view.jobs[i].deadline != DeadlineKind::kHard) continue;
      in[i] = false;
      plan.refusals.push_back({view.jobs[i].id, "someone would miss a deadline", std::nullopt});
    }
    Budget budget(view);
    for (size_t i : order) {
      if (!in[i]) continue;
      plan.shares[i] = budget.UpTo(view.jobs[i], Want(view.jobs[i], HomePool(view.jobs[i])));
      budget.Take(plan.shares[i]);
    }
    return plan;
  }

 private:
  int Want(const JobView& job, int pool) const {
    return capped_ ? job.curve(pool)->peak_gpus() : WidestGpus(job, pool);
  }

  // How many would be late if those `in` were served in this order.
  size_t Late(const ClusterView& view, const std::vector<size_t>& order,
              const std::vector<bool>& in) const {
    std::vector<Profile> pools;
    for (const PoolView& pool : view.pools) pools.emplace_back(view.now_s, pool.gpus);
    size_t late = 0;
    for (size_t i : order) {
      if (!in[i]) continue;
      const JobView& job = view.jobs[i];
      const int pool = HomePool(job);
      const Filling filling = FillEarly({.curve = job.curve(pool),
                                         .work = job.remaining,
                                         .from_s = view.now_s,
                                         .deadline_s = job.deadline_s,
                                         .max_gpus = Want(job, pool)},
                                        pools[static_cast<size_t>(pool)]);
      if (!filling.in_time) ++late;
    }
    return late;
  }

  const bool capped_;
};

}  // namespace

int HomePool(const JobView& job) {
  if (job.gpus > 0) return job.pool;
  int best = 0;
  double rate = 0;
  for (int pool = 0; pool < static_cast<int>(job.curves.size()); ++pool) {
    const Curve* curve = job.curve(pool);
    if (curve == nullptr || curve->peak_rate() <= rate) continue;
    best = pool;
    rate = curve->peak_rate();
  }
  return best;
}

std::unique_ptr<Policy> MakeEdfAdmission() { return std::make_unique<EdfAdmission>(false); }
std::unique_ptr<Policy> MakeEdfCappedAdmission() { return std::make_unique<EdfAdmission>(true); }

}  // namespace rubato

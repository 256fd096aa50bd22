// edf-admission: earliest deadline first, and a newcomer is refused if taking it in would make
// anyone late who would not be late anyway. `edf-capped-admission` stops at the peak of the curve.
//
// Plans in the first pool where a job runs; the forecast knows nothing of rescaling costs.
#include <algorithm>
#include <optional>

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
    const auto deadline = [](const JobView& job) { return job.deadline_s; };
    std::vector<size_t> order;  // All of them, if anyone is to be looked at closely.
    std::vector<bool> in(view.jobs.size());
    for (size_t i = 0; i < view.jobs.size(); ++i) in[i] = view.jobs[i].admitted;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      if (in[i]) continue;
      const bool hard = view.jobs[i].deadline == DeadlineKind::kHard;
      if (hard && order.empty()) order = OrderBy(view, deadline);
      in[i] = !hard || Fits(view, order, in, i);
      if (in[i]) continue;
      plan.refusals.push_back({view.jobs[i].id, "someone would miss a deadline", std::nullopt});
    }
    Budget budget(view);
    VisitBy(view, deadline, [&](size_t i) {
      const JobView& job = view.jobs[i];
      if (in[i]) plan.shares[i] = budget.UpTo(job, Want(job, HomePool(job)));
      budget.Take(plan.shares[i]);
      return !budget.empty();
    });
    return plan;
  }

 private:
  int Want(const JobView& job, int pool) const {
    return capped_ ? job.curve(pool)->peak_gpus() : WidestGpus(job, pool);
  }

  // Lays a job into what those before it left; whether it ends in time.
  bool Fill(const ClusterView& view, const JobView& job, int pool, Profile& profile) const {
    const FillRequest request{.curve = job.curve(pool),
                              .work = job.remaining,
                              .from_s = view.now_s,
                              .deadline_s = job.deadline_s,
                              .max_gpus = Want(job, pool)};
    return FillEarly(request, profile).in_time;
  }

  // Whether no more are late with the newcomer than without, everyone `in` served in this order.
  // Only those who come after it in its own pool can tell the difference, and of them only those
  // with a deadline; whoever has none comes last and is not even looked at.
  bool Fits(const ClusterView& view, const std::vector<size_t>& order, const std::vector<bool>& in,
            size_t newcomer) const {
    const int pool = HomePool(view.jobs[newcomer]);
    Profile without(view.now_s, view.pools[static_cast<size_t>(pool)].gpus);
    std::optional<Profile> with;
    int more_late = 0;
    for (size_t i : order) {
      const JobView& job = view.jobs[i];
      if (job.deadline_s == kNever) break;
      if (i == newcomer) {
        with = without;
        more_late += Fill(view, job, pool, *with) ? 0 : 1;
      }
      if (!in[i] || HomePool(job) != pool) continue;
      const bool in_time = Fill(view, job, pool, without);
      if (!with.has_value()) continue;
      more_late += (in_time ? 1 : 0) - (Fill(view, job, pool, *with) ? 1 : 0);
    }
    return more_late <= 0;
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

// themis: finish-time fairness. GPUs are leased for a slot; when leases end, the jobs that are
// furthest behind what a fair share of the cluster would have given them choose first.
//
// The auction of the paper is replaced by its outcome for truthful bids of the asked size: order
// by rho = (time from submission to the expected end) / (the same on 1/n of the cluster).
#include <algorithm>
#include <cmath>
#include <tuple>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

class Themis : public Policy {
 public:
  absl::string_view name() const override { return "themis"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    bool waits = false;
    double lease_ends_s = kNever;
    const auto order = OrderBy(view, [&](const JobView& job) {
      return std::make_tuple(!InLease(view, job), -Rho(view, job));
    });
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
      } else {
        const double held_s = job.gpus > 0 ? view.now_s - job.last_resize_s : 0;
        const double leases = std::floor(held_s / view.slot_s + kRounding) + 1;
        const double left_s = leases * view.slot_s - held_s;
        lease_ends_s = std::min(lease_ends_s, view.now_s + std::max(1.0, left_s));
      }
    }
    if (waits) plan.wake_s = lease_ends_s;
    return plan;
  }

 private:
  static constexpr double kRounding = 1e-6;

  // Leases are renewed in place, so one runs out every slot since the job last started.
  static bool InLease(const ClusterView& view, const JobView& job) {
    if (job.gpus == 0) return false;
    const double leases = (view.now_s - job.last_resize_s) / view.slot_s;
    return leases - std::floor(leases + kRounding) > kRounding;
  }

  static double Rho(const ClusterView& view, const JobView& job) {
    const int pool = HomePool(job);
    const Curve& curve = *job.curve(pool);
    const int gpus = std::max(curve.min_gpus(), curve.LegalAtMost(job.asked_gpus));
    const double rate = curve.Rate(gpus);
    const double shared_s = view.now_s - job.submitted_s + job.remaining / rate;
    const double fair_gpus =
        static_cast<double>(view.gpus()) / static_cast<double>(view.jobs.size());
    const double fair_part = std::min(1.0, fair_gpus / gpus);  // Of the time it would have them.
    return shared_s / (job.iterations / rate / fair_part);
  }
};

}  // namespace

std::unique_ptr<Policy> MakeThemis() { return std::make_unique<Themis>(); }

}  // namespace rubato

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
#include "rubato/schedule/turns.h"

namespace rubato {
namespace {

class Themis : public Policy {
 public:
  absl::string_view name() const override { return "themis"; }

  Plan Decide(const ClusterView& view) const override {
    const auto order = OrderBy(view, [&](const JobView& job) {
      return std::make_tuple(!InLease(view, job), -Rho(view, job));
    });
    return TakeTurns(view, order, [&](const JobView& job) {
      const double held_s = job.gpus > 0 ? view.now_s - job.last_resize_s : 0;
      const double leases = std::floor(held_s / view.slot_s + kRounding) + 1;
      return leases * view.slot_s - held_s;
    });
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

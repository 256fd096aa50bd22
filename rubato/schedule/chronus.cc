// chronus: leases and an integer programme. Jobs run at the asked size for a lease at a time; at
// each lease the programme chooses which deadlines to keep and who runs now, so that as many as
// possible are kept. What is left goes to the others, shortest first.
//
// Time beyond the next lease is cut into periods that double in length, and within a period only
// the sum of leases counts; the paper's one variable a job and lease would be thousands.
#include <algorithm>
#include <cmath>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/mip.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

constexpr int kPeriods = 12;     // 1, 1, 2, 4, ... leases: half an hour to months ahead.
constexpr size_t kJobsMax = 32;  // The most urgent; the rest wait for their turn.
constexpr int kNodesMax = 200;
constexpr double kGap = 0.5;  // Of a kept deadline.

struct Slo {
  size_t job;  // In the view.
  Share share;
  double leases;  // It needs, and
  double until;   // before this many have passed.
};

class Chronus : public Policy {
 public:
  absl::string_view name() const override { return "chronus"; }

  Plan Decide(const ClusterView& view) const override {
    Plan plan;
    plan.shares.resize(view.jobs.size());
    Budget budget(view);
    int wanted = 0;  // By all of them from a cluster that nobody uses.
    for (const JobView& job : view.jobs) wanted += budget.Asked(job).gpus;
    if (wanted > view.gpus()) {
      for (const Slo& slo : Chosen(view)) {
        const Share share = budget.Asked(view.jobs[slo.job]);
        plan.shares[slo.job] = share;
        budget.Take(share);
      }
      plan.wake_s = view.now_s + view.slot_s;
    }
    const auto shortest = OrderBy(view, [](const JobView& job) {
      const Curve& curve = *job.curve(HomePool(job));
      return job.remaining /
             curve.Rate(std::max(curve.min_gpus(), curve.LegalAtMost(job.asked_gpus)));
    });
    for (size_t i : shortest) {
      if (budget.empty()) break;
      if (plan.shares[i].gpus > 0) continue;
      plan.shares[i] = budget.Asked(view.jobs[i]);
      budget.Take(plan.shares[i]);
    }
    return plan;
  }

 private:
  // Jobs that can still meet their deadline, the least slack first.
  static std::vector<Slo> Open(const ClusterView& view) {
    std::vector<Slo> open;
    const Budget empty_cluster(view);
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = view.jobs[i];
      if (job.deadline == DeadlineKind::kNone) continue;
      const Share share = empty_cluster.Asked(job);
      if (share.gpus == 0) continue;
      const double seconds = job.remaining / job.curve(share.pool)->Rate(share.gpus);
      const Slo slo{i, share, seconds / view.slot_s, (job.deadline_s - view.now_s) / view.slot_s};
      if (slo.leases <= slo.until) open.push_back(slo);
    }
    std::stable_sort(open.begin(), open.end(), [](const Slo& a, const Slo& b) {
      return a.until - a.leases < b.until - b.leases;
    });
    if (open.size() > kJobsMax) open.resize(kJobsMax);
    return open;
  }

  // Who of them runs in the next lease.
  static std::vector<Slo> Chosen(const ClusterView& view) {
    const std::vector<Slo> open = Open(view);
    if (open.empty()) return {};
    const auto solution = Solve(Programme(view, open), kNodesMax, kGap);
    if (!solution.ok()) return open;  // Cannot be; urgency is then the order.
    std::vector<Slo> chosen;
    for (size_t k = 0; k < open.size(); ++k) {
      if ((*solution)[k * (kPeriods + 1) + 1] > 0.5) chosen.push_back(open[k]);
    }
    return chosen;
  }

  // For each job: kept (0 or 1), then its leases in every period. Work done early is worth a
  // little, so that nothing idles.
  static Mip Programme(const ClusterView& view, const std::vector<Slo>& open) {
    Mip mip;
    std::vector<Mip::Row> capacity(kPeriods * view.pools.size());
    for (size_t k = 0; k < open.size(); ++k) {
      const int kept = static_cast<int>(mip.variables.size());
      mip.variables.push_back({.worth = 1});
      Mip::Row enough{.terms = {{kept, open[k].leases}}};
      double begins = 0;
      for (int p = 0; p < kPeriods; ++p) {
        const double width = p < 2 ? 1 : std::exp2(p - 1);
        const double most = std::clamp(open[k].until - begins, 0.0, width);
        const int leases = static_cast<int>(mip.variables.size());
        mip.variables.push_back({.worth = 1e-6 / (1 + begins),
                                 .max = p == 0 ? std::min(1.0, std::ceil(most)) : most,
                                 .integer = p == 0});
        enough.terms.push_back({leases, -1});
        const size_t row =
            static_cast<size_t>(p) * view.pools.size() + static_cast<size_t>(open[k].share.pool);
        capacity[row].terms.push_back({leases, static_cast<double>(open[k].share.gpus)});
        capacity[row].limit = width * view.pools[static_cast<size_t>(open[k].share.pool)].gpus;
        begins += width;
      }
      mip.rows.push_back(std::move(enough));
    }
    for (Mip::Row& row : capacity) {
      if (!row.terms.empty()) mip.rows.push_back(std::move(row));
    }
    return mip;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeChronus() { return std::make_unique<Chronus>(); }

}  // namespace rubato

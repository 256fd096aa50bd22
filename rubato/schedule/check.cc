// What every plan must satisfy, whoever made it.
#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "rubato/schedule/policy.h"

namespace rubato {
namespace {

// Less in the same pool, or nothing, is always allowed.
bool ChangesTooSoon(const ClusterView& view, const JobView& job, const Share& share) {
  if (share.gpus == 0 || !view.Cooling(job)) return false;
  return share.gpus > job.gpus || share.pool != job.pool;
}

absl::Status CheckShare(const ClusterView& view, const JobView& job, const Share& share) {
  const auto broken = [&](absl::string_view promise) {
    return absl::InternalError(absl::StrFormat("at %.3f s %s was planned %d GPUs in pool %d: %s",
                                               view.now_s, job.id.ToString(), share.gpus,
                                               share.pool, promise));
  };
  if (share.pool < 0 || share.pool >= static_cast<int>(view.pools.size())) {
    return broken("there is no such pool");
  }
  const Curve* curve = job.curve(share.pool);
  if (curve == nullptr || !curve->Legal(share.gpus)) return broken("not a legal size");
  if (share.gpus < job.floor_gpus) return broken("below its floor");
  if (share.gpus > job.max_gpus) return broken("above its maximum");
  if (ChangesTooSoon(view, job, share)) return broken("grown or moved within the cooldown");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlan(const ClusterView& view, const Plan& plan) {
  if (plan.shares.size() != view.jobs.size()) {
    return absl::InternalError(absl::StrFormat("at %.3f s the plan has %d shares for %d jobs",
                                               view.now_s, plan.shares.size(), view.jobs.size()));
  }
  std::vector<int> used(view.pools.size(), 0);
  for (size_t i = 0; i < plan.shares.size(); ++i) {
    const Share& share = plan.shares[i];
    if (share.gpus == 0) continue;  // Most of them, where tens of thousands wait.
    if (absl::Status s = CheckShare(view, view.jobs[i], share); !s.ok()) return s;
    used[static_cast<size_t>(share.pool)] += share.gpus;
  }
  for (size_t pool = 0; pool < used.size(); ++pool) {
    if (used[pool] > view.pools[pool].gpus) {
      return absl::InternalError(absl::StrFormat("at %.3f s %d GPUs are planned in pool %d of %d",
                                                 view.now_s, used[pool], pool,
                                                 view.pools[pool].gpus));
    }
  }
  for (const Refusal& refusal : plan.refusals) {
    const auto at = std::lower_bound(view.jobs.begin(), view.jobs.end(), refusal.job,
                                     [](const JobView& job, JobId id) { return job.id < id; });
    if (at == view.jobs.end() || at->id != refusal.job || at->admitted ||
        plan.shares[static_cast<size_t>(at - view.jobs.begin())].gpus > 0) {
      return absl::InternalError(absl::StrFormat("at %.3f s %s is refused but admitted or served",
                                                 view.now_s, refusal.job.ToString()));
    }
  }
  return absl::OkStatus();
}

void HonourCooldown(const ClusterView& view, Plan& plan) {
  if (view.cooldown_s <= 0) return;
  std::vector<int> free;
  for (const PoolView& pool : view.pools) free.push_back(pool.gpus);
  for (const Share& share : plan.shares) free[static_cast<size_t>(share.pool)] -= share.gpus;
  for (size_t i = 0; i < plan.shares.size(); ++i) {
    const JobView& job = view.jobs[i];
    Share& share = plan.shares[i];
    if (!ChangesTooSoon(view, job, share)) continue;
    free[static_cast<size_t>(share.pool)] += share.gpus;
    int& left = free[static_cast<size_t>(job.pool)];
    share = left >= job.gpus ? Share{job.gpus, job.pool} : Share{};
    left -= share.gpus;
    plan.wake_s = std::min(plan.wake_s, view.CooledAt(job));
  }
}

}  // namespace rubato

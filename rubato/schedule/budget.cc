#include "rubato/schedule/budget.h"

namespace rubato {
namespace {

// The size nearest to what was asked that this pool could ever hold and the floor allows; 0 if it
// cannot run here.
int AskedSize(const JobView& job, int pool, int pool_gpus) {
  const Curve* curve = job.curve(pool);
  if (curve == nullptr || curve->empty()) return 0;
  const int most = std::min({job.asked_gpus, job.max_gpus, pool_gpus});
  const int size = curve->LegalAtMost(most);
  if (size > 0 && size >= job.floor_gpus) return size;
  const int least = curve->LegalAtLeast(job.floor_gpus);
  return least <= pool_gpus ? least : 0;
}

}  // namespace

Budget::Budget(const ClusterView& view) {
  for (const PoolView& pool : view.pools) pool_gpus_.push_back(pool.gpus);
  free_ = pool_gpus_;
}

void Budget::Take(const Share& share) {
  if (share.gpus > 0) free_[static_cast<size_t>(share.pool)] -= share.gpus;
}

void Budget::Give(const Share& share) { Take({-share.gpus, share.pool}); }

Share Budget::Asked(const JobView& job) const {
  Share best;
  double best_rate = 0;
  for (int pool = 0; pool < static_cast<int>(free_.size()); ++pool) {
    const int size = AskedSize(job, pool, pool_gpus_[static_cast<size_t>(pool)]);
    if (size == 0 || size > free(pool)) continue;
    const double rate = job.curve(pool)->Rate(size);
    if (job.gpus > 0 && job.pool == pool) return {size, pool};
    if (rate > best_rate) {
      best = {size, pool};
      best_rate = rate;
    }
  }
  return best;
}

Share Budget::UpTo(const JobView& job, int want) const {
  Share best;
  double best_rate = 0;
  for (int pool = 0; pool < static_cast<int>(free_.size()); ++pool) {
    const Curve* curve = job.curve(pool);
    if (curve == nullptr) continue;
    const int most = std::max(want, curve->LegalAtLeast(job.floor_gpus));
    const int size = curve->LegalAtMost(std::min({most, free(pool), job.max_gpus}));
    if (size == 0 || size < job.floor_gpus || curve->Rate(size) <= best_rate) continue;
    best = {size, pool};
    best_rate = curve->Rate(size);
  }
  return best;
}

void RaiseToFloors(const ClusterView& view, std::vector<Share>& shares) {
  std::vector<size_t> below;
  Budget budget(view);
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].gpus > 0 && shares[i].gpus < view.jobs[i].floor_gpus) {
      below.push_back(i);
    } else {
      budget.Take(shares[i]);
    }
  }
  for (size_t i : below) {
    const JobView& job = view.jobs[i];
    const int pool = shares[i].pool, floor = job.curve(pool)->LegalAtLeast(job.floor_gpus);
    const bool fits = floor > 0 && floor <= job.max_gpus && floor <= budget.free(pool);
    shares[i] = {fits ? floor : 0, pool};
    budget.Take(shares[i]);
  }
}

}  // namespace rubato

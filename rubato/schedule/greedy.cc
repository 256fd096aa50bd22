#include "rubato/schedule/greedy.h"

#include <algorithm>

#include "rubato/schedule/budget.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

struct Step {
  double gain_per_gpu;
  size_t job;
  int to;
  bool operator<(const Step& other) const {
    return gain_per_gpu != other.gain_per_gpu ? gain_per_gpu < other.gain_per_gpu : job > other.job;
  }
};

// Where a job begins: its smallest useful size that the floor allows, or the smallest legal one
// where the floor lies past the peak or no useful size is within `most`.
int FirstSize(const JobView& job, const Curve& curve, int most) {
  const int useful = curve.UsefulAfter(job.floor_gpus - 1);
  const bool fits = useful >= job.floor_gpus && useful <= most;
  return fits ? useful : curve.LegalAtLeast(job.floor_gpus);
}

}  // namespace

std::vector<Share> GrowGreedily(const ClusterView& view, const Gain& gain) {
  std::vector<Share> shares(view.jobs.size());
  std::vector<Step> heap;  // The largest gain on top.
  heap.reserve(view.jobs.size());
  Budget budget(view);
  const auto push = [&](size_t i) {
    const JobView& job = view.jobs[i];
    const Share& share = shares[i];
    const Curve& curve = *job.curve(share.pool);
    const int most = std::min(job.max_gpus, view.pools[static_cast<size_t>(share.pool)].gpus);
    const int to = share.gpus == 0 ? FirstSize(job, curve, most) : curve.UsefulAfter(share.gpus);
    // What does not fit now will not later either: nobody gives anything back.
    if (to == share.gpus || to > most || to - share.gpus > budget.free(share.pool)) return;
    const double worth = gain(job, share.pool, share.gpus, to);
    if (worth > 0) heap.push_back({worth / (to - share.gpus), i, to});
  };
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    shares[i].pool = HomePool(view.jobs[i]);
    push(i);
  }
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty() && !budget.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Step step = heap.back();
    heap.pop_back();
    Share& share = shares[step.job];
    const int more = step.to - share.gpus;
    if (more > budget.free(share.pool)) continue;
    budget.Take({more, share.pool});
    share.gpus = step.to;
    const size_t before = heap.size();
    push(step.job);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end());
  }
  return shares;
}

}  // namespace rubato

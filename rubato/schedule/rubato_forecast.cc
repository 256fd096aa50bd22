#include "rubato/schedule/rubato_forecast.h"

#include <algorithm>

namespace rubato {
namespace {

// What was seen for a time tells of at most half as long a time to come: it may have been a burst.
constexpr double kTrust = 0.5;

// The least GPU time with which the job meets its deadline alone; kNever if it cannot. How many
// GPUs there are does not count, so that a larger cluster does not fear more than a smaller one.
double LeastGpuSeconds(const ClusterView& view, const JobView& job) {
  const double window_s = job.deadline_s - job.submitted_s;
  double least = kNever;
  for (const Curve* curve : job.curves) {
    if (curve == nullptr) continue;
    for (const CurvePoint& point : curve->points()) {
      if (point.gpus < job.floor_gpus || point.gpus > job.max_gpus) continue;
      const double rate = point.gpus == 1 ? point.rate : curve->Rate(point.gpus, Span::kCluster);
      const double run_s = view.cost.Seconds(point.gpus) + job.iterations / rate;
      if (run_s > window_s) continue;
      least = std::min(least, point.gpus * run_s);
      break;  // Larger ones take more GPU time.
    }
  }
  return least;
}

// GPU-seconds promised to nobody until `due_s`, in all pools.
double FreeUntil(const Roster& roster, const Book& book, double due_s) {
  double free = 0;
  for (int pool = 0; pool < roster.pools(); ++pool) {
    const Profile& profile = book.free(pool);
    for (size_t i = 0; i < profile.size() && profile.from_s(i) < due_s; ++i) {
      const double to_s = std::min(profile.EndOf(i), due_s);
      free += profile.free(i) * (to_s - profile.from_s(i));
    }
  }
  return free;
}

}  // namespace

Forecast::Forecast(const Roster& roster) {
  const ClusterView& view = roster.view();
  for (const JobView& job : view.lately) {
    if (job.deadline != DeadlineKind::kHard) continue;
    const double least = LeastGpuSeconds(view, job);
    if (least == kNever) continue;
    likely_.push_back({job.id, least, job.deadline_s - job.submitted_s, job.priority});
  }
  std::sort(likely_.begin(), likely_.end(), [](const Likely& a, const Likely& b) {
    return a.gpu_seconds != b.gpu_seconds ? a.gpu_seconds < b.gpu_seconds : a.id < b.id;
  });
  if (!view.lately.empty()) seen_s_ = view.now_s - view.lately.front().submitted_s;
}

double Forecast::Expected(const Likely& job, double window_s) const {
  const double times = std::min(kTrust, window_s / std::max(1.0, seen_s_));
  // Each may come at any time within the window; what lies beyond it takes nothing from anyone.
  const double inside =
      job.window_s < window_s ? 1 - job.window_s / (2 * window_s) : window_s / (2 * job.window_s);
  return times * inside;
}

double Forecast::Displaced(const Roster& roster, const Book& book, size_t job) const {
  const JobView& newcomer = roster.job(job);
  const double due_s = roster.due_s(job), window_s = due_s - roster.view().now_s;
  const double left = FreeUntil(roster, book, due_s);
  const double all = left + GpuSeconds(book.way(job));
  double used = 0, displaced = 0;
  for (const Likely& likely : likely_) {
    if (likely.id == newcomer.id || likely.priority < newcomer.priority) continue;
    const double from = used;
    used += Expected(likely, window_s) * likely.gpu_seconds;
    displaced += std::max(0.0, std::min(used, all) - std::max(from, left)) / likely.gpu_seconds;
    if (used >= all) break;
  }
  return displaced;
}

}  // namespace rubato

#include "rubato/simulate/artifact/job.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rubato {

int ArtifactJob::NextLevel(int n) const {
  for (const CurvePoint& point : curve->points()) {
    if (point.gpus > max_gpus) break;
    if (point.gpus > n) return point.gpus;
  }
  return n;
}

int ArtifactJob::LevelAtMost(int n) const { return curve->LegalAtMost(std::min(n, max_gpus)); }

double AlignUp(double start, double time, double slot) {
  return start + std::ceil((time - start) / slot) * slot;
}

void ArtifactEvents::AddEnd(ArtifactJob* job, double time) {
  std::vector<ArtifactJob*>& ends = events_[time].ends;
  if (std::find(ends.begin(), ends.end(), job) == ends.end()) ends.push_back(job);
}

void ArtifactEvents::MoveEnd(ArtifactJob* job) {
  if (job->old_end == job->end) return;
  if (const auto at = events_.find(job->old_end); at != events_.end()) {
    std::erase(at->second.ends, job);
    if (at->second.ends.empty() && at->second.starts.empty()) events_.erase(at);
  }
  AddEnd(job, job->end);
}

ArtifactEvent ArtifactEvents::Take(double time) {
  const auto at = events_.find(time);
  ArtifactEvent event = std::move(at->second);
  events_.erase(at);
  return event;
}

void ArtifactEvents::MergeWithin(double now, double slot) {
  if (events_.size() < 2 || std::trunc(first_time() - now) > slot) return;
  ArtifactEvent merged;
  while (!events_.empty() && events_.begin()->first - now <= slot) {
    ArtifactEvent event = Take(first_time());
    merged.starts.insert(merged.starts.end(), event.starts.begin(), event.starts.end());
    merged.ends.insert(merged.ends.end(), event.ends.begin(), event.ends.end());
  }
  events_[now + slot] = std::move(merged);
}

}  // namespace rubato

// A job as the artifact keeps it, and the list of its events.
#ifndef RUBATO_SIMULATE_ARTIFACT_JOB_H_
#define RUBATO_SIMULATE_ARTIFACT_JOB_H_

#include <map>
#include <vector>

#include "rubato/cluster/curve.h"
#include "rubato/simulate/artifact/steps.h"

namespace rubato {

inline constexpr double kNoDeadline = 9.2e18;  // The largest integer there, near enough.

struct ArtifactJob {
  size_t index = 0;  // In the trace.
  const Curve* curve = nullptr;
  double submit = 0;
  double deadline = kNoDeadline;
  bool best_effort = false;
  double duration = 0;  // At the asked number of GPUs.
  int max_gpus = 1;

  int gpus = 0;            // What it holds; what it asked for until first planned.
  double left = 0;         // Iterations to do.
  double overhead = 0;     // Seconds of the coming round in which it makes no progress.
  double end = 0;          // Forecast, slot-rounded and with overhead.
  double old_end = 0;      // Where its end event stands while `end` is being changed.
  double real_end = -1;    // The forecast before rounding and overhead; < 0 if never made.
  ArtifactSteps plan;      // GPUs from now on.
  bool placed = false;     // Has a place in the cluster,
  bool known_set = false;  // whose ranks worked together before.

  // The plan with the next level of GPUs now, while levels are being compared.
  int next_gpus = 0;
  double score = 0;
  ArtifactSteps next_plan, next_free;
  double next_end = 0, next_real_end = 0;

  double Rate(int n) const { return curve->Rate(n); }
  // The smallest profiled count above `n`, within the cap; `n` if there is none.
  int NextLevel(int n) const;
  // The largest profiled count of at most `n`, within the cap; 0 if there is none.
  int LevelAtMost(int n) const;
};

// Rounded up to a whole number of slots after `start`.
double AlignUp(double start, double time, double slot);

struct ArtifactEvent {
  std::vector<ArtifactJob*> starts;
  std::vector<ArtifactJob*> ends;
};

// Events by time. Those closer than a slot are merged before the clock moves on.
class ArtifactEvents {
 public:
  bool empty() const { return events_.empty(); }
  double first_time() const { return events_.begin()->first; }
  bool Has(double time) const { return events_.count(time) > 0; }
  const ArtifactEvent& at(double time) const { return events_.at(time); }

  void AddStart(ArtifactJob* job, double time) { events_[time].starts.push_back(job); }
  void AddEnd(ArtifactJob* job, double time);
  void AddEmpty(double time) { events_[time]; }
  // Moves a job's end event from job->old_end to job->end. An event left empty goes away.
  void MoveEnd(ArtifactJob* job);
  ArtifactEvent Take(double time);
  // Merges all events within a slot of `now` into one at now + slot. A last, lone event stays
  // where it is.
  void MergeWithin(double now, double slot);

 private:
  std::map<double, ArtifactEvent> events_;
};

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ARTIFACT_JOB_H_

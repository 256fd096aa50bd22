// What a simulation has to tell of one policy.
#ifndef RUBATO_SIMULATE_RESULT_H_
#define RUBATO_SIMULATE_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rubato/schedule/policy.h"

namespace rubato {

// One job's fate.
struct JobResult {
  JobId id;  // Its place in the trace.
  double submit_s = 0;
  double deadline_s = kNever;
  bool best_effort = false;
  bool soft = false;  // Its deadline binds nobody.
  bool admitted = false;
  std::string refusal;               // Why not, if not admitted,
  double offer_deadline_s = kNever;  // the earliest deadline that would have been accepted,
  double offer_iterations = 0;       // and how many iterations for its own; 0 if none.
  double start_s = kNever;
  double end_s = kNever;  // kNever if it never ended.
  bool met = false;       // Ended by its deadline.
  int resizes = 0;
};

// A job held `gpus` GPUs of `pool` during [from_s, to_s).
struct Piece {
  JobId job;
  double from_s = 0;
  double to_s = 0;
  int gpus = 0;
  int pool = 0;
};

struct Percentiles {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;
};
// Nearest rank. Of no values nothing is known: nan, which JSON writes as null.
Percentiles Summarize(std::vector<double> values);

// Decisions with at most `active_max` active jobs, and more than half of that.
struct DecisionCost {
  int active_max = 0;
  int64_t decisions = 0;
  Percentiles us;
};

struct SimulationResult {
  std::string policy;
  int jobs = 0;
  int deadline_jobs = 0;
  int admitted = 0;
  int refused = 0;
  int completed = 0;
  int met = 0;                    // Of those with deadlines.
  int late_admitted = 0;          // With a hard deadline, admitted, and missed: a broken promise.
  int late_soft = 0;              // With a soft one, and missed.
  double deadline_ratio = 0;      // met / deadline_jobs; 1 if there are none.
  Percentiles jct_s;              // Of all that ended,
  Percentiles best_effort_jct_s;  // and of those without a deadline.
  double makespan_s = 0;          // From the first submission to the last end; nan if none ended.
  double gpu_hours_used = 0;
  double gpu_hours_offered = 0;
  double utilisation = 0;
  int64_t migrations = 0;  // Jobs moved though their size did not ask for it.
  int64_t rescales = 0;
  double rescale_seconds = 0;
  int64_t decisions = 0;
  int64_t failures = 0;         // Nodes lost.
  double mean_active_jobs = 0;  // At decisions,
  int max_active_jobs = 0;
  Percentiles decision_us;
  std::vector<DecisionCost> decision_cost;  // By active jobs, 1, 2, 4, ...
  double wall_seconds = 0;

  std::vector<JobResult> job_results;  // In the trace's order.
  std::vector<Piece> pieces;           // By end, if options.record_pieces.
};

// Fills in all that follows from job_results: counts, ratios, JCTs, makespan.
void TallyJobs(SimulationResult& result);

// One decision: how long it took, among how many active jobs.
struct DecisionTime {
  double us = 0;
  int active = 0;
};
// Fills in all that is told of decisions.
void TallyDecisions(const std::vector<DecisionTime>& times, SimulationResult& result);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_RESULT_H_

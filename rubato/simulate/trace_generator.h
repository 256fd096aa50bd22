// Traces drawn from a seed, shaped like those of real clusters.
//
// What they share with the published Philly and ITP traces: most jobs ask for one GPU, run times
// are log-normal with a heavy tail and longer for wide jobs, people work by day and less on
// weekends, and many jobs come in sweeps (one model, one size, minutes apart). A deadline is the
// submission plus lambda times the run time on the GPUs asked for, lambda uniform.
//
// The same options give the same trace, on any machine.
#ifndef RUBATO_SIMULATE_TRACE_GENERATOR_H_
#define RUBATO_SIMULATE_TRACE_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/cluster/curve.h"
#include "rubato/simulate/builtin_profiles.h"
#include "rubato/simulate/trace.h"

namespace rubato {

struct TraceGeneratorOptions {
  int64_t jobs = 1000;
  int gpus = 128;           // Of the cluster the trace is meant for.
  double load = 0.6;        // GPU time asked for, as a share of what the cluster has until the last
                            // submission. It decides how long the trace lasts.
  double lambda_low = 0.5;  // Deadline tightness. Below 1 only more GPUs than asked for help.
  double lambda_high = 1.5;
  double best_effort_share = 0.1;  // Jobs without a deadline,
  double soft_share = 0;           // and of the others, those that run even if late.
  double high_priority_share = 0;  // Jobs with priority 1.
  double sweep_share = 0.5;        // Jobs that come in sweeps.
  double sweep_mean = 8;           // Jobs in one.
  double day_swing = 0.5;          // 0: arrivals as dense by night as by day; at most 1.
  double weekend = 0.55;           // Density on Saturday and Sunday, a weekday's being 1.
  double run_time_median_s = 5400;
  double run_time_spread = 1.4;  // Standard deviation of the logarithm.
  // The type on which a job's run time counts is drawn from these, alike.
  std::vector<std::string> gpu_types = {"A100"};
  uint64_t seed = 0;
  std::function<void(int64_t jobs_drawn)> progress;

  // INVALID_ARGUMENT naming the field and what it may be.
  absl::Status Validate() const;
};

// Draws a trace whose models are of `models` and have curves in `book`. INVALID_ARGUMENT if an
// option is bad or a model has no curve on one of the types.
absl::StatusOr<Trace> GenerateTrace(const TraceGeneratorOptions& options,
                                    const std::vector<BuiltinModel>& models, const CurveBook& book);

// How dense arrivals are at `at_s`, at most 1. Time zero is a Monday at midnight.
double ArrivalDensity(const TraceGeneratorOptions& options, double at_s);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_TRACE_GENERATOR_H_

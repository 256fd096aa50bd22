// A trace: jobs as they were submitted to a cluster, one row each.
#ifndef RUBATO_SIMULATE_TRACE_H_
#define RUBATO_SIMULATE_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/schedule/policy.h"

namespace rubato {

struct TraceJob {
  std::string name;  // The trace's own id.
  int line = 0;      // Where it stands in the file; 0 if it comes from none.
  double submit_s = 0;
  double iterations = 0;
  std::string model;
  int batch_size = 0;
  double deadline_s = kNever;
  DeadlineKind deadline = DeadlineKind::kNone;
  int asked_gpus = 1;
  double duration_s = 0;  // At asked_gpus; 0 if the trace does not say.
  int priority = 0;
  int floor_gpus = 0;
  int max_gpus = 0;              // 0: as many as the curve allows.
  double cpus_per_gpu = 0;       // What each of its workers needs beside a GPU;
  double memory_gb_per_gpu = 0;  // 0 if the trace does not say.
};

struct Trace {
  std::string name;
  std::vector<TraceJob> jobs;  // By time of submission, then as in the file.
};

// Reads a CSV in either spelling:
//   job_id, submit_time | submission_time, iteration | num_iteration, model_name, ddl | deadline,
//   batch_size, num_gpu, and optionally duration, best_effort (1: the deadline is ignored),
//   soft (1: run even if late), priority, min_gpu, max_gpu, cpu_per_gpu, mem_per_gpu.
// A deadline that is empty, nan or 0 is none. INVALID_ARGUMENT says file, line, column and what is
// wrong; so of times beyond 1e10 seconds, iterations beyond 1e15, and both spellings at once.
absl::StatusOr<Trace> ParseTrace(absl::string_view text, absl::string_view name);

// The trace in the first spelling, with the optional columns that any job needs.
std::string FormatTrace(const Trace& trace);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_TRACE_H_

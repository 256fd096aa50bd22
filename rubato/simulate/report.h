// What a simulation made of a trace, as one HTML page that needs nothing else: charts of who held
// what when, how long jobs took and which deadlines were kept, with the data inside.
//
// The data is one JSON object in <script id="data">; numbers by the thousand are typed arrays in
// base64. What a policy's jobs held is a stream of variable-length numbers, grouped by job:
//
//     for each job:   pieces, then for each piece:
//                     ticks since the last piece (or the submission), ticks it lasts,
//                     GPUs x gpu_scale, and the pool if there are several
//
// A policy that cuts time into millions of pieces is drawn coarser: neighbouring pieces of a job
// become one with their mean GPUs, so that GPU hours stay what they were and the page stays small.
#ifndef RUBATO_SIMULATE_REPORT_H_
#define RUBATO_SIMULATE_REPORT_H_

#include <string>

#include "absl/types/span.h"
#include "rubato/simulate/result.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

struct ReportOptions {
  std::string title = "Simulation";
  std::string subtitle;         // One line under it: the cluster, the flags.
  std::string unit = "GPU";     // What the cluster is made of, for captions.
  bool group_by_model = false;  // Stack utilisation by model at first, not by job.
  bool compare = false;         // Show all policies under each other at first.
  size_t pieces_max = 300'000;  // Of one policy; beyond this it is drawn coarser.
};

// The results must have their pieces (SimulateOptions::record_pieces).
std::string FormatReport(const Workload& workload, absl::Span<const SimulationResult> results,
                         const ReportOptions& options);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_REPORT_H_

// The files a simulation reads, as one workload.
#ifndef RUBATO_CLI_SIMULATE_INPUT_H_
#define RUBATO_CLI_SIMULATE_INPUT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

struct SimulateFiles {
  std::string trace;     // CSV, plain or gzip.
  std::string cluster;   // CSV, or short: n16g8:A100.
  std::string profiles;  // A folder of MODEL.csv, or of TYPE/MODEL.csv; empty: built in.
  std::string gpu_type;  // Of nodes that name none; empty: the only one profiled.
};

struct SimulateInput {
  std::unique_ptr<CurveBook> book;  // The workload points into it.
  Workload workload;
};

// NOT_FOUND or INVALID_ARGUMENT naming the file, and the line where it has one.
absl::StatusOr<SimulateInput> LoadSimulateInput(const SimulateFiles& files);

}  // namespace rubato

#endif  // RUBATO_CLI_SIMULATE_INPUT_H_

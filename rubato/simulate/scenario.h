// Small stories told by the simulator: the published ElasticDL experiments, gang against elastic.
//
//   two-jobs   Two jobs want 175 of 320 CPUs each, the second 300 s after the first. A gang waits
//              until the first is done; an elastic job starts at once on what is left.
//   colocate   A service's load rises and falls. A gang can only be given what the service never
//              needs; an elastic job of low priority takes the rest and gives it back.
#ifndef RUBATO_SIMULATE_SCENARIO_H_
#define RUBATO_SIMULATE_SCENARIO_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/simulate/result.h"
#include "rubato/simulate/simulator.h"

namespace rubato {

struct Scenario {
  std::string name;                   // As typed after --scenario.
  std::string title;                  // In one line.
  std::vector<std::string> policies;  // Gang first, then elastic.
  std::string unit = "CPU";
  bool group_by_model = false;      // Whether a plot should show models, not single jobs.
  double observed_s = kNever;       // What happens later counts for no utilisation.
  std::unique_ptr<CurveBook> book;  // The workload points into it.
  Workload workload;
};

std::vector<std::string> ScenarioNames();
// NOT_FOUND naming the known ones if there is no such scenario.
absl::StatusOr<Scenario> MakeScenario(absl::string_view name);

// What a scenario is about, of its training jobs alone.
struct ScenarioFigures {
  double end_s = 0;        // When the last of them ended; kNever if one did not.
  double waited_s = 0;     // From submission to first CPUs, the longest.
  double utilisation = 0;  // Of the whole cluster, until end_s or observed_s.
};
// `result` must have its pieces.
ScenarioFigures MeasureScenario(const Scenario& scenario, const SimulationResult& result);

// Who held what over [0, end_s), as a plot for terminals: one shade for each job (or model), time
// to the right, units upwards. `end_s` is given so that several plots share an axis.
struct PlotOptions {
  int columns = 72;
  int rows = 10;
  double end_s = 0;
  bool group_by_model = false;
};
std::string PlotUtilisation(const Workload& workload, const SimulationResult& result,
                            const PlotOptions& options);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_SCENARIO_H_

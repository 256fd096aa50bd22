#include "rubato/simulate/scenario.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int kCpus = 320;
constexpr int kCpusPerNode = 32;
constexpr int kBatchSize = 4096;  // Of training; enough for every CPU.
constexpr char kTraining[] = "training";
constexpr char kService[] = "service";

// Ten nodes of 32 CPUs; training scales without loss, as asynchronous workers on CPUs do.
Scenario Empty(absl::string_view name, absl::string_view title) {
  Scenario scenario;
  scenario.name = std::string(name);
  scenario.title = std::string(title);
  scenario.book = std::make_unique<CurveBook>();
  scenario.book->Add(kTraining, kBatchSize, "CPU", Curve::Linear(1, kCpus));
  scenario.workload.trace.name = scenario.name;
  return scenario;
}

absl::StatusOr<Scenario> Finish(Scenario scenario) {
  std::vector<TraceJob>& jobs = scenario.workload.trace.jobs;
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
  RUBATO_ASSIGN_OR_RETURN(
      ClusterSpec cluster,
      BuildCluster({{.nodes_per_rack = kCpus / kCpusPerNode, .gpus_per_node = kCpusPerNode}}));
  RUBATO_ASSIGN_OR_RETURN(scenario.workload, Bind(std::move(scenario.workload.trace),
                                                  std::move(cluster), *scenario.book, "CPU"));
  return scenario;
}

// Alone, a job takes 658 s on 175 CPUs: 24 s to set the workers going, then its work.
absl::StatusOr<Scenario> TwoJobs() {
  constexpr int kAsked = 175;
  Scenario scenario = Empty("two-jobs", "Two jobs of 175 on 320 CPUs, the second 300 s later");
  scenario.policies = {"fifo", "fifo-elastic"};
  for (int i = 0; i < 2; ++i) {
    scenario.workload.trace.jobs.push_back({.name = absl::StrCat("job ", i + 1),
                                            .submit_s = 300.0 * i,
                                            .iterations = 634.0 * kAsked,
                                            .model = kTraining,
                                            .batch_size = kBatchSize,
                                            .asked_gpus = kAsked,
                                            .max_gpus = kAsked});
  }
  return Finish(std::move(scenario));
}

// The service holds 64 CPUs always, and up to three times 48 more as its load rises and falls; a
// level of load is a job of its own, urgent, that cannot shrink.
absl::StatusOr<Scenario> Colocate() {
  constexpr double kPeriod = 2400, kEnd = 2 * kPeriod;
  constexpr int kBase = 64, kStep = 48, kLevels = 3;
  Scenario scenario = Empty("colocate", "A service whose load rises and falls, and a training job");
  scenario.policies = {"fifo", "rubato"};
  scenario.group_by_model = true;
  scenario.observed_s = kEnd;
  std::vector<TraceJob>& jobs = scenario.workload.trace.jobs;
  const auto serve = [&](absl::string_view name, int cpus, double from_s, double to_s) {
    scenario.book->Add(kService, cpus, "CPU", Curve({{cpus, 1}}));
    jobs.push_back({.name = std::string(name),
                    .submit_s = from_s,
                    .iterations = to_s - from_s,
                    .model = kService,
                    .batch_size = cpus,
                    .deadline_s = to_s + 120,
                    .deadline = DeadlineKind::kHard,
                    .asked_gpus = cpus,
                    .priority = 10,
                    .floor_gpus = cpus,
                    .max_gpus = cpus});
  };
  serve("service", kBase, 0, kEnd);
  for (double t = 0; t < kEnd; t += kPeriod) {
    for (int level = 1; level <= kLevels; ++level) {
      const double rise = 250 * level;
      serve(absl::StrCat("load ", level, ".", 1 + t / kPeriod), kStep, t + rise,
            t + kPeriod - rise);
    }
  }
  jobs.push_back({.name = "training",
                  .submit_s = 0,
                  .iterations = 160.0 * 2 * kPeriod,
                  .model = kTraining,
                  .batch_size = kBatchSize,
                  .asked_gpus = kCpus - kBase - kLevels * kStep,
                  .priority = -1,
                  .floor_gpus = 1,
                  .max_gpus = kCpus});
  return Finish(std::move(scenario));
}

}  // namespace

std::vector<std::string> ScenarioNames() { return {"two-jobs", "colocate"}; }

absl::StatusOr<Scenario> MakeScenario(absl::string_view name) {
  if (name == "two-jobs") return TwoJobs();
  if (name == "colocate") return Colocate();
  return absl::NotFoundError(
      absl::StrCat("no scenario \"", name, "\"; there are ", absl::StrJoin(ScenarioNames(), ", ")));
}

ScenarioFigures MeasureScenario(const Scenario& scenario, const SimulationResult& result) {
  ScenarioFigures figures;
  for (const JobResult& job : result.job_results) {
    const TraceJob& asked = scenario.workload.trace.jobs[static_cast<size_t>(job.id.value())];
    if (asked.model != kTraining) continue;
    figures.end_s = std::max(figures.end_s, job.end_s);
    figures.waited_s = std::max(figures.waited_s, job.start_s - job.submit_s);
  }
  const double until_s = std::min(figures.end_s, scenario.observed_s);
  double held = 0;
  for (const Piece& piece : result.pieces) {
    held += piece.gpus * std::max(0.0, std::min(piece.to_s, until_s) - piece.from_s);
  }
  if (until_s > 0 && until_s < kNever) {
    figures.utilisation = held / (scenario.workload.cluster.gpus() * until_s);
  }
  return figures;
}

}  // namespace rubato

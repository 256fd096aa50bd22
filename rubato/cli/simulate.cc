// rubato simulate: runs a trace of jobs through one or more policies and reports what each made
// of it.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "rubato/adapters/files/files.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/progress.h"
#include "rubato/cli/simulate_input.h"
#include "rubato/job/suggest.h"
#include "rubato/simulate/artifact/artifact.h"
#include "rubato/simulate/report.h"
#include "rubato/simulate/scenario.h"

namespace rubato {
namespace {

class WallClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

// CPU time of this thread: what a decision costs, whatever else the machine does.
class CpuClock : public Clock {
 public:
  absl::Time Now() const override {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return absl::TimeFromTimespec(now);
  }
};

struct SimulateFlags {
  std::string trace, cluster, profiles, gpu_type, policies, overhead = "moved";
  std::string scenario, out;
  double slot_s = 60, cooldown_s = 0, failures = 0, repair_s = 3600;
  int reserve_gpus = 0;
  uint64_t seed = 0;
  const CLI::Option* policy = nullptr;  // Given or not.
  bool json = false, per_job = false, list_policies = false;
};

constexpr char kDefaultPolicies[] = "fifo,edf-capped,elasticflow,rubato";

absl::StatusOr<Overhead> ParseOverhead(absl::string_view text) {
  if (text == "moved") return Overhead::kMoved;
  if (text == "elasticflow") return Overhead::kElasticflow;
  if (text == "none") return Overhead::kNone;
  return absl::InvalidArgumentError(
      absl::StrCat("--overhead ", text, ": there are moved, elasticflow and none"));
}

nlohmann::ordered_json CostToJson(const std::vector<DecisionCost>& costs) {
  auto json = nlohmann::ordered_json::array();
  for (const DecisionCost& cost : costs) {
    json.push_back({{"active_max", cost.active_max},
                    {"decisions", cost.decisions},
                    {"mean", cost.us.mean},
                    {"p50", cost.us.p50},
                    {"p99", cost.us.p99}});
  }
  return json;
}

nlohmann::ordered_json ToJson(const SimulationResult& r) {
  return {
      {"policy", r.policy},
      {"jobs", r.jobs},
      {"deadline_jobs", r.deadline_jobs},
      {"admitted", r.admitted},
      {"refused", r.refused},
      {"completed", r.completed},
      {"met", r.met},
      {"late_admitted", r.late_admitted},
      {"late_soft", r.late_soft},
      {"deadline_ratio", r.deadline_ratio},
      {"jct", {{"mean", r.jct_s.mean}, {"p95", r.jct_s.p95}}},
      {"best_effort_jct", {{"mean", r.best_effort_jct_s.mean}, {"p95", r.best_effort_jct_s.p95}}},
      {"makespan", r.makespan_s},
      {"gpu_hours", {{"used", r.gpu_hours_used}, {"offered", r.gpu_hours_offered}}},
      {"utilisation", r.utilisation},
      {"migrations", r.migrations},
      {"rescales", r.rescales},
      {"rescale_seconds", r.rescale_seconds},
      {"failures", r.failures},
      {"decisions", r.decisions},
      {"active_jobs", {{"mean", r.mean_active_jobs}, {"max", r.max_active_jobs}}},
      {"decision_us",
       {{"mean", r.decision_us.mean},
        {"p50", r.decision_us.p50},
        {"p99", r.decision_us.p99},
        {"max", r.decision_us.max}}},
      {"decision_us_by_active", CostToJson(r.decision_cost)},
      {"wall_seconds", r.wall_seconds}};
}

nlohmann::ordered_json JobsToJson(const Workload& workload, const SimulationResult& result) {
  auto jobs = nlohmann::ordered_json::array();
  const auto or_null = [](double t) {
    return t < kNever ? nlohmann::ordered_json(t) : nlohmann::ordered_json();
  };
  for (const JobResult& job : result.job_results) {
    jobs.push_back(
        {{"job", workload.trace.jobs[static_cast<size_t>(job.id.value())].name},
         {"admitted", job.admitted},
         {"start", or_null(job.start_s)},
         {"end", or_null(job.end_s)},
         {"deadline", or_null(job.deadline_s)},
         {"resizes", job.resizes},
         {"refusal", job.refusal},
         {"offer_deadline", or_null(job.offer_deadline_s)},
         {"offer_iterations", or_null(job.offer_iterations > 0 ? job.offer_iterations : kNever)}});
  }
  return jobs;
}

// What the policies of a run came to. One that fails loses nobody else's result.
struct Outcome {
  struct Failure {
    std::string policy;
    absl::Status status;
  };
  std::vector<SimulationResult> results;
  std::vector<Failure> failures;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();  // Both, as they were named.
};

// What is not known, as when nobody ended, is a dash.
std::string OrDash(double value, const char* unit = "", int digits = 0) {
  return std::isnan(value) ? "-" : absl::StrFormat("%.*f%s", digits, value, unit);
}

void PrintTable(const Workload& workload, const std::vector<SimulationResult>& results,
                std::ostream& out) {
  const SimulationResult& any = results.front();
  const int64_t best_effort = any.jobs - any.deadline_jobs;
  out << absl::StrFormat("%s: %d jobs on %d GPUs, %d with a deadline, %d best effort\n\n",
                         workload.trace.name, any.jobs, workload.cluster.gpus(), any.deadline_jobs,
                         best_effort);
  out << absl::StrFormat("%-20s %7s %8s %7s %6s %7s %10s %11s %9s %6s %9s %8s\n", "policy", "ratio",
                         "admitted", "met", "late", "refused", "JCT mean s", "best effort",
                         "makespan", "used", "p99 us", "wall s");
  for (const SimulationResult& r : results) {
    out << absl::StrFormat("%-20s %7.4f %8d %7d %6d %7d %10s %11s %9s %5.1f%% %9.1f %8.2f\n",
                           r.policy, r.deadline_ratio, r.admitted, r.met, r.late_admitted,
                           r.refused, OrDash(r.jct_s.mean), OrDash(r.best_effort_jct_s.mean),
                           OrDash(r.makespan_s / 3600, "h", 1), 100 * r.utilisation,
                           r.decision_us.p99, r.wall_seconds);
  }
}

// Its plot for every policy, on one axis of time, and what the scenario is about.
void PrintScenario(const Scenario& scenario, const std::vector<SimulationResult>& results,
                   std::ostream& out) {
  PlotOptions plot{.group_by_model = scenario.group_by_model};
  for (const SimulationResult& r : results) {
    const double end_s = MeasureScenario(scenario, r).end_s;
    if (end_s < kNever) plot.end_s = std::max(plot.end_s, end_s);
  }
  out << scenario.title << "\n";
  for (const SimulationResult& r : results) {
    const ScenarioFigures figures = MeasureScenario(scenario, r);
    out << absl::StrFormat(
        "\n%s: training done at %.0f s, waited %.0f s, %.1f%% of the %ss used until then\n",
        r.policy, figures.end_s, figures.waited_s, 100 * figures.utilisation, scenario.unit);
    out << PlotUtilisation(scenario.workload, r, plot);
  }
}

nlohmann::ordered_json ScenarioToJson(const ScenarioFigures& figures) {
  return {{"training_ends", figures.end_s},
          {"training_waited", figures.waited_s},
          {"utilisation_while_training", figures.utilisation}};
}

absl::Status WriteReport(const SimulateFlags& flags, const Workload& workload,
                         const Scenario* scenario, const std::vector<SimulationResult>& results) {
  ReportOptions options;
  options.title =
      scenario ? scenario->title : std::filesystem::path(flags.trace).filename().string();
  options.subtitle =
      absl::StrFormat("%d jobs on %d %ss%s; overhead: %s", workload.trace.jobs.size(),
                      workload.cluster.gpus(), scenario ? scenario->unit : "GPU",
                      scenario ? "" : absl::StrCat(" (", flags.cluster, ")"), flags.overhead);
  if (scenario) {
    options.unit = scenario->unit;
    options.group_by_model = scenario->group_by_model;
    options.compare = true;
  }
  return WriteFileAtomically(flags.out, FormatReport(workload, results, options));
}

absl::Status CheckFlags(const SimulateFlags& flags) {
  if (flags.scenario.empty() && (flags.trace.empty() || flags.cluster.empty())) {
    return absl::InvalidArgumentError("give --trace and --cluster, or a --scenario");
  }
  if (!flags.scenario.empty() && !(flags.trace + flags.cluster + flags.profiles).empty()) {
    return absl::InvalidArgumentError(
        "a --scenario brings its own trace, cluster and profiles; leave those flags out");
  }
  if (flags.per_job && !flags.json) {
    return absl::InvalidArgumentError("--per-job is a part of the JSON: give --json too");
  }
  return absl::OkStatus();
}

// Names separated by commas, or all there are. Spaces do not count, nor does who was named before.
std::vector<std::string> SplitPolicies(absl::string_view text) {
  std::vector<std::string> names;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    const std::string name(absl::StripAsciiWhitespace(word));
    for (const std::string& each : name == "all" ? PolicyNames() : std::vector{name}) {
      if (std::find(names.begin(), names.end(), each) == names.end()) names.push_back(each);
    }
  }
  return names;
}

absl::StatusOr<std::vector<std::unique_ptr<Policy>>> MakePolicies(
    const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Policy>> policies;
  for (const std::string& name : names) {
    absl::StatusOr<std::unique_ptr<Policy>> policy = MakePolicy(name);
    if (!policy.ok()) {
      return absl::NotFoundError(
          absl::StrCat(policy.status().message(), DidYouMean(name, PolicyNames())));
    }
    policies.push_back(*std::move(policy));
  }
  return policies;
}

// What would otherwise be found out only after a long run.
absl::Status CheckBeforeRunning(const SimulateFlags& flags, const Workload& workload) {
  int largest = 0;
  for (const Pool& pool : workload.cluster.pools) largest = std::max(largest, pool.gpus);
  if (flags.reserve_gpus >= largest) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--reserve %d leaves nothing to promise: the largest pool has %d GPUs",
                        flags.reserve_gpus, largest));
  }
  if (flags.out.empty()) return absl::OkStatus();
  if (std::filesystem::is_directory(flags.out)) {
    return absl::InvalidArgumentError(absl::StrCat("--out ", flags.out, " is a folder"));
  }
  return AtomicFile::Create(flags.out).status();
}

nlohmann::ordered_json RunToJson(const SimulateFlags& flags, const Workload& workload,
                                 nlohmann::ordered_json policies) {
  return {{"trace", workload.trace.name},
          {"cluster", flags.cluster},
          {"gpus", workload.cluster.gpus()},
          {"jobs", workload.trace.jobs.size()},
          {"overhead", flags.overhead},
          {"slot", flags.slot_s},
          {"cooldown", flags.cooldown_s},
          {"reserve", flags.reserve_gpus},
          {"failures", flags.failures},
          {"repair", flags.repair_s},
          {"seed", flags.seed},
          {"policies", std::move(policies)}};
}

SimulateOptions OptionsOf(const SimulateFlags& flags, Overhead overhead) {
  SimulateOptions options;
  options.overhead = overhead;
  options.slot_s = flags.slot_s;
  options.cooldown_s = flags.cooldown_s;
  options.reserve_gpus = flags.reserve_gpus;
  options.failures_per_node_day = flags.failures;
  options.repair_s = flags.repair_s;
  options.seed = flags.seed;
  options.record_pieces = !flags.scenario.empty() || !flags.out.empty();
  return options;
}

Outcome RunPolicies(const SimulateFlags& flags, const Workload& workload, const Scenario* scenario,
                    absl::Span<const std::unique_ptr<Policy>> policies, SimulateOptions options,
                    Console& console) {
  const WallClock clock;
  const CpuClock cpu_clock;
  Outcome outcome;
  for (const auto& policy : policies) {
    const std::string name(policy->name());
    Progress progress(console, name, static_cast<int64_t>(workload.trace.jobs.size()), "jobs");
    options.clock = &clock;
    options.decision_clock = &cpu_clock;
    options.progress = [&](int64_t done) { progress.Update(done); };
    absl::StatusOr<SimulationResult> result = SimulateAsAsked(workload, *policy, options);
    if (!result.ok()) {
      outcome.json.push_back({{"policy", name}, {"error", std::string(result.status().message())}});
      outcome.failures.push_back({name, result.status()});
      continue;
    }
    outcome.results.push_back(*std::move(result));
    const SimulationResult& r = outcome.results.back();
    outcome.json.push_back(ToJson(r));
    if (flags.per_job) outcome.json.back()["job_results"] = JobsToJson(workload, r);
    if (scenario) outcome.json.back()["scenario"] = ScenarioToJson(MeasureScenario(*scenario, r));
  }
  return outcome;
}

absl::StatusOr<int> RunSimulate(const SimulateFlags& flags, Console& console) {
  if (flags.list_policies) {
    console.out << absl::StrJoin(PolicyNames(), "\n") << "\n";
    return kExitDone;
  }
  RUBATO_RETURN_IF_ERROR(CheckFlags(flags));
  RUBATO_ASSIGN_OR_RETURN(const Overhead overhead, ParseOverhead(flags.overhead));
  SimulateInput input;
  std::optional<Scenario> scenario;
  std::vector<std::string> names = absl::StrSplit(kDefaultPolicies, ',');
  if (flags.scenario.empty()) {
    RUBATO_ASSIGN_OR_RETURN(
        input, LoadSimulateInput({flags.trace, flags.cluster, flags.profiles, flags.gpu_type}));
  } else {
    absl::StatusOr<Scenario> made = MakeScenario(flags.scenario);
    if (!made.ok()) {
      return absl::NotFoundError(
          absl::StrCat(made.status().message(), DidYouMean(flags.scenario, ScenarioNames())));
    }
    scenario = *std::move(made);
    names = scenario->policies;
  }
  if (flags.policy->count() > 0) names = SplitPolicies(flags.policies);
  RUBATO_ASSIGN_OR_RETURN(const auto policies, MakePolicies(names));
  const Workload& workload = scenario ? scenario->workload : input.workload;
  SimulateOptions options = OptionsOf(flags, overhead);
  RUBATO_RETURN_IF_ERROR(options.Validate());
  RUBATO_RETURN_IF_ERROR(CheckBeforeRunning(flags, workload));
  const Scenario* story = scenario ? &*scenario : nullptr;
  Outcome outcome = RunPolicies(flags, workload, story, policies, options, console);
  if (outcome.results.empty()) return outcome.failures.front().status;
  if (flags.json) {
    console.out << JsonText(RunToJson(flags, workload, std::move(outcome.json)), 2) << "\n";
  } else if (scenario) {
    PrintScenario(*scenario, outcome.results, console.out);
  } else {
    PrintTable(workload, outcome.results, console.out);
  }
  for (const Outcome::Failure& failure : outcome.failures) {
    if (!flags.json) console.out << absl::StrFormat("%-20s failed\n", failure.policy);
    console.err << "rubato simulate: " << failure.status.message() << "\n";
  }
  if (!flags.out.empty()) {
    RUBATO_RETURN_IF_ERROR(WriteReport(flags, workload, story, outcome.results));
    console.err << "report written to " << flags.out << "\n";
  }
  return outcome.failures.empty() ? kExitDone : kExitFailed;
}

}  // namespace

void AddSimulate(Cli& cli) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* app = cli.Command(
      "simulate", "Run a trace of jobs through scheduling policies, and report on each.",
      "  rubato simulate --trace jobs.csv --cluster n16g8 --profiles throughput/A100 "
      "--policy edf,elasticflow,rubato\n"
      "  rubato simulate --trace jobs.csv --cluster spec.csv --profiles throughput --gpu-type T4 "
      "--json\n"
      "  rubato simulate --scenario two-jobs --out two-jobs.html\n",
      [flags, &cli] { return RunSimulate(*flags, cli.console()); });
  app->add_option("--trace", flags->trace, "Jobs, a CSV (or .csv.gz); see docs/simulate.md");
  app->add_option("--cluster", flags->cluster,
                  "A cluster spec (CSV), or nNgG[:TYPE][+...]: N nodes of G GPUs");
  app->add_option("--profiles", flags->profiles,
                  "Throughput profiles: a folder of MODEL.csv, or of TYPE/MODEL.csv "
                  "(default: built in, for generated traces)");
  app->add_option("--scenario", flags->scenario,
                  "Instead of a trace: two-jobs or colocate, gang against elastic");
  app->add_option("--gpu-type", flags->gpu_type,
                  "The type of nodes that name none (default: the only one profiled)");
  flags->policy =
      app->add_option("--policy", flags->policies, "Policies, separated by commas, or all")
          ->default_str(kDefaultPolicies);
  app->add_option("--overhead", flags->overhead, "moved, elasticflow or none")
      ->capture_default_str();
  app->add_option("--slot", flags->slot_s, "Seconds a slot, for policies that cut time so")
      ->capture_default_str();
  app->add_option("--cooldown", flags->cooldown_s,
                  "Seconds after a resize without growth or change of GPU type")
      ->capture_default_str();
  app->add_option("--reserve", flags->reserve_gpus, "GPUs of each pool never promised to anyone")
      ->capture_default_str();
  app->add_option("--failures", flags->failures, "Failures of a node a day")->capture_default_str();
  app->add_option("--repair", flags->repair_s, "Seconds until a failed node is back")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Of the failures")
      ->check(NotNegative())
      ->capture_default_str();
  app->add_option("--out", flags->out, "Write charts and figures to this HTML file");
  app->add_flag("--json", flags->json, "Print one JSON object");
  app->add_flag("--list-policies", flags->list_policies, "Print the names of all policies");
  app->add_flag("--per-job", flags->per_job, "With --json: what became of every job");
}

}  // namespace rubato

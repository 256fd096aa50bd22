// rubato generate trace: draws the jobs of a cluster from a seed.
// rubato generate profiles: writes the built-in throughput curves as files, to look at or change.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/gzip_writer.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/generate.h"
#include "rubato/cli/progress.h"
#include "rubato/cli/simulate_input.h"
#include "rubato/job/suggest.h"
#include "rubato/simulate/trace_generator.h"

namespace rubato {
namespace {

struct TraceFlags {
  TraceGeneratorOptions options;
  std::string out, gpu_types = "A100";
  bool json = false;
};

// Those of `text`, separated by commas; NOT_FOUND naming the known ones if one is not built in.
absl::StatusOr<std::vector<std::string>> SplitGpuTypes(absl::string_view text) {
  const std::vector<std::string> known = BuiltinGpuTypes();
  std::vector<std::string> types;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    types.emplace_back(absl::StripAsciiWhitespace(word));
    if (std::find(known.begin(), known.end(), types.back()) != known.end()) continue;
    return absl::NotFoundError(absl::StrCat("--gpu-types ", text, ": no GPU type \"", types.back(),
                                            "\"; there are ", absl::StrJoin(known, ", "),
                                            DidYouMean(types.back(), known)));
  }
  return types;
}

absl::StatusOr<int> RunGenerateTrace(const TraceFlags& flags, Console& console) {
  TraceGeneratorOptions options = flags.options;
  RUBATO_ASSIGN_OR_RETURN(options.gpu_types, SplitGpuTypes(flags.gpu_types));
  Trace trace;
  {
    Progress progress(console, "drawing", options.jobs, "jobs");
    options.progress = [&](int64_t drawn) { progress.Update(drawn); };
    RUBATO_ASSIGN_OR_RETURN(trace, GenerateTrace(options, BuiltinModels(), BuiltinCurves()));
    progress.Update(options.jobs, "writing");
    std::string text = FormatTrace(trace);
    if (absl::EndsWith(flags.out, ".gz")) text = GzipBytes(text);
    RUBATO_RETURN_IF_ERROR(WriteFileAtomically(flags.out, text));
  }
  const double days = trace.jobs.back().submit_s / 86400;
  console.err << absl::StrFormat("%s: %d jobs over %.1f days, %.0f%% of %d GPUs asked for\n",
                                 flags.out, trace.jobs.size(), days, 100 * options.load,
                                 options.gpus);
  if (flags.json) {
    const nlohmann::ordered_json written = {
        {"path", flags.out},    {"jobs", trace.jobs.size()},      {"days", days},
        {"gpus", options.gpus}, {"gpu_types", options.gpu_types}, {"load", options.load},
        {"seed", options.seed}};
    console.out << JsonText(written) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> RunGenerateProfiles(const std::string& out, Console& console) {
  std::set<std::string> models;
  for (const BuiltinModel& model : BuiltinModels()) models.insert(model.model);
  for (const std::string& type : BuiltinGpuTypes()) {
    const std::filesystem::path folder = std::filesystem::path(out) / type;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return absl::NotFoundError(
          absl::StrCat("cannot make ", folder.string(), ": ", error.message()));
    }
    for (const std::string& model : models) {
      RUBATO_RETURN_IF_ERROR(WriteFileAtomically((folder / absl::StrCat(model, ".csv")).string(),
                                                 FormatBuiltinProfile(model, type)));
    }
  }
  console.err << out << ": " << models.size() << " models on " << BuiltinGpuTypes().size()
              << " types of GPU\n";
  return kExitDone;
}

}  // namespace

void AddGenerateTrace(Console& console, CLI::App& generate, GenerateRun& chosen) {
  const auto flags = std::make_shared<TraceFlags>();
  TraceGeneratorOptions& o = flags->options;
  CLI::App* app = generate.add_subcommand(
      "trace", "Draw a trace of jobs, shaped like a real cluster's, from a seed.");
  app->footer(
      "Examples:\n  rubato generate trace --jobs 1000 --gpus 128 --out jobs.csv\n  rubato simulate "
      "--trace jobs.csv --cluster n16g8 --out report.html");
  app->callback([flags, &console, &chosen] {
    chosen = [flags, &console] { return RunGenerateTrace(*flags, console); };
  });
  app->add_option("--jobs", o.jobs, "How many")->capture_default_str();
  app->add_option("--gpus", o.gpus, "GPUs of the cluster it is meant for")->capture_default_str();
  app->add_option("--seed", o.seed, "The same seed and flags give the same trace")
      ->check(NotNegative())
      ->capture_default_str();
  app->add_option("--out", flags->out, "The CSV to write; with .gz at its end, compressed")
      ->required();
  app->add_option("--load", o.load, "GPU time asked for, as a share of what there is")
      ->capture_default_str();
  app->add_option("--lambda-low", o.lambda_low, "Deadline = submission + lambda x run time,")
      ->capture_default_str();
  app->add_option("--lambda-high", o.lambda_high, "lambda uniform between the two")
      ->capture_default_str();
  app->add_option("--best-effort", o.best_effort_share, "Share of jobs without a deadline")
      ->capture_default_str();
  app->add_option("--soft", o.soft_share, "Share of deadlines that may be missed at a price")
      ->capture_default_str();
  app->add_option("--high-priority", o.high_priority_share, "Share of jobs with priority 1")
      ->capture_default_str();
  app->add_option("--sweeps", o.sweep_share, "Share of jobs that come in bursts of like ones")
      ->capture_default_str();
  app->add_option("--day-swing", o.day_swing, "0: as many arrivals by night as by day; up to 1")
      ->capture_default_str();
  app->add_option("--run-time", o.run_time_median_s, "Median seconds of a job on one GPU")
      ->capture_default_str();
  app->add_option("--gpu-types", flags->gpu_types,
                  "Types whose speed run times count on, separated by commas")
      ->capture_default_str();
  app->add_flag("--json", flags->json, "Print what was written as one JSON object");
}

void AddGenerateProfiles(Console& console, CLI::App& generate, GenerateRun& chosen) {
  const auto out = std::make_shared<std::string>();
  CLI::App* app = generate.add_subcommand(
      "profiles", "Write the built-in throughput curves as TYPE/MODEL.csv.");
  app->footer("Examples:\n  rubato generate profiles --out profiles");
  app->callback([out, &console, &chosen] {
    chosen = [out, &console] { return RunGenerateProfiles(*out, console); };
  });
  app->add_option("--out", *out, "The folder to write to")->required();
}

}  // namespace rubato

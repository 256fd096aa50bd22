// rubato analyze JOB.yaml: what is in a job's data, and which features to make of it.
#include <memory>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/can_write.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/adapters/yaml/features_file.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/analysis_report.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/progress.h"
#include "rubato/features/propose_label.h"
#include "rubato/roles/analyze_data.h"

namespace rubato {
namespace {

struct AnalyzeFlags {
  std::string job;
  std::vector<std::string> set;
  std::string html;
  std::string features;
  int64_t min_count = 0;
  bool force = false;
  bool json = false;
};

// Before anything is read. An older page of this command holds nothing that is not in the data;
// features may have been written or changed by hand.
absl::Status CheckPlaces(const AnalyzeFlags& flags) {
  if (!flags.html.empty()) {
    RUBATO_RETURN_IF_ERROR(Annotate(CheckCanWrite(flags.html, Folders::kThere), "--html"));
  }
  if (!flags.features.empty()) {
    RUBATO_RETURN_IF_ERROR(Annotate(CheckCanWrite(flags.features, Folders::kThere), "--features"));
  }
  if (flags.force) return absl::OkStatus();
  if (!flags.features.empty() && PathExists(flags.features)) {
    return absl::AlreadyExistsError(
        absl::StrCat("--features: ", flags.features, " is there; --force replaces it"));
  }
  if (flags.html.empty() || !PathExists(flags.html)) return absl::OkStatus();
  const absl::StatusOr<std::string> page = ReadWholeFile(flags.html);
  if (page.ok() && IsAnalysisHtml(*page)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "--html: ", flags.html, " is there, and no page of rubato analyze; --force replaces it"));
}

// The job's own: as it says, or as the features that it names say, if they are there yet.
std::string LabelOfJob(const AnalyzeFlags& flags, const JobSpec& spec, const Analysis& analysis) {
  if (!spec.data.label.empty()) return spec.data.label;
  const absl::StatusOr<JobSpec> whole = LoadJobFile(flags.job, flags.set);
  if (whole.ok() && !whole->features.empty()) {
    const absl::StatusOr<FeaturesSpec> before = LoadFeaturesFile(whole->features);
    if (before.ok() && !before->label.empty()) return before->label;
  }
  return LabelOf(analysis);
}

absl::Status WriteFeatures(const AnalyzeFlags& flags, const JobSpec& spec, const Analysis& analysis,
                           nlohmann::ordered_json* json, Console& console) {
  ProposalNotes notes;
  RUBATO_ASSIGN_OR_RETURN(const FeaturesSpec features,
                          ProposeFeatures(analysis, LabelOfJob(flags, spec, analysis),
                                          {.min_count = flags.min_count}, &notes));
  console.err << ProposalText(notes) << LabelText(features) << "\n";
  (*json)["proposed"] = ProposalJson(features, notes);
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(flags.features, FormatFeaturesText(features)));
  console.err << "wrote " << flags.features << ": use it with features: " << flags.features
              << " in the job\n";
  return absl::OkStatus();
}

absl::StatusOr<int> RunAnalyze(const AnalyzeFlags& flags, Console& console) {
  CatchStopSignals();
  RUBATO_RETURN_IF_ERROR(CheckPlaces(flags));
  // What the features are is the question here: a job that names a file need not have it yet.
  std::vector<std::string> set = flags.set;
  set.push_back("features=");
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(flags.job, set));
  DataSpec data = spec.data;
  if (flags.features.empty()) data.label.clear();  // Who looks for it has the table to look at.
  RUBATO_ASSIGN_OR_RETURN(Analysis analysis, AnalyzeFiles(data, data.train, console));
  analysis.ChooseStyles(LabelOfJob(flags, spec, analysis));
  console.err << AnalysisTable(analysis);
  nlohmann::ordered_json json = AnalysisJson(analysis);
  if (!flags.html.empty()) {
    RUBATO_RETURN_IF_ERROR(WriteFileAtomically(
        flags.html, AnalysisHtml(analysis, absl::StrCat("The data of ", spec.name))));
    console.err << "wrote " << flags.html << "\n";
  }
  if (!flags.features.empty()) {
    RUBATO_RETURN_IF_ERROR(WriteFeatures(flags, spec, analysis, &json, console));
  }
  if (flags.json) console.out << JsonText(json) << "\n";
  return kExitDone;
}

}  // namespace

absl::StatusOr<Analysis> AnalyzeFiles(const DataSpec& data,
                                      const std::vector<std::string>& patterns, Console& console) {
  std::unique_ptr<Progress> progress;
  return AnalyzeData(data, patterns, [&](int64_t done, int64_t total) {
    if (progress == nullptr) {
      progress = std::make_unique<Progress>(console, "analyzing", total, "bytes");
    }
    progress->Update(done);
    return StopSignals() > 0 ? absl::CancelledError("stopped while analyzing") : absl::OkStatus();
  });
}

void AddAnalyze(Cli& cli) {
  auto flags = std::make_shared<AnalyzeFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("analyze", "Statistics of a job's training data, and features made of them.",
                  "  rubato analyze job.yaml --html data.html\n"
                  "  rubato analyze job.yaml --features features.yaml --min-count 5\n",
                  [flags, &console] { return RunAnalyze(*flags, console); });
  command->add_option("job", flags->job, "The job file (YAML).")->required();
  command->add_option("--set", flags->set, "Override a key of the job file: KEY=VALUE.")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--html", flags->html, "Write a page with a histogram of every column.");
  CLI::Option* features =
      command->add_option("--features", flags->features, "Write the features that are proposed.");
  command
      ->add_option("--min-count", flags->min_count,
                   "How often a value must occur to get an id of its own; by default the\n"
                   "table says.")
      ->check(CLI::PositiveNumber)
      ->needs(features);
  command->add_flag("--force", flags->force, "Replace files that are there.");
  command->add_flag("--json", flags->json, "Print the statistics as one JSON object.");
}

}  // namespace rubato

// rubato evaluate, rubato predict: a trained model over a data set, at one version.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/checkpoint_flag.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/recognise.h"
#include "rubato/cli/stoppable.h"
#include "rubato/cli/summary.h"
#include "rubato/roles/run_directory.h"
#include "rubato/roles/score_data.h"

namespace rubato {
namespace {

struct EvaluateFlags {
  std::string model;
  std::vector<std::string> data;
  std::string format;
  int64_t from = 0;
  int workers = 1;
  PredictOptions predict;
  bool torchscript = false;
  bool json = false;
};

absl::StatusOr<Servable> OpenModel(const EvaluateFlags& flags) {
  RUBATO_ASSIGN_OR_RETURN(Servable servable, OpenServable(flags.model, flags.from));
  if (flags.torchscript) {
    RUBATO_RETURN_IF_ERROR(
        Annotate(servable.UseScript(), absl::StrCat("--torchscript: ", flags.model)));
  }
  return servable;
}

// What was asked for, or the job's own validation data.
std::vector<std::string> DataOf(const EvaluateFlags& flags, const Servable& servable) {
  if (!flags.data.empty()) return flags.data;
  const DataSpec& own = servable.job.data;
  return own.holdout_every > 0 ? own.train : own.validation;
}

// Opens what shall be scored, as it is told or seems to be.
absl::StatusOr<ScoredData> OpenScored(Servable& servable, const EvaluateFlags& flags,
                                      const std::vector<std::string>& patterns,
                                      const std::string& index, bool has_labels, Console& console) {
  // The job's own data is read as the job reads it, whatever it is called.
  DataSpec spec = servable.job.data;
  if (!flags.data.empty() || !flags.format.empty()) {
    RUBATO_ASSIGN_OR_RETURN(spec, RecogniseForModel(servable.job.data, patterns, flags.format));
  }
  if (!flags.data.empty()) spec.holdout_every = 0;  // Of other data all is scored.
  absl::StatusOr<ScoredData> data = ScoredData::Open(servable, spec, patterns, index, has_labels,
                                                     Shown(console, "indexing", "bytes"));
  if (data.ok() || !absl::IsInvalidArgument(data.status()) || !flags.format.empty()) return data;
  return absl::InvalidArgumentError(absl::StrCat(data.status().message(), " (read as ", spec.format,
                                                 "; --format reads it as something else)"));
}

absl::StatusOr<int> Evaluate(const EvaluateFlags& flags, Console& console) {
  const absl::Time start = absl::Now();
  RUBATO_ASSIGN_OR_RETURN(Servable servable, OpenModel(flags));
  const std::vector<std::string> patterns = DataOf(flags, servable);
  if (patterns.empty()) {
    return absl::InvalidArgumentError(
        "--data: the job has no validation data of its own; name some");
  }
  RUBATO_ASSIGN_OR_RETURN(const auto scratch, RunDirectory::Make());
  RUBATO_ASSIGN_OR_RETURN(const ScoredData data,
                          OpenScored(servable, flags, patterns, scratch->path() + "/index",
                                     /*has_labels=*/true, console));
  RUBATO_ASSIGN_OR_RETURN(
      const EvaluatedData result,
      EvaluateData(servable, data, flags.workers, Shown(console, "evaluating", "records")));
  console.err << servable.job.model << " of job " << servable.job.name << ", checkpoint "
              << servable.checkpoint << " (step " << servable.step << "), on " << result.records
              << " records\n";
  for (const auto& [name, value] : result.metrics) {
    console.err << absl::StrFormat("  %-12s %.6f\n", name, value);
  }
  if (result.bad_rows > 0) {
    console.err << "warning: " << result.bad_rows << " rows could not be read and are left out\n";
  }
  nlohmann::ordered_json metrics = result.metrics;
  if (IsOneClass(result.metrics)) {
    console.err << "warning: all labels are of one class, so there is no auc\n";
    metrics["auc"] = nullptr;
  }
  if (const std::string text = WorseThanConstantText(result.metrics); !text.empty()) {
    console.err << "warning: " << text << "\n";
  }
  if (flags.json) {
    console.out << JsonText(nlohmann::ordered_json{
                       {"job", servable.job.name},
                       {"model", servable.job.model},
                       {"checkpoint", servable.checkpoint},
                       {"step", servable.step},
                       {"records", result.records},
                       {"bad_rows", result.bad_rows},
                       {"seconds", absl::ToDoubleSeconds(absl::Now() - start)},
                       {"metrics", metrics}})
                << "\n";
  }
  return kExitDone;
}

bool IsSamePlace(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

// Whether `out` is what is read: the file itself, by whatever name, or the table.
bool IsRead(const std::string& out, const std::string& data) {
  const absl::StatusOr<SqlUri> to = ParseSqlUri(out), from = ParseSqlUri(data);
  if (!IsSqlUri(data)) return IsSamePlace(IsSqlUri(out) && to.ok() ? to->connect : out, data);
  if (!from.ok()) return false;
  if (!IsSqlUri(out)) return from->sqlite && IsSamePlace(out, from->connect);
  if (!to.ok() || to->table != from->table || to->table.empty()) return false;
  return to->sqlite && from->sqlite ? IsSamePlace(to->connect, from->connect)
                                    : to->connect == from->connect;
}

// Before anything is read: what nobody asked to replace stays.
absl::Status CheckOut(const EvaluateFlags& flags) {
  const std::string& out = flags.predict.out;
  std::vector<std::string> read;
  for (const std::string& pattern : flags.data) {
    const absl::StatusOr<std::vector<std::string>> paths = ExpandPatterns({pattern});
    if (IsSqlUri(pattern) || !paths.ok()) {
      read.push_back(pattern);  // What is wrong with it is told by who reads it.
    } else {
      read.insert(read.end(), paths->begin(), paths->end());
    }
  }
  for (const std::string& data : read) {
    if (!IsRead(out, data)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--out: ", WithoutPassword(out), " is what --data reads; name another"));
  }
  // The file takes the place of what is there, which is not to be a device, a pipe or a folder.
  std::error_code error;
  if (!IsSqlUri(out) && PathExists(out) && !std::filesystem::is_regular_file(out, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: ", out, " is there and is no file; name another"));
  }
  // Where lines wait, whose they are is known later (roles/prediction_file.h).
  const bool may_go_on = PathExists(out + ".partial.state");
  if (!IsSqlUri(out) && PathExists(out) && !may_go_on && !flags.predict.replace) {
    return absl::AlreadyExistsError(absl::StrCat(out, " is there; --force replaces it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Predict(const EvaluateFlags& flags, Console& console) {
  const absl::Time start = absl::Now();
  RUBATO_RETURN_IF_ERROR(CheckOut(flags));
  RUBATO_ASSIGN_OR_RETURN(Servable servable, OpenModel(flags));
  // Beside a file, so that going on need not count the records again.
  RUBATO_ASSIGN_OR_RETURN(const auto scratch, RunDirectory::Make());
  const std::string index = IsSqlUri(flags.predict.out) ? scratch->path() + "/index"
                                                        : flags.predict.out + ".partial.index";
  RUBATO_ASSIGN_OR_RETURN(const ScoredData data, OpenScored(servable, flags, flags.data, index,
                                                            /*has_labels=*/false, console));
  RUBATO_ASSIGN_OR_RETURN(
      const PredictedData result,
      PredictData(servable, data, flags.predict, Shown(console, "predicting", "records")));
  RUBATO_RETURN_IF_ERROR(RemoveTree(index));
  if (result.resumed_from > 0) {
    console.err << "went on after " << result.resumed_from << " records\n";
  }
  console.err << "wrote " << result.records << " scores to " << WithoutPassword(flags.predict.out)
              << "\n";
  if (result.bad_rows > 0) {
    console.err << "warning: " << result.bad_rows
                << " rows could not be read and have the score nan; the first: " << result.first_bad
                << "\n";
  }
  if (flags.json) {
    console.out << JsonText(nlohmann::ordered_json{
                       {"out", WithoutPassword(flags.predict.out)},
                       {"checkpoint", servable.checkpoint},
                       {"records", result.records},
                       {"resumed_from", result.resumed_from},
                       {"bad_rows", result.bad_rows},
                       {"seconds", absl::ToDoubleSeconds(absl::Now() - start)}})
                << "\n";
  }
  return kExitDone;
}

void AddCommon(CLI::App* command, EvaluateFlags& flags) {
  command->add_option("model", flags.model, "A job directory, or an export.")->required();
  command
      ->add_option("--from", flags.from,
                   "Of a job: which checkpoint; default the best kept, or the newest.")
      ->transform(CheckpointNumber());
  command
      ->add_option("--format", flags.format,
                   "How the data is read, if neither it nor its name says so; default as in\n"
                   "training.")
      ->check(CLI::IsMember({"criteo", "csv", "tsv", "ssv", "psv", "libfm", "libsvm", "libffm",
                             "idx", "recordio", "sql"}));
  command->add_flag("--torchscript", flags.torchscript,
                    "Of an export: score by its model.pt, not by the model's code.");
  command->add_flag("--json", flags.json, "Print the result as one JSON object.");
}

}  // namespace

void AddEvaluate(Cli& cli) {
  auto flags = std::make_shared<EvaluateFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("evaluate", "Metrics of a trained model on a data set.",
                  "  rubato evaluate rubato-jobs/ctr-1\n  rubato evaluate model --data test.csv "
                  "--workers 2 --json\n"
                  "  rubato evaluate model --data dump.txt --format tsv\n",
                  [flags, &console] {
                    return UntilStopped([&] { return Evaluate(*flags, console); }, "", console);
                  });
  AddCommon(command, *flags);
  command->add_option("--data", flags->data,
                      "Files or globs, with labels; default the job's validation data.");
  command
      ->add_option("--workers", flags->workers,
                   "Models that score side by side; the metrics are the same to the last digit.")
      ->check(CLI::Range(1, 256));
}

void AddPredict(Cli& cli) {
  auto flags = std::make_shared<EvaluateFlags>();
  Console& console = cli.console();
  CLI::App* command = cli.Command(
      "predict", "Scores of a trained model, a line a record; goes on where it was stopped.",
      "  rubato predict rubato-jobs/ctr-1 --data new.csv --out scores.tsv --id user\n"
      "  rubato predict model --data new.csv --out 'postgresql:///shop?table=scores' --id user\n",
      [flags, &console] {
        return UntilStopped([&] { return Predict(*flags, console); },
                            "; the same command goes on from there", console);
      });
  AddCommon(command, *flags);
  command->add_option("--data", flags->data, "Files or globs; labels need not be there.")
      ->required();
  command
      ->add_option("--out", flags->predict.out,
                   "A file, of tab-separated text; or a table: sqlite:///scores.db?table=scores,\n"
                   "postgresql://user@host/base?table=scores.")
      ->required();
  command->add_option("--id", flags->predict.id_column,
                      "The column that names a row; default its number, from 0.");
  command->add_flag("--force", flags->predict.replace,
                    "Replace the file if it is there, or the scores of another prediction.");
}

}  // namespace rubato

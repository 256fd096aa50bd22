// rubato init --data FILE --label COLUMN: a job file and a features file that run as they are.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "rubato/adapters/files/can_write.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/adapters/yaml/features_file.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/analysis_report.h"
#include "rubato/cli/check_validation.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/recipe.h"
#include "rubato/cli/recognise.h"
#include "rubato/data/holdout.h"
#include "rubato/data/quote.h"
#include "rubato/features/propose_label.h"
#include "rubato/features/transforms.h"

namespace rubato {
namespace fs = std::filesystem;
namespace {

struct InitFlags {
  std::vector<std::string> data;
  std::vector<std::string> validation;
  std::optional<int64_t> holdout_every;  // None: where there is no --validation, one in ten.
  std::string format;
  std::string label;
  std::vector<std::string> positive;
  std::string model = "deepfm";
  std::string out = ".";
  int64_t min_count = 0;
  bool force = false;
  bool json = false;
};

// Of files and queries, in which quotes may stand.
std::string PathList(const std::vector<std::string>& paths) {
  std::vector<std::string> quoted;
  for (const std::string& path : paths) {
    const std::string inner = absl::StrReplaceAll(path, {{"\\", "\\\\"}, {"\"", "\\\""}});
    quoted.push_back(absl::StrCat("\"", inner, "\""));
  }
  return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
}

// Only what differs from the defaults; a job file of forty keys helps nobody.
std::string JobText(const JobSpec& spec) {
  const DataSpec& data = spec.data;
  std::vector<std::string> options;
  for (const auto& [name, value] : spec.model_options) options.push_back(name + ": " + value);
  std::string text =
      absl::StrCat("name: ", spec.name, "\nmodel: ", spec.model, "\nmodel_options: {",
                   absl::StrJoin(options, ", "), "}\nfeatures: features.yaml\n",
                   "data:\n  train: ", PathList(data.train), "\n");
  if (!data.validation.empty()) {
    absl::StrAppend(&text, "  validation: ", PathList(data.validation), "\n");
  }
  if (data.holdout_every > 0) {
    absl::StrAppend(&text, "  holdout_every: ", data.holdout_every,
                    "  # One row in so many is for evaluation, and never trained on.\n");
  }
  absl::StrAppend(&text, "  format: ", data.format, "\n");
  if (!data.header) absl::StrAppend(&text, "  header: false\n");
  if (data.bad_rows != DataSpec().bad_rows) {
    absl::StrAppend(&text, "  bad_rows: ", data.bad_rows, "\n  bad_rows_max: ", data.bad_rows_max,
                    "\n");
  }
  absl::StrAppend(&text, "batch_size: ", spec.batch_size, "\nepochs: ", spec.epochs,
                  "\noptimizer: {name: ", spec.optimizer.name,
                  ", learning_rate: ", spec.optimizer.learning_rate, "}\n");
  if (spec.mode != JobSpec().mode) {
    absl::StrAppend(&text, "mode: ", spec.mode,
                    "  # The mean of so many batches is a step, whoever computes them.\n",
                    "rounds: {gradients: ", spec.rounds.gradients, "}\n");
  }
  if (spec.max_inflight != JobSpec().max_inflight) {
    absl::StrAppend(&text, "max_inflight: ", spec.max_inflight, "\n");
  }
  if (!data.has_validation()) return text;
  absl::StrAppend(
      &text,
      "# An evaluation brings no gain if neither the AUC is the highest so far nor the loss the ",
      "lowest.\n# Then the rate falls, and at the second in a row training stops; the first of a ",
      "job are forgiven.\n# The version of the highest AUC is the model, if its logloss is below "
      "that of the "
      "constant rate.\n",
      "evaluate: {every_steps: ", spec.evaluate.every_steps,
      ", lower_rate: ", spec.evaluate.lower_rate,
      ", stop_after_stalls: ", spec.evaluate.stop_after_stalls,
      ", forgive_stalls: ", spec.evaluate.forgive_stalls, ", keep_best: true}\n");
  return text;
}

// Of the file, as far as a job can be called so: "train-*.tsv.gz" is "train".
std::string NameFor(const std::string& path) {
  std::string name;
  for (const char c : fs::path(path).filename().string()) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') break;
    name.push_back(c);
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "job" : name;
}

// Prints what may cost the user something, and keeps it for --json.
class Warnings {
 public:
  explicit Warnings(Console& console) : console_(console) {}
  void Say(const std::string& text) {
    if (text.empty()) return;
    said_.push_back(text);
    console_.err << "warning: " << text << "\n";
  }
  const std::vector<std::string>& said() const { return said_; }

 private:
  Console& console_;
  std::vector<std::string> said_;
};

const ColumnStats& LabelStats(const Analysis& analysis, const FeaturesSpec& features) {
  const auto found = std::find(analysis.columns.begin(), analysis.columns.end(), features.label);
  return analysis.stats[static_cast<size_t>(found - analysis.columns.begin())];
}

// Without figures nobody knows what a model is worth, nor when it is at its best.
std::string NoValidation(int64_t epochs) {
  return absl::StrCat("no --validation, and no rows are held back: training makes ", epochs,
                      epochs == 1 ? " pass" : " passes",
                      " and says nothing of how good it is; with rows to evaluate on (the newest, "
                      "where time matters) it stops at its best");
}

// Rows of the rarer class.
int64_t RarerRows(const Analysis& analysis, const FeaturesSpec& features) {
  const ColumnStats& stats = LabelStats(analysis, features);
  int64_t all = 0, yes = 0;
  const auto count = [&](const std::string& text, int64_t rows, bool is_value) {
    const double number = ToNumber(text).value_or(0);
    const bool is_yes = features.at_least.has_value() ? is_value && number >= *features.at_least
                        : features.positive.empty()
                            ? number == 1
                            : std::find(features.positive.begin(), features.positive.end(), text) !=
                                  features.positive.end();
    if (is_yes) yes += rows;
    if (is_yes || is_value) all += rows;
  };
  for (const CommonTexts::Item& item : stats.common().Items()) count(item.text, item.count, true);
  for (const auto& [text, rows] : stats.missing_texts()) {
    const std::vector<std::string>& no = features.negative;
    count(text, rows, std::find(no.begin(), no.end(), text) != no.end());
  }
  // Of many different numbers only the most common are counted.
  const double share =
      static_cast<double>(stats.present()) / static_cast<double>(std::max(all, int64_t{1}));
  const double rarer = static_cast<double>(std::min(yes, all - yes));
  return features.at_least.has_value() ? static_cast<int64_t>(share * rarer)
                                       : std::min(yes, all - yes);
}

// How many rows of `rows`, of which `rarer` are of the rarer class, are trained on.
int64_t ChooseHoldout(const InitFlags& flags, int64_t rows, int64_t rarer, DataSpec* data,
                      Warnings* warnings, Console& console) {
  constexpr int64_t kFew = 100;  // Of fewer, a tenth says nothing.
  constexpr int64_t kFewRarer = 10;
  if (!data->validation.empty()) return rows;
  // A tenth, or more, up to a third, where that has hardly any of the rarer class.
  const int64_t enough = std::clamp<int64_t>(rarer / kFewRarer, 3, 10);
  data->holdout_every = flags.holdout_every.value_or(rows < kFew ? 0 : enough);
  if (data->holdout_every == 0) return rows;
  if (const int64_t held = rarer / data->holdout_every; held < kFewRarer) {
    warnings->Say(absl::StrCat("of the rarer class there are ", rarer, " rows, and about ", held,
                               " of them are held back: what training says of itself, and which "
                               "version is the best, is a matter of luck then"));
  }
  const int64_t held = Holdout(data->holdout_every).HeldOf(rows);
  console.err << "held back: " << held << " of " << rows << " rows, one in every "
              << data->holdout_every << ", are for evaluation and never trained on; --validation "
              << "FILE has them in a file of their own, as the newest, where time matters\n";
  return rows - held;
}

// Training would stop at rows without a label. "None" may be one.
int64_t RowsWithout(const Analysis& analysis, const FeaturesSpec& features) {
  const ColumnStats& stats = LabelStats(analysis, features);
  int64_t missing = stats.missing();
  for (const std::vector<std::string>* labels : {&features.positive, &features.negative}) {
    for (const std::string& text : *labels) {
      const auto said = stats.missing_texts().find(text);
      if (said != stats.missing_texts().end()) missing -= said->second;
    }
  }
  return missing;
}

absl::StatusOr<FeaturesSpec> Propose(const InitFlags& flags, const Analysis& analysis,
                                     ProposalNotes* notes, Console& console) {
  const std::string label = flags.label.empty() ? LabelOf(analysis) : flags.label;
  absl::StatusOr<FeaturesSpec> features = ProposeFeatures(
      analysis, label, {.min_count = flags.min_count, .positive = flags.positive}, notes);
  if (!features.ok() && flags.label.empty() && !IsCalledALabel(label)) {
    return Annotate(features.status(),
                    "--label names no column, and none is called label, click, "
                    "clicked or target");
  }
  RUBATO_RETURN_IF_ERROR(features.status());
  if (flags.label.empty()) console.err << "label: '" << label << "'; --label names another\n";
  console.err << ProposalText(*notes) << LabelText(*features) << "; --positive says otherwise\n";
  return features;
}

// Rows that training leaves out.
struct LeftOut {
  int64_t unlabelled = 0, unread = 0;
};

// INVALID_ARGUMENT if so many rows of the `flag`'s data cannot be read that it is hardly the table
// that it was taken for.
absl::Status CheckUnread(const Analysis& analysis, absl::string_view flag, Warnings* warnings) {
  constexpr int64_t kMany = 100;  // One row in so many.
  if (analysis.bad_rows == 0) return absl::OkStatus();
  const int64_t all = analysis.rows + analysis.bad_rows;
  if (kMany * analysis.bad_rows > all) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", analysis.bad_rows, " of ", all,
                                                   " rows cannot be read, more than one in ", kMany,
                                                   "; the first: ", analysis.first_bad));
  }
  warnings->Say(absl::StrCat(flag, ": ", analysis.bad_rows, " of ", all,
                             " rows cannot be read, and data.bad_rows: skip leaves such out; ",
                             "the first: ", analysis.first_bad));
  return absl::OkStatus();
}

// Tells of texts in a label of 0 and 1; returns how many there are.
int64_t WrongLabels(const Analysis& analysis, const FeaturesSpec& features, absl::string_view flag,
                    Warnings* warnings) {
  const bool are_numbers = features.positive.empty() && !features.at_least.has_value();
  const ColumnStats& stats = LabelStats(analysis, features);
  const int64_t slips = are_numbers ? LabelSlips(stats) : 0;
  if (slips == 0) return 0;
  warnings->Say(absl::StrCat(flag, ": the label '", features.label, "' is neither 0 nor 1 in ",
                             slips, slips == 1 ? " row" : " rows", ", as ",
                             Quote(stats.stranger_texts().begin()->first),
                             "; data.bad_rows: skip leaves such out"));
  return slips;
}

// Looks at the validation data, if there is some. The rows of both that cannot be used.
absl::StatusOr<LeftOut> LookAtValidation(const DataSpec& data, const Analysis& analysis,
                                         FeaturesSpec* features, Warnings* warnings,
                                         Console& console) {
  LeftOut rows = {RowsWithout(analysis, *features),
                  analysis.bad_rows + WrongLabels(analysis, *features, "--data", warnings)};
  RUBATO_RETURN_IF_ERROR(CheckUnread(analysis, "--data", warnings));
  if (data.validation.empty()) return rows;
  RUBATO_ASSIGN_OR_RETURN(Analysis held_out, AnalyzeFiles(data, data.validation, console));
  held_out.ReadAs(analysis);
  std::vector<std::string> said;
  RUBATO_RETURN_IF_ERROR(CheckValidation(analysis, held_out, features, &said));
  RUBATO_RETURN_IF_ERROR(CheckUnread(held_out, "--validation", warnings));
  for (const std::string& text : said) warnings->Say(text);
  rows.unlabelled += RowsWithout(held_out, *features);
  rows.unread += held_out.bad_rows + WrongLabels(held_out, *features, "--validation", warnings);
  return rows;
}

absl::StatusOr<int> RunInit(const InitFlags& flags, Console& console) {
  CatchStopSignals();
  const std::string job_path = flags.out + "/job.yaml";
  const std::string features_path = flags.out + "/features.yaml";
  for (const std::string& path : {job_path, features_path}) {
    if (PathExists(path) && !flags.force) {
      return absl::AlreadyExistsError(absl::StrCat(path, " is there; --force replaces it"));
    }
  }
  RUBATO_RETURN_IF_ERROR(Annotate(CheckCanWrite(job_path, Folders::kMade), "--out"));
  RUBATO_RETURN_IF_ERROR(CheckModel(flags.model));
  if (!flags.validation.empty() && flags.holdout_every.value_or(0) > 0) {
    return absl::InvalidArgumentError("--holdout-every: --validation is there as well");
  }
  RUBATO_ASSIGN_OR_RETURN(
      const DataSpec data,
      RecogniseData(flags.data, flags.validation, {.format = flags.format, .label = flags.label}));
  console.err << "format: " << data.format << (data.header ? "" : ", no header") << "\n";
  DataSpec labelled = data;
  labelled.label = flags.label;
  RUBATO_ASSIGN_OR_RETURN(Analysis analysis, AnalyzeFiles(labelled, data.train, console));
  analysis.ChooseStyles(flags.label.empty() ? LabelOf(analysis) : flags.label);
  console.err << AnalysisTable(analysis);
  ProposalNotes notes;
  RUBATO_ASSIGN_OR_RETURN(FeaturesSpec features, Propose(flags, analysis, &notes, console));
  Warnings warnings(console);
  RUBATO_ASSIGN_OR_RETURN(const LeftOut left_out,
                          LookAtValidation(data, analysis, &features, &warnings, console));
  warnings.Say(OneFieldText(flags.model, features));

  JobSpec spec;
  spec.name = NameFor(flags.data[0]);
  spec.model = flags.model;
  spec.data = data;
  if (left_out.unlabelled + left_out.unread > 0) {
    spec.data.bad_rows = "skip";
    // Other data to evaluate has some, too.
    spec.data.bad_rows_max += 2 * (left_out.unlabelled + left_out.unread);
  }
  if (left_out.unlabelled > 0) {
    console.err << "label '" << features.label << "': " << left_out.unlabelled
                << " rows have none; data.bad_rows: skip leaves them out\n";
  }
  const int64_t trained =
      ChooseHoldout(flags, analysis.rows + analysis.bad_rows, RarerRows(analysis, features),
                    &spec.data, &warnings, console);
  ChooseRecipe(RecipeInputOf(trained, features), &spec);
  if (!spec.data.has_validation()) warnings.Say(NoValidation(spec.epochs));
  const std::string text = JobText(spec);
  RUBATO_RETURN_IF_ERROR(MakeDirectories(flags.out));
  RUBATO_RETURN_IF_ERROR(ParseJobText(text, job_path).status());
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(features_path, FormatFeaturesText(features)));
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(job_path, text));
  console.err << "wrote " << features_path << " and " << job_path << "; now: rubato train "
              << job_path << "\n";
  if (flags.json) {
    nlohmann::ordered_json json = {{"job", job_path},
                                   {"features_file", features_path},
                                   {"model", spec.model},
                                   {"format", data.format},
                                   {"rows", analysis.rows},
                                   {"bad_rows", analysis.bad_rows},
                                   {"rows_held_back", analysis.rows + analysis.bad_rows - trained}};
    json["warnings"] = warnings.said();
    json["proposed"] = ProposalJson(features, notes);
    console.out << JsonText(json) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddInit(Cli& cli) {
  auto flags = std::make_shared<InitFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("init", "Look at a table and write a job that trains on it.",
                  "  rubato init --data clicks.csv --label clicked\n"
                  "  rubato init --data train.tsv.gz --validation test.tsv.gz --out ctr\n"
                  "  rubato init --data clicks.csv --label clicked --model dcnv2 --min-count 10\n",
                  [flags, &console] { return RunInit(*flags, console); });
  command->add_option("--data", flags->data, "Files or globs to train on; their format is found.")
      ->required();
  command->add_option("--validation", flags->validation, "Files or globs to evaluate on.");
  command
      ->add_option("--format", flags->format,
                   "The format of these files, if it is not found right.")
      ->check(CLI::IsMember(
          {"criteo", "csv", "tsv", "ssv", "psv", "libfm", "libsvm", "libffm", "recordio"}));
  command
      ->add_option("--holdout-every", flags->holdout_every,
                   "Without --validation: one row of every so many is held back to evaluate on;\n"
                   "default 10; 0: train on all, and evaluate on none.")
      ->check(CLI::Range(0, 1 << 30));
  command->add_option("--label", flags->label,
                      "The label's column, by its number where there is no header; by default "
                      "the one called label, click, clicked or target, or else the first.");
  command->add_option(
      "--positive", flags->positive,
      "The label's values that count as a yes, where there are more than two; '>=4': "
      "from which number on.");
  command->add_option("--model", flags->model, "The model to train.");
  command
      ->add_option("--min-count", flags->min_count,
                   "How often a value must occur to get an id of its own; by default the\n"
                   "table says.")
      ->check(CLI::PositiveNumber);
  command->add_option("--out", flags->out, "Folder for job.yaml and features.yaml.");
  command->add_flag("--force", flags->force, "Replace files that are there.");
  command->add_flag("--json", flags->json, "Print what was found and chosen as one JSON object.");
}

}  // namespace rubato

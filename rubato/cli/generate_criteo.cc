// rubato generate criteo: click logs from a planted model, and how well it can be learned.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/packed_file.h"
#include "rubato/base/json_text.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/cli/generate.h"
#include "rubato/cli/progress.h"
#include "rubato/data/criteo_generator.h"

namespace rubato {
namespace {

constexpr int64_t kRowsPerUpdate = 1024;

struct CriteoFlags {
  int64_t rows = 200000;
  int64_t validation_rows = -1;  // -1: a tenth, and at least 10,000.
  uint64_t seed = 7;
  std::string out = "data";
  int64_t files = 1;
  bool gzip = false;
  bool json = false;
};

struct WrittenFile {
  std::string path;
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Writes `rows` rows to `path`; their labels go to `labels` unless that is null.
absl::StatusOr<WrittenFile> WriteRows(const CriteoGenerator& generator, Rng& rng,
                                      const std::string& path, int64_t rows, bool gzip,
                                      std::vector<GeneratedLabel>* labels, Console& console) {
  RUBATO_ASSIGN_OR_RETURN(PackedFile file, PackedFile::Create(path, gzip));
  Progress progress(console, path, rows, "rows");
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    text.clear();
    const GeneratedLabel label = generator.AppendRow(rng, &text);
    if (labels != nullptr) labels->push_back(label);
    RUBATO_RETURN_IF_ERROR(file.Write(text));
    if (row % kRowsPerUpdate == 0) progress.Update(row);
  }
  progress.Update(rows);
  RUBATO_ASSIGN_OR_RETURN(const int64_t bytes, file.Commit());
  return WrittenFile{.path = path, .rows = rows, .bytes = bytes};
}

absl::Status CheckFlags(const CriteoFlags& flags) {
  if (flags.rows < 1) return absl::InvalidArgumentError("--rows: at least 1");
  if (flags.validation_rows == 0 || flags.validation_rows < -1) {
    return absl::InvalidArgumentError("--validation-rows: at least 1");
  }
  if (flags.files < 1 || flags.files > std::min<int64_t>(flags.rows, 10000)) {
    return absl::InvalidArgumentError("--files: from 1 to the number of rows, at most 10000");
  }
  return absl::OkStatus();
}

// The rows of the training set do not depend on how many files they are spread over.
absl::StatusOr<std::vector<WrittenFile>> WriteTrain(const CriteoFlags& flags,
                                                    const CriteoGenerator& generator,
                                                    Console& console) {
  Rng rng(Mix(flags.seed, 1));
  std::vector<WrittenFile> written;
  const std::string suffix = flags.gzip ? ".tsv.gz" : ".tsv";
  for (int64_t i = 0; i < flags.files; ++i) {
    const std::string name =
        flags.files == 1 ? "train" : absl::StrFormat("train-%04d-of-%04d", i + 1, flags.files);
    const int64_t rows = flags.rows * (i + 1) / flags.files - flags.rows * i / flags.files;
    RUBATO_ASSIGN_OR_RETURN(WrittenFile file,
                            WriteRows(generator, rng, absl::StrCat(flags.out, "/", name, suffix),
                                      rows, flags.gzip, nullptr, console));
    written.push_back(std::move(file));
  }
  return written;
}

nlohmann::json Truth(const CriteoFlags& flags, const CriteoGenerator& generator,
                     const BestScores& best, int64_t validation_rows) {
  nlohmann::json cardinalities;
  for (int i = 0; i < kCriteoTexts; ++i) {
    cardinalities[absl::StrCat("C", i + 1)] = generator.cardinalities()[i];
  }
  return {{"seed", flags.seed},
          {"rows", flags.rows},
          {"validation_rows", validation_rows},
          {"positive_rate", best.click_rate},
          {"best_auc", best.auc},
          {"best_logloss", best.logloss},
          {"cardinalities", cardinalities}};
}

absl::StatusOr<int> RunGenerateCriteo(const CriteoFlags& flags, Console& console) {
  RUBATO_RETURN_IF_ERROR(CheckFlags(flags));
  RUBATO_RETURN_IF_ERROR(MakeDirectories(flags.out));
  const int64_t validation_rows =
      flags.validation_rows > 0 ? flags.validation_rows : std::max<int64_t>(flags.rows / 10, 10000);
  const CriteoGenerator generator({.seed = flags.seed});
  RUBATO_ASSIGN_OR_RETURN(std::vector<WrittenFile> files, WriteTrain(flags, generator, console));
  Rng rng(Mix(flags.seed, 2));
  std::vector<GeneratedLabel> labels;
  RUBATO_ASSIGN_OR_RETURN(
      WrittenFile valid,
      WriteRows(generator, rng, absl::StrCat(flags.out, "/valid.tsv", flags.gzip ? ".gz" : ""),
                validation_rows, flags.gzip, &labels, console));
  files.push_back(std::move(valid));

  const BestScores best = ScoreTruth(std::move(labels));
  nlohmann::json truth = Truth(flags, generator, best, validation_rows);
  const std::string truth_path = absl::StrCat(flags.out, "/truth.json");
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(truth_path, absl::StrCat(JsonText(truth, 2), "\n"),
                                             Durability::kProcess));

  for (const WrittenFile& file : files) {
    console.err << "wrote " << file.path << ": " << file.rows << " rows, "
                << absl::StrFormat("%.1f MB\n", static_cast<double>(file.bytes) / 1e6);
    truth["files"].push_back({{"path", file.path}, {"rows", file.rows}, {"bytes", file.bytes}});
  }
  console.err << absl::StrFormat(
      "wrote %s: best reachable AUC %.4f, logloss %.4f, clicks %.1f %%\n", truth_path, best.auc,
      best.logloss, 100 * best.click_rate);
  if (flags.json) console.out << JsonText(truth) << "\n";
  return kExitDone;
}

}  // namespace

void AddGenerateCriteo(Console& console, CLI::App& generate, GenerateRun& chosen) {
  const auto flags = std::make_shared<CriteoFlags>();
  CLI::App* criteo =
      generate.add_subcommand("criteo",
                              "Click logs in Criteo's shape from a planted model: train.tsv, "
                              "valid.tsv, and truth.json with "
                              "the best AUC and logloss that can be reached on valid.tsv.");
  criteo->add_option("--rows", flags->rows, "Rows to train on")->capture_default_str();
  criteo->add_option("--validation-rows", flags->validation_rows,
                     "Rows held out (default: a tenth, at least 10000)");
  criteo->add_option("--seed", flags->seed, "The same seed gives the same bytes")
      ->capture_default_str();
  criteo->add_option("--out", flags->out, "Folder to write to")->capture_default_str();
  criteo->add_option("--files", flags->files, "Files to spread the training rows over")
      ->capture_default_str();
  criteo->add_flag("--gzip", flags->gzip, "Compress the files");
  criteo->add_flag("--json", flags->json, "Print what was written as one JSON object");
  criteo->footer(
      "Examples:\n"
      "  rubato generate criteo --rows 1000000 --out data\n"
      "  rubato generate criteo --rows 1000000 --files 8 --gzip --out data");
  criteo->callback([flags, &console, &chosen] {
    chosen = [flags, &console] { return RunGenerateCriteo(*flags, console); };
  });
}

}  // namespace rubato

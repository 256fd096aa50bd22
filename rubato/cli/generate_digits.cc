// rubato generate digits: drawn digits in the files of MNIST.
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
#include "rubato/data/digits_generator.h"
#include "rubato/data/idx.h"

namespace rubato {
namespace {

constexpr int64_t kRowsPerUpdate = 256;
constexpr int64_t kRowsMax = 100'000'000;  // An idx header counts up to 4 billion.

struct DigitsFlags {
  int64_t rows = 60000;
  int64_t validation_rows = -1;  // -1: a sixth, and at least 1,000.
  uint64_t seed = 7;
  double noise = DigitStyle().noise;
  std::string out = "digits";
  bool gzip = false;
  bool json = false;
};

absl::Status CheckFlags(const DigitsFlags& flags) {
  if (flags.rows < 1 || flags.rows > kRowsMax) {
    return absl::InvalidArgumentError(absl::StrCat("--rows: from 1 to ", kRowsMax));
  }
  if (flags.validation_rows == 0 || flags.validation_rows < -1 ||
      flags.validation_rows > kRowsMax) {
    return absl::InvalidArgumentError(absl::StrCat("--validation-rows: from 1 to ", kRowsMax));
  }
  if (!(flags.noise >= 0 && flags.noise <= 1)) {
    return absl::InvalidArgumentError("--noise: from 0 to 1");
  }
  return absl::OkStatus();
}

// Writes the images and the labels of one part and adds them to `written`.
absl::Status WritePart(const DigitsFlags& flags, absl::string_view part, int64_t rows, Rng rng,
                       Console& console, nlohmann::json& written) {
  const char* suffix = flags.gzip ? ".gz" : "";
  const std::string base = absl::StrCat(flags.out, "/", part);
  RUBATO_ASSIGN_OR_RETURN(
      PackedFile images,
      PackedFile::Create(absl::StrCat(base, "-images-idx3-ubyte", suffix), flags.gzip));
  RUBATO_ASSIGN_OR_RETURN(
      PackedFile labels,
      PackedFile::Create(absl::StrCat(base, "-labels-idx1-ubyte", suffix), flags.gzip));
  RUBATO_RETURN_IF_ERROR(images.Write(FormatIdxHeader({rows, kDigitSide, kDigitSide})));
  RUBATO_RETURN_IF_ERROR(labels.Write(FormatIdxHeader({rows})));
  const DigitStyle style = {.noise = flags.noise};
  Progress progress(console, images.path(), rows, "images");
  std::string pixels;
  for (int64_t row = 0; row < rows; ++row) {
    pixels.clear();
    const char digit = static_cast<char>(DrawDigit(style, rng, &pixels));
    RUBATO_RETURN_IF_ERROR(images.Write(pixels));
    RUBATO_RETURN_IF_ERROR(labels.Write(absl::string_view(&digit, 1)));
    if (row % kRowsPerUpdate == 0) progress.Update(row);
  }
  progress.Update(rows);
  for (PackedFile* file : {&images, &labels}) {
    RUBATO_ASSIGN_OR_RETURN(const int64_t bytes, file->Commit());
    written.push_back({{"path", file->path()}, {"rows", rows}, {"bytes", bytes}});
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunGenerateDigits(const DigitsFlags& flags, Console& console) {
  RUBATO_RETURN_IF_ERROR(CheckFlags(flags));
  RUBATO_RETURN_IF_ERROR(MakeDirectories(flags.out));
  const int64_t validation_rows =
      flags.validation_rows > 0 ? flags.validation_rows : std::max<int64_t>(flags.rows / 6, 1000);
  nlohmann::json files = nlohmann::json::array();
  RUBATO_RETURN_IF_ERROR(
      WritePart(flags, "train", flags.rows, Rng(Mix(flags.seed, 1)), console, files));
  RUBATO_RETURN_IF_ERROR(
      WritePart(flags, "t10k", validation_rows, Rng(Mix(flags.seed, 2)), console, files));
  for (const nlohmann::json& file : files) {
    console.err << absl::StrFormat("wrote %s: %d rows, %.1f MB\n", file["path"].get<std::string>(),
                                   file["rows"].get<int64_t>(), file["bytes"].get<double>() / 1e6);
  }
  if (flags.json) {
    const nlohmann::json all = {{"seed", flags.seed},
                                {"rows", flags.rows},
                                {"validation_rows", validation_rows},
                                {"classes", 10},
                                {"files", files}};
    console.out << JsonText(all) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddGenerateDigits(Console& console, CLI::App& generate, GenerateRun& chosen) {
  const auto flags = std::make_shared<DigitsFlags>();
  CLI::App* digits = generate.add_subcommand(
      "digits",
      "Drawn digits, 28 x 28 pixels, shifted, turned, scaled and noisy, in the files of MNIST: "
      "train-images-idx3-ubyte, train-labels-idx1-ubyte, and t10k-... to validate on.");
  digits->add_option("--rows", flags->rows, "Images to train on")->capture_default_str();
  digits->add_option("--validation-rows", flags->validation_rows,
                     "Images held out (default: a sixth, at least 1000)");
  digits->add_option("--seed", flags->seed, "The same seed gives the same bytes")
      ->capture_default_str();
  digits->add_option("--noise", flags->noise, "Deviation of every pixel's noise, of 1 for full ink")
      ->capture_default_str();
  digits->add_option("--out", flags->out, "Folder to write to")->capture_default_str();
  digits->add_flag("--gzip", flags->gzip, "Compress the files");
  digits->add_flag("--json", flags->json, "Print what was written as one JSON object");
  digits->footer(
      "Examples:\n"
      "  rubato generate digits --out digits\n"
      "  rubato generate digits --rows 6000 --validation-rows 1000 --seed 3 --gzip --out digits\n"
      "and in the job file:\n"
      "  data: {train: digits, validation: digits, format: idx}");
  digits->callback([flags, &console, &chosen] {
    chosen = [flags, &console] { return RunGenerateDigits(*flags, console); };
  });
}

}  // namespace rubato

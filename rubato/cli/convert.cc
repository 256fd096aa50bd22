// rubato convert --data FILES --out FILE: a data set in another format.
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/can_write.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/progress.h"
#include "rubato/cli/recognise.h"
#include "rubato/cli/stoppable.h"
#include "rubato/data/quote.h"
#include "rubato/roles/convert_data.h"
#include "rubato/roles/run_directory.h"

namespace rubato {
namespace {

struct ConvertFlags {
  std::vector<std::string> data;
  std::string format;
  ConvertOptions options;
  bool no_header = false;
  bool force = false;
  bool json = false;
};

absl::StatusOr<ConvertOptions> OptionsOf(const ConvertFlags& flags) {
  ConvertOptions options = flags.options;
  options.gzip = absl::EndsWith(options.out, ".gz");
  options.header = !flags.no_header;
  for (const char* end : {".zst", ".zstd", ".bz2", ".xz", ".lz4", ".zip"}) {
    if (!absl::EndsWithIgnoreCase(options.out, end)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--out: ", options.out, ": ", end, " is not written; .gz is, and so is plain text"));
  }
  if (options.to.empty()) options.to = FormatOfName(options.out);
  if (options.to.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--to: ", options.out, " does not say which format it shall have; name one"));
  }
  RUBATO_RETURN_IF_ERROR(options.Validate());
  RUBATO_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.out, Folders::kThere), "--out"));
  if (PathExists(options.out) && !flags.force) {
    return absl::AlreadyExistsError(absl::StrCat(options.out, " is there; --force replaces it"));
  }
  absl::StatusOr<DataSpec> from = RecogniseData(flags.data, {});
  if (!flags.format.empty() && (!from.ok() || from->format != flags.format)) {
    from = DataSpec{.train = flags.data, .format = flags.format};
  }
  if (!from.ok()) return from.status();
  options.from = *std::move(from);
  return options;
}

absl::StatusOr<int> Convert(const ConvertFlags& flags, Console& console) {
  const absl::Time start = absl::Now();
  RUBATO_ASSIGN_OR_RETURN(const ConvertOptions options, OptionsOf(flags));
  RUBATO_ASSIGN_OR_RETURN(const auto scratch, RunDirectory::Make());
  RUBATO_ASSIGN_OR_RETURN(
      const Converted converted,
      ConvertData(options, scratch->path() + "/index", Shown(console, "indexing", "bytes"),
                  Shown(console, "converting", "records")));
  console.err << "wrote " << converted.records << " records of " << converted.format << " as "
              << options.to << " to " << options.out << " ("
              << ShortCount(static_cast<double>(converted.bytes)) << " bytes)\n";
  if (!converted.list_column.empty()) {
    console.err << "warning: column " << Quote(converted.list_column) << " has cells as "
                << Quote(converted.list_text)
                << ", each of which became one index; if they are lists, --separator splits them\n";
  }
  if (flags.json) {
    console.out << JsonText(nlohmann::ordered_json{
                       {"out", options.out},
                       {"from", options.from.format},
                       {"records_of", converted.format},
                       {"to", options.to},
                       {"records", converted.records},
                       {"bytes", converted.bytes},
                       {"seconds", absl::ToDoubleSeconds(absl::Now() - start)}})
                << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddConvert(Cli& cli) {
  auto flags = std::make_shared<ConvertFlags>();
  Console& console = cli.console();
  CLI::App* command = cli.Command(
      "convert", "A data set in another format; recordio is the one that is found by number.",
      "  rubato convert --data 'clicks-*.csv.gz' --out clicks.rec\n"
      "  rubato convert --data clicks.rec --out clicks.tsv.gz\n"
      "  rubato convert --data clicks.csv --label click --numeric age --out clicks.libsvm\n",
      [flags, &console] {
        return UntilStopped([&] { return Convert(*flags, console); }, "; nothing was written",
                            console);
      });
  command
      ->add_option("--data", flags->data,
                   "Files or globs, or a table or query of a database; their format is found.")
      ->required();
  command->add_option("--format", flags->format, "The format of --data, if it is not found right.");
  command->add_option("--out", flags->options.out, "The file to write; .gz makes it gzip.")
      ->required();
  command->add_option(
      "--to", flags->options.to,
      "criteo, csv, tsv, ssv, psv, libfm, libsvm, libffm or recordio; by default as --out "
      "is called: .csv, .rec, ...");
  command->add_option("--label", flags->options.label,
                      "The label's column, where it must come first; by default the first.");
  command->add_option("--numeric", flags->options.numeric,
                      "To libfm, libsvm, libffm: columns whose numbers stay numbers.");
  command->add_option("--buckets", flags->options.buckets,
                      "To libfm, libsvm, libffm: indices that texts are hashed to.");
  command->add_option("--separator", flags->options.separator,
                      "To libsvm, libffm: the letter between several texts of one cell.");
  command->add_option("--positive", flags->options.positive,
                      "To libfm, libsvm, libffm: the label's values that become 1, others 0.");
  command->add_flag("--no-header", flags->no_header, "To csv, tsv: no line of column names.");
  command->add_flag("--force", flags->force, "Replace the file if it is there.");
  command->add_flag("--json", flags->json, "Print what was done as one JSON object.");
}

}  // namespace rubato

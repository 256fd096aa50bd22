// rubato export JOBDIR --out DIR: a trained model as a folder that stands for itself.
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/checkpoint_flag.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/progress.h"
#include "rubato/roles/servable.h"

namespace rubato {
namespace {

struct ExportFlags {
  ExportOptions options;
  bool json = false;
};

absl::StatusOr<int> RunExport(const ExportFlags& flags, Console& console) {
  CatchStopSignals();
  RUBATO_ASSIGN_OR_RETURN(const Exported exported, WriteExport(flags.options));
  console.err << "exported checkpoint " << exported.checkpoint << " (step " << exported.step << ", "
              << exported.rows << " embedding rows, "
              << ShortCount(static_cast<double>(exported.bytes)) << " bytes) to "
              << flags.options.out << "\n";
  if (!exported.no_script.empty()) {
    console.err << "without model.pt: " << exported.no_script << "\n";
  }
  if (flags.json) {
    console.out << JsonText(nlohmann::ordered_json{{"export", flags.options.out},
                                                   {"checkpoint", exported.checkpoint},
                                                   {"step", exported.step},
                                                   {"embedding_rows", exported.rows},
                                                   {"bytes", exported.bytes},
                                                   {"torchscript", exported.no_script.empty()}})
                << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddExport(Cli& cli) {
  auto flags = std::make_shared<ExportFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("export", "Write a trained model as a folder that can be served.",
                  "  rubato export rubato-jobs/ctr-1 --out model\n"
                  "  rubato export rubato-jobs/ctr-1 --out model --from 2 --force\n",
                  [flags, &console] { return RunExport(*flags, console); });
  command->add_option("job-dir", flags->options.job_dir, "The job directory.")->required();
  command->add_option("--out", flags->options.out, "The folder to write.")->required();
  command
      ->add_option("--from", flags->options.version,
                   "Which checkpoint; default the best kept, or the newest.")
      ->transform(CheckpointNumber());
  command->add_flag("--force", flags->options.replace, "Replace an export that is there.");
  command->add_flag("--json", flags->json, "Print what was written as one JSON object.");
}

}  // namespace rubato

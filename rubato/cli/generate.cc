// rubato generate KIND: data with a known structure, for demos and tests.
#include "rubato/cli/generate.h"

#include <memory>

#include "rubato/cli/commands.h"

namespace rubato {

void AddGenerate(Cli& cli) {
  const auto chosen = std::make_shared<GenerateRun>();
  CLI::App* generate =
      cli.Command("generate", "Writes data with a known structure, for demos and tests.",
                  "  rubato generate criteo --rows 200000 --seed 7 --out data\n"
                  "  rubato generate digits --rows 60000 --seed 7 --out digits\n"
                  "  rubato generate trace --jobs 1000 --gpus 128 --out jobs.csv",
                  [chosen] { return (*chosen)(); });
  generate->require_subcommand(1);
  AddGenerateCriteo(cli.console(), *generate, *chosen);
  AddGenerateDigits(cli.console(), *generate, *chosen);
  AddGenerateTrace(cli.console(), *generate, *chosen);
  AddGenerateProfiles(cli.console(), *generate, *chosen);
}

}  // namespace rubato

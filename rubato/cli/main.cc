// rubato: elastic training on whatever is there.
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "rubato/adapters/torch_loader/kernels.h"
#include "rubato/cli/commands.h"

int main(int argc, char** argv) {
  // The solver behind `simulate` brings OpenBLAS along, which has looked around before main: once
  // more from the start. If that fails, all goes on as it would have, slower.
  if (rubato::ChooseKernels()) execv("/proc/self/exe", argv);
  winsize window = {};
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
  rubato::Cli cli({.out = std::cout,
                   .err = std::cerr,
                   .terminal = terminal,
                   .columns = window.ws_col > 0 ? window.ws_col : 80});
  rubato::AddTrain(cli);
  rubato::AddScale(cli);
  rubato::AddShow(cli);
  rubato::AddParams(cli);
  rubato::AddRoles(cli);
  rubato::AddAnalyze(cli);
  rubato::AddInit(cli);
  rubato::AddConvert(cli);
  rubato::AddEvaluate(cli);
  rubato::AddPredict(cli);
  rubato::AddExport(cli);
  rubato::AddScore(cli);
  rubato::AddGenerate(cli);
  rubato::AddSimulate(cli);
  return cli.Main(argc, argv);
}

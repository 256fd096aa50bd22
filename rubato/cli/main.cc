// rubato: elastic training on whatever is there.
#include <unistd.h>

#include <iostream>

#include "rubato/cli/commands.h"

int main(int argc, char** argv) {
  rubato::Cli cli({.out = std::cout, .err = std::cerr, .terminal = isatty(STDERR_FILENO) == 1});
  rubato::AddTrain(cli);
  rubato::AddScale(cli);
  rubato::AddShow(cli);
  rubato::AddRoles(cli);
  rubato::AddGenerate(cli);
  rubato::AddSimulate(cli);
  return cli.Main(argc, argv);
}

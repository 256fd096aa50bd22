// What a command of the `rubato` binary is made of: a name with flags, and a function that runs.
#ifndef RUBATO_CLI_CLI_H_
#define RUBATO_CLI_CLI_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"

namespace rubato {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitBadInput = 2;
constexpr int kExitRefused = 3;
constexpr int kExitInterrupted = 130;

// Where output goes. Results go to `out`; everything for people goes to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;  // `err` is a terminal: colours and live lines are welcome.
  int columns = 80;       // Of that terminal: a live line must fit, or it cannot be redrawn.
};

// For flags that are unsigned: the parser by itself would take -1 for a very large number.
CLI::Validator NotNegative();

// The command line under construction. Each AddX() of commands.h calls Command() once.
class Cli {
 public:
  explicit Cli(Console console);

  Console& console() { return console_; }

  // Adds `rubato NAME`. `examples` is shown at the end of --help, one command a line. Flags are
  // added to the returned app; `run` is called if the user chose this command, after its flags
  // are parsed, and answers with the exit code.
  CLI::App* Command(const std::string& name, const std::string& description,
                    const std::string& examples, std::function<absl::StatusOr<int>()> run);

  // Parses, runs the chosen command and answers with the exit code; errors are printed as
  // "rubato NAME: message", and with --json also as {"error": ..., "exit_code": ...} on `out`.
  // INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, OUT_OF_RANGE, FAILED_PRECONDITION, UNIMPLEMENTED
  // and DATA_LOSS are the user's to mend: they exit with 2.
  int Main(int argc, const char* const* argv);

 private:
  // INVALID_ARGUMENT with the nearest command if the first word is none.
  absl::Status CheckCommand(int argc, const char* const* argv) const;
  // Which flag the command does not have, with the nearest one that it has; empty if none.
  std::string FlagHint(int argc, const char* const* argv) const;
  void TellError(const std::string& message, int exit_code);  // As JSON.

  Console console_;
  CLI::App app_;
  std::string chosen_;
  std::function<absl::StatusOr<int>()> run_;
};

}  // namespace rubato

#endif  // RUBATO_CLI_CLI_H_

#include "rubato/cli/cli.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/cli/version.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:
      return kExitBadInput;
    default:
      return kExitFailed;
  }
}

}  // namespace

Cli::Cli(Console console)
    : console_(console), app_("Elastic training: the players come and go, the piece goes on.") {
  app_.name("rubato");
  app_.set_version_flag("--version", std::string("rubato ") + kVersion);
  app_.require_subcommand(1);
  app_.footer("rubato COMMAND --help shows a command's flags and examples.");
}

CLI::App* Cli::Command(const std::string& name, const std::string& description,
                       const std::string& examples, std::function<absl::StatusOr<int>()> run) {
  CLI::App* command = app_.add_subcommand(name, description);
  command->footer("Examples:\n" + examples);
  command->callback([this, name, run = std::move(run)] {
    chosen_ = name;
    run_ = run;
  });
  return command;
}

absl::Status Cli::CheckCommand(int argc, const char* const* argv) const {
  if (argc < 2 || argv[1][0] == '-') return absl::OkStatus();
  std::vector<std::string> names;
  for (const CLI::App* command : app_.get_subcommands(nullptr)) {
    if (command->get_name() == argv[1]) return absl::OkStatus();
    names.push_back(command->get_name());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no command '", argv[1], "'", DidYouMean(argv[1], names)));
}

int Cli::Main(int argc, const char* const* argv) {
  if (const absl::Status status = CheckCommand(argc, argv); !status.ok()) {
    console_.err << "rubato: " << status.message() << "\nRun with --help for all commands.\n";
    return kExitBadInput;
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app_.exit(error, console_.out, console_.err);
    return code == 0 ? kExitDone : kExitBadInput;
  }
  const absl::StatusOr<int> result = run_();
  if (result.ok()) return *result;
  console_.err << "rubato " << chosen_ << ": " << result.status().message() << "\n";
  return ExitCode(result.status());
}

}  // namespace rubato

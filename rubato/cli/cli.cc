#include "rubato/cli/cli.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/json_text.h"
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
    case absl::StatusCode::kPermissionDenied:
      return kExitBadInput;
    default:
      return kExitFailed;
  }
}

}  // namespace

CLI::Validator NotNegative() {
  return CLI::Validator(
      [](const std::string& text) {
        return absl::StartsWith(text, "-") ? text + " is negative" : std::string();
      },
      "");
}

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

std::string Cli::FlagHint(int argc, const char* const* argv) const {
  std::vector<std::string> names;
  const CLI::App* command = &app_;
  int words = 1;  // `rubato`, and the names of commands within commands.
  for (; words < argc; ++words) {
    const auto within = command->get_subcommands(nullptr);
    const auto next = std::find_if(within.begin(), within.end(), [&](const CLI::App* app) {
      return app->get_name() == argv[words];
    });
    if (next == within.end()) break;
    command = *next;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  if (names.empty()) return "";
  for (int i = words; i < argc; ++i) {
    const std::string flag = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (!absl::StartsWith(flag, "--") || std::count(names.begin(), names.end(), flag) > 0) continue;
    return absl::StrCat("no flag '", flag, "'", DidYouMean(flag, names), "\n");
  }
  return "";
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
    if (code == 0) return kExitDone;
    console_.err << FlagHint(argc, argv);
    const bool json = std::any_of(argv + 1, argv + argc, [](const char* word) {
      return absl::string_view(word) == "--json";
    });
    if (json) TellError(error.what(), kExitBadInput);
    return kExitBadInput;
  }
  absl::StatusOr<int> result = run_();
  console_.out.flush();
  if (result.ok() && !console_.out) result = absl::InternalError("cannot write to standard output");
  if (result.ok()) return *result;
  console_.err << "rubato " << chosen_ << ": " << result.status().message() << "\n";
  const int code = ExitCode(result.status());
  const CLI::App* command = app_.get_subcommand(chosen_);
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const CLI::Option* json = command->get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0) {
    TellError(std::string(result.status().message()), code);
  }
  return code;
}

void Cli::TellError(const std::string& message, int exit_code) {
  console_.out << JsonText(nlohmann::json{{"error", message}, {"exit_code", exit_code}}) << "\n";
}

}  // namespace rubato

// rubato params JOBDIR: what a job's parameter servers hold and how busy they are.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "rubato/adapters/posix/check_address.h"
#include "rubato/adapters/posix/inspect_server.h"
#include "rubato/adapters/posix/secret_file.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/ask_master.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/params_report.h"
#include "rubato/roles/checkpoint_weights.h"
#include "rubato/roles/job_directory.h"

namespace rubato {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(2);
constexpr absl::Duration kBetween = absl::Milliseconds(500);  // Two looks give the rates.
constexpr absl::Duration kWatch = absl::Seconds(2);

struct ParamsFlags {
  std::string job_dir;
  int64_t top = 10;
  bool json = false;
  bool watch = false;
};

struct Seen {
  std::vector<ServerInspection> servers;
  std::vector<SilentServer> silent;
  bool left = false;
};

// Servers beyond this machine tell only those who know the job's secret; elsewhere it need not be
// readable, nor be there.
absl::StatusOr<std::string> SecretFor(const std::vector<std::string>& addresses,
                                      const JobDirectory& directory) {
  if (std::all_of(addresses.begin(), addresses.end(), StaysHere)) return "";
  return ReadSecret(directory.secret());
}

// One look at every server, all at once.
absl::StatusOr<Seen> Look(const ParamsFlags& flags) {
  RUBATO_ASSIGN_OR_RETURN(
      const Snapshot snapshot,
      AskMaster<Snapshot>(flags.job_dir, [](MasterClient& client) { return client.Show(); }));
  Seen seen;
  std::set<int64_t> known;
  std::vector<int64_t> ids;
  std::vector<std::string> addresses;
  for (const ProcessStatus& process : snapshot.processes) {
    // Earlier lives of a server come after this one.
    if (process.role != Role::kServer || !known.insert(process.id).second) continue;
    if (process.state == "running" && !process.address.empty()) {
      ids.push_back(process.id);
      addresses.push_back(process.address);
    } else if (process.state == "exited") {
      seen.left = true;
    } else {
      seen.silent.push_back({process.id, absl::StrCat("is ", process.state)});
    }
  }
  RUBATO_ASSIGN_OR_RETURN(const std::string secret,
                          SecretFor(addresses, JobDirectory(flags.job_dir)));
  const auto answers = InspectServers(addresses, kPatience, secret);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok()) {
      seen.servers.push_back(*answers[i]);
    } else {
      seen.silent.push_back({ids[i], std::string(answers[i].status().message())});
    }
  }
  if (!seen.servers.empty()) return seen;
  std::string why;
  for (const SilentServer& server : seen.silent) {
    absl::StrAppend(&why, "; server ", server.server, ": ", server.why);
  }
  return absl::UnavailableError(
      absl::StrCat(flags.job_dir, ": none of its servers answers; try again in a moment", why));
}

void Print(const ParamsReport& report, const ParamsFlags& flags, Console& console) {
  const auto top = static_cast<size_t>(flags.top);
  console.out << (flags.json ? JsonText(ParamsJson(report, top)) + "\n" : ParamsTable(report, top));
  console.out.flush();
}

absl::StatusOr<int> RunParams(const ParamsFlags& flags, Console& console) {
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(flags.job_dir));
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(directory.job_file()));
  if (spec.strategy != "ps") {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.job_dir, ": a job with strategy: ", spec.strategy, " has no servers"));
  }
  ParamsReport report = {.job = spec.name};
  if (!directory.Locked()) {
    if (flags.watch) {
      return absl::FailedPreconditionError(
          absl::StrCat(flags.job_dir, ": is not running, so there is nothing to watch"));
    }
    RUBATO_ASSIGN_OR_RETURN(const CheckpointChoice choice, ChooseCheckpoint(directory, 0));
    RUBATO_ASSIGN_OR_RETURN(report.servers, InspectCheckpoint(choice));
    report.checkpoint = choice.version;
    Print(report, flags, console);
    return kExitDone;
  }
  if (flags.watch) CatchStopSignals();
  RUBATO_ASSIGN_OR_RETURN(Seen seen, Look(flags));
  report.before = std::move(seen.servers);
  absl::Time next = absl::Now() + kBetween;
  do {
    while (absl::Now() < next && StopSignals() == 0) absl::SleepFor(absl::Milliseconds(20));
    absl::StatusOr<Seen> now = Look(flags);
    if (!now.ok() && flags.watch && !directory.Locked()) break;  // It is over.
    RUBATO_RETURN_IF_ERROR(now.status());
    report.servers = std::move(now->servers);
    report.silent = std::move(now->silent);
    report.left = now->left;
    Print(report, flags, console);
    if (!flags.watch && report.partial()) return kExitFailed;
    report.before = std::move(report.servers);
    next = absl::Now() + kWatch;
  } while (flags.watch && StopSignals() == 0 && directory.Locked());
  return kExitDone;
}

}  // namespace

void AddParams(Cli& cli) {
  auto flags = std::make_shared<ParamsFlags>();
  Console& console = cli.console();
  CLI::App* command = cli.Command(
      "params", "Show what a job's parameter servers hold and how busy they are.",
      "  rubato params rubato-jobs/ctr-1\n"
      "  rubato params rubato-jobs/ctr-1 --json --top 3\n\n"
      "Exit code 1 if a server that holds something does not answer: the sums are then\n"
      "without it, and say so.\n",
      [flags, &console] { return RunParams(*flags, console); });
  command->add_option("job_dir", flags->job_dir, "The job directory.")->required();
  command->add_option("--top", flags->top, "How many of the hottest ids; default 10.")
      ->check(CLI::Range(0, 1000));
  command->add_flag("--watch", flags->watch, "Again every two seconds, until it is over.");
  command->add_flag("--json", flags->json, "Print it as one JSON object.");
}

}  // namespace rubato

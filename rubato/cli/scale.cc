// rubato scale JOBDIR --workers N --servers N: resizes a running job. rubato show JOBDIR: how it
// stands.
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/ask_master.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/summary.h"
#include "rubato/params/partition.h"
#include "rubato/roles/job_directory.h"

namespace rubato {
namespace {

struct JobFlags {
  std::string job_dir;
  int64_t workers = 0;
  int64_t servers = 0;
  bool wait = true;
  bool json = false;
};

absl::StatusOr<Snapshot> AskHowItStands(const JobFlags& flags) {
  return AskMaster<Snapshot>(flags.job_dir, [](MasterClient& client) { return client.Show(); });
}

// Whether it has so many servers, and everything is where it shall be.
bool HasServers(const Snapshot& snapshot, int64_t servers) {
  const ServersScaled& last = snapshot.servers_scaled;
  return snapshot.servers_target == servers && (last.to == 0 || last.seconds > 0);
}

std::string Servers(int64_t count) {
  return absl::StrCat(count, count == 1 ? " server" : " servers");
}

// Waits until the servers are as many as asked for and everything is where it shall be. A job that
// ends before that is no error: there is nothing left to share.
absl::StatusOr<Snapshot> AwaitServers(const JobFlags& flags) {
  while (true) {
    RUBATO_ASSIGN_OR_RETURN(const Snapshot snapshot, AskHowItStands(flags));
    if (snapshot.servers_target != flags.servers) {
      return absl::AbortedError(
          absl::StrCat("meanwhile the job was asked for ", Servers(snapshot.servers_target)));
    }
    const bool over =
        snapshot.state != JobState::kStarting && snapshot.state != JobState::kTraining;
    if (over || HasServers(snapshot, flags.servers)) return snapshot;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

void PrintServers(const ServersScaled& scaled, Console& console) {
  const double before = scaled.rate_before, lowest = scaled.rate_lowest;
  console.err << absl::StrFormat("%s became %d in %.2f s: %d partitions in %d %s",
                                 Servers(scaled.from), scaled.to, scaled.seconds, scaled.partitions,
                                 scaled.moves, scaled.moves == 1 ? "move" : "moves");
  if (before > 0) {
    console.err << absl::StrFormat("; %.0f records/s before, %.0f %s", before, lowest,
                                   scaled.seconds < 1 ? "meanwhile" : "in the slowest second");
  }
  console.err << "\n";
}

// Tells what became of the servers, and adds it to the answer if they have changed.
absl::Status TellServers(const JobFlags& flags, bool had_them, Console& console,
                         nlohmann::json& answer) {
  const auto say = [&](absl::string_view text) {
    if (!flags.json) console.err << text << "\n";
  };
  if (had_them || !flags.wait) {
    say(absl::StrCat("the job ", had_them ? "has " : "will have ", Servers(flags.servers),
                     had_them ? " already" : ""));
    return absl::OkStatus();
  }
  RUBATO_ASSIGN_OR_RETURN(const Snapshot snapshot, AwaitServers(flags));
  if (snapshot.servers_scaled.seconds == 0) {
    say("the job is ending before its servers have changed");
    return absl::OkStatus();
  }
  answer["servers_scaled"] = ServersScaledJson(snapshot.servers_scaled);
  if (!flags.json) PrintServers(snapshot.servers_scaled, console);
  return absl::OkStatus();
}

absl::StatusOr<int> RunScale(const JobFlags& flags, Console& console) {
  if (flags.workers == 0 && flags.servers == 0) {
    return absl::InvalidArgumentError("scale: say --workers N, --servers N or both");
  }
  RUBATO_ASSIGN_OR_RETURN(const Snapshot before, AskHowItStands(flags));
  RUBATO_ASSIGN_OR_RETURN(
      const ScaleReply reply, AskMaster<ScaleReply>(flags.job_dir, [&](MasterClient& client) {
        return client.Scale({.workers = flags.workers, .servers = flags.servers});
      }));
  if (!reply.accepted) return absl::InvalidArgumentError(reply.reason);
  nlohmann::json answer = {{"workers_target", reply.workers_target}};
  if (flags.workers != 0 && !flags.json) {
    console.err << "the job will have " << reply.workers_target << " workers\n";
  }
  if (flags.servers != 0) {
    answer["servers_target"] = reply.servers_target;
    RUBATO_RETURN_IF_ERROR(TellServers(flags, HasServers(before, flags.servers), console, answer));
  }
  if (flags.json) console.out << JsonText(answer) << "\n";
  return kExitDone;
}

int Print(const nlohmann::ordered_json& summary, const JobFlags& flags, Console& console) {
  console.out << (flags.json ? JsonText(summary) + "\n" : SummaryTable(summary));
  return kExitDone;
}

// A worker without a master keeps its summary up to date; one that was killed could not end it.
void SayIfKilled(const nlohmann::ordered_json& summary, const JobDirectory& directory,
                 Console& console) {
  const std::string state = summary.value("state", "");
  if (state == "done" || state == "failed" || state == "stopped") return;
  console.err << "its process has ended without a word, and this is how it stood then; `rubato "
                 "worker --resume "
              << directory.path()
              << "` goes on from its newest checkpoint, if no other worker does\n";
}

// Of the last event: why a worker waits, say.
std::string LastCause(const JobDirectory& directory) {
  std::string cause = "it is starting";
  const std::string events = ReadWholeFile(directory.events()).value_or("");
  for (const absl::string_view line : absl::StrSplit(events, '\n', absl::SkipEmpty())) {
    const auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object()) cause = event.value("cause", cause);
  }
  return cause;
}

absl::StatusOr<int> RunShow(const JobFlags& flags, Console& console) {
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(flags.job_dir));
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(directory.job_file()));
  const bool runs = directory.Locked(), lone = directory.IsOfLoneWorker();
  if (!runs || lone) {  // Over, or without a master to ask: its last words are on disk.
    if (const auto text = ReadWholeFile(directory.summary()); text.ok()) {
      const auto summary = nlohmann::ordered_json::parse(*text, nullptr, false);
      if (lone && !runs && summary.is_object()) SayIfKilled(summary, directory, console);
      if (summary.is_object()) return Print(summary, flags, console);
    }
  }
  if (lone) {
    return absl::UnavailableError(absl::StrCat(
        directory.path(),
        runs ? ": this worker is in no group yet: " : ": was in no group: ", LastCause(directory)));
  }
  RUBATO_ASSIGN_OR_RETURN(const Snapshot snapshot, AskHowItStands(flags));
  const auto summary = SummaryJson(spec, snapshot, absl::Now() - snapshot.run_began,
                                   snapshot.records_before, directory.path());
  return Print(summary, flags, console);
}

}  // namespace

void AddScale(Cli& cli) {
  auto flags = std::make_shared<JobFlags>();
  Console& console = cli.console();
  CLI::App* command = cli.Command("scale", "Resize a running job.",
                                  "  rubato scale rubato-jobs/ctr-1 --workers 3\n"
                                  "  rubato scale rubato-jobs/ctr-1 --servers 2",
                                  [flags, &console] { return RunScale(*flags, console); });
  command->add_option("job_dir", flags->job_dir, "The job directory.")->required();
  command->add_option("--workers", flags->workers, "How many workers it shall have.")
      ->check(CLI::Range(1, 1'000'000));
  command
      ->add_option("--servers", flags->servers,
                   "How many parameter servers it shall have. Partitions move while training goes "
                   "on; waits until they are where they shall be, and tells how long it took.")
      ->check(CLI::Range(int64_t{1}, kPartitions));
  command->add_flag("!--no-wait", flags->wait, "Do not wait for the servers.");
  command->add_flag("--json", flags->json, "Print the answer as one JSON object.");
}

void AddShow(Cli& cli) {
  auto flags = std::make_shared<JobFlags>();
  Console& console = cli.console();
  CLI::App* command = cli.Command("show", "Show how a job stands, or how it ended.",
                                  "  rubato show rubato-jobs/ctr-1 --json",
                                  [flags, &console] { return RunShow(*flags, console); });
  command->add_option("job_dir", flags->job_dir, "The job directory.")->required();
  command->add_flag("--json", flags->json, "Print it as one JSON object.");
}

}  // namespace rubato

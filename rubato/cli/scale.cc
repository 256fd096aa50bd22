// rubato scale JOBDIR --workers N: resizes a running job. rubato show JOBDIR: how it stands.
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/status.h"
#include "rubato/cli/ask_master.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/summary.h"
#include "rubato/roles/job_directory.h"

namespace rubato {
namespace {

struct JobFlags {
  std::string job_dir;
  int64_t workers = 0;
  bool json = false;
};

absl::StatusOr<int> RunScale(const JobFlags& flags, Console& console) {
  RUBATO_ASSIGN_OR_RETURN(const ScaleReply reply,
                          AskMaster<ScaleReply>(flags.job_dir, [&](MasterClient& client) {
                            return client.Scale({.workers = flags.workers});
                          }));
  if (!reply.accepted) return absl::InvalidArgumentError(reply.reason);
  if (flags.json) {
    console.out << nlohmann::json{{"workers_target", reply.workers_target}}.dump() << "\n";
  } else {
    console.err << "the job will have " << reply.workers_target << " workers\n";
  }
  return kExitDone;
}

int Print(const nlohmann::ordered_json& summary, const JobFlags& flags, Console& console) {
  console.out << (flags.json ? summary.dump() + "\n" : SummaryTable(summary));
  return kExitDone;
}

absl::StatusOr<int> RunShow(const JobFlags& flags, Console& console) {
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(flags.job_dir));
  RUBATO_ASSIGN_OR_RETURN(const JobSpec spec, LoadJobFile(directory.job_file()));
  if (!directory.Locked()) {  // Over: its last words are on disk.
    if (const auto text = ReadWholeFile(directory.summary()); text.ok()) {
      const auto summary = nlohmann::ordered_json::parse(*text, nullptr, false);
      if (summary.is_object()) return Print(summary, flags, console);
    }
  }
  RUBATO_ASSIGN_OR_RETURN(
      const Snapshot snapshot,
      AskMaster<Snapshot>(flags.job_dir, [](MasterClient& client) { return client.Show(); }));
  const auto summary = SummaryJson(spec, snapshot, absl::Now() - snapshot.run_began,
                                   snapshot.records_before, directory.path());
  return Print(summary, flags, console);
}

}  // namespace

void AddScale(Cli& cli) {
  auto flags = std::make_shared<JobFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("scale", "Resize a running job.", "  rubato scale rubato-jobs/ctr-1 --workers 3",
                  [flags, &console] { return RunScale(*flags, console); });
  command->add_option("job_dir", flags->job_dir, "The job directory.")->required();
  command->add_option("--workers", flags->workers, "How many workers it shall have.")->required();
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

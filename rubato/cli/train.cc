// rubato train JOB.yaml: runs one job here, elastically, as local processes.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/process_table.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/adapters/yaml/features_file.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/progress.h"
#include "rubato/cli/summary.h"
#include "rubato/cli/train_watch.h"
#include "rubato/job/advice.h"
#include "rubato/job/job_keys.h"
#include "rubato/roles/data_set.h"
#include "rubato/roles/job_directory.h"
#include "rubato/roles/run_directory.h"
#include "rubato/roles/supervisor.h"

namespace rubato {
namespace {

struct TrainFlags {
  std::string job;
  std::string resume;
  std::string job_dir;
  std::vector<std::string> set;
  int64_t servers = 0, workers = 0;  // With resume; 0: as before.
  bool json = false;
};

// For a job that goes on where there is room for more. What a step is cut into stays as it was, and
// so do the gradients of a round: the result may hang on it.
absl::Status RaiseWorkersMax(int64_t workers, JobSpec* spec) {
  if (spec->strategy == "allreduce") spec->allreduce.microbatches = MicrobatchesOf(*spec);
  if (spec->mode != "async" && spec->rounds.gradients == 0) {
    spec->rounds.gradients = spec->workers.max;
  }
  spec->workers.max = workers;
  return spec->Validate();
}

// The job's directory, held by this process while `lock` lives. `own_features`: where the user has
// the features of a new job, if it has some.
absl::StatusOr<JobDirectory> OpenDirectory(const TrainFlags& flags, JobSpec* spec,
                                           JobPlaces* places, std::string* own_features,
                                           std::shared_ptr<void>* lock) {
  if (!flags.resume.empty()) {
    RUBATO_ASSIGN_OR_RETURN(
        const std::string path,
        absl::StatusOr<std::string>(std::filesystem::absolute(flags.resume).lexically_normal()));
    RUBATO_ASSIGN_OR_RETURN(JobDirectory directory, JobDirectory::Open(path));
    RUBATO_ASSIGN_OR_RETURN(*spec, LoadJobFile(directory.job_file(), {}, places));
    RUBATO_RETURN_IF_ERROR(directory.CheckHasMaster());
    RUBATO_RETURN_IF_ERROR(directory.CheckNotDone());
    const bool more = flags.workers > spec->workers.max;
    if (more) RUBATO_RETURN_IF_ERROR(RaiseWorkersMax(flags.workers, spec));
    const std::string why_not =
        flags.workers > 0 ? WhyNotWorkers(spec->workers, flags.workers) : "";
    if (!why_not.empty()) return absl::InvalidArgumentError(why_not);
    RUBATO_ASSIGN_OR_RETURN(*lock, directory.Lock());
    if (more) RUBATO_RETURN_IF_ERROR(WriteJobFile(directory.job_file(), *spec));
    return directory;
  }
  RUBATO_ASSIGN_OR_RETURN(*spec, LoadJobFile(flags.job, flags.set, places));
  RUBATO_RETURN_IF_ERROR(Annotate(CheckForMaster(*spec), flags.job));
  // Before there is a directory to be left behind.
  if (!spec->features.empty()) RUBATO_RETURN_IF_ERROR(LoadFeaturesFile(spec->features).status());
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory made, flags.job_dir.empty()
                                                       ? JobDirectory::CreateNext(spec->name)
                                                       : JobDirectory::Create(flags.job_dir));
  const JobDirectory directory(std::filesystem::absolute(made.path()).lexically_normal());
  RUBATO_ASSIGN_OR_RETURN(*lock, directory.Lock());
  *own_features = spec->features;
  RUBATO_RETURN_IF_ERROR(KeepFeatures(directory, spec));
  RUBATO_RETURN_IF_ERROR(WriteJobFile(directory.job_file(), *spec));
  return directory;
}

absl::Status BuildIndexes(const JobSpec& spec, const JobDirectory& directory, Console& console) {
  std::unique_ptr<Progress> progress;
  int64_t all = 0;  // Of the part being read: a new bar for each.
  const auto show = [&](int64_t done, int64_t total) {
    if (total != all) progress = std::make_unique<Progress>(console, "indexing", total, "bytes");
    all = total;
    progress->Update(done);
    return StopSignals() > 0 ? absl::CancelledError("stopped while indexing") : absl::OkStatus();
  };
  RUBATO_ASSIGN_OR_RETURN(const int64_t records,
                          IndexDataSet(spec, DataPart::kTrain, directory, show));
  if (records == 0) return absl::InvalidArgumentError("data.train: there is no record in it");
  if (spec.data.validation.empty()) return absl::OkStatus();
  return IndexDataSet(spec, DataPart::kValidation, directory, show).status();
}

// What the check said: of a key of the job file, where that is.
absl::Status OfKey(absl::string_view words, const JobPlaces& places) {
  const absl::Status whole = absl::InvalidArgumentError(words);
  absl::ConsumePrefix(&words, "rubato worker: ");
  const absl::Status located = Locate(absl::InvalidArgumentError(words), places, "");
  return located.message() == words ? whole : located;
}

// A model that cannot be loaded is the user's to mend now, not after five crashed workers.
absl::Status CheckModel(const JobDirectory& directory, const JobPlaces& places) {
  ProcessTable table;
  const std::string log = directory.path() + "/logs/check.log";
  RUBATO_ASSIGN_OR_RETURN(
      const pid_t pid,
      table.Start({.arguments = {ProgramPath(), "worker", "--check", "--job-dir", directory.path()},
                   .log_path = log}));
  while (table.alive(pid)) {
    if (StopSignals() > 0) {
      kill(pid, SIGKILL);
      return absl::CancelledError("stopped before the job began");
    }
    for (const ChildExit& exit : table.Reap()) {
      if (exit.exit_code == 0 && exit.signal == 0) return absl::OkStatus();
      const std::string words = LastLines(log, 1);
      if (exit.signal != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the model crashed with signal ", exit.signal, ": ", words));
      }
      return OfKey(words, places);
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  return absl::OkStatus();
}

// How a run ended, as the master last said, and where it began.
struct Outcome {
  Snapshot snapshot;
  int64_t records_before = 0;
};

bool IsOver(JobState state) {
  return state == JobState::kDone || state == JobState::kFailed || state == JobState::kStopped;
}

// Runs the job to its end.
absl::StatusOr<Outcome> Supervise(const TrainFlags& flags, const JobSpec& spec,
                                  const JobDirectory& directory, Console& console) {
  RUBATO_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> run, RunDirectory::Make());
  Supervisor supervisor({.program = ProgramPath(),
                         .job_dir = directory.path(),
                         .run_dir = run->path(),
                         .resume = !flags.resume.empty(),
                         .workers = flags.workers});
  TrainWatch watch(console, spec, directory);
  RUBATO_RETURN_IF_ERROR(supervisor.Start());
  supervisor.RequestScale({.servers = flags.servers});
  int stops_heard = 0;
  while (!supervisor.finished()) {
    if (absl::Status status = supervisor.Turn(absl::Milliseconds(50)); !status.ok()) {
      supervisor.EndAll(absl::Seconds(1));
      return status;
    }
    watch.Show(supervisor.snapshot(), absl::Now());
    const int stops = StopSignals();
    if (stops == stops_heard) continue;
    stops_heard = stops;
    if (stops > 1) {
      supervisor.EndAtOnce();
      Outcome outcome = {supervisor.snapshot(), supervisor.records_before()};
      if (!IsOver(outcome.snapshot.state)) outcome.snapshot.state = JobState::kStopped;
      return outcome;
    }
    watch.Say(spec.strategy == "allreduce"
                  ? "stopping with a checkpoint; press Ctrl-C again to stop at once, and lose the "
                    "steps since the last one"
                  : "stopping with a checkpoint; press Ctrl-C again to stop at once");
    supervisor.RequestStop();
  }
  supervisor.EndAll(absl::Seconds(5));
  return Outcome{supervisor.snapshot(), supervisor.records_before()};
}

// What can be known to be wrong before anything starts.
absl::Status Prepare(const JobSpec& spec, const JobPlaces& places, const JobDirectory& directory,
                     const std::string& own_features, Console& console) {
  JobSpec named = spec;
  if (!own_features.empty()) named.features = own_features;
  // A job that has begun goes on with the records it began with, or not at all.
  if (!PathExists(directory.journal())) {
    RUBATO_RETURN_IF_ERROR(BuildIndexes(named, directory, console));
  }
  RUBATO_RETURN_IF_ERROR(OpenDataSet(named, directory, own_features).status());
  return CheckModel(directory, places);
}

int ExitCodeOf(JobState state) {
  if (state == JobState::kDone) return kExitDone;
  return state == JobState::kStopped ? kExitInterrupted : kExitFailed;
}

// How a job that is not done goes on; nothing if it cannot. Rows of a file that cannot be read are
// read again by whoever resumes, and a file with rows mended is another one; the error says which
// rows they are.
std::string WhatNext(const JobSpec& spec, const std::string& error, const std::string& job_file,
                     const std::string& job_dir) {
  if (absl::StrContains(error, "begin the job anew")) return "";
  const bool is_bad_row = absl::StrContains(error, "data.bad_rows: skip");
  const bool are_too_many = absl::StrContains(error, "data.bad_rows_max");
  const std::string resume = absl::StrCat("go on with: rubato train --resume ", job_dir);
  if (!is_bad_row && !are_too_many) return resume;
  const std::string anew =
      absl::StrCat("rubato train ", job_file, " --set data.",
                   are_too_many ? absl::StrCat("bad_rows_max=", 10 * spec.data.bad_rows_max + 10)
                                : "bad_rows=skip");
  if (spec.data.format == "sql") {
    return absl::StrCat("mend what is named above, then ", resume, "\nor leave it out: ", anew);
  }
  return absl::StrCat("mend what is named above and begin anew, or leave it out: ", anew);
}

absl::StatusOr<int> RunTrain(const TrainFlags& flags, Console& console) {
  if (flags.job.empty() == flags.resume.empty()) {
    return absl::InvalidArgumentError("give a job file, or --resume JOBDIR");
  }
  if (!flags.resume.empty() && !(flags.set.empty() && flags.job_dir.empty())) {
    return absl::InvalidArgumentError(
        "--resume goes on with the job as it was: neither --set nor --job-dir goes with it");
  }
  if (flags.resume.empty() && (flags.servers != 0 || flags.workers != 0)) {
    return absl::InvalidArgumentError(
        "--servers and --workers go with --resume; for a new job: --set servers=N, --set "
        "workers.max=N");
  }
  CatchStopSignals();
  const absl::Time start = absl::Now();
  JobSpec spec;
  std::shared_ptr<void> lock;
  JobPlaces places;
  std::string own_features;
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory,
                          OpenDirectory(flags, &spec, &places, &own_features, &lock));
  if (const std::string idle = IdleWorkersText(spec); !idle.empty()) {
    console.err << "warning: " << idle << "\n";
  }
  if (absl::Status status = Prepare(spec, places, directory, own_features, console); !status.ok()) {
    // Nothing has begun: a second try with a mended job file may have the same directory.
    if (flags.resume.empty()) (void)RemoveTree(directory.path());
    if (!absl::IsCancelled(status)) return status;
    console.err << status.message() << "; nothing was begun\n";
    return kExitInterrupted;
  }
  console.err << "job directory: " << directory.path() << "\n";
  // Of an earlier run: what it says is no longer so, and this one may not live to write its own.
  std::remove(directory.summary().c_str());
  RUBATO_ASSIGN_OR_RETURN(const Outcome outcome, Supervise(flags, spec, directory, console));

  const Snapshot& snapshot = outcome.snapshot;
  const nlohmann::ordered_json summary =
      SummaryJson(spec, snapshot, absl::Now() - start, outcome.records_before, directory.path());
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(directory.summary(), JsonText(summary, 1) + "\n"));
  console.err << SummaryTable(summary);
  if (flags.json) console.out << JsonText(summary) << "\n";
  const std::string next = WhatNext(
      spec, snapshot.error, flags.job.empty() ? directory.job_file() : flags.job, directory.path());
  if (snapshot.state != JobState::kDone && !next.empty()) console.err << next << "\n";
  return snapshot.bad_input ? kExitBadInput : ExitCodeOf(snapshot.state);
}

}  // namespace

void AddTrain(Cli& cli) {
  auto flags = std::make_shared<TrainFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("train", "Run one job here, elastically, as local processes.",
                  "  rubato train job.yaml\n"
                  "  rubato train job.yaml --set workers.max=4 --set optimizer.learning_rate=0.1\n"
                  "  rubato train --resume rubato-jobs/ctr-1\n"
                  "  rubato train --resume rubato-jobs/ctr-1 --servers 3\n\nJob file keys:\n" +
                      JobKeysHelp(),
                  [flags, &console] { return RunTrain(*flags, console); });
  command->add_option("job", flags->job, "The job file (YAML).");
  command->add_option("--set", flags->set, "Override a key of the job file: KEY=VALUE.")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--job-dir", flags->job_dir,
                      "Where the job lives; default ./rubato-jobs/NAME-N.");
  command->add_option("--resume", flags->resume, "Go on with the job in this job directory.");
  command
      ->add_option("--servers", flags->servers,
                   "With --resume: go on with so many parameter servers; partitions move to them "
                   "while training goes on.")
      ->check(CLI::Range(1, 1024));
  command->add_option("--workers", flags->workers, "With --resume: go on with so many workers.")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", flags->json, "Print the summary as one JSON object.");
}

}  // namespace rubato

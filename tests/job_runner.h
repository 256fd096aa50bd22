// Runs the real `rubato` binary for a test: a job in a folder of its own, its processes in plain
// sight, and the means to kill them.
#ifndef RUBATO_TESTS_JOB_RUNNER_H_
#define RUBATO_TESTS_JOB_RUNNER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rubato {

// What a finished command left behind.
struct CommandResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// A scratch folder that goes with the object (kept if RUBATO_KEEP is set, to look at).
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// Runs `rubato ARGUMENTS` in `folder` to its end.
CommandResult RunRubato(const std::vector<std::string>& arguments, const std::string& folder);

// The same with a limit on the size of every file written, as a full disk would set.
CommandResult RunWithFileLimit(int64_t bytes, const std::vector<std::string>& arguments,
                               const std::string& folder);

// The same as someone to whom the bits of permission apply, which are nothing to root.
CommandResult RunWithoutPrivilege(const std::vector<std::string>& arguments,
                                  const std::string& folder);

// `rubato ARGUMENTS` in the background, killed with the object.
class RunningCommand {
 public:
  RunningCommand(const std::vector<std::string>& arguments, const std::string& folder);
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  bool running();
  std::string err() const;  // So far.
  // Sends a signal and waits for the end; answers with the exit code, 128 + N for signal N.
  int End(int signal);

 private:
  const std::string err_;
  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

// A file's bytes; empty if there is none.
std::string ReadText(const std::string& path);

// Waits until `condition` holds, looking every few milliseconds; false after `patience`.
bool Eventually(const std::function<bool()>& condition, absl::Duration patience = absl::Minutes(2));

bool CanRunApart();

// Any other command of rubato in the background; killed with the object.
class Command {
 public:
  // Runs in `folder`, and leaves its words in NAME.out and NAME.err there. If it is to run `apart`,
  // it can neither share memory with others nor see them end, as on a machine of its own; only root
  // can have that, see CanRunApart().
  Command(const std::vector<std::string>& arguments, const std::string& folder,
          const std::string& name, bool apart = false);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  std::string err() const;  // So far.
  CommandResult Wait();

 private:
  const std::string words_;  // The files' path, without .out and .err.
  pid_t pid_ = 0;
  bool ended_ = false;
};

// One `rubato train` in the background.
class TrainingJob {
 public:
  // `arguments` follow `rubato train`; the job directory is FOLDER/job.
  TrainingJob(const std::string& folder, const std::vector<std::string>& arguments);
  ~TrainingJob();

  struct Process {
    std::string role;
    int64_t id = 0;
    pid_t pid = 0;
    std::string state;
  };
  // From processes.json; those still alive in the kernel's eyes.
  std::vector<Process> Alive(const std::string& role = "") const;
  // The snapshot by `rubato show --json`; null while no master answers.
  nlohmann::json Show() const;
  // Lines of events.jsonl of one kind.
  std::vector<nlohmann::json> Events(const std::string& kind) const;
  // Waits until at least this many steps are committed.
  bool ReachStep(int64_t step);
  bool running();

  pid_t pid() const { return pid_; }
  std::string job_dir() const { return folder_ + "/job"; }
  // Waits for the end.
  CommandResult Wait();
  // summary.json.
  nlohmann::json Summary() const;

 private:
  std::string folder_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

// What must not be in the history that the event logs in these job directories tell (history.py), a
// line each; empty: it is one history.
std::string HistoryFaults(const std::vector<std::string>& directories);

// Criteo-shaped data and a job file over it: FOLDER/train.tsv, valid.tsv, job.yaml. `extra` is
// appended to the job file. Data is generated once a (rows, seed) and copied by link.
std::string WriteCriteoJob(const ScratchFolder& folder, int64_t rows, const std::string& extra);
// The best reachable AUC on that data, from truth.json.
double BestAuc(const ScratchFolder& folder);

}  // namespace rubato

#endif  // RUBATO_TESTS_JOB_RUNNER_H_

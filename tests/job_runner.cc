#include "tests/job_runner.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;

std::string Binary() { return RUBATO_BINARY; }

// fork() into a process namespace of its own.
pid_t ForkApart() {
  return static_cast<pid_t>(
      syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

struct SpawnOptions {
  int64_t file_limit = 0;  // In bytes; 0: none.
  bool apart = false;
  bool privileged = true;  // If this process is.
};

// What root may do to any file is gone with the next program that is run.
void DropPrivilege() {
  for (const int right : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) prctl(PR_CAPBSET_DROP, right);
}

pid_t Spawn(const std::vector<std::string>& arguments, const std::string& folder,
            const std::string& out, const std::string& err, const SpawnOptions& options = {}) {
  std::vector<std::string> words = {Binary()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = options.apart ? ForkApart() : fork();
  RUBATO_CHECK(pid >= 0);
  if (pid != 0) return pid;
  if (!options.privileged) DropPrivilege();
  if (options.file_limit > 0) {
    const auto bytes = static_cast<rlim_t>(options.file_limit);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);  // Writing past it is an error, not a death.
  }
  if (chdir(folder.c_str()) != 0) _exit(126);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ScratchFolder::ScratchFolder() : path_(fs::temp_directory_path() / "rubato-test.XXXXXX") {
  RUBATO_CHECK(mkdtemp(path_.data()) != nullptr);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (std::getenv("RUBATO_KEEP") == nullptr) fs::remove_all(path_, ignored);
}

std::string ScratchFolder::Write(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

namespace {

CommandResult RunToItsEnd(const std::vector<std::string>& arguments, const std::string& folder,
                          const SpawnOptions& options = {}) {
  const std::string out = folder + "/command.out";
  const std::string err = folder + "/command.err";
  int status = 0;
  waitpid(Spawn(arguments, folder, out, err, options), &status, 0);
  return {.exit_code = ExitCode(status), .out = ReadText(out), .err = ReadText(err)};
}

}  // namespace

CommandResult RunRubato(const std::vector<std::string>& arguments, const std::string& folder) {
  return RunToItsEnd(arguments, folder);
}

CommandResult RunWithFileLimit(int64_t bytes, const std::vector<std::string>& arguments,
                               const std::string& folder) {
  return RunToItsEnd(arguments, folder, {.file_limit = bytes});
}

CommandResult RunWithoutPrivilege(const std::vector<std::string>& arguments,
                                  const std::string& folder) {
  return RunToItsEnd(arguments, folder, {.privileged = false});
}

RunningCommand::RunningCommand(const std::vector<std::string>& arguments, const std::string& folder)
    : err_(folder + "/running.err") {
  fs::remove(err_);  // Of one before.
  pid_ = Spawn(arguments, folder, folder + "/running.out", err_);
}

RunningCommand::~RunningCommand() { End(SIGKILL); }

bool RunningCommand::running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string RunningCommand::err() const { return ReadText(err_); }

int RunningCommand::End(int signal) {
  if (running()) {
    kill(pid_, signal);
    waitpid(pid_, &status_, 0);
    ended_ = true;
  }
  return ExitCode(status_);
}

bool Eventually(const std::function<bool()>& condition, absl::Duration patience) {
  const absl::Time until = absl::Now() + patience;
  while (!condition()) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

Command::Command(const std::vector<std::string>& arguments, const std::string& folder,
                 const std::string& name, bool apart)
    : words_(absl::StrCat(folder, "/", name)),
      pid_(Spawn(arguments, folder, words_ + ".out", words_ + ".err", {.apart = apart})) {}

bool CanRunApart() {
  const pid_t pid = ForkApart();
  if (pid == 0) _exit(0);
  return pid > 0 && waitpid(pid, nullptr, 0) == pid;
}

Command::~Command() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string Command::err() const { return ReadText(words_ + ".err"); }

CommandResult Command::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  ended_ = true;
  return {.exit_code = ExitCode(status), .out = ReadText(words_ + ".out"), .err = err()};
}

TrainingJob::TrainingJob(const std::string& folder, const std::vector<std::string>& arguments)
    : folder_(folder) {
  std::vector<std::string> words = {"train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (arguments.front() != "--resume") words.insert(words.end(), {"--job-dir", job_dir()});
  pid_ = Spawn(words, folder, folder + "/train.out", folder + "/train.err");
}

TrainingJob::~TrainingJob() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

std::vector<TrainingJob::Process> TrainingJob::Alive(const std::string& role) const {
  std::vector<Process> all;
  const auto document =
      nlohmann::json::parse(ReadText(job_dir() + "/processes.json"), nullptr, false);
  if (document.is_discarded()) return all;
  for (const auto& entry : document["processes"]) {
    Process process = {.role = entry["role"],
                       .id = entry["id"],
                       .pid = entry["pid"].get<pid_t>(),
                       .state = entry["state"]};
    if (!role.empty() && process.role != role) continue;
    // A zombie's command line is empty: dead, though the kernel still knows its name.
    if (process.pid > 0 && !ReadText(absl::StrCat("/proc/", process.pid, "/cmdline")).empty()) {
      all.push_back(process);
    }
  }
  return all;
}

nlohmann::json TrainingJob::Show() const {
  const CommandResult shown = RunRubato({"show", job_dir(), "--json"}, folder_);
  if (shown.exit_code != 0) return nullptr;
  return nlohmann::json::parse(shown.out, nullptr, false);
}

std::vector<nlohmann::json> TrainingJob::Events(const std::string& kind) const {
  std::vector<nlohmann::json> events;
  std::ifstream file(job_dir() + "/events.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_discarded() && event.value("event", "") == kind) events.push_back(event);
  }
  return events;
}

bool TrainingJob::ReachStep(int64_t step) {
  return Eventually([&] {
           if (!running()) return true;
           const nlohmann::json shown = Show();
           return shown.is_object() && shown["steps"].get<int64_t>() >= step;
         }) &&
         running();
}

bool TrainingJob::running() {
  if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return !ended_;
}

CommandResult TrainingJob::Wait() {
  if (!ended_) waitpid(pid_, &status_, 0);
  ended_ = true;
  return {.exit_code = ExitCode(status_),
          .out = ReadText(folder_ + "/train.out"),
          .err = ReadText(folder_ + "/train.err")};
}

nlohmann::json TrainingJob::Summary() const {
  return nlohmann::json::parse(ReadText(job_dir() + "/summary.json"), nullptr, false);
}

std::string HistoryFaults(const std::vector<std::string>& directories) {
  std::string command = "python3 '" RUBATO_HISTORY "'";
  for (const std::string& directory : directories) absl::StrAppend(&command, " '", directory, "'");
  FILE* const history = popen((command + " 2>&1").c_str(), "r");
  RUBATO_CHECK(history != nullptr);
  std::string faults;
  for (int byte; (byte = std::getc(history)) != EOF;) faults.push_back(static_cast<char>(byte));
  return pclose(history) == 0 ? "" : faults;
}

std::string WriteCriteoJob(const ScratchFolder& folder, int64_t rows, const std::string& extra) {
  const CommandResult made =
      RunRubato({"generate", "criteo", "--rows", absl::StrCat(rows), "--seed", "1", "--out", "."},
                folder.path());
  RUBATO_CHECK(made.exit_code == 0);
  return folder.Write("job.yaml", absl::StrCat("name: ctr\n"
                                               "model: deepfm\n"
                                               "model_options: {dim: 8, hidden: [64, 32]}\n"
                                               "data: {train: train.tsv, validation: valid.tsv}\n"
                                               "batch_size: 256\n",
                                               extra));
}

double BestAuc(const ScratchFolder& folder) {
  return nlohmann::json::parse(ReadText(folder.path() + "/truth.json"))["best_auc"].get<double>();
}

}  // namespace rubato

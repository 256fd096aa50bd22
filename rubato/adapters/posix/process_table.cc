#include "rubato/adapters/posix/process_table.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rubato {
namespace {

// Between fork and exec only calls that are safe there: no allocation, no locks.
[[noreturn]] void RunChild(char* const* arguments, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // The parent died in between.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(arguments[0], arguments);
  const char text[] = "cannot execute the program\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
  _exit(127);
}

}  // namespace

ProcessTable::~ProcessTable() {
  for (const auto& [pid, spec] : children_) kill(pid, SIGKILL);
  for (const auto& [pid, spec] : children_) waitpid(pid, nullptr, 0);
}

absl::StatusOr<pid_t> ProcessTable::Start(const ChildSpec& spec) {
  const int log = open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return absl::UnavailableError(absl::StrCat(spec.log_path, ": ", strerror(errno)));
  std::vector<char*> arguments;
  for (const std::string& argument : spec.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) RunChild(arguments.data(), log, parent);
  const int error = errno;
  close(log);
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("fork: ", strerror(error)));
  children_[pid] = spec;
  return pid;
}

void ProcessTable::Signal(pid_t pid, int signal) {
  if (alive(pid)) kill(pid, signal);
}

std::vector<ChildExit> ProcessTable::Reap() {
  std::vector<ChildExit> exits;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;
    children_.erase(pid);
    exits.push_back({.pid = pid,
                     .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                     .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0});
  }
  return exits;
}

std::string ProgramPath() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "rubato";
}

std::string LastLines(const std::string& path, int lines) {
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  const std::streamoff take = std::min<std::streamoff>(size, 4096);
  file.seekg(size - take);
  std::string tail(static_cast<size_t>(take), '\0');
  file.read(tail.data(), take);
  std::vector<std::string> all = absl::StrSplit(tail, '\n', absl::SkipEmpty());
  if (all.size() > static_cast<size_t>(lines)) all.erase(all.begin(), all.end() - lines);
  return absl::StrJoin(all, "\n");
}

}  // namespace rubato

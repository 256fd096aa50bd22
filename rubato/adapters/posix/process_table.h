// Children: started, signalled and reaped.
#ifndef RUBATO_ADAPTERS_POSIX_PROCESS_TABLE_H_
#define RUBATO_ADAPTERS_POSIX_PROCESS_TABLE_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rubato {

struct ChildSpec {
  std::vector<std::string> arguments;  // arguments[0] is the program's path.
  std::string log_path;                // stdout and stderr are appended here.
};

struct ChildExit {
  pid_t pid = 0;
  int exit_code = 0;  // If it exited.
  int signal = 0;     // If it was killed.
};

// Children run in process groups of their own, so the terminal's Ctrl-C does not reach them, and
// the kernel kills them if this process dies. Use from one thread that lives as long as the
// process: the kernel's "parent" is the thread that forked.
class ProcessTable {
 public:
  ~ProcessTable();  // Kills and reaps whatever is left.

  // The pid of a running child. Fails only if the system has no more processes or files; a
  // program that cannot be executed exits with 127 and says so in its log.
  absl::StatusOr<pid_t> Start(const ChildSpec& spec);
  // Nothing happens if the child is already gone.
  void Signal(pid_t pid, int signal);
  // Everyone that ended since the last call, without waiting.
  std::vector<ChildExit> Reap();
  bool alive(pid_t pid) const { return children_.contains(pid); }
  size_t size() const { return children_.size(); }

 private:
  std::map<pid_t, ChildSpec> children_;
};

// Absolute path of the running program.
std::string ProgramPath();
// The last `lines` lines of a log, for a first cause; empty if it cannot be read.
std::string LastLines(const std::string& path, int lines);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PROCESS_TABLE_H_

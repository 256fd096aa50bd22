// A real server in a process of its own, which does as it is told through a pipe, as by a master.
//
// The process is this program started again: a main() that uses it begins with
//
//     if (const auto code = ServerProcess::Main(argc, argv)) return *code;
#ifndef RUBATO_BENCH_PARAMS_SERVER_PROCESS_H_
#define RUBATO_BENCH_PARAMS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rubato/params/partition.h"

namespace rubato::bench {

// Servers of one job below one folder, which goes with it.
class JobFolder {
 public:
  JobFolder();
  ~JobFolder();
  const std::string& root() const { return root_; }
  // On a Unix socket.
  std::string AddressOf(int64_t server) const;

 private:
  std::string root_;
};

struct ServerOptions {
  std::string root;
  int64_t server = 0;
  int64_t servers = 1;  // That share everything at first.
  bool tcp = false;
  bool tls = false;  // Over TCP, by kBenchSecret.
  int64_t threads = 2;
};

inline constexpr char kBenchSecret[] = "of a bench";

class ServerProcess {
 public:
  explicit ServerProcess(const ServerOptions& options) : options_(options) { Launch(); }
  ~ServerProcess() { Kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Returns at once; whoever asks something waits until it has recovered.
  void Launch();
  // SIGKILL, and waits until it is gone.
  void Kill();

  // Once it listens.
  std::string Address() { return Ask("address"); }
  // Its CPU time so far, in seconds.
  double Cpu() const;
  // Writes a checkpoint: returns when it is on disk.
  void Checkpoint(int64_t version) { Ask("checkpoint " + std::to_string(version)); }
  void Tell(int64_t view, const PartitionMap& map, const MoveOrder& move,
            const std::vector<std::string>& addresses);
  // The move whose partitions it has handed over.
  int64_t Moved() { return std::stoll(Ask("moved")); }

  // The exit code if this process is such a server, once it was killed otherwise.
  static std::optional<int> Main(int argc, char** argv);

 private:
  std::string Ask(const std::string& what);

  const ServerOptions options_;
  pid_t pid_ = 0;
  int line_ = -1;
};

}  // namespace rubato::bench

#endif  // RUBATO_BENCH_PARAMS_SERVER_PROCESS_H_

// A server's checkpoints, written beside its work: cut on the first lane, encoded there step by
// step between requests, and written and synced by the thread that has the slow files.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_CHECKPOINTS_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_CHECKPOINTS_H_

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "rubato/adapters/posix/hold_time.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/adapters/posix/params_server_lane.h"
#include "rubato/params/checkpoint.h"

namespace rubato {

class ServerCheckpoints {
 public:
  // `io` is the first lane's. Both outlive it.
  ServerCheckpoints(ParamsServerState& state, asio::io_context& io, asio::thread_pool& files)
      : state_(state), io_(io), files_(files) {}

  // As ParamsServer::StartCheckpoint says. From any thread.
  void Start(CheckpointOrder order, std::function<void(absl::Status)> done);
  // Once both threads are joined: removes what was half written.
  void Abandon();
  // The longest that one had the shard to itself: what pushes wait for it.
  const LongestHold& longest_hold() const { return longest_hold_; }

 private:
  struct Running {
    CheckpointOrder order;
    CheckpointName name;                       // From the cut on,
    std::unique_ptr<CheckpointWriter> writer;  // as is this.
    std::unique_ptr<RecordFile> file;          // Touched by the file thread alone,
    int64_t synced = 0;                        // as is how much of it is on disk.
    std::string path;
    std::function<void(absl::Status)> done;
    // What is made beforehand for the cut.
    CheckpointWriter::Room room;
    std::unique_ptr<LogFile> segment;
  };

  // On the file thread, where nobody waits: memory for what pushes will set aside, and files.
  absl::Status Prepare(Running& checkpoint);
  // On the first lane.
  void Begin(const CheckpointOrder& order, std::function<void(absl::Status)> done);
  void Cut();
  absl::Status CutNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void Step();
  void Finish(const absl::Status& status);

  ParamsServerState& state_;
  asio::io_context& io_;
  asio::thread_pool& files_;
  std::unique_ptr<Running> running_;  // The first lane's.
  LongestHold longest_hold_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_CHECKPOINTS_H_

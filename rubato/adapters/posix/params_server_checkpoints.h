// A server's checkpoints, written beside its work: cut on the first lane, encoded there step by
// step between requests, and written and synced by the thread that has the slow files.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_CHECKPOINTS_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_CHECKPOINTS_H_

#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
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
  // The longest that one had the shard to itself, in CPU time: what pushes wait for it.
  int64_t hold_us() const { return hold_us_; }

 private:
  struct Running {
    CheckpointName name;
    std::unique_ptr<CheckpointWriter> writer;
    std::unique_ptr<RecordFile> file;  // Touched by the file thread alone, once made,
    int64_t synced = 0;                // as is how much of it is on disk.
    std::string path;
    std::function<void(absl::Status)> done;
  };

  // On the first lane.
  void Cut(const CheckpointOrder& order, CheckpointWriter::Room room,
           std::function<void(absl::Status)> done);
  absl::Status Begin(const CheckpointOrder& order, CheckpointWriter::Room room,
                     std::function<void(absl::Status)>* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void Step();
  void Finish(const absl::Status& status);

  ParamsServerState& state_;
  asio::io_context& io_;
  asio::thread_pool& files_;
  std::unique_ptr<Running> running_;  // The first lane's.
  std::atomic<int64_t> hold_us_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_CHECKPOINTS_H_

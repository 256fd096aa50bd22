// A server's lines to those that keep copies of its push log: carries what LogReplicas wants sent,
// read back from the log's files, and tells what may be acknowledged. A thread of its own.
#ifndef RUBATO_ADAPTERS_POSIX_REPLICA_LINES_H_
#define RUBATO_ADAPTERS_POSIX_REPLICA_LINES_H_

#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rubato/adapters/posix/params_line.h"
#include "rubato/adapters/posix/params_server_store.h"
#include "rubato/base/mutex.h"
#include "rubato/params/log_replica.h"

namespace rubato {

struct ReplicaLinesOptions {
  std::string job;
  std::string directory;  // Of the log.
  int64_t server = 0;
  int64_t incarnation = 1;
  const FrameLinks* links = nullptr;  // Must outlive the lines.
};

class ReplicaLines : public LogWatcher {
 public:
  // `advanced` is called on the thread of the lines whenever more may be acknowledged.
  ReplicaLines(ReplicaLinesOptions options, std::function<void()> advanced);
  ~ReplicaLines() override { Stop(); }

  // What the log is when the server starts. Once, before anything else.
  void Open(const LogSizes& log);
  // From any thread: the log changed.
  void Grew(int64_t segment, int64_t bytes) override;
  void DroppedBefore(int64_t segment) override;

  // From any thread: who keeps the copy, and where servers are (empty: down).
  void SetFollower(int64_t follower, std::vector<std::string> addresses);
  // From any thread: whether what is in the log up to `position` may be acknowledged.
  bool Holds(LogPosition position);
  int64_t settled();  // As LogReplicas says.
  int64_t follower();
  int64_t behind();
  int64_t outrun();
  void Stop();  // Idempotent.

 private:
  // The rest belongs to the thread, but for what a lock guards.
  void Wake();
  void Look();
  std::unique_ptr<ParamsLine> MakeLine(int64_t server);
  void Call(int64_t server, ParamsLine& line, const std::string& address);
  void Greeted(int64_t server, const Frame& frame);
  void Answered(int64_t server, const Frame& frame);
  void Lost(int64_t server);
  void Pump(int64_t server, ParamsLine& line);
  bool Send(const ReplicaOrder& order, ParamsLine& line);
  void Keep(int64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ReplicaLinesOptions options_;
  const std::function<void()> advanced_;
  Mutex mu_;
  LogReplicas replicas_ ABSL_GUARDED_BY(mu_);
  // Open, so that a log whose folder goes can still be sent.
  std::map<int64_t, std::shared_ptr<FileDescriptor>> files_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> woken_ = false;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::vector<std::string> addresses_;
  std::map<int64_t, std::unique_ptr<ParamsLine>> lines_;
  uint64_t next_id_ = 1;
  std::thread thread_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_REPLICA_LINES_H_

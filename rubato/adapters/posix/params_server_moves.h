// A server's line to the one to which it hands partitions: carries what MoveSource wants sent, and
// brings the answers back. Belongs to the server's loop.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_MOVES_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_MOVES_H_

#include <asio.hpp>
#include <functional>
#include <memory>
#include <string>

#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/params/move.h"

namespace rubato {

struct MoveLineOptions {
  std::string job;
  int64_t servers = 1;  // As clients say in their greeting.
};

class MoveLine {
 public:
  // `changed` is called whenever the source may have thawed or become ready.
  MoveLine(asio::io_context& io, MoveLineOptions options, MoveSource& source,
           std::function<void()> changed);
  ~MoveLine();

  // Where the source's receiver is; empty while it is down.
  void SetPeer(const std::string& address);

 private:
  void Connect();
  void Greet(StreamSocket socket);
  void Take(const Frame& frame);
  void Lost();
  void Drop();
  void Pump();

  asio::io_context& io_;
  const MoveLineOptions options_;
  MoveSource& source_;
  const std::function<void()> changed_;
  std::string address_;
  int64_t to_ = -1;
  int64_t order_ = 0;
  asio::steady_timer timer_;
  std::shared_ptr<void> attempt_;
  std::shared_ptr<FrameSocket> socket_;
  bool greeted_ = false;
  int64_t life_ = 0;  // Counts connections, so that a late timer knows its own.
  uint64_t next_id_ = 1;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_MOVES_H_

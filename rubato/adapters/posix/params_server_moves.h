// A server's line to the one to which it hands partitions: carries what MoveSource wants sent, and
// brings the answers back. Belongs to the first lane's thread.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_MOVES_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_MOVES_H_

#include <asio.hpp>
#include <functional>
#include <string>

#include "rubato/adapters/posix/params_line.h"
#include "rubato/base/shared_mutex.h"
#include "rubato/params/move.h"

namespace rubato {

struct MoveLineOptions {
  std::string job;
  int64_t servers = 1;                // As clients say in their greeting.
  const FrameLinks* links = nullptr;  // Must outlive the line.
};

class MoveLine {
 public:
  // `changed` is called whenever the source may have thawed or become ready.
  // `mu` guards the source, and what it looks at.
  MoveLine(asio::io_context& io, MoveLineOptions options, SharedMutex& mu, MoveSource& source,
           std::function<void()> changed);

  // Where the source's receiver is; empty while it is down.
  void SetPeer(const std::string& address);

 private:
  void Take(const absl::Status& answer, bool greeting);
  void Lost();
  void Pump();

  const MoveLineOptions options_;
  SharedMutex& mu_;
  MoveSource& source_;
  const std::function<void()> changed_;
  ParamsLine line_;
  int64_t to_ = -1;
  int64_t order_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_MOVES_H_

// A connection to a parameter server that is kept: it connects, greets, and begins again after a
// pause whenever it is lost or refused. Belongs to one io_context's thread, and must not be
// destroyed within one of its events.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_LINE_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_LINE_H_

#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rubato/adapters/posix/frame_links.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/net/frame.h"
#include "rubato/params/wire.h"

namespace rubato {

// The first frame of a connection, sent again with each.
struct Greeting {
  Greeting() = default;
  Greeting(ParamsOp op, std::string body) : op(op), body(std::move(body)) {}
  explicit Greeting(const Hello& hello) : Greeting(ParamsOp::kHello, EncodeHello(hello)) {}

  ParamsOp op = ParamsOp::kHello;
  std::string body;
};

struct ParamsLineEvents {
  // The greeting was answered, with this: requests may be sent from now on.
  std::function<void(const Frame& frame)> greeted;
  // An answer to one; its body lives until the callback returns.
  std::function<void(const Frame& frame)> answered;
  std::function<void()> lost;  // What was not answered will not be.
  // The server did not take the greeting (another job, place or release), it is no server of this
  // job at all, or there can be no such address. It is tried again, in case another comes to live
  // there.
  std::function<void(const absl::Status& why)> refused;
  // Over a Unix socket: open files to go with the greeting. Null: none.
  std::function<std::vector<int>()> files;
};

class ParamsLine {
 public:
  // `links` must outlive it.
  ParamsLine(asio::io_context& io, const FrameLinks& links, absl::Duration pause,
             ParamsLineEvents events)
      : io_(io), links_(links), pause_(pause), events_(std::move(events)), timer_(io) {}
  ~ParamsLine() { Drop(); }
  ParamsLine(const ParamsLine&) = delete;
  ParamsLine& operator=(const ParamsLine&) = delete;

  // Leaves where it was and goes to `address`; nowhere, if that is empty. No event comes of
  // leaving.
  void Open(const std::string& address, Greeting greeting);
  // Hangs up, and goes there again after the pause.
  void Again() { Again(pause_); }
  void Again(absl::Duration pause);
  // Hangs up for good.
  void Drop();
  // Only when greeted. Whatever `body` shows is kept by `keep` until it is written.
  void Send(FrameHeader header, absl::string_view body, std::shared_ptr<const void> keep) {
    socket_->Send(header, body, std::move(keep));
  }
  const std::string& address() const { return address_; }
  // From any thread.
  bool greeted() const { return greeted_; }

 private:
  void Connect();
  void Greet(StreamSocket socket, const SocketAddress& address);
  void Take(const Frame& frame);
  void Lost(const absl::Status& why);

  asio::io_context& io_;
  const FrameLinks& links_;
  const absl::Duration pause_;
  const ParamsLineEvents events_;
  std::string address_;
  Greeting greeting_;
  asio::steady_timer timer_;
  std::shared_ptr<void> attempt_;
  std::shared_ptr<FrameSocket> socket_;
  std::atomic<bool> greeted_ = false;
  // One a connection, so that a late timer knows its own, if there still is one.
  std::shared_ptr<const int> life_ = std::make_shared<const int>();
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_LINE_H_

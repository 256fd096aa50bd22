// For tests: a real listener in place of a control thread, which lets callers in to a TcpEdges.
#ifndef RUBATO_ADAPTERS_RING_EDGE_DOOR_H_
#define RUBATO_ADAPTERS_RING_EDGE_DOOR_H_

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/adapters/tls/fd.h"
#include "rubato/adapters/tls/stream.h"
#include "rubato/base/status.h"

namespace rubato {

class EdgeDoor {
 public:
  explicit EdgeDoor(TcpEdges& edges) : edges_(edges), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    RUBATO_CHECK(bind(listener_.get(), any, length) == 0 && listen(listener_.get(), 64) == 0 &&
                 getsockname(listener_.get(), any, &length) == 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { LetIn(); });
  }
  ~EdgeDoor() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  const std::string& address() const { return address_; }
  int let_in() const { return let_in_; }  // How many have come.

 private:
  void LetIn() {
    while (true) {
      Fd caller(accept(listener_.get(), nullptr, nullptr));
      if (!caller.valid()) return;
      EdgeHello hello;
      if (recv(caller.get(), &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello)) continue;
      RUBATO_CHECK(fcntl(caller.get(), F_SETFL, O_NONBLOCK) == 0);
      ++let_in_;
      edges_.Arrive(MemberId(hello.from), MemberId(hello.to),
                    std::make_unique<PlainStream>(std::move(caller)));
    }
  }

  TcpEdges& edges_;
  Fd listener_;
  std::string address_;
  std::atomic<int> let_in_{0};
  std::thread thread_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_EDGE_DOOR_H_

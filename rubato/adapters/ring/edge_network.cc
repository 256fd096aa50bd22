#include "rubato/adapters/ring/edge_network.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int kMomentMs = 100;
constexpr int kLocalBufferBytes = 1 << 20;
constexpr absl::Duration kRefusalTime = absl::Milliseconds(50);

// Whether both ends of a connection are on this machine.
bool IsLocal(int socket) {
  sockaddr_in here{}, there{};
  socklen_t length = sizeof(here);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&here), &length) != 0) return false;
  length = sizeof(there);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&there), &length) != 0) return false;
  return here.sin_addr.s_addr == there.sin_addr.s_addr;
}

absl::Status Failed(const std::string& address, int error) {
  const std::string message = absl::StrCat("cannot connect to ", address);
  return error == ECONNREFUSED ? absl::FailedPreconditionError(message)
                               : absl::UnavailableError(message);
}

}  // namespace

void TuneSocket(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // To another machine, congestion and buffers are the kernel's matter, which may grow these past
  // what a process may ask for. Within one nothing is ever congested, but some controls (BBR) pace
  // their packets all the same: 64 MB over two processes take 76 ms with it, 62 without, and 55
  // when the buffers need not grow first.
  if (!IsLocal(socket)) return;
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  for (const int buffer : {SO_SNDBUF, SO_RCVBUF}) {
    setsockopt(socket, SOL_SOCKET, buffer, &kLocalBufferBytes, sizeof(kLocalBufferBytes));
  }
}

absl::StatusOr<std::unique_ptr<Stream>> SocketNetwork::Connect(const std::string& address,
                                                               int event_fd,
                                                               const std::function<bool()>& live) {
  RUBATO_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
  RUBATO_ASSIGN_OR_RETURN(const sockaddr_in to, Resolve(endpoint));
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 &&
      errno != EINPROGRESS) {
    return Failed(address, errno);
  }
  pollfd fds[2] = {{fd.get(), POLLOUT, 0}, {event_fd, POLLIN, 0}};
  while (fds[0].revents == 0) {
    if (poll(fds, 2, kMomentMs) < 0 && errno != EINTR) break;
    if (fds[0].revents == 0 && !live()) return absl::AbortedError("the view has ended");
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return Failed(address, error);
  TuneSocket(fd.get());
  return MakeStream(tls_, TlsSide::kConnects, std::move(fd));
}

bool SocketNetwork::Refuses(const std::string& address) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  return endpoint.ok() && RefusesConnections(*endpoint, kRefusalTime);
}

void SocketNetwork::Wait(absl::Span<pollfd> fds) { poll(fds.data(), fds.size(), kMomentMs); }

}  // namespace rubato

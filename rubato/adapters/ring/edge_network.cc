#include "rubato/adapters/ring/edge_network.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int kMomentMs = 100;
constexpr int kLocalBufferBytes = 1 << 20;
constexpr int kKeepAlives = 127;  // As many as can be: what a silence means is said by IsSilent.
constexpr int kUnansweredMin = 2;
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

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
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
  // So that whoever only listens finds out that its link is dead.
  const int second = 1;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAlives, sizeof(kKeepAlives));
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
  RUBATO_RETURN_IF_ERROR(ParseEndpoint(address).status());
  const absl::Time deadline = MonotonicNow() + lease_;
  const std::optional<sockaddr_in> to =
      names_.Await(address, [&] { return live() && MonotonicNow() < deadline; });
  if (!to && !live()) return absl::AbortedError("the view has ended");
  if (!to) return absl::UnavailableError(absl::StrCat("nobody says where ", address, " is"));
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&*to), sizeof(*to)) != 0 &&
      errno != EINPROGRESS) {
    return Failed(address, errno);
  }
  pollfd fds[2] = {{fd.get(), POLLOUT, 0}, {event_fd, POLLIN, 0}};
  while (fds[0].revents == 0) {
    if (poll(fds, 2, kMomentMs) < 0 && errno != EINTR) break;
    if (fds[0].revents == 0 && !live()) return absl::AbortedError("the view has ended");
    if (fds[0].revents == 0 && MonotonicNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("no answer from ", address));
    }
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == ECONNREFUSED) names_.Refused(*to);
  if (error != 0) return Failed(address, error);
  TuneSocket(fd.get());
  return MakeStream(tls_, TlsSide::kConnects, std::move(fd));
}

bool SocketNetwork::Refuses(const std::string& address) {
  const std::optional<sockaddr_in> to = names_.Find(address);
  return to && RefusesConnections(*to, kRefusalTime);
}

// Not TCP_USER_TIMEOUT, which also ends a connection to one that answers but takes nothing, as it
// does while it computes. Questions to such a one become rare, so a single one that is on its way
// shows nothing.
bool SocketNetwork::IsSilent(const Stream& stream) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(stream.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  const bool owed = info.tcpi_unacked > 0 || info.tcpi_probes >= kUnansweredMin;
  const auto last = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
  return owed && absl::Milliseconds(last) >= lease_;
}

void SocketNetwork::Wait(absl::Span<pollfd> fds) { poll(fds.data(), fds.size(), kMomentMs); }

}  // namespace rubato

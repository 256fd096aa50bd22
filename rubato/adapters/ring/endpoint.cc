#include "rubato/adapters/ring/endpoint.h"

#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {

std::string Endpoint::ToString() const {
  if (node.empty()) return absl::StrCat(host, ":", port);
  return absl::StrCat(host, ":", port, ";", node, ";", pid, ";", memory_fd);
}

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text) {
  const std::vector<std::string> fields = absl::StrSplit(text, ';');
  const std::vector<std::string> place = absl::StrSplit(fields[0], ':');
  Endpoint endpoint;
  int port = -1;
  bool good = place.size() == 2 && absl::SimpleAtoi(place[1], &port) && port >= 0 && port < 65536;
  if (good && fields.size() == 4) {
    endpoint.node = fields[1];
    good = absl::SimpleAtoi(fields[2], &endpoint.pid) &&
           absl::SimpleAtoi(fields[3], &endpoint.memory_fd);
  } else if (fields.size() != 1) {
    good = false;
  }
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not HOST:PORT"));
  }
  endpoint.host = place[0];
  endpoint.port = static_cast<uint16_t>(port);
  return endpoint;
}

std::string HostPort(absl::string_view text) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  return endpoint.ok() ? absl::StrCat(endpoint->host, ":", endpoint->port) : "";
}

absl::StatusOr<sockaddr_in> Resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat(endpoint.host, ": ", gai_strerror(error)));
  }
  sockaddr_in address;
  std::memcpy(&address, found->ai_addr, sizeof(address));
  address.sin_port = htons(endpoint.port);
  freeaddrinfo(found);
  return address;
}

bool RefusesConnections(const sockaddr_in& place, absl::Duration timeout) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return false;
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)) == 0) {
    return false;
  }
  if (errno != EINPROGRESS) return errno == ECONNREFUSED;
  pollfd answer{fd.get(), POLLOUT, 0};
  if (poll(&answer, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) return false;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == ECONNREFUSED;
}

std::string ThisNode() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[128] = {};
  if (readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0) space[0] = '\0';
  // Another's memory is opened by way of /proc, which asks for as many rights as its owner has.
  std::string rights, line;
  std::ifstream status("/proc/self/status");
  while (std::getline(status, line)) {
    if (absl::StartsWith(line, "CapPrm") || absl::StartsWith(line, "CapEff")) rights += line;
  }
  std::getline(std::ifstream("/proc/self/attr/current"), line);
  absl::StrAppend(&rights, line, prctl(PR_GET_DUMPABLE));
  return absl::StrCat(absl::Hex(HashText(absl::StrCat(boot, space, getuid(), rights), 0)));
}

absl::StatusOr<Sockets> OpenSockets(Endpoint& listen) {
  RUBATO_ASSIGN_OR_RETURN(sockaddr_in address, Resolve(listen));
  if (address.sin_addr.s_addr == htonl(INADDR_ANY)) {
    return absl::InvalidArgumentError(
        absl::StrCat("others cannot reach a member at ", listen.host,
                     ": name the address of this machine that they know"));
  }
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  int error = 0;
  for (int attempt = 0; attempt < 32; ++attempt) {
    Sockets sockets;
    sockets.listener = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockets.packets = Fd(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(sockets.listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    address.sin_port = htons(listen.port);
    socklen_t length = sizeof(address);
    const bool good =
        bind(sockets.listener.get(), any, sizeof(address)) == 0 &&
        ::listen(sockets.listener.get(), 128) == 0 &&
        getsockname(sockets.listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
        bind(sockets.packets.get(), any, sizeof(address)) == 0;
    if (good) {
      listen.port = ntohs(address.sin_port);
      return sockets;
    }
    error = errno;
    if (listen.port != 0) break;  // Only a port that the kernel chose is worth another try.
  }
  const std::string why =
      absl::StrCat("cannot listen at ", listen.ToString(), ": ", std::strerror(error));
  // An address that is not this machine's will not become so.
  return error == EADDRNOTAVAIL ? absl::InvalidArgumentError(why) : absl::UnavailableError(why);
}

}  // namespace rubato

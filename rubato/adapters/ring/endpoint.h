// Where a member can be reached, as text that the core carries without reading it:
//
//     10.0.0.7:4000                    as a user types it
//     10.0.0.7:4000;6f1c...;2211;9     with node, process and shared memory, as members know it
//
// Control packets go to the UDP port, bulk data to the TCP port of the same number. Members whose
// `node` is the same share a kernel: they share memory too, and see each other's end at once.
#ifndef RUBATO_ADAPTERS_RING_ENDPOINT_H_
#define RUBATO_ADAPTERS_RING_ENDPOINT_H_

#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rubato/adapters/tls/fd.h"

namespace rubato {

struct Endpoint {
  std::string host;
  uint16_t port = 0;
  std::string node;  // Empty if not known.
  int pid = -1;
  int memory_fd = -1;  // In the process `pid`; -1: it shares no memory.

  std::string ToString() const;
};

// INVALID_ARGUMENT naming `text` if it is not HOST:PORT with at most the three fields behind.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text);
// HOST:PORT of it, for people; empty if it is no endpoint.
std::string HostPort(absl::string_view text);
// Looks the host up; may take a while unless it is a number.
absl::StatusOr<sockaddr_in> Resolve(const Endpoint& endpoint);

// Whether nobody listens at `place` any more: its process has ended, and its machine says so.
// Takes no longer than a round trip, and at most `timeout` if there is no answer at all.
bool RefusesConnections(const sockaddr_in& place, absl::Duration timeout);

// The same for all processes that share this kernel, user and process-id namespace.
std::string ThisNode();

// A UDP socket and a TCP listener on one port of `listen.host`; port 0 takes any that is free for
// both. Sets `listen.port`.
struct Sockets {
  Fd packets;
  Fd listener;
};
absl::StatusOr<Sockets> OpenSockets(Endpoint& listen);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_ENDPOINT_H_

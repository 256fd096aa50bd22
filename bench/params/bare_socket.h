// The limit of the wire: a socket between two processes that moves as many bytes and does nothing
// else.
#ifndef RUBATO_BENCH_PARAMS_BARE_SOCKET_H_
#define RUBATO_BENCH_PARAMS_BARE_SOCKET_H_

#include <cstddef>

namespace rubato::bench {

struct BareLoad {
  bool tcp = false;      // Through the loopback; else a Unix socket.
  size_t down = 0;       // Bytes of a request,
  size_t up = 0;         // and of its answer.
  size_t in_flight = 1;  // Requests under way.
  size_t requests = 1;
};

// Requests a second.
double BareSocketRequests(const BareLoad& load);

}  // namespace rubato::bench

#endif  // RUBATO_BENCH_PARAMS_BARE_SOCKET_H_

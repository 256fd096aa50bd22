// The limit of the wire: a socket between two processes that moves as many bytes and does nothing
// else.
#ifndef RUBATO_BENCH_PARAMS_BARE_SOCKET_H_
#define RUBATO_BENCH_PARAMS_BARE_SOCKET_H_

#include <cstddef>

namespace rubato::bench {

// Requests a second, each of `down` bytes answered by `up`, with `in_flight` of them under way.
double BareSocketRequests(size_t down, size_t up, size_t in_flight, size_t requests);

}  // namespace rubato::bench

#endif  // RUBATO_BENCH_PARAMS_BARE_SOCKET_H_

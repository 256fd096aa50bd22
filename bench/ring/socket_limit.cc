// What the sockets of this machine give at most: every process sends as many bytes to the next one
// as a ring allreduce must, on a thread of its own, and sums nothing. What fits a socket's buffer
// is sent when that of the run before has been received: there it is the way there that counts.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

constexpr int64_t kInTurnMax = 16 << 10;

struct Edges {
  int out = -1, in = -1;
};

// Connected to the next and by the one before; the ports are told on the board.
Edges Connect(int rank, int size, SharedBoard* board) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  listen(listener, 1);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  board->members[rank].step = ntohs(address.sin_port);
  const auto& next = board->members[(rank + 1) % size].step;
  while (next.load() == 0) usleep(100);
  Edges edges;
  edges.out = socket(AF_INET, SOCK_STREAM, 0);
  address = Loopback(static_cast<int>(next.load()));
  if (connect(edges.out, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  edges.in = accept(listener, nullptr, nullptr);
  const int on = 1;
  setsockopt(edges.out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return edges;
}

}  // namespace

std::vector<double> RunSocketLimit(const Place& place, int64_t elements) {
  const int size = place.size, runs = place.runs;
  const Edges edges = Connect(place.rank, size, place.board);
  if (edges.in < 0) return {};
  const int64_t total = 2 * (size - 1) * (elements * 4 / size);
  const int64_t part = std::min<int64_t>(total, 128 << 10);
  std::vector<char> from(part, 1), to(part);
  std::vector<double> micros;
  const auto send_all = [&](int64_t bytes) {
    for (int64_t left = bytes; left > 0;) {
      const ssize_t n = send(edges.out, from.data(), std::min(left, part), MSG_NOSIGNAL);
      if (n <= 0) return;
      left -= n;
    }
  };
  const bool in_turn = total <= kInTurnMax;
  std::thread sender([&] { send_all(in_turn ? 0 : total * (runs + 2)); });
  for (int i = 0; i < runs + 2; ++i) {
    const int64_t begin = NowNanos();
    if (in_turn) send_all(total);
    for (int64_t left = total; left > 0;) {
      const ssize_t n = recv(edges.in, to.data(), std::min(left, part), 0);
      if (n <= 0) break;
      left -= n;
    }
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  sender.join();
  return micros;
}

}  // namespace rubato

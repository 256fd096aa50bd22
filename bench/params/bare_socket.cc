#include "bench/params/bare_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <semaphore>
#include <thread>
#include <vector>

#include "bench/params/measure.h"
#include "rubato/base/status.h"

namespace rubato::bench {
namespace {

bool ReadAll(int fd, std::vector<char>& buffer) {
  for (size_t at = 0; at < buffer.size();) {
    const ssize_t got = read(fd, buffer.data() + at, buffer.size() - at);
    if (got <= 0) return false;
    at += static_cast<size_t>(got);
  }
  return true;
}

void WriteAll(int fd, const std::vector<char>& buffer) {
  for (size_t at = 0; at < buffer.size();) {
    const ssize_t put = write(fd, buffer.data() + at, buffer.size() - at);
    RUBATO_CHECK(put > 0);
    at += static_cast<size_t>(put);
  }
}

void TcpPair(int (&ends)[2]) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  RUBATO_CHECK(bind(listener, any, size) == 0 && listen(listener, 1) == 0);
  RUBATO_CHECK(getsockname(listener, any, &size) == 0);
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  RUBATO_CHECK(connect(ends[0], any, size) == 0);
  ends[1] = accept(listener, nullptr, nullptr);
  RUBATO_CHECK(ends[1] >= 0);
  close(listener);
  const int yes = 1;
  for (const int end : ends) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

double BareSocketRequests(const BareLoad& load) {
  int ends[2];
  if (load.tcp) {
    TcpPair(ends);
  } else {
    RUBATO_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  }
  std::vector<char> request(load.down, 'r'), answer(load.up, 'a');
  const pid_t server = fork();
  if (server == 0) {
    close(ends[0]);
    while (ReadAll(ends[1], request)) WriteAll(ends[1], answer);
    _exit(0);
  }
  close(ends[1]);
  std::counting_semaphore<> permits(static_cast<ptrdiff_t>(load.in_flight));
  const double began = Wall();
  std::thread writer([&] {
    for (size_t i = 0; i < load.requests; ++i) {
      permits.acquire();
      WriteAll(ends[0], request);
    }
  });
  for (size_t i = 0; i < load.requests; ++i) {
    RUBATO_CHECK(ReadAll(ends[0], answer));
    permits.release();
  }
  writer.join();
  const double wall = Wall() - began;
  close(ends[0]);
  waitpid(server, nullptr, 0);
  return static_cast<double>(load.requests) / wall;
}

}  // namespace rubato::bench

#include "bench/params/bare_socket.h"

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

}  // namespace

double BareSocketRequests(size_t down, size_t up, size_t in_flight, size_t requests) {
  int ends[2];
  RUBATO_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::vector<char> request(down, 'r'), answer(up, 'a');
  const pid_t server = fork();
  if (server == 0) {
    close(ends[0]);
    while (ReadAll(ends[1], request)) WriteAll(ends[1], answer);
    _exit(0);
  }
  close(ends[1]);
  std::counting_semaphore<> permits(static_cast<ptrdiff_t>(in_flight));
  const double began = Wall();
  std::thread writer([&] {
    for (size_t i = 0; i < requests; ++i) {
      permits.acquire();
      WriteAll(ends[0], request);
    }
  });
  for (size_t i = 0; i < requests; ++i) {
    RUBATO_CHECK(ReadAll(ends[0], answer));
    permits.release();
  }
  writer.join();
  const double wall = Wall() - began;
  close(ends[0]);
  waitpid(server, nullptr, 0);
  return static_cast<double>(requests) / wall;
}

}  // namespace rubato::bench

#include "rubato/adapters/ring/state_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <utility>

#include "rubato/adapters/ring/endpoint.h"

namespace rubato {
namespace {

struct ChunkHeader {
  int64_t step = 0;
  uint64_t total_bytes = 0;
  uint64_t checksum = 0;
  uint32_t chunk = 0;
  uint32_t bytes = 0;
};

// A peer that stops reading for this long is given up. For what is read there is no limit: a holder
// answers between two steps, however long they are, and the end of the view ends the wait.
void SetTimeout(int socket) {
  const timeval limit{10, 0};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

bool SendAll(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool ReceiveAll(int socket, void* data, size_t bytes) {
  return bytes == 0 || recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

void StreamTo(int socket, const StateSource& source) {
  for (uint32_t i = 0;; ++i) {
    const absl::StatusOr<StateChunk> chunk = source.Serve({source.step(), i});
    if (!chunk.ok()) return;
    const ChunkHeader header{chunk->step, chunk->total_bytes, chunk->checksum, i,
                             static_cast<uint32_t>(chunk->bytes.size())};
    if (!SendAll(socket, &header, sizeof(header)) ||
        !SendAll(socket, chunk->bytes.data(), chunk->bytes.size())) {
      return;
    }
  }
}

}  // namespace

StateServer::~StateServer() {
  for (auto& stream : streams_) {
    shutdown(stream->socket.get(), SHUT_RDWR);
    stream->thread.join();
  }
}

void StateServer::Serve(Fd socket, int64_t step, std::string snapshot) {
  std::erase_if(streams_, [](const std::unique_ptr<Stream>& stream) {
    if (!stream->done) return false;
    stream->thread.join();
    return true;
  });
  auto stream = std::make_unique<Stream>();
  stream->socket = std::move(socket);
  const int fd = stream->socket.get();
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  SetTimeout(fd);
  stream->thread =
      std::thread([stream = stream.get(), step, bytes = std::move(snapshot)]() mutable {
        StreamTo(stream->socket.get(), StateSource(step, std::move(bytes), kStateChunkBytes));
        shutdown(stream->socket.get(), SHUT_RDWR);
        stream->done = true;
      });
  streams_.push_back(std::move(stream));
}

StateFetcher::StateFetcher(const std::string& address, const EdgeHello& hello)
    : sink_(hello.min_step, kStateChunkBytes),
      socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      thread_([this, address, hello] { Run(address, hello); }) {}

StateFetcher::~StateFetcher() {
  shutdown(socket_.get(), SHUT_RDWR);
  thread_.join();
}

void StateFetcher::Run(const std::string& address, const EdgeHello& hello) {
  outcome_.store(
      [&] {
        SetTimeout(socket_.get());
        const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
        if (!endpoint.ok()) return -1;
        const absl::StatusOr<sockaddr_in> to = Resolve(*endpoint);
        if (!to.ok()) return -1;
        const int fd = socket_.get();
        if (connect(fd, reinterpret_cast<const sockaddr*>(&*to), sizeof(*to)) != 0) return -1;
        if (!SendAll(fd, &hello, sizeof(hello))) return -1;
        while (!sink_.complete()) {
          ChunkHeader header;
          if (!ReceiveAll(fd, &header, sizeof(header)) || header.bytes > kStateChunkBytes)
            return -1;
          StateChunk chunk{header.step, header.chunk, header.total_bytes, header.checksum, {}};
          chunk.bytes.resize(header.bytes);
          if (!ReceiveAll(fd, chunk.bytes.data(), chunk.bytes.size())) return -1;
          if (!sink_.Take(chunk).ok()) return -1;
        }
        return 1;
      }(),
      std::memory_order_release);
}

}  // namespace rubato

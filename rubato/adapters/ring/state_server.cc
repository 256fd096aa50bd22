#include "rubato/adapters/ring/state_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
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
// answers between two steps, however long they are, and whoever waits says when that is in vain.
constexpr int kSendTimeoutMs = 10000;
constexpr int kAnyTime = -1;
constexpr int kMomentMs = 20;
// What is read is counted in pieces like this: even a slow link brings one within a lease.
constexpr size_t kReadBytes = 8 << 10;

void SendAll(Stream& stream, const StateSource& source) {
  for (uint32_t i = 0;; ++i) {
    const absl::StatusOr<StateChunk> chunk = source.Serve({source.step(), i});
    if (!chunk.ok()) return;
    const ChunkHeader header{chunk->step, chunk->total_bytes, chunk->checksum, i,
                             static_cast<uint32_t>(chunk->bytes.size())};
    if (!WriteAll(stream, &header, sizeof(header), kSendTimeoutMs) ||
        !WriteAll(stream, chunk->bytes.data(), chunk->bytes.size(), kSendTimeoutMs)) {
      return;
    }
  }
}

}  // namespace

StateServer::~StateServer() {
  for (auto& copy : copies_) {
    shutdown(copy->stream->fd(), SHUT_RDWR);
    copy->thread.join();
  }
}

void StateServer::Serve(std::unique_ptr<Stream> stream, std::shared_ptr<StateSnapshot> snapshot) {
  std::erase_if(copies_, [](const std::unique_ptr<Copy>& copy) {
    if (!copy->done) return false;
    copy->thread.join();
    return true;
  });
  auto copy = std::make_unique<Copy>();
  copy->stream = std::move(stream);
  copy->thread = std::thread([copy = copy.get(), snapshot = std::move(snapshot)]() mutable {
    snapshot->Finish();  // First, for training may come to any of it.
    SendAll(*copy->stream, StateSource(std::move(snapshot)));
    shutdown(copy->stream->fd(), SHUT_RDWR);
    copy->done = true;
  });
  copies_.push_back(std::move(copy));
}

StateFetcher::StateFetcher(const std::string& address, const EdgeHello& hello, const TlsLinks* tls,
                           Resolver& names)
    : sink_(hello.min_step, kStateChunkBytes),
      socket_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      stream_(MakeStream(tls, TlsSide::kConnects, Fd(socket_))),
      thread_([this, address, hello, &names] {
        outcome_.store(Fetch(address, hello, names) ? 1 : -1, std::memory_order_release);
      }) {}

StateFetcher::~StateFetcher() {
  given_up_ = true;
  shutdown(socket_, SHUT_RDWR);
  thread_.join();
}

// Whoever gives up waits for this thread, and must not for a name or an answer that never comes.
bool StateFetcher::Connect(const std::string& address, Resolver& names) {
  if (!ParseEndpoint(address).ok()) return false;
  const std::optional<sockaddr_in> to = names.Await(address, [this] { return !given_up_; });
  if (!to) return false;
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&*to), sizeof(*to)) != 0 &&
      errno != EINPROGRESS) {
    return false;
  }
  pollfd answer{socket_, POLLOUT, 0};
  for (int waited = 0; answer.revents == 0 && !given_up_; waited += kMomentMs) {
    if (waited >= kSendTimeoutMs) return false;
    if (poll(&answer, 1, kMomentMs) < 0 && errno != EINTR) return false;
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 && !given_up_;
}

bool StateFetcher::Read(void* data, size_t bytes) {
  auto* const to = static_cast<char*>(data);
  for (size_t got = 0; got < bytes;) {
    const size_t piece = std::min(kReadBytes, bytes - got);
    if (!ReadAll(*stream_, to + got, piece, kAnyTime)) return false;
    bytes_.fetch_add(piece, std::memory_order_release);
    got += piece;
  }
  return true;
}

bool StateFetcher::Fetch(const std::string& address, const EdgeHello& hello, Resolver& names) {
  if (!Connect(address, names)) return false;
  if (!WriteAll(*stream_, &hello, sizeof(hello), kSendTimeoutMs)) return false;
  while (!sink_.complete()) {
    ChunkHeader header;
    if (!Read(&header, sizeof(header))) return false;
    if (header.bytes > kStateChunkBytes) return false;
    StateChunk chunk{header.step, header.chunk, header.total_bytes, header.checksum, {}};
    chunk.bytes.resize(header.bytes);
    if (!Read(chunk.bytes.data(), chunk.bytes.size())) return false;
    if (!sink_.Take(chunk).ok()) return false;
    step_.store(sink_.step(), std::memory_order_release);
  }
  return true;
}

}  // namespace rubato

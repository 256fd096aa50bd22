#include "rubato/adapters/tls/stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace rubato {
namespace {

msghdr MessageOf(absl::Span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool Await(const Stream& stream, int timeout_ms) {
  pollfd fd{stream.fd(), stream.wants(), 0};
  int ready = 0;
  do {
    ready = poll(&fd, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

int64_t PlainStream::Read(absl::Span<const iovec> pieces) {
  msghdr message = MessageOf(pieces);
  const ssize_t n = recvmsg(socket_, &message, MSG_DONTWAIT);
  if (n > 0) return n;
  if (n == 0) return kClosed;
  if (!WouldBlock()) return kBroken;
  wants_ = POLLIN;
  return kWait;
}

int64_t PlainStream::Write(absl::Span<const iovec> pieces) {
  msghdr message = MessageOf(pieces);
  const ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) return n;
  if (n == 0 || !WouldBlock()) return kBroken;
  wants_ = POLLOUT;
  return kWait;
}

bool PlainStream::gone() const {
  pollfd fd{socket_, POLLRDHUP, 0};
  return poll(&fd, 1, 0) > 0;
}

void PlainStream::Finish() { shutdown(socket_, SHUT_WR); }

bool ReadAll(Stream& stream, void* data, size_t bytes, int timeout_ms) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const int64_t n = stream.ReadBytes(at, bytes);
    if (n < 0 || (n == Stream::kWait && !Await(stream, timeout_ms))) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool WriteAll(Stream& stream, const void* data, size_t bytes, int timeout_ms) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const int64_t n = stream.WriteBytes(at, bytes);
    if (n < 0 || (n == Stream::kWait && !Await(stream, timeout_ms))) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  while (!stream.Flush()) {
    if (!Await(stream, timeout_ms)) return false;
  }
  return true;
}

}  // namespace rubato

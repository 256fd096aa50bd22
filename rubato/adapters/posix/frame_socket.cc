#include "rubato/adapters/posix/frame_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kUnixPathMax = 107;
constexpr std::chrono::milliseconds kAcceptPause(100);

// Of who asks over a Unix socket, whose buffer the system does not let grow by itself: while one
// request is answered the next few are on their way, rather than waiting for somebody to read them.
// Not of who answers: replies are read at once, from memory that is better in the cache.
constexpr int kUnixBufferBytes = 4 << 20;

void Widen(asio::local::stream_protocol::socket& socket) {
  asio::error_code ignored;  // The system may give less.
  socket.set_option(asio::socket_base::send_buffer_size(kUnixBufferBytes), ignored);
}
void Widen(asio::ip::tcp::socket&) {}

constexpr size_t kFilesMax = 2;  // That come with a greeting.

// As recv(2), without waiting.
ssize_t ReceiveWithFiles(int socket, absl::Span<char> space, std::vector<FileDescriptor>* files) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFilesMax * sizeof(int))> control{};
  iovec part = {space.data(), space.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return bytes;
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= one->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(one) + at, sizeof(file));
      files->emplace_back(file);
    }
  }
  return bytes;
}

// As send(2), without waiting.
ssize_t SendWithFiles(int socket, absl::string_view bytes, absl::Span<const int> files) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFilesMax * sizeof(int))> control{};
  RUBATO_CHECK(files.size() <= kFilesMax);
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), files.data(), files.size() * sizeof(int));
  return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

absl::Status FromError(const asio::error_code& error, absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

}  // namespace

absl::StatusOr<SocketAddress> SocketAddress::Parse(absl::string_view text) {
  SocketAddress address;
  if (absl::StartsWith(text, "unix:")) {
    address.path = std::string(text.substr(5));
    if (address.path.empty()) return absl::InvalidArgumentError("'unix:' names no file");
    if (address.path.size() > kUnixPathMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "': the path has ", address.path.size(),
                       " bytes, a Unix socket's at most ", kUnixPathMax));
    }
    return address;
  }
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no address: write unix:/path or host:port"));
  }
  address.host = std::string(text.substr(0, colon));
  address.port = static_cast<uint16_t>(port);
  return address;
}

std::string SocketAddress::ToString() const {
  return is_unix() ? absl::StrCat("unix:", path) : absl::StrCat(host, ":", port);
}

bool SocketAddress::StaysHere() const {
  if (is_unix() || host == "localhost" || host == "[::1]" || host == "::1") return true;
  asio::error_code error;
  const asio::ip::address_v4 address = asio::ip::make_address_v4(host, error);
  return !error && address.is_loopback();
}

// ---- FrameSocket ----

FrameSocket::FrameSocket(StreamSocket socket, std::unique_ptr<Stream> stream, size_t body_bytes_max)
    : socket_(std::move(socket)), stream_(std::move(stream)), parser_(body_bytes_max) {}

void FrameSocket::Start(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::move(on_frame);
  on_closed_ = std::move(on_closed);
  Read();
}

void FrameSocket::Read() {
  if (stream_ != nullptr) return TurnSoon();
  if (closed_ || reading_ || queued_bytes_ > kQueuedBytesMax) return;
  reading_ = true;
  if (welcomes_files_) return ReadWithFiles();
  const absl::Span<char> space = parser_.Space();
  socket_.async_read_some(asio::buffer(space.data(), space.size()),
                          [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
                            self->reading_ = false;
                            if (self->closed_) return;
                            if (error) return self->Lost(FromError(error, "connection lost"));
                            self->TakeFrames(bytes);
                            self->Read();
                          });
}

// Asio reads no files, so it only says when there is something.
void FrameSocket::ReadWithFiles() {
  socket_.async_wait(
      StreamSocket::wait_read, [self = shared_from_this()](const asio::error_code& error) {
        self->reading_ = false;
        if (self->closed_) return;
        if (error) return self->Lost(FromError(error, "connection lost"));
        const ssize_t bytes =
            ReceiveWithFiles(self->socket_.native_handle(), self->parser_.Space(), &self->files_);
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return self->Read();
        if (bytes <= 0) return self->Lost(absl::UnavailableError("connection lost"));
        self->welcomes_files_ = false;
        self->TakeFrames(static_cast<size_t>(bytes));
        self->Read();
      });
}

void FrameSocket::TakeFrames(size_t bytes) {
  parser_.Filled(bytes);
  while (!closed_) {
    const absl::StatusOr<std::optional<Frame>> frame = parser_.Next();
    if (!frame.ok()) return Lost(frame.status());
    if (!frame->has_value()) return;
    on_frame_(**frame);
  }
}

void FrameSocket::Send(FrameHeader header, absl::string_view body,
                       std::shared_ptr<const void> keep) {
  if (closed_) return;
  header.body_bytes = static_cast<uint32_t>(body.size());
  queued_bytes_ += body.size();
  queue_.push_back({header, body, std::move(keep)});
  if (stream_ != nullptr) return TurnSoon();
  if (writing_ == 0) Write();
}

void FrameSocket::SendFirst(FrameHeader header, absl::string_view body,
                            absl::Span<const int> files) {
  header.body_bytes = static_cast<uint32_t>(body.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(body.data(), body.size());
  bytes.resize(sizeof(header) + Padded(body.size()));
  // A socket on which nothing was sent has room for it.
  const ssize_t sent = SendWithFiles(socket_.native_handle(), bytes, files);
  if (sent == std::ssize(bytes)) return;
  if (sent < 0) {  // No files may be handed over here: then it goes without.
    const auto kept = std::make_shared<const std::string>(body);
    return Send(header, *kept, kept);
  }
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->Lost(absl::UnavailableError("the greeting could not be sent"));
  });
}

std::string FrameSocket::Peer() const {
  asio::error_code error;
  const StreamSocket::endpoint_type peer = socket_.remote_endpoint(error);
  asio::ip::tcp::endpoint tcp;
  if (error || peer.protocol().family() == AF_UNIX || peer.size() > tcp.capacity()) return "";
  std::memcpy(tcp.data(), peer.data(), peer.size());
  return absl::StrCat(tcp.address().to_string(), ":", tcp.port());
}

bool FrameSocket::IsOpenThere() {
  pollfd look = {socket_.native_handle(), POLLRDHUP, 0};
  int seen = 0;
  do {
    seen = poll(&look, 1, 0);
  } while (seen < 0 && errno == EINTR);
  return seen == 0;
}

void FrameSocket::Write() {
  gather_.clear();
  for (; writing_ < queue_.size() && writing_ < kGatherMax; ++writing_) {
    const Outgoing& out = queue_[writing_];
    gather_.push_back(asio::buffer(&out.header, sizeof(out.header)));
    gather_.push_back(asio::buffer(out.body.data(), out.body.size()));
    gather_.push_back(asio::buffer(kZeros, Padded(out.body.size()) - out.body.size()));
  }
  asio::async_write(socket_, gather_,
                    [self = shared_from_this()](const asio::error_code& error, size_t) {
                      for (; self->writing_ > 0; --self->writing_) {
                        self->queued_bytes_ -= self->queue_.front().body.size();
                        self->queue_.pop_front();
                      }
                      if (self->closed_) return self->queue_.clear();
                      if (error) return self->Lost(FromError(error, "connection lost"));
                      if (!self->queue_.empty()) return self->Write();
                      if (self->close_after_writing_)
                        return self->Lost(absl::CancelledError("closed here"));
                      self->Read();  // If it had paused.
                    });
}

void FrameSocket::CloseAfterWriting() {
  const bool written = queue_.empty() && (stream_ == nullptr || stream_->Flush());
  if (written) return Lost(absl::CancelledError("closed here"));
  close_after_writing_ = true;
}

void FrameSocket::Close() {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  socket_.shutdown(StreamSocket::shutdown_both, ignored);  // Whoever else has it open.
  socket_.close(ignored);
  if (writing_ == 0) queue_.clear();
}

void FrameSocket::Lost(const absl::Status& why) {
  if (closed_) return;
  Close();
  if (on_closed_) on_closed_(why);
}

// ---- FrameListener ----

absl::StatusOr<std::unique_ptr<FrameListener>> FrameListener::Listen(asio::io_context& io,
                                                                     const SocketAddress& address) {
  auto listener = std::unique_ptr<FrameListener>(new FrameListener(io));
  listener->address_ = address;
  RUBATO_RETURN_IF_ERROR(address.is_unix() ? listener->ListenUnix(io) : listener->ListenTcp(io));
  return listener;
}

FrameListener::~FrameListener() {
  if (address_.is_unix() && local_.is_open()) unlink(address_.path.c_str());
}

absl::Status FrameListener::ListenUnix(asio::io_context& io) {
  const asio::local::stream_protocol::endpoint endpoint(address_.path);
  asio::error_code error;
  asio::local::stream_protocol::socket probe(io);
  probe.connect(endpoint, error);
  if (!error) {
    return absl::UnavailableError(absl::StrCat(address_.ToString(), " is in use"));
  }
  // Nobody answers: what a killed process left behind may go.
  if (error == asio::error::connection_refused) unlink(address_.path.c_str());
  local_.open(endpoint.protocol(), error);
  if (!error) local_.bind(endpoint, error);
  if (!error) local_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  asio::error_code ignored;
  local_.close(ignored);  // The file is not ours.
  return FromError(error, address_.ToString());
}

absl::Status FrameListener::ListenTcp(asio::io_context& io) {
  asio::error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(address_.host, absl::StrCat(address_.port),
                                      asio::ip::tcp::resolver::passive, error);
  if (error || found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(address_.ToString(), ": no such host: ", error.message()));
  }
  const asio::ip::tcp::endpoint endpoint = *found.begin();
  tcp_.open(endpoint.protocol(), error);
  if (!error) tcp_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) tcp_.bind(endpoint, error);
  if (!error) tcp_.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    return absl::UnavailableError(
        absl::StrCat(address_.ToString(), " is in use by another process; choose another port, ",
                     "or port 0 for a free one"));
  }
  if (error) return FromError(error, address_.ToString());
  address_.port = tcp_.local_endpoint().port();
  return absl::OkStatus();
}

void FrameListener::Accept(std::function<asio::io_context&()> choose,
                           std::function<void(StreamSocket)> on_connection) {
  if (address_.is_unix()) {
    AcceptOn(local_, std::move(choose), std::move(on_connection));
  } else {
    AcceptOn(tcp_, std::move(choose), std::move(on_connection));
  }
}

template <typename Acceptor>
void FrameListener::AcceptOn(Acceptor& acceptor, std::function<asio::io_context&()> choose,
                             std::function<void(StreamSocket)> on_connection) {
  using Socket = typename Acceptor::protocol_type::socket;
  const asio::any_io_executor chosen = choose().get_executor();
  acceptor.async_accept(chosen, [this, &acceptor, choose = std::move(choose),
                                 on_connection = std::move(on_connection)](
                                    const asio::error_code& error, Socket connection) {
    if (error == asio::error::operation_aborted) return;  // And `this` is gone.
    if (error) {
      // No file or memory is left, and the connection waits where it is: asking again at once
      // would only keep the processor busy.
      pause_.expires_after(kAcceptPause);
      return pause_.async_wait([this, &acceptor, choose, on_connection](const auto& cancelled) {
        if (!cancelled) AcceptOn(acceptor, choose, on_connection);  // Else `this` is gone.
      });
    }
    asio::error_code ignored;
    if (!address_.is_unix()) connection.set_option(asio::ip::tcp::no_delay(true), ignored);
    on_connection(StreamSocket(std::move(connection)));
    AcceptOn(acceptor, choose, on_connection);
  });
}

// ---- ConnectTo ----

namespace {

struct Attempt : std::enable_shared_from_this<Attempt> {
  explicit Attempt(asio::io_context& io) : resolver(io), tcp(io), local(io) {}

  void Cancel() {
    done = nullptr;
    resolver.cancel();
    asio::error_code ignored;
    tcp.close(ignored);
    local.close(ignored);
  }
  template <typename Socket>
  void Finish(const asio::error_code& error, Socket& socket) {
    if (!done) return;
    const auto call = std::exchange(done, nullptr);
    if (error) {
      call(FromError(error, name));
    } else {
      Widen(socket);
      call(StreamSocket(std::move(socket)));
    }
  }
  void ConnectTcp(const asio::ip::tcp::resolver::results_type& found) {
    asio::async_connect(
        tcp, found,
        [self = shared_from_this()](const asio::error_code& error, const asio::ip::tcp::endpoint&) {
          asio::error_code ignored;
          self->tcp.set_option(asio::ip::tcp::no_delay(true), ignored);
          self->tcp.set_option(asio::socket_base::keep_alive(true), ignored);
          self->Finish(error, self->tcp);
        });
  }

  std::string name;
  std::function<void(absl::StatusOr<StreamSocket>)> done;  // Null once called or cancelled.
  asio::ip::tcp::resolver resolver;
  asio::ip::tcp::socket tcp;
  asio::local::stream_protocol::socket local;
};

}  // namespace

std::shared_ptr<void> ConnectTo(asio::io_context& io, const SocketAddress& address,
                                std::function<void(absl::StatusOr<StreamSocket>)> done) {
  auto attempt = std::make_shared<Attempt>(io);
  attempt->name = address.ToString();
  attempt->done = std::move(done);
  if (address.is_unix()) {
    attempt->local.async_connect(
        asio::local::stream_protocol::endpoint(address.path),
        [attempt](const asio::error_code& error) { attempt->Finish(error, attempt->local); });
  } else {
    attempt->resolver.async_resolve(address.host, absl::StrCat(address.port),
                                    [attempt](const asio::error_code& error, const auto& found) {
                                      if (error) return attempt->Finish(error, attempt->tcp);
                                      if (attempt->done) attempt->ConnectTcp(found);
                                    });
  }
  // The operations keep the attempt itself; the handle only says that somebody still waits.
  return std::shared_ptr<void>(nullptr, [attempt](void*) { attempt->Cancel(); });
}

}  // namespace rubato

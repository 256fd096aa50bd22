// Frames over a TCP or Unix socket, on Asio. Everything here belongs to one io_context's thread.
#ifndef RUBATO_ADAPTERS_POSIX_FRAME_SOCKET_H_
#define RUBATO_ADAPTERS_POSIX_FRAME_SOCKET_H_

#include <asio.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/tls/stream.h"
#include "rubato/net/frame.h"

namespace rubato {

// "unix:/path" or "host:port".
struct SocketAddress {
  std::string path;  // Unix: the socket's file. Empty for TCP.
  std::string host;
  uint16_t port = 0;

  // INVALID_ARGUMENT naming the text and what is wrong with it.
  static absl::StatusOr<SocketAddress> Parse(absl::string_view text);
  std::string ToString() const;
  bool is_unix() const { return !path.empty(); }
  // Whether only this machine can reach it, by its name: a Unix socket, 127.*, ::1 or localhost.
  // Both ends of a connection have the address from the server, and so come to the same answer.
  bool StaysHere() const;
};

using StreamSocket = asio::generic::stream_protocol::socket;

// One connection. Frames come in through a callback; frames to send are queued and written many at
// a time, straight from where they lie. Keeps itself alive while anything is under way, so the
// callbacks must not own it.
//
// Its bytes are the socket's as they are, or go through a stream over that socket; then nothing
// comes from the other side, and nothing is told it, before the stream trusts it.
class FrameSocket : public std::enable_shared_from_this<FrameSocket> {
 public:
  // A frame's body lives until the callback returns.
  using OnFrame = std::function<void(const Frame& frame)>;
  // Called once, when the connection is lost (UNAVAILABLE), sends what is no frame
  // (INVALID_ARGUMENT) or is no friend of the stream's (PERMISSION_DENIED), but not after Close().
  using OnClosed = std::function<void(absl::Status why)>;

  // `stream` is over that socket, which it does not own; null: none is between.
  FrameSocket(StreamSocket socket, std::unique_ptr<Stream> stream, size_t body_bytes_max);

  void Start(OnFrame on_frame, OnClosed on_closed);
  // Before Start: files that come with the first bytes are kept for TakeFiles; later ones are
  // closed.
  void WelcomeFiles() { welcomes_files_ = true; }
  std::vector<FileDescriptor> TakeFiles() { return std::exchange(files_, {}); }
  void set_body_bytes_max(size_t bytes) { parser_.set_body_bytes_max(bytes); }
  // Queues a frame. Whatever `body` shows is kept by `keep` until it is written.
  void Send(FrameHeader header, absl::string_view body, std::shared_ptr<const void> keep);
  // The first frame of a connection over a Unix socket, with open files for the other side.
  void SendFirst(FrameHeader header, absl::string_view body, absl::Span<const int> files);
  // Who is at the other end, as an address; empty over a Unix socket. Before it is closed.
  std::string Peer() const;
  // Whether the other side has not hung up yet, whatever of its frames is still to be read.
  bool IsOpenThere();
  // Writes what is queued, then closes.
  void CloseAfterWriting();
  // Closes now; no callback comes after it.
  void Close();

 private:
  static constexpr size_t kGatherMax = 64;                      // Frames in one write.
  static constexpr size_t kQueuedBytesMax = size_t{256} << 20;  // Stop reading beyond this.
  static constexpr char kZeros[8] = {};

  struct Outgoing {
    FrameHeader header;
    absl::string_view body;
    std::shared_ptr<const void> keep;
  };
  void Read();
  void ReadWithFiles();
  void TakeFrames(size_t bytes);
  void Write();
  void Lost(const absl::Status& why);
  // With a stream (frame_socket_stream.cc): a turn moves some bytes each way.
  void TurnSoon();
  void Turn();
  int64_t WriteSome();
  void AwaitTurn();

  StreamSocket socket_;
  const std::unique_ptr<Stream> stream_;
  FrameParser parser_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  std::deque<Outgoing> queue_;
  size_t writing_ = 0;       // The first so many of queue_ are being written.
  size_t queued_bytes_ = 0;  // A peer that does not read is not read from either.
  std::vector<asio::const_buffer> gather_;
  std::vector<FileDescriptor> files_;
  bool welcomes_files_ = false;
  bool reading_ = false;
  bool close_after_writing_ = false;
  bool closed_ = false;
  size_t taken_bytes_ = 0;  // By the stream, of the first of queue_.
  bool turn_is_due_ = false;
  bool awaits_reading_ = false;
  bool awaits_writing_ = false;
};

// Listens on an address and hands over connections until it is destroyed.
class FrameListener {
 public:
  // UNAVAILABLE if the address is in use, INVALID_ARGUMENT if there is no such address. The file
  // of a Unix socket that nobody answers any more is replaced.
  static absl::StatusOr<std::unique_ptr<FrameListener>> Listen(asio::io_context& io,
                                                               const SocketAddress& address);
  ~FrameListener();

  // With the port that was chosen.
  const SocketAddress& address() const { return address_; }
  // `choose` says which io_context the next connection shall belong to.
  void Accept(std::function<asio::io_context&()> choose,
              std::function<void(StreamSocket)> on_connection);

 private:
  explicit FrameListener(asio::io_context& io) : local_(io), tcp_(io), pause_(io) {}
  absl::Status ListenUnix(asio::io_context& io);
  absl::Status ListenTcp(asio::io_context& io);
  template <typename Acceptor>
  void AcceptOn(Acceptor& acceptor, std::function<asio::io_context&()> choose,
                std::function<void(StreamSocket)> on_connection);

  SocketAddress address_;
  asio::local::stream_protocol::acceptor local_;
  asio::ip::tcp::acceptor tcp_;
  asio::steady_timer pause_;  // Before the next try, after one that failed.
};

// Connects and calls back once, with a socket or UNAVAILABLE. Destroying the returned handle
// cancels it: no callback comes then.
std::shared_ptr<void> ConnectTo(asio::io_context& io, const SocketAddress& address,
                                std::function<void(absl::StatusOr<StreamSocket>)> done);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_FRAME_SOCKET_H_

// Bytes in order between two processes. Nothing here blocks: a call moves what it can, and says
// what to wait for if that is nothing.
//
// Bytes that Write has taken are on their way and cannot be taken back, as those in a socket's
// buffer; some may be held back until Flush. One thread at a time uses a stream.
#ifndef RUBATO_ADAPTERS_TLS_STREAM_H_
#define RUBATO_ADAPTERS_TLS_STREAM_H_

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "rubato/adapters/tls/fd.h"

namespace rubato {

class Stream {
 public:
  // In place of a number of bytes.
  static constexpr int64_t kWait = 0;     // Nothing moves now: poll fd() for wants().
  static constexpr int64_t kClosed = -1;  // The other end has said all.
  static constexpr int64_t kBroken = -2;  // It is gone, or not to be believed.

  virtual ~Stream() = default;
  // How many bytes were moved, in order, or one of the above. The pieces hold at least a byte.
  virtual int64_t Read(absl::Span<const iovec> pieces) = 0;
  virtual int64_t Write(absl::Span<const iovec> pieces) = 0;
  // Tries to send what was held back: whether nothing is left, or nobody would take it.
  virtual bool Flush() = 0;
  // Says that nothing more follows.
  virtual void Finish() = 0;

  // What a poll should wait for after kWait, or after a Flush that was false.
  virtual int16_t wants() const = 0;
  virtual int fd() const = 0;
  // The other end has been closed, whatever of it is yet to be read.
  virtual bool gone() const = 0;
  // The other end has proved who it is, where that is asked for.
  virtual bool trusted() const = 0;
  // It has said so much that it cannot be one of ours: an alert, or what is not TLS. One that was
  // merely closed or cut off has said nothing; its machine may be short of something.
  virtual bool stranger() const { return false; }

  int64_t ReadBytes(void* data, size_t bytes) {
    const iovec piece{data, bytes};
    return Read({&piece, 1});
  }
  int64_t WriteBytes(const void* data, size_t bytes) {
    const iovec piece{const_cast<void*>(data), bytes};
    return Write({&piece, 1});
  }
};

// As they are, over a connected socket.
class PlainStream : public Stream {
 public:
  explicit PlainStream(Fd socket) : owned_(std::move(socket)), socket_(owned_.get()) {}
  // Somebody else closes it, and nobody uses this then.
  explicit PlainStream(int socket) : socket_(socket) {}
  int64_t Read(absl::Span<const iovec> pieces) override;
  int64_t Write(absl::Span<const iovec> pieces) override;
  bool Flush() override { return true; }
  void Finish() override;
  int16_t wants() const override { return wants_; }
  int fd() const override { return socket_; }
  bool gone() const override;
  bool trusted() const override { return true; }

 private:
  const Fd owned_;
  const int socket_;
  int16_t wants_ = 0;
};

// For threads that have nothing else to do: waits until all is moved. False if the other end goes
// first, or if nothing moves for `timeout_ms` (-1: any time).
bool ReadAll(Stream& stream, void* data, size_t bytes, int timeout_ms);
bool WriteAll(Stream& stream, const void* data, size_t bytes, int timeout_ms);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TLS_STREAM_H_

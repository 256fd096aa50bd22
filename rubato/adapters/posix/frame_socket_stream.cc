// A FrameSocket whose bytes go through a stream. Asio only says when the socket is ready: what that
// is good for, reading or writing, the stream knows, since a handshake needs both for either.
#include <poll.h>

#include <algorithm>
#include <vector>

#include "rubato/adapters/posix/frame_socket.h"

namespace rubato {
namespace {

constexpr size_t kReadAtOnce = size_t{256} << 10;

}  // namespace

void FrameSocket::TurnSoon() {
  if (closed_ || std::exchange(turn_is_due_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->turn_is_due_ = false;
    self->Turn();
  });
}

// A bit each way, so that whoever sends or takes much does not keep the thread from the others.
void FrameSocket::Turn() {
  if (closed_) return;
  const bool trusted = stream_->trusted();
  const int64_t written = WriteSome();
  int64_t read = Stream::kWait;
  if (written >= 0 && queued_bytes_ <= kQueuedBytesMax) {
    const absl::Span<char> space = parser_.Space();
    read = stream_->ReadBytes(space.data(), std::min(space.size(), kReadAtOnce));
  }
  if (written < 0 || read < 0) {
    return Lost(stream_->stranger()
                    ? absl::PermissionDeniedError("the other side is a stranger: it does not know "
                                                  "the secret of this job")
                    : absl::UnavailableError("connection lost"));
  }
  if (read > 0) TakeFrames(static_cast<size_t>(read));
  if (closed_) return;
  if (close_after_writing_ && queue_.empty() && stream_->Flush()) {
    return Lost(absl::CancelledError("closed here"));
  }
  // The end of a handshake moves no byte of ours, but what waited for it can go.
  if (written > 0 || read > 0 || stream_->trusted() != trusted) return TurnSoon();
  AwaitTurn();
}

// What the stream takes is gone from the queue: it has made its own bytes of it.
int64_t FrameSocket::WriteSome() {
  if (queue_.empty()) {
    stream_->Flush();
    return Stream::kWait;
  }
  std::vector<iovec> pieces;
  size_t skipped = taken_bytes_;
  const auto add = [&](const void* data, size_t bytes) {
    const size_t less = std::min(skipped, bytes);
    skipped -= less;
    if (bytes == less) return;
    pieces.push_back({const_cast<char*>(static_cast<const char*>(data)) + less, bytes - less});
  };
  const size_t frames = std::min(queue_.size(), kGatherMax);
  for (size_t i = 0; i < frames; ++i) {
    const Outgoing& out = queue_[i];
    add(&out.header, sizeof(out.header));
    add(out.body.data(), out.body.size());
    add(kZeros, Padded(out.body.size()) - out.body.size());
  }
  const int64_t n = stream_->Write(pieces);
  if (n <= 0) return n;
  taken_bytes_ += static_cast<size_t>(n);
  while (!queue_.empty()) {
    const Outgoing& out = queue_.front();
    const size_t frame_bytes = sizeof(out.header) + Padded(out.body.size());
    if (taken_bytes_ < frame_bytes) break;
    taken_bytes_ -= frame_bytes;
    queued_bytes_ -= out.body.size();
    queue_.pop_front();
  }
  return n;
}

void FrameSocket::AwaitTurn() {
  const int16_t wants = stream_->wants();
  const auto await = [this](StreamSocket::wait_type what, bool& awaits) {
    if (std::exchange(awaits, true)) return;
    socket_.async_wait(what, [self = shared_from_this(), &awaits](const asio::error_code& error) {
      awaits = false;
      if (error) return self->Lost(absl::UnavailableError("connection lost: " + error.message()));
      self->Turn();
    });
  };
  if ((wants & POLLIN) != 0) await(StreamSocket::wait_read, awaits_reading_);
  if ((wants & POLLOUT) != 0) await(StreamSocket::wait_write, awaits_writing_);
}

}  // namespace rubato

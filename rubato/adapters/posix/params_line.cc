#include "rubato/adapters/posix/params_line.h"

#include <utility>

namespace rubato {

void ParamsLine::Open(const std::string& address, Greeting greeting) {
  Drop();
  address_ = address;
  greeting_ = std::move(greeting);
  Connect();
}

void ParamsLine::Drop() {
  life_ = std::make_shared<const int>();
  timer_.cancel();
  attempt_.reset();
  if (socket_ != nullptr) socket_->Close();
  socket_.reset();
  greeted_ = false;
}

void ParamsLine::Again(absl::Duration pause) {
  Drop();
  timer_.expires_after(absl::ToChronoNanoseconds(pause));
  timer_.async_wait([this, life = std::weak_ptr(life_)](const asio::error_code& error) {
    if (!error && !life.expired()) Connect();
  });
}

void ParamsLine::Lost(const absl::Status& why) {
  const bool stranger = absl::IsPermissionDenied(why);
  Again();
  if (stranger) return events_.refused(why);
  events_.lost();
}

void ParamsLine::Connect() {
  if (address_.empty()) return;
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(address_);
  const absl::Status sound = address.ok() ? links_.Check(*address) : address.status();
  if (!sound.ok()) {
    Again();
    return events_.refused(sound);
  }
  attempt_ = ConnectTo(io_, *address, [this, to = *address](absl::StatusOr<StreamSocket> socket) {
    if (!socket.ok()) return Lost(socket.status());
    Greet(*std::move(socket), to);
  });
}

void ParamsLine::Greet(StreamSocket socket, const SocketAddress& address) {
  socket_ = links_.Open(std::move(socket), address, TlsSide::kConnects, kFrameBytesMax);
  socket_->Start([this](const Frame& frame) { Take(frame); },
                 [this](const absl::Status& why) { Lost(why); });
  const FrameHeader header = {.op = static_cast<uint16_t>(greeting_.op)};
  const std::vector<int> files =
      address.is_unix() && events_.files != nullptr ? events_.files() : std::vector<int>();
  if (!files.empty()) return socket_->SendFirst(header, greeting_.body, files);
  const auto body = std::make_shared<std::string>(greeting_.body);
  socket_->Send(header, *body, body);
}

void ParamsLine::Take(const Frame& frame) {
  if (greeted_) return events_.answered(frame);
  if (const absl::Status refusal = frame.status(); !refusal.ok()) {
    Again();
    return events_.refused(refusal);
  }
  greeted_ = true;
  events_.greeted(frame);
}

}  // namespace rubato

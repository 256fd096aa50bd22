#include "rubato/adapters/posix/params_server_moves.h"

#include <chrono>
#include <utility>

#include "rubato/net/buffer.h"
#include "rubato/net/frame.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr auto kReconnect = std::chrono::milliseconds(20);

}  // namespace

MoveLine::MoveLine(asio::io_context& io, MoveLineOptions options, MoveSource& source,
                   std::function<void()> changed)
    : io_(io),
      options_(std::move(options)),
      source_(source),
      changed_(std::move(changed)),
      timer_(io) {}

MoveLine::~MoveLine() { Drop(); }

void MoveLine::SetPeer(const std::string& address) {
  const std::string wanted = source_.to() < 0 ? "" : address;
  // A ready one needs no line, and a new order a new one, even to the same server.
  if (wanted == address_ && source_.to() == to_ && source_.order() == order_) return;
  address_ = wanted;
  to_ = source_.to();
  order_ = source_.order();
  Drop();
  source_.Lost();
  Connect();
}

void MoveLine::Drop() {
  ++life_;
  timer_.cancel();
  attempt_.reset();
  if (socket_ != nullptr) socket_->Close();
  socket_.reset();
  greeted_ = false;
}

void MoveLine::Lost() {
  Drop();
  source_.Lost();
  changed_();
  timer_.expires_after(kReconnect);
  timer_.async_wait([this, life = life_](const asio::error_code& error) {
    if (!error && life == life_) Connect();
  });
}

void MoveLine::Connect() {
  if (address_.empty()) return;
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(address_);
  if (!address.ok()) return;
  attempt_ = ConnectTo(io_, *address, [this](absl::StatusOr<StreamSocket> socket) {
    if (!socket.ok()) return Lost();
    Greet(*std::move(socket));
  });
}

void MoveLine::Greet(StreamSocket socket) {
  socket_ = std::make_shared<FrameSocket>(std::move(socket), kFrameBytesMax);
  socket_->Start([this](const Frame& frame) { Take(frame); },
                 [this](const absl::Status&) { Lost(); });
  Hello hello;
  hello.job = options_.job;
  hello.server = to_;
  hello.servers = options_.servers;
  const auto body = std::make_shared<std::string>(EncodeHello(hello));
  socket_->Send({.op = static_cast<uint16_t>(ParamsOp::kHello)}, *body, body);
}

void MoveLine::Take(const Frame& frame) {
  if (!frame.status().ok()) return Lost();
  if (!greeted_) {
    greeted_ = true;
    source_.Connected();
  } else {
    source_.Answered(absl::OkStatus());
  }
  Pump();
}

void MoveLine::Pump() {
  if (!greeted_) return;
  const auto send = [&](const MoveRecord& record) {
    auto body = std::make_shared<Buffer>();
    body->Put<uint64_t>(static_cast<uint64_t>(record.first));
    body->Append(record.second.data(), record.second.size());
    socket_->Send({.op = static_cast<uint16_t>(ParamsOp::kArrive), .id = next_id_++}, body->view(),
                  body);
  };
  while (true) {
    const std::vector<MoveRecord> records = source_.Next();
    if (records.empty()) break;
    for (const MoveRecord& record : records) send(record);
  }
  changed_();
}

}  // namespace rubato

#include "rubato/adapters/posix/replica_door.h"

#include <asio.hpp>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>

#include "rubato/adapters/posix/frame_links.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

class AsioReplicaDoor : public ReplicaDoor {
 public:
  AsioReplicaDoor(const std::string& secret, ReplicaVaultOptions vault)
      : links_(secret), vault_(std::move(vault)) {}
  ~AsioReplicaDoor() override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      listener_.reset();
      for (auto& [number, connection] : connections_) connection.socket->Close();
      io_.stop();
    });
    thread_.join();
  }

  absl::Status Listen(const std::string& address) {
    RUBATO_ASSIGN_OR_RETURN(const SocketAddress parsed, SocketAddress::Parse(address));
    RUBATO_RETURN_IF_ERROR(links_.Check(parsed));
    RUBATO_ASSIGN_OR_RETURN(listener_, FrameListener::Listen(io_, parsed));
    address_ = listener_->address().ToString();
    listener_->Accept([this]() -> asio::io_context& { return io_; },
                      [this](StreamSocket socket) { Welcome(std::move(socket)); });
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

 private:
  struct Connection {
    std::shared_ptr<FrameSocket> socket;
    VaultLine line;
  };

  void Welcome(StreamSocket socket) {
    const int64_t number = next_++;
    Connection& connection = connections_[number];
    connection.socket =
        links_.Open(std::move(socket), listener_->address(), TlsSide::kAccepts, kHelloBytesMax);
    connection.socket->Start([this, &connection](const Frame& frame) { Answer(connection, frame); },
                             [this, number](const absl::Status&) { connections_.erase(number); });
  }

  void Answer(Connection& connection, const Frame& frame) {
    const auto op = static_cast<ParamsOp>(frame.header.op);
    if (op != ParamsOp::kFollow && op != ParamsOp::kReplicaRead) {
      return connection.socket->CloseAfterWriting();
    }
    const absl::StatusOr<std::string> answer = connection.line.Answer(vault_, op, frame.body);
    const auto body = std::make_shared<std::string>(
        answer.ok() ? *answer : std::string(answer.status().message()));
    connection.socket->Send({.op = frame.header.op,
                             .code = static_cast<uint16_t>(answer.status().code()),
                             .id = frame.header.id},
                            *body, body);
  }

  const FrameLinks links_;
  asio::io_context io_;
  ReplicaVault vault_;
  std::string address_;
  std::unique_ptr<FrameListener> listener_;
  std::map<int64_t, Connection> connections_;
  int64_t next_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReplicaDoor>> ReplicaDoor::Open(const std::string& address,
                                                               const std::string& secret,
                                                               ReplicaVaultOptions vault) {
  auto door = std::make_unique<AsioReplicaDoor>(secret, std::move(vault));
  RUBATO_RETURN_IF_ERROR(door->Listen(address));
  return door;
}

}  // namespace rubato

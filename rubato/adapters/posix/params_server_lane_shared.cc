// Requests whose bytes lie in memory that the client shares (shared_area.h).
#include <utility>

#include "rubato/adapters/posix/params_server_lane.h"
#include "rubato/params/wire.h"

namespace rubato {

std::string ParamsServerLane::Share(Connection& connection) {
  std::vector<FileDescriptor> files = connection.socket->TakeFiles();
  if (files.size() != 2) return "";
  auto requests = SharedArea::Open(std::move(files[0]), SharedArea::Others::kRead);
  auto replies = SharedArea::Open(std::move(files[1]), SharedArea::Others::kWrite);
  const absl::Status& why = requests.ok() ? replies.status() : requests.status();
  if (!why.ok()) {  // The client hears it, and uses the socket.
    WriterLock lock(state_.mu);
    state_.last_error = std::string(why.message());
    return state_.last_error;
  }
  connection.requests = *std::move(requests);
  connection.replies = *std::move(replies);
  return std::string(kSharesMemory);
}

void ParamsServerLane::HandleShared(Connection& connection, const Frame& frame) {
  const absl::StatusOr<SharedRequest> shared = DecodeShared(frame.body);
  if (!shared.ok()) return Reply(connection, frame.header, shared.status());
  const auto request =
      connection.requests == nullptr ? std::nullopt : connection.requests->At(shared->request);
  const bool fits = request.has_value() && connection.replies->At(shared->reply).has_value() &&
                    shared->reply.offset % kSharedGrain == 0;
  if (!fits) {
    return Reply(connection, frame.header,
                 absl::InvalidArgumentError("a request beyond the memory that is shared"));
  }
  // Whatever the client writes from now on, this is its request.
  shared_.clear();
  shared_.Append(request->data(), request->size());
  // One that has hung up, and waits for no answer, may have begun another request in that place.
  if (!connection.socket->IsOpenThere()) return;
  connection.shared = *shared;
  Frame plain = {frame.header, shared_.view()};
  plain.header.op = static_cast<uint16_t>(shared->op);
  if (shared->op == ParamsOp::kPush) {
    Push(connection, plain);
  } else {
    Pull(connection, plain);
  }
  connection.shared.reset();
}

// For one buffer that asks once.
class ParamsServerLane::ReplyPlace : public BufferMemory {
 public:
  explicit ReplyPlace(absl::Span<char> place) : place_(place) {}
  char* Take(size_t bytes) override {
    const absl::Span<char> place = std::exchange(place_, {});
    return bytes <= place.size() ? place.data() : nullptr;
  }
  void Give(char*, size_t) override {}

 private:
  absl::Span<char> place_;
};

std::shared_ptr<Buffer> ParamsServerLane::SharedReply(const Connection& connection) const {
  const bool is_named = connection.shared.has_value() && connection.shared->reply.bytes > 0;
  if (!is_named) return nullptr;
  return std::make_shared<Buffer>(
      std::make_shared<ReplyPlace>(*connection.replies->At(connection.shared->reply)));
}

void ParamsServerLane::SendPulled(Connection& connection, const FrameHeader& request,
                                  std::shared_ptr<Buffer> reply) {
  const bool is_there =
      connection.shared.has_value() && connection.replies->Find(reply->view()).has_value();
  if (!is_there) {
    const absl::string_view body = reply->view();
    return connection.socket->Send({.op = request.op, .id = request.id}, body, std::move(reply));
  }
  const auto body = std::make_shared<std::string>(EncodeSharedReply(reply->size()));
  connection.socket->Send({.op = static_cast<uint16_t>(ParamsOp::kShared), .id = request.id}, *body,
                          body);
}

}  // namespace rubato

#include "rubato/adapters/posix/params_server_lane.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {

// Replies are built in buffers that keep their room; as many as were ever in flight at once.
class ParamsServerLane::BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  std::shared_ptr<Buffer> Take() {
    std::unique_ptr<Buffer> buffer;
    if (free_.empty()) {
      buffer = std::make_unique<Buffer>();
    } else {
      buffer = std::move(free_.back());
      free_.pop_back();
      buffer->clear();
    }
    return {buffer.release(),
            [pool = shared_from_this()](Buffer* used) { pool->free_.emplace_back(used); }};
  }

 private:
  std::vector<std::unique_ptr<Buffer>> free_;
};

std::shared_ptr<ParamsServerLane::BufferPool> ParamsServerLane::MakePool() {
  return std::make_shared<BufferPool>();
}

// ---- from other threads ----

void ParamsServerLane::Welcome(std::shared_ptr<FrameSocket> socket) {
  asio::post(io_, [this, socket = std::move(socket)]() mutable {
    if (closed_) return;
    const int64_t number = next_connection_++;
    Connection& connection = connections_[number];
    connection.number = number;
    ++state_.clients;
    connection.socket = std::move(socket);
    connection.socket->WelcomeFiles();
    connection.socket->Start([this, &connection](const Frame& frame) { Handle(connection, frame); },
                             [this, number, peer = connection.socket->Peer()](absl::Status why) {
                               CountStranger(peer, why);
                               Forget(number);
                             });
    silent_.insert(number);
    while (std::ssize(silent_) > state_.options.silent_max) HangUp(*silent_.begin());
    WatchSilent();
  });
}

void ParamsServerLane::ViewIsSet() {
  asio::post(io_, [this] {
    for (auto& [number, connection] : connections_) {
      if (connection.hello_waits) Admit(connection, connection.hello_id);
    }
  });
}

void ParamsServerLane::Release() {
  asio::post(io_, [this] {
    const std::vector<Held> held = std::exchange(held_, {});
    for (const Held& request : held) {
      const auto it = connections_.find(request.connection);
      if (it != connections_.end()) Handle(it->second, {request.header, request.body.view()});
    }
  });
}

void ParamsServerLane::Replicated() {
  asio::post(io_, [this] {
    while (!unconfirmed_.empty() && state_.replicas->Holds(unconfirmed_.front().position)) {
      const Unconfirmed reply = std::move(unconfirmed_.front());
      unconfirmed_.pop_front();
      const auto it = connections_.find(reply.connection);
      if (it == connections_.end()) continue;
      const auto body = std::make_shared<std::string>(reply.body);
      it->second.socket->Send(reply.header, *body, body);
    }
  });
}

void ParamsServerLane::Close() {
  asio::post(io_, [this] {
    closed_ = true;
    for (auto& [number, connection] : connections_) connection.socket->Close();
    state_.clients -= static_cast<int64_t>(connections_.size());
    connections_.clear();
    silent_.clear();
  });
}

void ParamsServerLane::Join() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] { io_.stop(); });
  thread_.join();
}

// ---- on the lane's thread ----

void ParamsServerLane::Forget(int64_t number) {
  silent_.erase(number);
  connections_.erase(number);
  --state_.clients;
}

void ParamsServerLane::HangUp(int64_t number) {
  connections_.at(number).socket->Close();
  Forget(number);
}

void ParamsServerLane::WatchSilent() {
  if (watching_ || silent_.empty()) return;
  watching_ = true;
  patience_.expires_after(absl::ToChronoNanoseconds(state_.options.greeting_time));
  // Those that come from now on have until the next look.
  patience_.async_wait([this, newest = next_connection_](const asio::error_code&) {
    watching_ = false;
    while (!silent_.empty() && *silent_.begin() < newest) HangUp(*silent_.begin());
    WatchSilent();
  });
}

void ParamsServerLane::CountStranger(const std::string& peer, const absl::Status& why) {
  if (!absl::IsInvalidArgument(why) && !absl::IsPermissionDenied(why)) return;
  WriterLock lock(state_.mu);
  ++state_.strangers;
  state_.last_stranger =
      absl::StrCat(peer.empty() ? "a process of this machine" : peer, ": ", why.message());
}

void ParamsServerLane::Handle(Connection& connection, const Frame& frame) {
  silent_.erase(connection.number);
  if (frame.header.op == static_cast<uint16_t>(ParamsOp::kInspect)) {
    return Inspect(connection, frame);
  }
  switch (static_cast<ParamsOp>(frame.header.op)) {  // Servers know each other before any view.
    case ParamsOp::kFollow:
    case ParamsOp::kReplicate:
    case ParamsOp::kReplicaRead:
      return Replicate(connection, frame);
    default:
      break;
  }
  if (!connection.greeted) return Greet(connection, frame);
  switch (static_cast<ParamsOp>(frame.header.op)) {
    case ParamsOp::kShared:
      return HandleShared(connection, frame);
    case ParamsOp::kPull:
      return Pull(connection, frame);
    case ParamsOp::kPush:
      return Push(connection, frame);
    case ParamsOp::kArrive:
      return Arrive(connection, frame);
    case ParamsOp::kDeclare:
      return Declare(connection, frame);
    default:
      return Reply(connection, frame.header,
                   absl::UnimplementedError(absl::StrCat("no operation ", frame.header.op)));
  }
}

absl::Status ParamsServerLane::CheckHello(const Frame& frame) const {
  const ParamsServerOptions& options = state_.options;
  if (frame.header.op != static_cast<uint16_t>(ParamsOp::kHello)) {
    return absl::InvalidArgumentError("the first frame is no greeting");
  }
  RUBATO_ASSIGN_OR_RETURN(const Hello hello, DecodeHello(frame.body));
  if (hello.job != options.job) {
    return absl::FailedPreconditionError(
        absl::StrCat("a server of job '", options.job, "', not of '", hello.job, "'"));
  }
  if (hello.server != options.server.value()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("server %d, not %d", options.server.value(), hello.server));
  }
  return absl::OkStatus();
}

void ParamsServerLane::Greet(Connection& connection, const Frame& frame) {
  if (const absl::Status status = CheckHello(frame); !status.ok()) {
    Reply(connection, frame.header, status);
    return connection.socket->CloseAfterWriting();
  }
  connection.welcome = Share(connection);
  // A view that is set from now on finds this connection waiting: ViewIsSet comes after it.
  connection.hello_waits = true;
  connection.hello_id = frame.header.id;
  bool open = false;
  {
    ReaderLock lock(state_.mu);
    open = state_.shard->view() > 0;
  }
  if (open) Admit(connection, frame.header.id);
}

void ParamsServerLane::Admit(Connection& connection, uint64_t id) {
  connection.greeted = true;
  connection.hello_waits = false;
  connection.socket->set_body_bytes_max(kFrameBytesMax);
  const auto body = std::make_shared<std::string>(connection.welcome);
  connection.socket->Send({.op = static_cast<uint16_t>(ParamsOp::kHello), .id = id}, *body, body);
}

void ParamsServerLane::Reply(Connection& connection, const FrameHeader& request,
                             const absl::Status& status) {
  const auto message = std::make_shared<std::string>(status.message());
  connection.socket->Send(
      {.op = request.op, .code = static_cast<uint16_t>(status.code()), .id = request.id}, *message,
      message);
}

void ParamsServerLane::Declare(Connection& connection, const Frame& frame) {
  absl::Status status;
  std::string map;
  LogPosition position;
  {
    WriterLock lock(state_.mu);
    if (state_.holding()) return Hold(connection, frame);
    status = state_.shard->Declare(frame.body, state_.store.get());
    if (absl::IsAborted(status)) map = state_.shard->map().Encode();
    position = state_.store->end();
  }
  if (!map.empty()) return Disown(connection, frame.header, map);
  ReplyWhenHeld(connection, frame.header, position, status, "");
}

void ParamsServerLane::Pull(Connection& connection, const Frame& frame) {
  std::shared_ptr<Buffer> reply = SharedReply(connection);
  if (reply == nullptr) reply = buffers_->Take();
  absl::Status status;
  std::string map;
  bool changes = false;
  {
    ReaderLock lock(state_.mu);
    if (state_.holding()) return Hold(connection, frame);
    changes = state_.shard->PullChanges(frame.body);
    if (!changes) status = state_.shard->Pull(frame.body, reply.get(), &scratch_);
    if (absl::IsAborted(status)) map = state_.shard->map().Encode();
  }
  if (changes) {  // Rarely: once a round, or while partitions are new here.
    WriterLock lock(state_.mu);
    if (state_.holding()) return Hold(connection, frame);
    status = state_.shard->BeforePull(frame.body);
    if (status.ok()) status = state_.shard->Pull(frame.body, reply.get(), &scratch_);
    if (absl::IsAborted(status)) map = state_.shard->map().Encode();
  }
  if (absl::IsAborted(status)) return Disown(connection, frame.header, map);
  if (!status.ok()) return Reply(connection, frame.header, status);
  SendPulled(connection, frame.header, reply);
  MutexLock lock(hot_mu_);
  for (size_t t = 0; t < scratch_.pull.tables.size(); ++t) {
    hot_.Count(static_cast<uint32_t>(t), scratch_.pull.tables[t].ids);
    keys_.Count(scratch_.pull.tables[t].ids);
  }
}

void ParamsServerLane::Inspect(Connection& connection, const Frame& frame) {
  const auto body = std::make_shared<std::string>(EncodeInspection(state_.inspect()));
  connection.socket->Send({.op = frame.header.op, .id = frame.header.id}, *body, body);
}

// A push's way through the server's lock.
class ParamsServerLane::LaneTurn : public PushTurn {
 public:
  LaneTurn(TurnLock& lock, const ParamsStore& log) : lock_(lock), log_(log) {}
  bool Alone() override { return lock_.alone(); }
  void Write() override { lock_.Write(); }
  void PassOn() override {
    logged_ = log_.end();
    lock_.PassOn();
  }
  // However it ended, it has the shard to itself now. Returns how far the log went with it.
  LogPosition Finish() {
    lock_.Write();
    return logged_.value_or(log_.end());
  }

 private:
  TurnLock& lock_;
  const ParamsStore& log_;
  std::optional<LogPosition> logged_;  // Once others may append to it.
};

void ParamsServerLane::Push(Connection& connection, const Frame& frame) {
  const absl::Status read = DecodePush(frame.body, &push_);
  absl::StatusOr<PushOutcome> outcome;
  std::string map;
  LogPosition position;
  {
    TurnLock lock(state_.mu);  // Pulls go on while it is written to the log.
    if (state_.holding()) return Hold(connection, frame);
    LaneTurn turn(lock, *state_.store);
    outcome = read.ok() ? state_.shard->Push(push_, frame.body, state_.store.get(), turn) : read;
    position = turn.Finish();
    if (absl::IsAborted(outcome.status())) map = state_.shard->map().Encode();
    if (!outcome.ok()) state_.last_error = std::string(outcome.status().message());
    state_.shard->TakeAhead(&ahead_);
  }
  if (outcome.ok() && *outcome == PushOutcome::kApplied) {
    MutexLock counting(hot_mu_);
    for (const TablePush& part : push_.request.tables) keys_.Count(part.ids);
  }
  for (const MemoryRange& range : ahead_) state_.prepare(range);
  ahead_.clear();
  if (!map.empty()) return Disown(connection, frame.header, map);
  if (!outcome.ok()) return Reply(connection, frame.header, outcome.status());
  static constexpr char kOutcomes[] = {0, 1, 2, 3};
  ReplyWhenHeld(connection, frame.header, position, absl::OkStatus(),
                {&kOutcomes[static_cast<int>(*outcome)], 1});
}

// ---- moves ----

void ParamsServerLane::Hold(const Connection& connection, const Frame& frame) {
  Held& held = held_.emplace_back();
  held.connection = connection.number;
  held.header = frame.header;
  if (!connection.shared.has_value()) return held.body.Append(frame.body.data(), frame.body.size());
  // It waits where it is.
  const std::string where = EncodeShared(*connection.shared);
  held.header.op = static_cast<uint16_t>(ParamsOp::kShared);
  held.body.Append(where.data(), where.size());
}

void ParamsServerLane::Disown(Connection& connection, const FrameHeader& request,
                              const std::string& map) {
  Reply(connection, request, absl::AbortedError(map));
}

void ParamsServerLane::Arrive(Connection& connection, const Frame& frame) {
  uint64_t kind = 0;
  if (frame.body.size() < sizeof(kind)) {
    return Reply(connection, frame.header, absl::InvalidArgumentError("no record of a move"));
  }
  std::memcpy(&kind, frame.body.data(), sizeof(kind));
  absl::Status status;
  LogPosition position;
  {
    WriterLock lock(state_.mu);
    status = state_.shard->Arrive(static_cast<RecordKind>(kind), frame.body.substr(sizeof(kind)),
                                  state_.store.get());
    if (!status.ok()) state_.last_error = std::string(status.message());
    position = state_.store->end();
  }
  if (absl::IsAborted(status)) state_.tidy();
  ReplyWhenHeld(connection, frame.header, position, status, "");
}

// ---- copies of logs ----

// Those of one connection stay in their order: positions only grow. An error promises nothing.
void ParamsServerLane::ReplyWhenHeld(Connection& connection, const FrameHeader& request,
                                     LogPosition position, const absl::Status& status,
                                     absl::string_view body) {
  if (!status.ok()) return Reply(connection, request, status);
  const FrameHeader header = {.op = request.op, .id = request.id};
  const auto text = std::make_shared<std::string>(body);
  if (state_.replicas == nullptr || state_.replicas->Holds(position)) {
    return connection.socket->Send(header, *text, text);
  }
  unconfirmed_.push_back({position, connection.number, header, *text});
}

void ParamsServerLane::Replicate(Connection& connection, const Frame& frame) {
  const auto op = static_cast<ParamsOp>(frame.header.op);
  const auto act = [&] { return connection.copies.Answer(*state_.vault, op, frame.body); };
  absl::StatusOr<std::string> answer = act();
  if (absl::IsResourceExhausted(answer.status())) {
    // What is kept for speed goes before another's pushes wait for room.
    std::shared_ptr<LogSpares> spares;
    {
      ReaderLock lock(state_.mu);
      spares = state_.store->spares();
    }
    if (spares->Clear()) answer = act();
  }
  if (!answer.ok()) return Reply(connection, frame.header, answer.status());
  if (op == ParamsOp::kFollow) connection.socket->set_body_bytes_max(kFrameBytesMax);
  const auto body = std::make_shared<std::string>(*std::move(answer));
  connection.socket->Send({.op = frame.header.op, .id = frame.header.id}, *body, body);
}

}  // namespace rubato

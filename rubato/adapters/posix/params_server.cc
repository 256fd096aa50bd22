#include "rubato/adapters/posix/params_server.h"

#include <asio.hpp>
#include <atomic>
#include <cstdio>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/adapters/posix/params_server_moves.h"
#include "rubato/adapters/posix/params_server_store.h"
#include "rubato/base/status.h"
#include "rubato/net/buffer.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/memory.h"
#include "rubato/params/shard.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

// Checkpoints are synced in pieces: a process killed while it syncs does not die before the disk is
// done, and nobody can take its place.
constexpr int64_t kSyncBytes = int64_t{4} << 20;

// Replies are built in buffers that keep their room; as many as were ever in flight at once.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
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

// The records of one step of a checkpoint, on their way to the thread that writes files.
class HeldRecords : public RecordSink {
 public:
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    records_.emplace_back(kind, std::string(body));
    return absl::OkStatus();
  }
  absl::Status WriteTo(RecordSink& sink) const {
    for (const auto& [kind, body] : records_) RUBATO_RETURN_IF_ERROR(sink.Append(kind, body));
    return absl::OkStatus();
  }

 private:
  std::vector<std::pair<RecordKind, std::string>> records_;
};

class AsioParamsServer : public ParamsServer {
 public:
  explicit AsioParamsServer(ParamsServerOptions options)
      : options_(std::move(options)), memory_(options_.huge_pages) {}
  ~AsioParamsServer() override { Stop(); }

  absl::Status Open() {
    RUBATO_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::Parse(options_.address));
    RUBATO_ASSIGN_OR_RETURN(store_, ParamsStore::Open(options_));
    RUBATO_ASSIGN_OR_RETURN(shard_, store_->Recover(memory_));
    source_ = std::make_unique<MoveSource>(*shard_, store_->life());
    line_ = std::make_unique<MoveLine>(
        io_, MoveLineOptions{.job = options_.job, .servers = options_.servers}, *source_,
        [this] { MoveChanged(); });
    RUBATO_ASSIGN_OR_RETURN(listener_, FrameListener::Listen(io_, address));
    address_ = listener_->address().ToString();
    listener_->Accept([this](StreamSocket socket) { Welcome(std::move(socket)); });
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  void SetMap(int64_t view, const PartitionMap& map, const MoveOrder& move,
              std::vector<std::string> addresses) override;
  int64_t moved() const override { return moved_; }
  void SetView(int64_t number, std::vector<WorkerId> workers) override;
  void StartCheckpoint(int64_t version, std::function<void(absl::Status)> done) override;
  void DropLogBefore(int64_t version) override;
  ParamsServerStats Stats() override;
  void Stop() override;

 private:
  struct Connection {
    int64_t number = 0;
    std::shared_ptr<FrameSocket> socket;
    bool greeted = false;
    uint64_t hello_id = 0;  // Waits for the first view, if `hello_waits`.
    bool hello_waits = false;
  };
  // A request that waits for the end of a move.
  struct Held {
    int64_t connection = 0;
    FrameHeader header;
    Buffer body;
  };
  struct Checkpoint {
    CheckpointName name;
    std::unique_ptr<CheckpointWriter> writer;
    std::unique_ptr<RecordFile> file;  // Touched by the file thread alone, once made,
    int64_t synced = 0;                // as is how much of it is on disk.
    std::string path;
    std::function<void(absl::Status)> done;
  };

  void Welcome(StreamSocket socket);
  void Handle(Connection& connection, const Frame& frame);
  void Greet(Connection& connection, const Frame& frame);
  void Admit(Connection& connection, uint64_t id);
  void Pull(Connection& connection, const Frame& frame);
  void Push(Connection& connection, const Frame& frame);
  void Arrive(Connection& connection, const Frame& frame);
  void Disown(Connection& connection, const FrameHeader& request);
  void MoveChanged();
  void TidyOn();
  void BeginAnew();
  bool holding() const { return source_->frozen() || behind_; }
  void Reply(Connection& connection, const FrameHeader& request, const absl::Status& status);
  absl::Status BeginCheckpoint(int64_t version, std::function<void(absl::Status)>* done);
  void StepCheckpoint();
  void FinishCheckpoint(const absl::Status& status);
  ParamsServerStats StatsNow() const;

  const ParamsServerOptions options_;
  SystemMemory memory_;
  std::string address_;
  std::unique_ptr<ParamsStore> store_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<MoveSource> source_;
  std::vector<Held> held_;
  int64_t map_view_ = 0;
  std::atomic<int64_t> moved_ = 0;
  bool behind_ = false;  // A map could not be logged: nobody knows what we own until it is.
  bool tidying_ = false;
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  std::map<int64_t, Connection> connections_;
  int64_t next_connection_ = 0;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::string last_error_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<FrameListener> listener_;
  std::unique_ptr<MoveLine> line_;
  asio::thread_pool files_{
      1};  // Slow writes, so that the loop never waits for the disk but to log.
  std::thread thread_;
  bool stopped_ = false;  // The owner's thread alone.
  ParamsServerStats last_stats_;
};

// ---- connections ----

void AsioParamsServer::Welcome(StreamSocket socket) {
  const int64_t number = next_connection_++;
  Connection& connection = connections_[number];
  connection.number = number;
  connection.socket = std::make_shared<FrameSocket>(std::move(socket), kHelloBytesMax);
  connection.socket->Start([this, &connection](const Frame& frame) { Handle(connection, frame); },
                           [this, number](const absl::Status&) { connections_.erase(number); });
}

void AsioParamsServer::Handle(Connection& connection, const Frame& frame) {
  if (!connection.greeted) return Greet(connection, frame);
  const bool arrives = frame.header.op == static_cast<uint16_t>(ParamsOp::kArrive);
  if (holding() && !arrives) {
    Held& held = held_.emplace_back();
    held.connection = connection.number;
    held.header = frame.header;
    held.body.Append(frame.body.data(), frame.body.size());
    return;
  }
  switch (static_cast<ParamsOp>(frame.header.op)) {
    case ParamsOp::kPull:
      return Pull(connection, frame);
    case ParamsOp::kPush:
      return Push(connection, frame);
    case ParamsOp::kArrive:
      return Arrive(connection, frame);
    case ParamsOp::kDeclare:
      return Reply(connection, frame.header, shard_->Declare(frame.body, store_.get()));
    default:
      return Reply(connection, frame.header,
                   absl::UnimplementedError(absl::StrCat("no operation ", frame.header.op)));
  }
}

void AsioParamsServer::Greet(Connection& connection, const Frame& frame) {
  const auto check = [&]() -> absl::Status {
    if (frame.header.op != static_cast<uint16_t>(ParamsOp::kHello)) {
      return absl::InvalidArgumentError("the first frame is no greeting");
    }
    RUBATO_ASSIGN_OR_RETURN(const Hello hello, DecodeHello(frame.body));
    if (hello.job != options_.job) {
      return absl::FailedPreconditionError(
          absl::StrCat("a server of job '", options_.job, "', not of '", hello.job, "'"));
    }
    if (hello.server != options_.server.value()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("server %d, not %d", options_.server.value(), hello.server));
    }
    return absl::OkStatus();
  };
  if (const absl::Status status = check(); !status.ok()) {
    Reply(connection, frame.header, status);
    return connection.socket->CloseAfterWriting();
  }
  if (shard_->view() > 0) return Admit(connection, frame.header.id);
  connection.hello_waits = true;
  connection.hello_id = frame.header.id;
}

void AsioParamsServer::Admit(Connection& connection, uint64_t id) {
  connection.greeted = true;
  connection.hello_waits = false;
  connection.socket->set_body_bytes_max(kFrameBytesMax);
  connection.socket->Send({.op = static_cast<uint16_t>(ParamsOp::kHello), .id = id}, "", nullptr);
}

void AsioParamsServer::Reply(Connection& connection, const FrameHeader& request,
                             const absl::Status& status) {
  const auto message = std::make_shared<std::string>(status.message());
  connection.socket->Send(
      {.op = request.op, .code = static_cast<uint16_t>(status.code()), .id = request.id}, *message,
      message);
}

void AsioParamsServer::Pull(Connection& connection, const Frame& frame) {
  const std::shared_ptr<Buffer> reply = buffers_->Take();
  if (const absl::Status status = shard_->Pull(frame.body, reply.get()); !status.ok()) {
    if (absl::IsAborted(status)) return Disown(connection, frame.header);
    return Reply(connection, frame.header, status);
  }
  connection.socket->Send({.op = frame.header.op, .id = frame.header.id}, reply->view(), reply);
}

void AsioParamsServer::Push(Connection& connection, const Frame& frame) {
  const absl::StatusOr<PushOutcome> outcome = shard_->Push(frame.body, store_.get());
  if (absl::IsAborted(outcome.status())) return Disown(connection, frame.header);
  if (!outcome.ok()) {
    last_error_ = std::string(outcome.status().message());
    return Reply(connection, frame.header, outcome.status());
  }
  static constexpr char kOutcomes[] = {0, 1, 2};
  connection.socket->Send({.op = frame.header.op, .id = frame.header.id},
                          {&kOutcomes[static_cast<int>(*outcome)], 1}, nullptr);
}

// ---- moves ----

// The client believes something else to be here: it is told what we know.
void AsioParamsServer::Disown(Connection& connection, const FrameHeader& request) {
  Reply(connection, request, absl::AbortedError(shard_->map().Encode()));
}

void AsioParamsServer::Arrive(Connection& connection, const Frame& frame) {
  uint64_t kind = 0;
  if (frame.body.size() < sizeof(kind)) {
    return Reply(connection, frame.header, absl::InvalidArgumentError("no record of a move"));
  }
  std::memcpy(&kind, frame.body.data(), sizeof(kind));
  const absl::Status status =
      shard_->Arrive(static_cast<RecordKind>(kind), frame.body.substr(sizeof(kind)), store_.get());
  if (!status.ok()) last_error_ = std::string(status.message());
  Reply(connection, frame.header, status);
}

void AsioParamsServer::MoveChanged() {
  moved_ = source_->ready();
  if (holding() || held_.empty()) return;
  const std::vector<Held> held = std::exchange(held_, {});
  for (const Held& request : held) {
    const auto it = connections_.find(request.connection);
    if (it != connections_.end()) Handle(it->second, {request.header, request.body.view()});
  }
}

void AsioParamsServer::SetMap(int64_t view, const PartitionMap& map, const MoveOrder& move,
                              std::vector<std::string> addresses) {
  asio::post(io_, [this, view, map, move, addresses = std::move(addresses)] {
    if (view < map_view_) return;
    map_view_ = view;
    source_->SetOrder(move);
    const bool owned = !shard_->histories().empty();
    if (const absl::Status status = shard_->SetMap(map, store_.get()); !status.ok()) {
      last_error_ = std::string(status.message());
    }
    behind_ = shard_->map().number() < map.number();
    const auto to = static_cast<size_t>(source_->to());
    line_->SetPeer(source_->to() >= 0 && to < addresses.size() ? addresses[to] : "");
    MoveChanged();
    TidyOn();
    if (owned && shard_->histories().empty()) BeginAnew();
  });
}

void AsioParamsServer::BeginAnew() {
  const auto paths = store_->BeginAnew(shard_->map());
  if (!paths.ok()) return;  // The log is as good as before, only longer.
  asio::post(files_, [paths = *paths] {
    for (const std::string& path : paths) std::remove(path.c_str());
  });
}

// Rows that were handed over go bit by bit, between requests.
void AsioParamsServer::TidyOn() {
  if (tidying_ || shard_->settled()) return;
  tidying_ = true;
  asio::post(io_, [this] {
    tidying_ = false;
    if (shard_->Tidy()) TidyOn();
  });
}

// ---- the master's word, from another thread ----

void AsioParamsServer::SetView(int64_t number, std::vector<WorkerId> workers) {
  asio::post(io_, [this, number, workers = std::move(workers)]() mutable {
    shard_->SetView(number, std::move(workers));
    if (shard_->view() == 0) return;
    for (auto& [number, connection] : connections_) {
      if (connection.hello_waits) Admit(connection, connection.hello_id);
    }
  });
}

void AsioParamsServer::StartCheckpoint(int64_t version, std::function<void(absl::Status)> done) {
  asio::post(io_, [this, version, done = std::move(done)]() mutable {
    if (version <= store_->checkpointed()) return done(absl::OkStatus());
    const absl::Status status = BeginCheckpoint(version, &done);
    if (!status.ok()) return done(status);
    StepCheckpoint();
  });
}

absl::Status AsioParamsServer::BeginCheckpoint(int64_t version,
                                               std::function<void(absl::Status)>* done) {
  if (checkpoint_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", checkpoint_->name.version, " is still being written"));
  }
  if (!shard_->settled() || shard_->observed()) {
    return absl::FailedPreconditionError("partitions are on the move");
  }
  auto checkpoint = std::make_unique<Checkpoint>();
  checkpoint->path = CheckpointPath(options_.checkpoints, version, options_.server.value());
  RUBATO_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(options_.checkpoints, "/", version)));
  RUBATO_ASSIGN_OR_RETURN(checkpoint->file, RecordFile::Create(checkpoint->path + ".tmp"));
  RUBATO_ASSIGN_OR_RETURN(checkpoint->name, store_->Cut(version));
  checkpoint->writer = std::make_unique<CheckpointWriter>(*shard_, checkpoint->name);
  checkpoint->done = std::move(*done);
  checkpoint_ = std::move(checkpoint);
  return absl::OkStatus();
}

// Encodes a step here, has it written over there, and comes back for the next: requests that
// arrived meanwhile are served in between.
void AsioParamsServer::StepCheckpoint() {
  auto records = std::make_shared<HeldRecords>();
  const absl::StatusOr<bool> last = checkpoint_->writer->Step(*records);
  if (!last.ok()) return FinishCheckpoint(last.status());
  asio::post(files_, [this, records, last = *last, checkpoint = checkpoint_.get()] {
    RecordFile& file = *checkpoint->file;
    absl::Status status = records->WriteTo(file);
    if (status.ok() && (last || file.bytes() - checkpoint->synced >= kSyncBytes)) {
      status = file.Sync();
      checkpoint->synced = file.bytes();
    }
    if (status.ok() && last) status = Publish(checkpoint->path + ".tmp", checkpoint->path);
    if (status.ok() && last) status = SyncDirectory(options_.checkpoints);  // VERSION is new in it.
    asio::post(io_, [this, status, last] {
      if (!status.ok() || last) return FinishCheckpoint(status);
      StepCheckpoint();
    });
  });
}

void AsioParamsServer::FinishCheckpoint(const absl::Status& status) {
  const std::unique_ptr<Checkpoint> finished = std::move(checkpoint_);
  if (status.ok()) {
    store_->Checkpointed(finished->name);
  } else {
    last_error_ = std::string(status.message());
    std::remove((finished->path + ".tmp").c_str());
  }
  finished->done(status);
}

void AsioParamsServer::DropLogBefore(int64_t version) {
  asio::post(io_, [this, version] {
    asio::post(files_, [paths = store_->DropLogBefore(version)] {
      for (const std::string& path : paths) std::remove(path.c_str());
    });
  });
}

ParamsServerStats AsioParamsServer::Stats() {
  if (stopped_) return last_stats_;
  std::promise<ParamsServerStats> stats;
  asio::post(io_, [this, &stats] { stats.set_value(StatsNow()); });
  return stats.get_future().get();
}

ParamsServerStats AsioParamsServer::StatsNow() const {
  const ShardCounters& counters = shard_->counters();
  std::vector<History> histories = shard_->histories();
  const std::vector<History>& arrived = shard_->arrived_histories();
  histories.insert(histories.end(), arrived.begin(), arrived.end());
  return {.view = shard_->view(),
          .applied = shard_->applied(),
          .uneven = shard_->uneven(),
          .histories = std::move(histories),
          .map = shard_->map().number(),
          .moved = source_->ready(),
          .move_rows = source_->rows_sent(),
          .rows = shard_->rows(),
          .bytes = shard_->bytes(),
          .pushes = counters.pushes,
          .duplicates = counters.duplicates,
          .fenced = counters.fenced,
          .not_finite = counters.not_finite,
          .last_error = last_error_,
          .pulls = counters.pulls,
          .clients = static_cast<int64_t>(connections_.size()),
          .log_bytes = store_->log_bytes(),
          .replayed = store_->replayed(),
          .checkpointed = store_->checkpointed()};
}

void AsioParamsServer::Stop() {
  if (stopped_) return;
  if (thread_.joinable()) {
    last_stats_ = Stats();
    asio::post(io_, [this] {
      listener_.reset();
      line_.reset();
      for (auto& [number, connection] : connections_) connection.socket->Close();
      connections_.clear();
    });
    files_.join();  // A checkpoint's last step may still post to the loop: then it is ignored.
    asio::post(io_, [this] { io_.stop(); });
    thread_.join();
    if (checkpoint_ != nullptr) std::remove((checkpoint_->path + ".tmp").c_str());
  }
  stopped_ = true;
}

}  // namespace

absl::Status ParamsServerOptions::Validate() const {
  if (directory.empty()) return absl::InvalidArgumentError("a server needs a directory");
  if (checkpoints.empty()) return absl::InvalidArgumentError("a server needs a checkpoint folder");
  if (servers < 1 || servers > kPartitions || server.value() < 0 || server.value() >= kPartitions) {
    return absl::InvalidArgumentError(absl::StrFormat("no server %d of %d: there can be 1 to %d",
                                                      server.value(), servers, kPartitions));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ParamsServer>> ParamsServer::Start(ParamsServerOptions options) {
  RUBATO_RETURN_IF_ERROR(options.Validate());
  auto server = std::make_unique<AsioParamsServer>(std::move(options));
  RUBATO_RETURN_IF_ERROR(server->Open());
  return server;
}

}  // namespace rubato

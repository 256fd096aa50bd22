#include "rubato/adapters/posix/params_server.h"

#include <asio.hpp>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/params_server_checkpoints.h"
#include "rubato/adapters/posix/params_server_lane.h"
#include "rubato/adapters/posix/params_server_moves.h"
#include "rubato/adapters/posix/params_server_store.h"
#include "rubato/base/status.h"
#include "rubato/params/memory.h"
#include "rubato/params/shard.h"

namespace rubato {
namespace {

constexpr size_t kHottest = 1000;  // Ids that an inspection names.

class AsioParamsServer : public ParamsServer {
 public:
  explicit AsioParamsServer(ParamsServerOptions options)
      : memory_(options.huge_pages), state_(std::move(options)) {
    for (int64_t i = 0; i < state_.options.threads; ++i) {
      lanes_.push_back(std::make_unique<ParamsServerLane>(state_));
    }
    checkpoints_ = std::make_unique<ServerCheckpoints>(state_, io(), files_);
  }
  ~AsioParamsServer() override { Stop(); }

  absl::Status Open() {
    RUBATO_ASSIGN_OR_RETURN(const SocketAddress address,
                            SocketAddress::Parse(state_.options.address));
    RUBATO_RETURN_IF_ERROR(state_.links.Check(address));
    RUBATO_ASSIGN_OR_RETURN(state_.store, ParamsStore::Open(state_.options));
    MoveSource* source = nullptr;
    {
      WriterLock lock(state_.mu);
      RUBATO_ASSIGN_OR_RETURN(state_.shard, state_.store->Recover(memory_));
      // A log that was lost begins at its first segment again; lives are counted elsewhere too.
      const int64_t life = (state_.options.incarnation << 20) + state_.store->life();
      state_.source = std::make_unique<MoveSource>(*state_.shard, life);
      source = state_.source.get();
    }
    OpenReplicas();
    line_ = std::make_unique<MoveLine>(
        io(),
        MoveLineOptions{
            .job = state_.options.job, .servers = state_.options.servers, .links = &state_.links},
        state_.mu, *source, [this] { MoveChanged(); });
    RUBATO_ASSIGN_OR_RETURN(listener_, FrameListener::Listen(io(), address));
    address_ = listener_->address().ToString();
    // The connections go round the lanes.
    listener_->Accept(
        [this]() -> asio::io_context& { return lanes_[next_lane_]->io(); },
        [this](StreamSocket socket) {
          const size_t lane = std::exchange(next_lane_, (next_lane_ + 1) % lanes_.size());
          lanes_[lane]->Welcome(state_.links.Open(std::move(socket), listener_->address(),
                                                  TlsSide::kAccepts, kHelloBytesMax));
        });
    state_.inspect = [this] { return Inspect(); };
    state_.tidy = [this] { asio::post(io(), [this] { TidyOn(); }); };
    state_.prepare = [this](const MemoryRange& range) {
      if (state_.options.huge_pages) asio::post(zeros_, [range] { Populate(range); });
    };
    for (const auto& lane : lanes_) lane->Start();
    started_ = true;
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  void SetMap(int64_t view, const PartitionMap& map, const MoveOrder& move,
              std::vector<std::string> addresses) override;
  int64_t moved() const override { return moved_; }
  void SetFollower(int64_t follower, std::vector<std::string> addresses) override {
    if (state_.replicas != nullptr) state_.replicas->SetFollower(follower, std::move(addresses));
  }
  void SetView(int64_t number, std::vector<WorkerId> workers) override;
  void SetRounds(int64_t rounds) override;
  void StartCheckpoint(CheckpointOrder order, std::function<void(absl::Status)> done) override {
    checkpoints_->Start(order, std::move(done));
  }
  void DropLogBefore(int64_t version) override;
  ParamsServerStats Stats() override;
  std::vector<int64_t> TakeLoad() override {
    std::vector<int64_t> keys(kPartitions);
    for (const auto& lane : lanes_) lane->TakeLoadInto(keys);
    return keys;
  }
  ServerInspection Inspect() override;
  void Stop() override;
  void Leave() override;

 private:
  asio::io_context& io() { return lanes_[0]->io(); }
  void OpenReplicas();
  void MoveChanged();
  void TidyOn();
  void BeginAnew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  SystemMemory memory_;
  ParamsServerState state_;
  std::string address_;
  const absl::Time began_ = absl::Now();
  std::vector<std::unique_ptr<ParamsServerLane>> lanes_;
  int64_t map_view_ ABSL_GUARDED_BY(state_.mu) = 0;
  std::atomic<int64_t> moved_ = 0;
  // The next four belong to the first lane's thread.
  std::unique_ptr<MoveLine> line_;
  bool tidying_ = false;
  std::unique_ptr<FrameListener> listener_;
  size_t next_lane_ = 0;
  asio::thread_pool files_{1};  // Slow writes, so that no lane waits for the disk but to log.
  std::unique_ptr<ServerCheckpoints> checkpoints_;
  asio::thread_pool zeros_{1};  // Memory that pushes are about to fill.
  bool started_ = false;        // The owner's thread alone.
  bool stopped_ = false;
};

void AsioParamsServer::OpenReplicas() {
  const ParamsServerOptions& options = state_.options;
  state_.vault = std::make_unique<ReplicaVault>(ReplicaVaultOptions{
      .directory = options.directory, .job = options.job, .server = options.server.value()});
  if (options.replicas == 0) return;
  state_.replicas =
      std::make_unique<ReplicaLines>(ReplicaLinesOptions{.job = options.job,
                                                         .directory = options.directory,
                                                         .server = options.server.value(),
                                                         .incarnation = options.incarnation,
                                                         .links = &state_.links},
                                     [this] {
                                       for (const auto& lane : lanes_) lane->Replicated();
                                     });
  WriterLock lock(state_.mu);
  state_.replicas->Open(state_.store->log());
  state_.store->Watch(state_.replicas.get());
}

// ---- the master's word, from another thread ----

void AsioParamsServer::SetView(int64_t number, std::vector<WorkerId> workers) {
  {
    WriterLock lock(state_.mu);
    state_.shard->SetView(number, std::move(workers));
    if (state_.shard->view() == 0) return;
  }
  for (const auto& lane : lanes_) lane->ViewIsSet();
}

// The shard hears of it here and now, since the view that opens the door may be next.
void AsioParamsServer::SetMap(int64_t view, const PartitionMap& map, const MoveOrder& move,
                              std::vector<std::string> addresses) {
  {
    WriterLock lock(state_.mu);
    if (view < map_view_) return;
    map_view_ = view;
    state_.source->SetOrder(move);
    const bool owned = !state_.shard->histories().empty();
    const absl::Status status = state_.shard->SetMap(map, state_.store.get());
    if (!status.ok()) state_.last_error = std::string(status.message());
    state_.behind = state_.shard->map().number() < map.number();
    if (owned && state_.shard->histories().empty()) BeginAnew();
  }
  asio::post(io(), [this, move, addresses = std::move(addresses)] {
    if (line_ == nullptr) return;
    const auto to = static_cast<size_t>(move.to);
    line_->SetPeer(move.number > 0 && to < addresses.size() ? addresses[to] : "");
    MoveChanged();
    TidyOn();
  });
}

void AsioParamsServer::MoveChanged() {
  bool holding = false;
  {
    ReaderLock lock(state_.mu);
    moved_ = state_.source->ready();
    holding = state_.holding();
  }
  if (holding) return;
  for (const auto& lane : lanes_) lane->Release();
}

// Rows that were handed over go bit by bit, between requests.
void AsioParamsServer::TidyOn() {
  if (std::exchange(tidying_, true)) return;
  asio::post(io(), [this] {
    tidying_ = false;
    bool more = false;
    {
      WriterLock lock(state_.mu);
      more = state_.shard->Tidy();
    }
    if (more) TidyOn();
  });
}

void AsioParamsServer::BeginAnew() {
  const auto needless = state_.store->BeginAnew(state_.shard->map());
  if (!needless.ok()) return;  // The log is as good as before, only longer.
  asio::post(files_,
             [spares = state_.store->spares(), needless = *needless] { spares->Keep(needless); });
}

void AsioParamsServer::SetRounds(int64_t rounds) {
  WriterLock lock(state_.mu);
  if (state_.holding()) return;  // What is being handed over must not change; it comes again.
  const absl::Status status = state_.shard->Whole(rounds);
  if (!status.ok()) state_.last_error = std::string(status.message());
}

void AsioParamsServer::DropLogBefore(int64_t version) {
  WriterLock lock(state_.mu);
  asio::post(files_, [spares = state_.store->spares(),
                      needless = state_.store->DropLogBefore(version)] { spares->Keep(needless); });
}

ParamsServerStats AsioParamsServer::Stats() {
  ReaderLock lock(state_.mu);
  const Shard& shard = *state_.shard;
  const ParamsStore& store = *state_.store;
  const ShardCounters counters = shard.counters();
  std::vector<History> histories = shard.histories();
  const std::vector<History>& arrived = shard.arrived_histories();
  histories.insert(histories.end(), arrived.begin(), arrived.end());
  return {.view = shard.view(),
          .applied = shard.applied(),
          .uneven = shard.uneven(),
          .histories = std::move(histories),
          .map = shard.map().number(),
          .moved = state_.source->ready(),
          .move_rows = state_.source->rows_sent(),
          .move_refused = state_.source->refused(),
          .rows = shard.rows(),
          .bytes = shard.bytes(),
          .pushes = counters.pushes,
          .duplicates = counters.duplicates,
          .fenced = counters.fenced,
          .not_finite = counters.not_finite,
          .strangers = state_.strangers,
          .last_stranger = state_.last_stranger,
          .last_error = state_.last_error,
          .pulls = counters.pulls,
          .clients = state_.clients,
          .log_bytes = store.log_bytes(),
          .replay_bytes = store.replay_bytes(),
          .replayed = store.replayed(),
          .checkpointed = store.checkpointed(),
          .cut = store.cut(),
          .cut_rounds = store.cut_rounds(),
          .follower = state_.replicas == nullptr ? -1 : state_.replicas->settled(),
          .outrun = state_.replicas == nullptr ? -1 : state_.replicas->outrun(),
          .declared = shard.declared(),
          .damage = store.damage()};
}

ServerInspection AsioParamsServer::Inspect() {
  ServerInspection inspection;
  {
    ReaderLock lock(state_.mu);
    state_.shard->Inspect(&inspection);
    inspection.log_bytes = state_.store->log_bytes();
    inspection.checkpoint = state_.store->checkpointed();
    inspection.checkpoint_hold_us = checkpoints_->longest_hold().cpu_us;
    inspection.checkpoint_wait_us = checkpoints_->longest_hold().wall_us;
  }
  if (state_.replicas != nullptr) {
    inspection.follower = state_.replicas->follower();
    inspection.log_uncopied = state_.replicas->behind();
  }
  inspection.seconds = absl::ToDoubleSeconds(absl::Now() - began_);
  inspection.clients = state_.clients;
  std::vector<std::vector<HotId>> counted;
  for (const auto& lane : lanes_) counted.push_back(lane->HotIdsNow());
  inspection.hottest = HottestOf(counted, kHottest);
  return inspection;
}

void AsioParamsServer::Stop() {
  if (std::exchange(stopped_, true) || !started_) return;
  asio::post(io(), [this] {
    listener_.reset();
    line_.reset();
  });
  for (const auto& lane : lanes_) lane->Close();
  files_.join();  // A checkpoint's last step may still post to a lane: then it is ignored.
  for (const auto& lane : lanes_) lane->Join();
  zeros_.stop();
  zeros_.join();
  if (state_.replicas != nullptr) state_.replicas->Stop();
  checkpoints_->Abandon();
}

void AsioParamsServer::Leave() {
  Stop();
  ReaderLock lock(state_.mu);
  state_.store->spares()->Clear();
}

}  // namespace

absl::Status ParamsServerOptions::Validate() const {
  if (directory.empty()) return absl::InvalidArgumentError("a server needs a directory");
  if (checkpoints.empty()) return absl::InvalidArgumentError("a server needs a checkpoint folder");
  if (threads < 1) return absl::InvalidArgumentError("a server needs a thread");
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

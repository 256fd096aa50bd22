#include "rubato/roles/server_host.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/posix/fetch_log.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/status.h"
#include "rubato/roles/exit_codes.h"
#include "rubato/roles/server_metrics.h"

namespace rubato {
namespace {

constexpr absl::Duration kMoveBeat = absl::Milliseconds(20);
constexpr absl::Duration kMoveLook = absl::Milliseconds(1);
constexpr absl::Duration kLoadPeriod = absl::Seconds(1);
// A server that lost its log waits so long for the others to be up.
constexpr absl::Duration kOthersPatience = absl::Seconds(30);

class ServerHost {
 public:
  ServerHost(const ServerHostOptions& options, std::unique_ptr<ParamsServer> server)
      : options_(options),
        server_(std::move(server)),
        client_(MasterClient::Dial(options.master)),
        metrics_(options.job, options.id, *server_) {}

  int Run() {
    while (!options_.stop()) {
      metrics_.KeepUp(absl::Now());
      if (!registered_ && !Register()) {
        if (refused_) return kRoleFenced;
        absl::SleepFor(absl::Milliseconds(10));
        continue;
      }
      if (!Beat()) return kRoleDone;
      Rest();
    }
    return kRoleDone;
  }

 private:
  // Until the next heartbeat: sooner in the midst of a move, and at once when it is for the master
  // to say whose the partitions are.
  void Rest() {
    const bool moving = move_.from == options_.id.value() || move_.to == options_.id.value();
    const absl::Duration most = options_.job.elastic.heartbeat;
    const absl::Time until = absl::Now() + (moving ? std::min(most, kMoveBeat) : most);
    const int64_t moved = server_->moved();
    while (absl::Now() < until && server_->moved() == moved) {
      absl::SleepFor(std::min(until - absl::Now(), moving ? kMoveLook : most));
    }
  }

  void Adopt(const View& view, int64_t follower) {
    std::vector<std::string> addresses;
    for (const ServerPlace& place : view.servers) addresses.push_back(place.address);
    move_ = view.move;
    server_->SetFollower(follower, addresses);
    server_->SetMap(view.number, view.map, view.move, std::move(addresses));
    server_->SetView(view.number, view.workers);
  }

  bool Register() {
    const ParamsServerStats stats = server_->Stats();
    std::vector<PartitionsHeld> held;
    for (const History& history : stats.histories) {
      held.push_back({history.partitions, history.applied});
    }
    const absl::StatusOr<RegisterReply> reply =
        client_->Register({.role = Role::kServer,
                           .id = options_.id.value(),
                           .incarnation = options_.incarnation,
                           .pid = getpid(),
                           .version = options_.version,
                           .address = server_->address(),
                           .applied = stats.applied,
                           .held = std::move(held)});
    if (!reply.ok()) return false;
    if (!reply->accepted) {
      std::fprintf(stderr, "the master does not want this server: %s\n", reply->reason.c_str());
      refused_ = true;
      return false;
    }
    Adopt(reply->view, reply->follower);
    return registered_ = true;
  }

  // False when it is time to leave.
  bool Beat() {
    const ParamsServerStats stats = server_->Stats();
    const absl::Time now = absl::Now();
    const bool tells_load = now - load_told_ >= kLoadPeriod;
    const absl::Time counted_from = tells_load ? std::exchange(load_told_, now) : now;
    const absl::StatusOr<HeartbeatReply> reply = client_->Beat(
        ServerHeartbeat{.server = options_.id,
                        .incarnation = options_.incarnation,
                        .view = stats.view,
                        .applied = stats.applied,
                        .rows = stats.rows,
                        .bytes = stats.bytes,
                        .pushes = stats.pushes,
                        .duplicates = stats.duplicates,
                        .fenced = stats.fenced,
                        .checkpointed = stats.checkpointed,
                        .log_bytes = stats.replay_bytes,
                        .moved = stats.moved,
                        .move_rows = stats.move_rows,
                        .uneven = stats.uneven,
                        .follower = stats.follower,
                        .load = tells_load ? server_->TakeLoad() : std::vector<int64_t>(),
                        .load_period = now - counted_from});
    if (!reply.ok()) return true;  // No master just now; serving goes on without one.
    if (!writing_ && !failed_.checkpoint.empty() && client_->Fail(failed_).ok()) failed_ = {};
    if (!reply->known) {
      registered_ = false;
      return true;
    }
    Adopt(reply->view, reply->follower);
    if (reply->rounds > 0) server_->SetRounds(reply->rounds);
    if (reply->checkpoint_oldest > dropped_) {
      dropped_ = reply->checkpoint_oldest;
      server_->DropLogBefore(dropped_);
    }
    if (reply->checkpoint_wanted > stats.checkpointed) {
      Checkpoint({.version = reply->checkpoint_wanted, .base = reply->checkpoint_base});
    }
    return reply->directive != Directive::kLeave;
  }

  void Checkpoint(const CheckpointOrder& order) {
    if (writing_.exchange(true)) return;
    if (absl::Now() < retry_) {
      writing_ = false;
      return;
    }
    const int64_t version = order.version;
    server_->StartCheckpoint(order, [this, version](const absl::Status& status) {
      if (!status.ok()) {
        // A full disk, say. The push log still holds everything, so training goes on and the
        // checkpoint is tried again.
        std::fprintf(stderr, "checkpoint %lld: %s\n", static_cast<long long>(version),
                     status.ToString().c_str());
        failed_ = {.checkpoint = absl::StrCat(version, "/", options_.id.ToString(), ".ckpt"),
                   .error = std::string(status.message())};
        retry_ = absl::Now() + absl::Seconds(1);
      }
      writing_ = false;
    });
  }

  const ServerHostOptions& options_;
  // Set by the server's thread, before `writing_` is cleared, and read here after that.
  absl::Time retry_ = absl::InfinitePast();
  FailRequest failed_;  // Not heard by a master yet.
  std::atomic<bool> writing_ = false;
  const std::unique_ptr<ParamsServer> server_;
  const std::unique_ptr<MasterClient> client_;
  ServerMetrics metrics_;
  bool registered_ = false;
  bool refused_ = false;
  MoveOrder move_;
  int64_t dropped_ = 0;
  absl::Time load_told_ = absl::Now();
};

// Where all other servers are, as the master knows them. UNAVAILABLE while one is not up.
absl::StatusOr<std::map<int64_t, std::string>> FindOthers(const ServerHostOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(const Snapshot snapshot, MasterClient::Dial(options.master)->Show());
  std::map<int64_t, std::string> others;
  for (int64_t s = 0; s < snapshot.servers_target; ++s) others[s];
  for (const ProcessStatus& process : snapshot.processes) {
    if (process.role != Role::kServer) continue;
    const bool alive = process.state == "starting" || process.state == "running";
    if (alive) others[process.id] = process.address;
  }
  others.erase(options.id.value());
  for (const auto& [server, address] : others) {
    if (address.empty()) {
      return absl::UnavailableError(absl::StrCat("the push log is gone, and server ", server,
                                                 ", which may have a copy, is not up"));
    }
  }
  return others;
}

// The log comes back from the others' copies, once all of them are up to say what they have.
absl::Status FetchLostLog(const ServerHostOptions& options, const std::string& directory) {
  const absl::Time until = absl::Now() + kOthersPatience;
  while (true) {
    const absl::StatusOr<std::map<int64_t, std::string>> others = FindOthers(options);
    absl::Status status = others.status();
    if (others.ok()) {
      const absl::StatusOr<LogSizes> got = FetchLog({.job = options.job.name,
                                                     .directory = directory,
                                                     .server = options.id.value(),
                                                     .incarnation = options.incarnation,
                                                     .others = *others});
      status = got.status();
      if (got.ok()) {
        std::fprintf(stderr, "the push log was gone: %d segments came back from a copy\n",
                     static_cast<int>(got->size()));
        return absl::OkStatus();
      }
    }
    if (absl::Now() > until || options.stop()) return status;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace

absl::StatusOr<int> RunServer(const ServerHostOptions& options) {
  const JobDirectory directory(options.job_dir);
  const std::string folder = directory.server(options.id);
  const bool replicas = options.job.params.replicas > 0 && options.incarnation > 1;
  if (replicas) {
    RUBATO_ASSIGN_OR_RETURN(const bool has_log, HasLog(folder));
    if (!has_log) RUBATO_RETURN_IF_ERROR(FetchLostLog(options, folder));
  }
  const ParamsServerOptions params = {.address = options.listen,
                                      .directory = folder,
                                      .checkpoints = directory.checkpoints(),
                                      .job = options.job.name,
                                      .server = options.id,
                                      .servers = options.job.servers,
                                      .threads = options.job.params.threads,
                                      .replicas = options.job.params.replicas,
                                      .incarnation = options.incarnation};
  absl::StatusOr<std::unique_ptr<ParamsServer>> server = ParamsServer::Start(params);
  if (replicas && absl::IsDataLoss(server.status())) {  // Some of it is gone, or damaged.
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    RUBATO_RETURN_IF_ERROR(FetchLostLog(options, folder));
    server = ParamsServer::Start(params);
  }
  if (absl::IsFailedPrecondition(server.status())) {
    // The directory is in use; it may not be for long, so this is worth another try.
    return absl::UnavailableError(server.status().message());
  }
  RUBATO_RETURN_IF_ERROR(server.status());
  if (const int64_t replayed = (*server)->Stats().replayed; replayed > 0) {
    std::fprintf(stderr, "%lld pushes were replayed from the log\n",
                 static_cast<long long>(replayed));
  }
  std::fprintf(stderr, "%s serves at %s; waiting for the master at %s\n",
               options.id.ToString().c_str(), (*server)->address().c_str(), options.master.c_str());
  return ServerHost(options, *std::move(server)).Run();
}

}  // namespace rubato

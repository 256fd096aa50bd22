#include "rubato/roles/server_host.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/status.h"
#include "rubato/roles/exit_codes.h"
#include "rubato/roles/metrics_page.h"
#include "rubato/roles/server_recovery.h"

namespace rubato {
namespace {

constexpr absl::Duration kMoveBeat = absl::Milliseconds(20);
constexpr absl::Duration kMoveLook = absl::Milliseconds(1);
constexpr absl::Duration kLoadPeriod = absl::Seconds(1);

class ServerHost {
 public:
  ServerHost(const ServerHostOptions& options, std::unique_ptr<ParamsServer> server,
             int64_t began_from, std::string damage)
      : options_(options),
        began_from_(began_from),
        damage_(std::move(damage)),
        server_(std::move(server)),
        client_(MasterClient::Dial(options.master)),
        metrics_(
            {.key = "params.metrics",
             .address = MetricsAddress(options.job, options.id),
             .text = [this] { return PrometheusText(server_->Inspect(), options_.job.name); }}) {}

  absl::StatusOr<int> Run() {
    while (!options_.stop()) {
      metrics_.KeepUp(absl::Now());
      if (!registered_ && !Register()) {
        if (refused_) return kRoleFenced;
        if (begin_from_ > 0) return kRoleDone;
        absl::SleepFor(absl::Milliseconds(10));
        continue;
      }
      if (!Beat()) {
        server_->Leave();
        return kRoleDone;
      }
      if (outrun_ >= 0) {  // Its next life asks that one before it does anything else.
        return absl::UnavailableError(
            absl::StrCat("server ", outrun_, " has a copy of more of the push log than is here"));
      }
      Rest();
    }
    return kRoleDone;
  }
  // The checkpoint from which the master wants the server to begin anew; 0: it has said no such
  // thing.
  int64_t begin_from() const { return begin_from_; }

 private:
  // Until the next heartbeat: sooner in the midst of a move, and at once when it is for the master
  // to say whose the partitions are, or when training waits for a cut that is made.
  void Rest() {
    const bool moving = move_.from == options_.id.value() || move_.to == options_.id.value();
    const absl::Duration most = options_.job.elastic.heartbeat;
    const absl::Time until = absl::Now() + (moving ? std::min(most, kMoveBeat) : most);
    const int64_t moved = server_->moved();
    while (absl::Now() < until && server_->moved() == moved) {
      const bool cutting = awaited_cut_ > 0;
      absl::SleepFor(std::min(until - absl::Now(), moving || cutting ? kMoveLook : most));
      if (!cutting || server_->Stats().cut < awaited_cut_) continue;
      awaited_cut_ = 0;
      return;
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
      held.push_back({history.partitions, history.applied.by_epoch()});
    }
    const absl::StatusOr<RegisterReply> reply =
        client_->Register({.role = Role::kServer,
                           .id = options_.id.value(),
                           .incarnation = options_.incarnation,
                           .pid = getpid(),
                           .version = options_.version,
                           .address = server_->address(),
                           .applied = stats.applied,
                           .held = std::move(held),
                           .damage = damage_,
                           .blank = !stats.declared,
                           .began_from = began_from_});
    if (!reply.ok() || reply->wait) return false;
    begin_from_ = reply->begin_from;
    if (begin_from_ > 0) return false;
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
    outrun_ = stats.outrun;
    TellStrangers(stats);
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
                        .cut = stats.cut,
                        .cut_rounds = stats.cut_rounds,
                        .moved = stats.moved,
                        .move_rows = stats.move_rows,
                        .move_refused = stats.move_refused,
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

  // At most once a heartbeat, however many there are.
  void TellStrangers(const ParamsServerStats& stats) {
    const int64_t more = stats.strangers - std::exchange(strangers_, stats.strangers);
    if (more == 0) return;
    std::fprintf(stderr, "%lld connection%s turned away, the last from %s\n",
                 static_cast<long long>(more), more == 1 ? "" : "s", stats.last_stranger.c_str());
  }

  void Checkpoint(const CheckpointOrder& order) {
    if (writing_.exchange(true)) return;
    if (absl::Now() < retry_) {
      writing_ = false;
      return;
    }
    const int64_t version = order.version;
    if (options_.job.mode != "async") awaited_cut_ = version;
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
  const int64_t began_from_;  // As it was told; or 0.
  int64_t begin_from_ = 0;
  int64_t awaited_cut_ = 0;   // A checkpoint whose cut the master waits to hear of; or 0.
  const std::string damage_;  // What was wrong with its files.
  // Set by the server's thread, before `writing_` is cleared, and read here after that.
  absl::Time retry_ = absl::InfinitePast();
  FailRequest failed_;  // Not heard by a master yet.
  std::atomic<bool> writing_ = false;
  const std::unique_ptr<ParamsServer> server_;
  const std::unique_ptr<MasterClient> client_;
  MetricsPage metrics_;
  bool registered_ = false;
  bool refused_ = false;
  int64_t strangers_ = 0;  // Told of so far.
  int64_t outrun_ = -1;    // As the server's stats say.
  MoveOrder move_;
  int64_t dropped_ = 0;
  absl::Time load_told_ = absl::Now();
};

// Another log of the length that checkpoints keep it to.
int64_t SpareLogBytes(const CheckpointSpec& checkpoint) {
  return checkpoint.log_bytes > 0 ? checkpoint.log_bytes : ParamsServerOptions().spare_log_bytes;
}

}  // namespace

absl::StatusOr<int> RunServer(const ServerHostOptions& options) {
  const JobDirectory directory(options.job_dir);
  const std::string folder = directory.server(options.id);
  const ParamsServerOptions params = {.address = options.listen,
                                      .directory = folder,
                                      .checkpoints = directory.checkpoints(),
                                      .job = options.job.name,
                                      .secret = options.secret,
                                      .server = options.id,
                                      .servers = options.job.servers,
                                      .spare_log_bytes = SpareLogBytes(options.job.checkpoint),
                                      .threads = options.job.params.threads,
                                      .replicas = options.job.params.replicas,
                                      .incarnation = options.incarnation};
  int64_t begin_from = 0;
  while (true) {
    std::vector<std::string> damage;
    absl::StatusOr<std::unique_ptr<ParamsServer>> server =
        RecoverServer(options, params, begin_from, &damage);
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
                 options.id.ToString().c_str(), (*server)->address().c_str(),
                 options.master.c_str());
    ServerHost host(options, *std::move(server), begin_from, absl::StrJoin(damage, "; "));
    const absl::StatusOr<int> code = host.Run();
    if (!code.ok() || host.begin_from() == 0) return code;
    begin_from = host.begin_from();
    std::fprintf(stderr, "the log is set aside: all servers begin from checkpoint %lld\n",
                 static_cast<long long>(begin_from));
  }
}

}  // namespace rubato

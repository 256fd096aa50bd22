#include "rubato/roles/server_recovery.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/adapters/posix/fetch_log.h"
#include "rubato/adapters/posix/replica_door.h"
#include "rubato/adapters/posix/set_aside_log.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// A server that asks for its log waits so long for the others to be up.
constexpr absl::Duration kOthersPatience = absl::Seconds(30);

// Where server `id` was last told to be by itself, also before the master knows: servers that all
// start at once ask each other before they register.
std::string AddressPath(const ServerHostOptions& options, int64_t id) {
  return absl::StrCat(options.job_dir, "/addresses/server-", id);
}

absl::Status TellAddress(const ServerHostOptions& options, const std::string& address) {
  const std::string path = AddressPath(options, options.id.value());
  RUBATO_RETURN_IF_ERROR(MakeDirectories(options.job_dir + "/addresses"));
  return WriteFileAtomically(path, address, Durability::kProcess);
}

// Where all other servers are, as the master or they themselves say. UNAVAILABLE while one is not
// up.
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
  for (auto& [server, address] : others) {
    if (address.empty()) address = ReadWholeFile(AddressPath(options, server)).value_or("");
    if (address.empty()) {
      return absl::UnavailableError(
          absl::StrCat("server ", server, ", which may have a copy, is not up"));
    }
  }
  return others;
}

FetchLogOptions FetchOptions(const ServerHostOptions& options, const std::string& directory,
                             std::map<int64_t, std::string> others) {
  return {.job = options.job.name,
          .directory = directory,
          .server = options.id.value(),
          .incarnation = options.incarnation,
          .others = std::move(others),
          .secret = options.secret};
}

// Tries until it is done, or nobody has the patience. Waits for servers that are not up.
absl::Status WithOthers(
    const ServerHostOptions& options, const std::string& directory,
    const std::function<absl::Status(const FetchLogOptions&)>& act,
    const std::function<void()>& before_each = [] {}) {
  const absl::Time until = absl::Now() + kOthersPatience;
  while (true) {
    before_each();
    absl::StatusOr<std::map<int64_t, std::string>> others = FindOthers(options);
    absl::Status status = others.status();
    if (others.ok()) status = act(FetchOptions(options, directory, *std::move(others)));
    if (status.ok() || absl::IsDataLoss(status)) return status;
    if (absl::Now() > until || options.stop()) return status;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

// The same for a server that does not listen, so that those who do likewise hear from it too.
absl::Status AtTheDoor(const ServerHostOptions& options, const std::string& directory,
                       const std::function<absl::Status(const FetchLogOptions&)>& act) {
  std::unique_ptr<ReplicaDoor> door;
  return WithOthers(options, directory, act, [&] {
    if (door != nullptr) return;
    auto opened = ReplicaDoor::Open(
        options.listen, options.secret,
        {.directory = directory, .job = options.job.name, .server = options.id.value()});
    // The address may be in use for a moment, by the life before.
    if (opened.ok() && TellAddress(options, (*opened)->address()).ok()) door = *std::move(opened);
  });
}

// What was wrong with a file: for the master, which makes an event of it, and for the server's log.
void Note(const std::string& what, std::vector<std::string>* damage) {
  std::fprintf(stderr, "%s\n", what.c_str());
  damage->push_back(what);
}

// The log comes back from the others' copies, once all of them are up to say what they have. `why`
// is what was wrong with it, if it was there.
absl::Status FetchLostLog(const ServerHostOptions& options, const std::string& directory,
                          const absl::Status& why, std::vector<std::string>* damage) {
  const absl::Status status = AtTheDoor(options, directory, [&](const FetchLogOptions& fetch) {
    RUBATO_ASSIGN_OR_RETURN(const FetchedLog got, FetchLog(fetch));
    const std::string place = absl::StrCat("; server ", got.server, "'s copy took its place");
    for (const std::string& what : got.replaced) Note(what + place, damage);
    if (got.replaced.empty() && !got.sizes.empty()) {
      Note((why.ok() ? directory + ": the push log was gone" : std::string(why.message())) + place,
           damage);
    }
    std::fprintf(stderr, "%d segments of the push log came back from a copy\n",
                 static_cast<int>(got.sizes.size()));
    return absl::OkStatus();
  });
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("the push log is gone, and ", status.message()));
}

// A log that was cut between two records looks sound; whoever has a copy knows better. True if
// something was taken from one. The server listens meanwhile, for others that do the same.
absl::StatusOr<bool> TakeWhatIsMissing(const ServerHostOptions& options,
                                       const std::string& directory,
                                       std::unique_ptr<ParamsServer>* server,
                                       std::vector<std::string>* damage) {
  std::vector<std::string> lacks;
  const absl::Status status = WithOthers(options, directory, [&](const FetchLogOptions& fetch) {
    RUBATO_ASSIGN_OR_RETURN(lacks, CompareWithCopies(fetch));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    // It can acknowledge nothing before its follower is up, and learns then what that one has.
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return false;
  }
  if (lacks.empty()) return false;
  for (const std::string& line : lacks) Note(line + ": it is taken", damage);
  server->reset();
  RUBATO_RETURN_IF_ERROR(AtTheDoor(options, directory, TakeFromCopies));
  return true;
}

// Tells the master how far a server is that comes back from its files, so that it is not taken for
// one that hangs, however long that takes.
class RecoveryReport {
 public:
  explicit RecoveryReport(const ServerHostOptions& options)
      : options_(options), thread_([this] { Tell(); }) {}
  ~RecoveryReport() {
    {
      MutexLock lock(mu_);
      over_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  RecoveryProgress* progress() { return &progress_; }

 private:
  // False when there is nothing more to tell.
  bool Wait() {
    MutexLock lock(mu_);
    if (!over_) changed_.WaitFor(mu_, options_.job.elastic.heartbeat);
    return !over_;
  }
  void Tell() {
    std::unique_ptr<MasterClient> client;  // Most servers are back before one is needed.
    while (Wait()) {
      const int64_t all = progress_.all;
      if (all == 0) continue;
      if (client == nullptr) client = MasterClient::Dial(options_.master);
      // No master just now: the next will hear more.
      (void)client->Beat(ServerHeartbeat{.server = options_.id,
                                         .incarnation = options_.incarnation,
                                         .recovered = std::min<int64_t>(progress_.done, all),
                                         .to_recover = all});
    }
  }

  const ServerHostOptions& options_;
  RecoveryProgress progress_;
  Mutex mu_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // The last: it uses all of them.
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParamsServer>> RecoverServer(const ServerHostOptions& options,
                                                            ParamsServerOptions params,
                                                            int64_t begin_from,
                                                            std::vector<std::string>* damage) {
  if (begin_from > 0) {
    RUBATO_RETURN_IF_ERROR(
        SetAsideLog(params.directory, params.checkpoints, options.id.value(), begin_from));
  }
  const bool replicas =
      options.job.params.replicas > 0 && options.incarnation > 1 && begin_from == 0;
  RecoveryReport report(options);
  params.progress = report.progress();
  absl::StatusOr<std::unique_ptr<ParamsServer>> server;
  bool fetched = false;
  if (replicas) {
    const std::string joints = SetAsideDamagedJoints(params.directory);
    if (!joints.empty()) Note(joints, damage);
    // A folder that cannot even be listed is no better than an empty one.
    const absl::StatusOr<bool> has_log = HasLog(params.directory);
    fetched = !has_log.value_or(false);
    if (fetched) {
      RUBATO_RETURN_IF_ERROR(FetchLostLog(options, params.directory, has_log.status(), damage));
    }
  }
  const auto start = [&] {
    server = ParamsServer::Start(params);
    if (options.job.params.replicas == 0 || !server.ok()) return absl::OkStatus();
    return TellAddress(options, (*server)->address());
  };
  RUBATO_RETURN_IF_ERROR(start());
  // In use, or the address is: it may not be for long.
  const auto busy = [&] {
    return absl::IsFailedPrecondition(server.status()) || absl::IsUnavailable(server.status());
  };
  if (replicas && !fetched && !server.ok() && !busy()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    RUBATO_RETURN_IF_ERROR(FetchLostLog(options, params.directory, server.status(), damage));
    RUBATO_RETURN_IF_ERROR(start());
  }
  if (replicas && server.ok()) {
    RUBATO_ASSIGN_OR_RETURN(const bool took,
                            TakeWhatIsMissing(options, params.directory, &*server, damage));
    if (took) RUBATO_RETURN_IF_ERROR(start());
    // What was written since the cut does not go with what came before it: nobody was told of it.
    if (took && absl::IsDataLoss(server.status())) {
      RUBATO_RETURN_IF_ERROR(FetchLostLog(options, params.directory, server.status(), damage));
      RUBATO_RETURN_IF_ERROR(start());
    }
  }
  // Copies are of the log as it was: one that ends sooner would not be theirs. When all begin from
  // a checkpoint there are none any more.
  const bool copies = options.job.params.replicas > 0 && begin_from == 0;
  if (!copies && absl::IsDataLoss(server.status())) {
    std::fprintf(stderr, "%s; the log ends there\n", server.status().ToString().c_str());
    params.mend_log = true;
    server = ParamsServer::Start(params);
  }
  if (server.ok()) {
    for (const std::string& what : (*server)->Stats().damage) Note(what, damage);
  }
  return server;
}

}  // namespace rubato

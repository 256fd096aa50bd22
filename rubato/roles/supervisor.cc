#include "rubato/roles/supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr absl::Duration kListen = absl::Milliseconds(200);
constexpr absl::Duration kReapEvery = absl::Milliseconds(5);
// The main thread also restarts the master, so it never waits long for one.
constexpr absl::Duration kAskPatience = absl::Milliseconds(50);
// A master that dies this often this fast will not come up by itself.
constexpr size_t kMasterDeathsMax = 8;
constexpr absl::Duration kMasterDeathsWindow = absl::Seconds(5);
constexpr int kExitBadInputOfRole = 2;
constexpr int kExitFailedToStart = 127;

std::string HowItEnded(const ChildExit& exit) {
  return exit.signal != 0 ? absl::StrCat("killed by signal ", exit.signal)
                          : absl::StrCat("exit code ", exit.exit_code);
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

}  // namespace

Supervisor::Supervisor(Options options)
    : options_(std::move(options)),
      directory_(options_.job_dir),
      master_address_(absl::StrCat("unix:", options_.run_dir, "/master.sock")) {}

Supervisor::~Supervisor() {
  if (!listener_.joinable()) return;
  {
    MutexLock lock(mu_);
    closing_ = true;
  }
  listener_.join();
}

absl::Status Supervisor::Start() {
  client_ = MasterClient::Dial(master_address_, kAskPatience);
  RUBATO_RETURN_IF_ERROR(StartMaster());
  listener_ = std::thread([this] { PollOrders(); });
  return absl::OkStatus();
}

absl::Status Supervisor::StartMaster() {
  std::vector<std::string> arguments = {options_.program, "master",   "--job-dir",
                                        options_.job_dir, "--listen", master_address_};
  // As long as this supervisor has started nobody, nobody of before is alive.
  if (options_.resume && children_.empty()) {
    arguments.push_back("--resume");
    if (options_.workers > 0) {
      arguments.insert(arguments.end(), {"--workers", absl::StrCat(options_.workers)});
    }
  }
  RUBATO_ASSIGN_OR_RETURN(
      master_pid_,
      table_.Start({.arguments = arguments, .log_path = directory_.log(Role::kMaster, 0)}));
  ++master_lives_;
  fresh_master_ = true;
  return absl::OkStatus();
}

void Supervisor::PollOrders() {
  const std::unique_ptr<MasterClient> client = MasterClient::Dial(master_address_);
  while (true) {
    AttendRequest request;
    {
      MutexLock lock(mu_);
      if (closing_) return;
      request = asking_;
    }
    request.wait_ms = absl::ToInt64Milliseconds(kListen);
    absl::StatusOr<AttendReply> reply = client->Attend(request);
    MutexLock lock(mu_);
    if (reply.ok()) {
      replies_.push_back(*std::move(reply));
      arrived_.NotifyOne();
      // The main thread carries orders out before they are asked for again.
      while (!closing_ && !replies_.empty()) arrived_.WaitFor(mu_, absl::Milliseconds(50));
    } else if (!closing_) {
      arrived_.WaitFor(mu_, absl::Milliseconds(10));
    }
  }
}

absl::Status Supervisor::Turn(absl::Duration patience) {
  const absl::Time until = absl::Now() + patience;
  while (true) {
    RUBATO_RETURN_IF_ERROR(Reap());
    if (fresh_master_ || !unreported_.empty()) Report();
    if (stop_wanted_ && client_->Stop().ok()) stop_wanted_ = false;
    if (heard_) RUBATO_RETURN_IF_ERROR(AskToScale());
    std::deque<AttendReply> replies;
    {
      MutexLock lock(mu_);
      if (replies_.empty() && unreported_.empty()) arrived_.WaitFor(mu_, kReapEvery);
      replies.swap(replies_);
      arrived_.NotifyAll();
    }
    for (const AttendReply& reply : replies) {
      for (const Order& order : reply.orders) RUBATO_RETURN_IF_ERROR(CarryOut(order));
      Absorb(reply);
    }
    MutexLock lock(mu_);
    asking_.orders_done = orders_done_;
    if (finished_ || absl::Now() >= until) break;
  }
  return TellProcesses();
}

// Only news is written: replacing a file waits for the disk while a checkpoint is being synced,
// and whoever dies meanwhile would wait for this thread.
absl::Status Supervisor::TellProcesses() {
  std::string text = JobDirectory::ProcessesText(Processes(), finished_ ? "" : master_address_);
  if (text == processes_written_) return absl::OkStatus();
  RUBATO_RETURN_IF_ERROR(directory_.WriteProcesses(text));
  processes_written_ = std::move(text);
  return absl::OkStatus();
}

void Supervisor::Absorb(const AttendReply& reply) {
  // A group that begins from an older checkpoint than it was thought to has gone back behind that.
  const int64_t committed = reply.snapshot.records_committed;
  records_before_ = heard_ ? std::min(records_before_, committed) : committed;
  heard_ = true;
  snapshot_ = reply.snapshot;
  finished_ = finished_ || reply.finished;
}

AttendRequest Supervisor::Describe() const {
  AttendRequest request;
  request.exits = unreported_;
  request.orders_done = orders_done_;
  return request;
}

void Supervisor::Report() {
  absl::StatusOr<AttendReply> reply = client_->Attend(Describe());
  if (!reply.ok()) return;  // No master just now: the next turn tries again.
  unreported_.clear();
  fresh_master_ = false;
  MutexLock lock(mu_);
  replies_.push_back(*std::move(reply));
}

absl::Status Supervisor::Reap() {
  for (const ChildExit& exit : table_.Reap()) {
    if (exit.pid == master_pid_) {
      RUBATO_RETURN_IF_ERROR(MasterDied(exit));
      continue;
    }
    for (auto& [key, child] : children_) {
      if (child.pid != exit.pid || !child.alive) continue;
      child.alive = false;
      child.state = HowItEnded(exit);
      child.exit = {.role = key.role,
                    .id = key.id,
                    .incarnation = key.incarnation,
                    .exit_code = exit.exit_code,
                    .signal = exit.signal,
                    .pid = exit.pid,
                    .host = HostName()};
      if (exit.exit_code != 0) {
        child.exit.last_words = LastLines(directory_.log(key.role, key.id), 1);
      }
      unreported_.push_back(child.exit);
    }
  }
  return absl::OkStatus();
}

absl::Status Supervisor::MasterDied(const ChildExit& exit) {
  last_master_pid_ = std::exchange(master_pid_, 0);
  if (finished_) return absl::OkStatus();
  const std::string log = directory_.log(Role::kMaster, 0);
  const std::string words = LastLines(log, 1);
  if (exit.signal == 0 && exit.exit_code == kExitBadInputOfRole) {
    return absl::FailedPreconditionError(words);  // Starting it again would say the same.
  }
  const absl::Time now = absl::Now();
  master_deaths_.push_back(now);
  while (master_deaths_.front() < now - kMasterDeathsWindow) master_deaths_.pop_front();
  if (master_deaths_.size() > kMasterDeathsMax) {
    return absl::InternalError(absl::StrCat("the master died ", master_deaths_.size(),
                                            " times within seconds, last by ", HowItEnded(exit),
                                            ": ", words, " (see ", log, ")"));
  }
  return StartMaster();
}

absl::Status Supervisor::CarryOut(const Order& order) {
  if (order.number <= orders_done_) return absl::OkStatus();
  orders_done_ = order.number;
  const auto child = children_.find(order.process);
  if (child == children_.end()) {
    if (order.kind == OrderKind::kLaunch) return Launch(order.process);
    unreported_.push_back({.role = order.process.role,
                           .id = order.process.id,
                           .incarnation = order.process.incarnation,
                           .signal = SIGKILL});  // Never started here: as good as killed.
    return absl::OkStatus();
  }
  if (!child->second.alive) {
    unreported_.push_back(child->second.exit);  // A new master does not know yet that it is gone.
    return absl::OkStatus();
  }
  if (order.kind == OrderKind::kLaunch) return absl::OkStatus();  // It runs already.
  table_.Signal(child->second.pid, order.kind == OrderKind::kKill ? SIGKILL : SIGTERM);
  return absl::OkStatus();
}

absl::Status Supervisor::Launch(const ProcessKey& key) {
  std::vector<std::string> arguments = {options_.program, std::string(RoleName(key.role)),
                                        "--job-dir",      options_.job_dir,
                                        "--master",       master_address_,
                                        "--id",           absl::StrCat(key.id)};
  if (key.role == Role::kServer) {
    arguments.insert(arguments.end(),
                     {"--incarnation", absl::StrCat(key.incarnation), "--listen",
                      absl::StrCat("unix:", options_.run_dir, "/server-", key.id, ".sock")});
  }
  absl::StatusOr<pid_t> pid =
      table_.Start({.arguments = arguments, .log_path = directory_.log(key.role, key.id)});
  if (!pid.ok()) {
    // Out of processes or disk: the master hears of a crash and backs off.
    unreported_.push_back({.role = key.role,
                           .id = key.id,
                           .incarnation = key.incarnation,
                           .exit_code = kExitFailedToStart,
                           .last_words = std::string(pid.status().message())});
    return absl::OkStatus();
  }
  children_[key] = {.key = key, .pid = *pid};
  return absl::OkStatus();
}

absl::Status Supervisor::AskToScale() {
  if (scale_wanted_.workers == 0 && scale_wanted_.servers == 0) return absl::OkStatus();
  const absl::StatusOr<ScaleReply> reply = client_->Scale(scale_wanted_);
  if (!reply.ok()) return absl::OkStatus();  // No master just now: asked again.
  scale_wanted_ = {};
  return reply->accepted ? absl::OkStatus() : absl::InvalidArgumentError(reply->reason);
}

std::vector<ProcessStatus> Supervisor::Processes() const {
  std::vector<ProcessStatus> all;
  all.push_back({.role = Role::kMaster,
                 .id = 0,
                 .incarnation = master_lives_,
                 .pid = master_pid_ != 0 ? master_pid_ : last_master_pid_,
                 .address = master_address_,
                 .state = master_pid_ != 0 ? "running" : "exited"});
  for (const auto& [key, child] : children_) {
    ProcessStatus status = {.role = key.role,
                            .id = key.id,
                            .incarnation = key.incarnation,
                            .pid = child.pid,
                            .state = child.state};
    for (const ProcessStatus& told : snapshot_.processes) {
      if (told.role != key.role || told.id != key.id || told.incarnation != key.incarnation) {
        continue;
      }
      status.address = told.address;
      if (child.alive) status.state = told.state;
    }
    // A worker that listens nowhere is on this machine all the same.
    if (key.role == Role::kWorker && status.address.empty()) status.address = HostName();
    all.push_back(status);
  }
  return all;
}

void Supervisor::EndAll(absl::Duration grace) {
  finished_ = true;
  const absl::Time until = absl::Now() + grace;
  for (const auto& [key, child] : children_) {
    if (child.alive) table_.Signal(child.pid, SIGTERM);
  }
  if (master_pid_ != 0) table_.Signal(master_pid_, SIGTERM);
  while (table_.size() > 0 && absl::Now() < until) {
    (void)Reap();
    absl::SleepFor(absl::Milliseconds(5));
  }
  for (const auto& [key, child] : children_) table_.Signal(child.pid, SIGKILL);
  if (master_pid_ != 0) table_.Signal(master_pid_, SIGKILL);
  while (table_.size() > 0) {
    (void)Reap();
    absl::SleepFor(absl::Milliseconds(1));
  }
  (void)TellProcesses();
}

void Supervisor::EndAtOnce() {
  for (const auto& [key, child] : children_) {
    if (child.alive) table_.Signal(child.pid, SIGKILL);
  }
  if (absl::StatusOr<Snapshot> last = client_->Show(); last.ok()) snapshot_ = *std::move(last);
  EndAll(absl::ZeroDuration());
}

}  // namespace rubato

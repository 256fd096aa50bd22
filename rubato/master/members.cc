#include "rubato/master/members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

using State = Member::State;

constexpr size_t kPastMax = 64;

const char* StateName(State state) {
  switch (state) {
    case State::kGone:
      return "lost";
    case State::kStarting:
      return "starting";
    case State::kRunning:
      return "running";
    case State::kLeaving:
      return "leaving";
    case State::kEvicted:
      return "evicted";
  }
  return "unknown";
}

ProcessStatus StatusOf(Role role, int64_t id, const Member& member, std::string state) {
  return {.role = role,
          .id = id,
          .incarnation = member.incarnation,
          .pid = member.pid,
          .address = member.address,
          .state = std::move(state)};
}

double At(const std::vector<double>& numbers, size_t i) {
  return i < numbers.size() ? numbers[i] : 0;
}

TimeSpent SpentOf(const std::vector<double>& numbers) {
  return {.useful = At(numbers, 0),
          .read = At(numbers, 1),
          .wait = At(numbers, 2),
          .detect = At(numbers, 8),  // Came last.
          .rebuild = At(numbers, 3),
          .redo = At(numbers, 4),
          .checkpoint = At(numbers, 5),
          .other = At(numbers, 6)};
}

int64_t RedoneOf(const std::vector<double>& numbers) {
  return static_cast<int64_t>(At(numbers, 7));
}

}  // namespace

Members::Members(int64_t servers) : servers_(static_cast<size_t>(servers)) {
  if (servers > 0) view_.map = PartitionMap::Even(servers);
  ChangeView();
}

void Members::GrowServers(int64_t servers) {
  if (servers <= static_cast<int64_t>(servers_.size())) return;
  servers_.resize(static_cast<size_t>(servers));
  ChangeView();
}

void Members::SetMove(const MoveOrder& move) {
  view_.move = move;
  ChangeView();
}

void Members::Moved() {
  view_.map.Move(view_.move.partitions, view_.move.to);
  SetMove({});
}

void Members::LeaveServer(int64_t id, absl::Time now) {
  ServerMember& server = servers_[static_cast<size_t>(id)];
  server.state = State::kLeaving;
  server.asked_to_leave = now;
}

WorkerMember* Members::FindWorker(WorkerId id) {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

const WorkerMember* Members::FindWorker(WorkerId id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

std::vector<WorkerId> Members::Staying() const {
  std::vector<WorkerId> ids;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kStarting || worker.state == State::kRunning) ids.push_back(id);
  }
  return ids;
}

std::vector<WorkerId> Members::Running() const {
  std::vector<WorkerId> ids;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kRunning) ids.push_back(id);
  }
  return ids;
}

bool Members::AnyWaitsForData() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
    return entry.second.state != State::kEvicted && entry.second.away.has_value();
  });
}

bool Members::WorkersGone() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& entry) { return entry.second.state == State::kEvicted; });
}

bool Members::EveryoneGone() const {
  return workers_.empty() &&
         std::all_of(servers_.begin(), servers_.end(),
                     [](const ServerMember& server) { return server.state == State::kGone; });
}

bool Members::FencedEverywhere(int64_t number) const {
  // A server that is not running has yet to register, and gets the newest view before it serves.
  return std::all_of(servers_.begin(), servers_.end(), [&](const ServerMember& server) {
    return server.state != State::kRunning || server.last.view >= number;
  });
}

std::vector<ProcessStatus> Members::Processes() const {
  std::vector<ProcessStatus> processes;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const ServerMember& server = servers_[i];
    const char* state = StateName(server.state);
    if (server.left) state = "exited";
    if (server.incarnation == 0) state = "starting";  // It is yet to be launched.
    processes.push_back(StatusOf(Role::kServer, static_cast<int64_t>(i), server, state));
    if (server.state == State::kStarting && server.last.to_recover > 0) {
      processes.back().doing = absl::StrCat(
          "reading its log, ", 100 * server.last.recovered / server.last.to_recover, " %");
    }
  }
  for (const auto& [id, worker] : workers_) {
    processes.push_back(StatusOf(Role::kWorker, id.value(), worker, StateName(worker.state)));
    if (worker.state == State::kEvicted || !worker.away.has_value()) continue;
    processes.back().doing = absl::StrCat("waiting for ", worker.away->place, ", ",
                                          absl::ToInt64Seconds(worker.away->waited), " s");
  }
  processes.insert(processes.end(), past_.begin(), past_.end());
  return processes;
}

void Members::LaunchWorker(WorkerId id, int64_t slot, absl::Time now) {
  WorkerMember worker;
  worker.state = State::kStarting;
  worker.incarnation = 1;
  worker.heard = now;
  worker.slot = slot;
  workers_.emplace(id, std::move(worker));
  next_worker_ = std::max(next_worker_, id.value() + 1);
  ++totals_.workers_started;
}

void Members::LaunchServer(int64_t id, int64_t incarnation, int64_t steps, absl::Time now) {
  ServerMember server;
  server.state = State::kStarting;
  server.incarnation = incarnation;
  server.heard = now;
  server.steps_at_launch = steps;
  server.checkpointed = servers_[static_cast<size_t>(id)].checkpointed;
  server.checkpointed_rounds = servers_[static_cast<size_t>(id)].checkpointed_rounds;
  servers_[static_cast<size_t>(id)] = std::move(server);
  ++totals_.servers_started;
}

void Members::RegisterWorker(WorkerId id, int64_t pid, bool newcomer, absl::Time now) {
  WorkerMember& worker = workers_.at(id);
  if (worker.state == State::kStarting) worker.state = State::kRunning;
  worker.registered = true;
  worker.pid = pid;
  worker.heard = now;
  totals_.workers_joined += newcomer;
  totals_.workers_max = std::max(totals_.workers_max, static_cast<int64_t>(Running().size()));
  ChangeView();
}

void Members::RegisterServer(int64_t id, int64_t pid, std::string address, absl::Time now) {
  ServerMember& server = servers_[static_cast<size_t>(id)];
  server.state = State::kRunning;
  server.registered = true;
  server.pid = pid;
  server.address = std::move(address);
  server.heard = now;
  ChangeView();
}

void Members::Leave(WorkerId id, absl::Time now) {
  WorkerMember& worker = workers_.at(id);
  // One that has not registered may do so yet; it then hears that it should leave.
  worker.state = State::kLeaving;
  worker.asked_to_leave = now;
}

void Members::NoteSpent(WorkerId id, const std::vector<double>& numbers) {
  WorkerMember& worker = workers_.at(id);
  worker.spent = SpentOf(numbers);
  worker.records_redone = RedoneOf(numbers);
  worker.spent_noted = worker.spent.total();
}

void Members::Evict(WorkerId id, const std::vector<double>& numbers) {
  WorkerMember& worker = workers_.at(id);
  worker.spent = SpentOf(numbers);
  worker.records_redone = RedoneOf(numbers);
  // One that was asked to go and fell silent on its way is no loss.
  totals_.workers_lost += worker.state != State::kLeaving;
  worker.state = State::kEvicted;
  ChangeView();
  worker.evicted_view = view_.number;
}

void Members::RemoveWorker(WorkerId id, bool lost, const std::vector<double>& numbers) {
  const WorkerMember& worker = workers_.at(id);
  totals_.spent.Add(SpentOf(numbers));
  totals_.records_redone += RedoneOf(numbers);
  totals_.workers_lost += lost && worker.state != State::kEvicted;  // Counted when evicted.
  Bury(Role::kWorker, id.value(), worker, lost ? "lost" : "exited");
  workers_.erase(id);
  ChangeView();
}

void Members::RemoveServer(int64_t id, bool lost, const std::vector<double>& numbers) {
  ServerMember& server = servers_[static_cast<size_t>(id)];
  totals_.fenced += static_cast<int64_t>(At(numbers, 0));
  totals_.servers_lost += lost;
  server.left = !lost;
  server.state = State::kGone;
  server.registered = false;
  server.address.clear();
  // How much it held stays known; what is added up over its lives starts anew.
  server.last = {.rows = server.last.rows, .bytes = server.last.bytes};
  ChangeView();
}

void Members::RemoveAll(bool lost) {
  const auto works = [](const Member& member) { return member.state == State::kRunning; };
  for (const auto& [id, worker] : workers_) {  // What the journal knows of them: the evicted.
    totals_.spent.Add(worker.spent);
    totals_.records_redone += worker.records_redone;
    totals_.workers_lost += lost && works(worker);
  }
  workers_.clear();
  for (ServerMember& server : servers_) {
    totals_.servers_lost += lost && works(server);
    server.state = State::kGone;
    server.registered = false;
    server.address.clear();
    server.last = ServerHeartbeat();
  }
  ChangeView();
}

std::vector<double> Members::Numbers(const WorkerMember& worker) {
  const TimeSpent& s = worker.spent;
  return {s.useful, s.read,       s.wait,  s.rebuild,
          s.redo,   s.checkpoint, s.other, static_cast<double>(worker.records_redone),
          s.detect};
}

int64_t Members::records_redone() const {
  int64_t records = totals_.records_redone;
  for (const auto& [id, worker] : workers_) records += worker.records_redone;
  return records;
}

std::vector<double> Members::Numbers(const ServerMember& server) {
  return {static_cast<double>(server.last.fenced)};
}

void Members::FreshLeases(absl::Time now) {
  for (auto& [id, worker] : workers_) worker.heard = now;
  for (ServerMember& server : servers_) server.heard = now;
}

void Members::ChangeView() {
  ++view_.number;
  view_.workers.clear();
  for (const auto& [id, worker] : workers_) {
    if (worker.registered && worker.state != State::kEvicted) view_.workers.push_back(id);
  }
  view_.servers.clear();
  for (size_t i = 0; i < servers_.size(); ++i) {
    view_.servers.push_back({.id = ServerId(static_cast<int64_t>(i)),
                             .incarnation = servers_[i].incarnation,
                             .address = servers_[i].address});
  }
}

void Members::Bury(Role role, int64_t id, const Member& member, std::string state) {
  past_.push_back(StatusOf(role, id, member, std::move(state)));
  if (past_.size() > kPastMax) past_.erase(past_.begin());
}

}  // namespace rubato

#include "rubato/master/master.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/job/advice.h"

namespace rubato {
namespace {

using State = Member::State;

// A worker may hold one task ahead of the one in hand, to read on without a pause.
constexpr size_t kTasksAheadMax = 2;

}  // namespace

// ---- membership --------------------------------------------------------------------------------

RegisterReply Master::Register(const RegisterRequest& request, absl::Time now) {
  if (request.version != options_.version) {
    return {.reason = absl::StrCat("it is of version ", request.version, ", the master of ",
                                   options_.version)};
  }
  RegisterReply reply =
      request.role == Role::kServer ? RegisterServer(request, now) : RegisterWorker(request, now);
  Advance(now);
  if (reply.accepted) reply.view = members_.view();
  if (reply.accepted && request.role == Role::kServer) reply.follower = KeeperOf(request.id);
  return reply;
}

RegisterReply Master::RegisterWorker(const RegisterRequest& request, absl::Time now) {
  const WorkerId id(request.id);
  WorkerMember* worker = members_.FindWorker(id);
  if (worker == nullptr) {
    const bool past = id.valid() && id < members_.NextWorker();
    return {.reason = absl::StrCat(id.ToString(), past ? " is known to be dead" : " is unknown")};
  }
  if (worker->state == State::kEvicted) {
    return {.reason =
                together()
                    ? absl::StrCat(id.ToString(), " was silent too long: the group goes on without")
                    : absl::StrCat(id.ToString(), " was silent too long: it is not in view ",
                                   worker->evicted_view, " or later")};
  }
  worker->heard = now;
  if (!worker->registered) {
    Record({.kind = EntryKind::kRegistered, .id = request.id, .value = request.pid}, now);
    Say(now, "worker_joined", {{"worker", request.id}, {"pid", request.pid}}, WhyLaunched(*worker));
  }
  return {.accepted = true};
}

RegisterReply Master::RegisterServer(const RegisterRequest& request, absl::Time now) {
  if (request.id < 0 || request.id >= static_cast<int64_t>(members_.servers().size())) {
    return {.reason = absl::StrCat("server-", request.id, " is unknown: there are ",
                                   members_.servers().size())};
  }
  ServerMember& server = members_.servers()[static_cast<size_t>(request.id)];
  if (server.state == State::kGone || server.incarnation != request.incarnation) {
    return {.reason = absl::StrCat("server-", request.id, " is in life ", server.incarnation,
                                   " now, not ", request.incarnation)};
  }
  server.heard = now;
  if (server.registered) return {.accepted = true};
  if (const auto back = ReturnFirst(request); back.has_value()) return *back;
  if (!request.damage.empty()) {
    Say(now, "damage_found", {{"server", request.id}}, request.damage);
  }
  if (const Lost lost = LostBy(request); !lost.empty()) {
    const std::string who = absl::StrCat("server-", request.id, " came back without ");
    if (!TakeBack(request.id, lost, who, request.damage, now)) {
      return {.reason = "it lost what was committed"};
    }
    if (const auto back = ReturnFirst(request); back.has_value()) return *back;
  }
  Record({.kind = EntryKind::kRegistered,
          .role = Role::kServer,
          .id = request.id,
          .incarnation = request.incarnation,
          .value = request.pid,
          .text = request.address},
         now);
  Say(now, "server_joined",
      {{"server", request.id}, {"incarnation", request.incarnation}, {"pid", request.pid}},
      server_places_[static_cast<size_t>(request.id)].why);
  return {.accepted = true};
}

WorkerMember* Master::Hear(WorkerId id, absl::Time now) {
  WorkerMember* worker = members_.FindWorker(id);
  if (worker == nullptr || !worker->registered || worker->state == State::kEvicted) return nullptr;
  worker->heard = now;
  return worker;
}

// Of a worker that dies together with the master no more than a tenth of its time is forgotten, and
// a long life is a few entries an hour.
void Master::NoteSpent(const WorkerMember& worker, WorkerId id, absl::Time now) {
  const double seconds = worker.spent.total();
  if (verdict_.has_value() || seconds < 1 || seconds < 1.1 * worker.spent_noted) return;
  Record({.kind = EntryKind::kSpent, .id = id.value(), .numbers = Members::Numbers(worker)}, now);
}

HeartbeatReply Master::Heartbeat(const WorkerHeartbeat& heartbeat, absl::Time now) {
  WorkerMember* worker = Hear(heartbeat.worker, now);
  if (worker == nullptr) return {};
  worker->spent = heartbeat.spent;
  HearAway(*worker, heartbeat.away, now);
  if (heartbeat.loss_batches > 0 && std::isfinite(heartbeat.loss)) {
    // A mean over the last hundred batches or so.
    const double keep = std::pow(0.99, static_cast<double>(heartbeat.loss_batches));
    loss_weight_ = keep * loss_weight_ + (1 - keep);
    loss_ += (heartbeat.loss - loss_) * (1 - keep) / loss_weight_;
  }
  if (together() && heartbeat.group.has_value()) HearGroup(heartbeat.worker, *heartbeat.group, now);
  NoteSpent(*worker, heartbeat.worker, now);
  Advance(now);
  const bool leave = verdict_.has_value() || worker->state == State::kLeaving;
  HeartbeatReply reply = {.known = true,
                          .directive = leave ? Directive::kLeave : Directive::kContinue,
                          .view = members_.view()};
  if (together()) {
    reply.checkpoint_wanted = checkpoints_.wanted();
    reply.group = OrdersFor(heartbeat.worker);
  }
  return reply;
}

HeartbeatReply Master::Heartbeat(const ServerHeartbeat& heartbeat, absl::Time now) {
  const int64_t id = heartbeat.server.value();
  if (id < 0 || id >= static_cast<int64_t>(members_.servers().size())) return {};
  ServerMember& server = members_.servers()[static_cast<size_t>(id)];
  if (server.incarnation != heartbeat.incarnation) return {};
  if (!server.registered) {
    // It is as good as silent unless it gets on.
    if (heartbeat.recovered > server.last.recovered) server.heard = now;
    server.last.recovered = std::max(server.last.recovered, heartbeat.recovered);
    server.last.to_recover = heartbeat.to_recover;
    return {};
  }
  server.heard = now;
  if (!HasReturned(id)) {  // What it holds is not to be any more.
    return {.known = true, .directive = Directive::kLeave, .view = members_.view()};
  }
  // Heartbeats may overtake each other; within one life nothing a server tells goes back.
  const int64_t view = std::max(server.last.view, heartbeat.view);
  if (heartbeat.pushes >= server.last.pushes &&
      heartbeat.checkpointed >= server.last.checkpointed) {
    server.last = heartbeat;
  }
  server.last.view = view;
  if (heartbeat.checkpointed > server.checkpointed) {
    server.checkpointed = heartbeat.checkpointed;
    server.checkpointed_rounds =
        heartbeat.cut == heartbeat.checkpointed ? heartbeat.cut_rounds : -1;
  }
  HearMove(heartbeat, now);
  HearLoad(heartbeat, now);
  Advance(now);
  const bool leave = verdict_.has_value() || server.state == State::kLeaving;
  return {.known = true,
          .directive = leave ? Directive::kLeave : Directive::kContinue,
          .view = members_.view(),
          .checkpoint_wanted = going_back_to_ > 0 ? 0 : checkpoints_.asked(),
          .checkpoint_oldest = checkpoints_.oldest(),
          .checkpoint_base = checkpoints_.base(),
          .rounds = ledger_.rounds(),
          .follower = KeeperOf(id)};
}

// ---- tasks -------------------------------------------------------------------------------------

LeaseReply Master::Lease(const LeaseRequest& request, absl::Time now) {
  using Verdict = LeaseReply::Verdict;
  const WorkerMember* worker = Hear(request.worker, now);
  if (worker == nullptr) return {.verdict = Verdict::kUnknown};
  Advance(now);
  if (verdict_.has_value()) return {.verdict = Verdict::kDone};
  if (stop_requested_ || worker->state == State::kLeaving || going_back_to_ > 0) {
    return {.verdict = Verdict::kWait};
  }

  const std::vector<Task> held = ledger_.HeldBy(request.worker);
  for (const Task& task : held) {
    const auto& known = request.holding;
    if (std::find(known.begin(), known.end(), task.id) == known.end()) {
      return Lent(task);
    }
  }
  // The weights of a group are those to be evaluated only while it rests after that step.
  if (together() && ledger_.steps() != evaluations_.step()) return {.verdict = Verdict::kWait};
  const std::vector<WorkerId> alive = members_.Running();
  // Reading ahead must not take the last tasks from those who have none.
  const bool scarce = ledger_.available() <= static_cast<int64_t>(alive.size());
  if (held.size() >= kTasksAheadMax || (!held.empty() && scarce)) {
    return {.verdict = Verdict::kWait};
  }
  const std::optional<Task> task = ledger_.NextFor(request.worker, alive);
  const bool rests = task.has_value() && task->kind == TaskKind::kTrain && Resting(*task, now);
  if (!task.has_value() || rests) return {.verdict = Verdict::kWait};
  Record({.kind = EntryKind::kLeased, .id = request.worker.value(), .task = task->id}, now);
  return Lent(ledger_.Find(task->id)->task);
}

LeaseReply Master::Lent(Task task) const {
  task.rate = evaluations_.rate();
  return {.verdict = LeaseReply::Verdict::kTask, .task = task};
}

CommitReply Master::Commit(const CommitRequest& request, absl::Time now) {
  const WorkerMember* worker = Hear(request.worker, now);
  if (worker == nullptr) {
    const WorkerMember* known = members_.FindWorker(request.worker);
    return {.unknown = known != nullptr && !known->registered};
  }
  if (!ledger_.Holds(request.worker, request.task)) return {.held = false};
  const Task task = ledger_.Find(request.task)->task;
  if (request.lease != 0 && request.lease != task.lease) return {.held = false};
  const bool evaluation = task.kind == TaskKind::kEvaluate;
  if (!ledger_.IsBatchEnd(task, request.upto)) {
    FailTask(
        {.worker = request.worker,
         .task = task.id,
         .error = absl::StrCat("a commit up to position ", request.upto, ", where no batch ends")},
        now);
    return {.held = false};
  }
  if (evaluation ? request.upto == task.end && request.sums.has_value()
                 : request.upto > task.committed) {
    JournalEntry entry = {.kind = EntryKind::kCommitted,
                          .id = request.worker.value(),
                          .task = task.id,
                          .value = request.upto,
                          .sums = evaluation ? request.sums : std::nullopt};
    if (request.bad_rows > 0) {
      NameBadRows(request, now);
      entry.numbers = {static_cast<double>(request.bad_rows)};
      if (!request.bad_rows_named.empty()) entry.text = request.bad_rows_named.back();
    }
    Record(entry, now);
    if (!members_.AnyWaitsForData()) TellBack(now);  // Those who did are gone.
  }
  if (request.release && ledger_.Holds(request.worker, task.id)) {
    Record({.kind = EntryKind::kReleased, .id = request.worker.value(), .task = task.id}, now);
  }
  Advance(now);
  return {.held = true};
}

void Master::Fail(const FailRequest& request, absl::Time now) {
  const bool server = !request.checkpoint.empty() && !request.worker.valid();
  if (!server && Hear(request.worker, now) == nullptr) return;
  if (!request.checkpoint.empty()) {
    FailCheckpoint(request, now);
    Advance(now);
    return;
  }
  if (together() && !request.task.valid()) {
    FailStep(request, now);
    Advance(now);
    return;
  }
  if (!ledger_.Holds(request.worker, request.task)) return;
  if (request.lease != 0 && request.lease != ledger_.Find(request.task)->task.lease) return;
  FailTask(request, now);
  Advance(now);
}

// ---- users -------------------------------------------------------------------------------------

// Before anybody is launched.
void Master::ScaleAtResume(absl::Time now) {
  const int64_t workers = options_.resume_workers;
  if (workers == 0 || workers == target_) return;
  Say(now, "scaled", {{"from", target_}, {"to", workers}}, "rubato train --resume --workers");
  Record({.kind = EntryKind::kScaled, .incarnation = 1, .value = workers}, now);
}

ScaleReply Master::Scale(const ScaleRequest& request, absl::Time now) {
  const bool counts = request.workers != 0 || request.servers == 0;
  const std::string why_not = counts ? WhyNotWorkers(options_.job.workers, request.workers) : "";
  ScaleReply reply = {.workers_target = target_, .servers_target = servers_target_};
  if (verdict_.has_value() || stop_requested_) {
    reply.reason = absl::StrCat("the job is ", std::string(JobStateName(state())));
  } else if (!why_not.empty()) {
    reply.reason = why_not;
  } else {
    if (request.servers != 0) {
      if (const absl::Status status = ScaleServers(request.servers, now); !status.ok()) {
        reply.reason = std::string(status.message());
        return reply;
      }
    }
    reply.accepted = true;
    if (request.workers != 0 && request.workers != target_) {
      Say(now, "scaled", {{"from", target_}, {"to", request.workers}}, "rubato scale");
      Record({.kind = EntryKind::kScaled, .value = request.workers}, now);
    }
    reply.workers_target = target_;
    reply.servers_target = servers_target_;
    Advance(now);
  }
  return reply;
}

void Master::Stop(bool checkpoint, absl::Time now) {
  if (verdict_.has_value()) return;
  if (!stop_requested_ || (stop_checkpoint_ && !checkpoint)) {
    Say(now, "stopping", {}, checkpoint ? "asked to stop; keeps a checkpoint" : "asked to stop");
    Record({.kind = EntryKind::kStopRequested, .value = checkpoint ? 1 : 0}, now);
  }
  Advance(now);
}

void Master::Tick(absl::Time now) {
  // Away for long (stopped, or the machine slept): the silence was the master's own.
  if (now - last_tick_ > options_.job.elastic.lease / 2) members_.FreshLeases(now);
  last_tick_ = now;
  if (authority_.has_value()) authority_->Tick(now);
  EvictSilent(now);
  KillStuck(now);
  Advance(now);
}

std::vector<Effect> Master::TakeEffects() { return std::exchange(effects_, {}); }

}  // namespace rubato

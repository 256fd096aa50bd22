// Who died, who went silent, what must be given up.
#include <algorithm>
#include <csignal>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

using State = Member::State;

constexpr int kExitBadInput = 2;
constexpr int kExitFenced = 4;

// `told`: it was asked to leave, so however it went is fine. `killed`: by us, for hanging.
ExitKind KindOf(const ExitNotice& notice, bool told, bool killed) {
  if (told) return ExitKind::kLeft;
  if (killed) return ExitKind::kCrashed;
  if (notice.signal == SIGKILL || notice.signal == SIGTERM) return ExitKind::kLost;
  if (notice.signal != 0) return ExitKind::kCrashed;
  if (notice.exit_code == kExitFenced) return ExitKind::kFenced;
  return notice.exit_code == 0 ? ExitKind::kLeft : ExitKind::kCrashed;
}

std::string Verb(ExitKind kind) {
  switch (kind) {
    case ExitKind::kLeft:
      return "left";
    case ExitKind::kLost:
      return "lost";
    case ExitKind::kCrashed:
      return "crashed";
    case ExitKind::kFenced:
      return "fenced";
  }
  return "gone";
}

std::string CauseOf(const ExitNotice& notice, bool killed) {
  std::string cause = notice.signal != 0 ? absl::StrCat("killed by signal ", notice.signal)
                                         : absl::StrCat("exit code ", notice.exit_code);
  if (killed) cause = "it did not answer and was killed";
  if (!notice.last_words.empty()) absl::StrAppend(&cause, ": ", notice.last_words);
  return cause;
}

}  // namespace

void Master::Exit(const ExitNotice& notice, absl::Time now) {
  if (notice.role == Role::kServer) ExitServer(notice, now);
  if (notice.role == Role::kWorker) ExitWorker(notice, now);
  Advance(now);
}

void Master::ExitWorker(const ExitNotice& notice, absl::Time now) {
  const WorkerId id(notice.id);
  const WorkerMember* worker = members_.FindWorker(id);
  if (worker == nullptr) return;
  const bool told = verdict_.has_value() || worker->state == State::kLeaving;
  const bool hung = worker->killed && worker->state == State::kStarting;
  // Not journaled: under a new master the first of them have the shorter grace again.
  const bool crashed = hung && IsMostGrace(options_.start_grace, worker->grace);
  const ExitKind kind = KindOf(notice, told, crashed);
  const std::string cause = absl::StrCat(id.ToString(), ": ", CauseOf(notice, hung));
  Fields fields = {{"worker", notice.id}};
  // What becomes of a worker that was given up before is no failure of its own.
  if (const std::string* first = FirstCauseOf(id); first != nullptr && kind != ExitKind::kLeft) {
    fields.emplace_back("collateral_of", *first);
  }
  Say(now, absl::StrCat("worker_", Verb(kind)), std::move(fields), CauseOf(notice, hung));
  if (together() && kind != ExitKind::kLeft && kind != ExitKind::kFenced) {
    NoteEnd(id, cause, notice, now);
  }
  const std::vector<Task> held = ledger_.HeldBy(id);
  if (kind == ExitKind::kCrashed && !held.empty()) {
    FailTask({.worker = id, .task = held.front().id, .error = cause}, now);
  }
  Record({.kind = EntryKind::kExited,
          .id = notice.id,
          .incarnation = 1,
          .value = static_cast<int64_t>(kind),
          .text = cause,
          .numbers = Members::Numbers(*members_.FindWorker(id))},
         now);
  if (hung && kind == ExitKind::kLost) ++worker_crashes_.silent;
  TellGone(id, kind == ExitKind::kLeft, now);
  FailIfHopeless(Role::kWorker, now);
}

void Master::ExitServer(const ExitNotice& notice, absl::Time now) {
  if (notice.id < 0 || notice.id >= static_cast<int64_t>(members_.servers().size())) return;
  const ServerMember& server = members_.servers()[static_cast<size_t>(notice.id)];
  if (server.state == State::kGone || server.incarnation != notice.incarnation) return;
  const bool hung = server.killed && server.state == State::kStarting;
  const bool told = verdict_.has_value() || server.state == State::kLeaving;
  const ExitKind kind = KindOf(notice, told, hung);
  const std::string cause = CauseOf(notice, server.killed && !told);
  Say(now, absl::StrCat("server_", Verb(kind)),
      {{"server", notice.id}, {"incarnation", notice.incarnation}}, cause);
  Record({.kind = EntryKind::kExited,
          .role = Role::kServer,
          .id = notice.id,
          .incarnation = notice.incarnation,
          .value = static_cast<int64_t>(kind),
          .text = absl::StrCat("server-", notice.id, ": ", cause),
          .numbers = Members::Numbers(server)},
         now);
  if (kind == ExitKind::kCrashed && notice.exit_code == kExitBadInput) {
    // A damaged file, say: starting it again would say the same.
    Close(JobState::kFailed, absl::StrCat("server-", notice.id, ": ", notice.last_words), now,
          /*records_repeated=*/0, /*bad_input=*/true);
  }
  FailIfHopeless(Role::kServer, now);
}

void Master::NoteGone(absl::Time now) {
  if (verdict_.has_value()) return;
  constexpr char kCause[] = "gone when the job was resumed";
  for (const WorkerId id : members_.Running()) {
    if (together()) NoteGone(id, absl::StrCat(id.ToString(), ": ", kCause), now);
    Say(now, "worker_lost", {{"worker", id.value()}}, kCause);
  }
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    const ServerMember& server = members_.servers()[i];
    if (server.state != State::kRunning) continue;
    Say(now, "server_lost",
        {{"server", static_cast<int64_t>(i)}, {"incarnation", server.incarnation}}, kCause);
  }
}

void Master::FailTask(const FailRequest& failed, absl::Time now) {
  Record({.kind = EntryKind::kTaskFailed,
          .id = failed.worker.value(),
          .task = failed.task,
          .value = failed.not_finite ? 1 : 0,
          .text = failed.error},
         now);
  const LiveTask& live = *ledger_.Find(failed.task);
  Say(now, "task_failed",
      {{"task", failed.task.value()},
       {"worker", failed.worker.value()},
       {"what", Describe(live.task)}},
      failed.error);
  if (not_finite_ > options_.job.elastic.not_finite_max) {
    Close(JobState::kFailed,
          absl::StrCat("training diverges: ", not_finite_,
                       " batches with a NaN or an infinity, elastic.not_finite_max is ",
                       options_.job.elastic.not_finite_max, "; the last: ", failed.error),
          now);
    return;
  }
  const int64_t failures = static_cast<int64_t>(live.failures.size());
  if (failures < options_.job.elastic.task_failures_max) return;
  std::set<WorkerId> workers;
  for (const TaskFailure& failure : live.failures) workers.insert(failure.worker);
  Close(JobState::kFailed,
        absl::StrCat(failed.task.ToString(), " (", Describe(live.task), ") failed ", failures,
                     " times, on ", workers.size(), workers.size() == 1 ? " worker" : " workers",
                     "; the first error: ", live.failures.front().error),
        now);
}

// A full disk, say. While training goes on nothing is lost by that, and there will be room again or
// a next one; when it is over, this is where its result was to be.
void Master::FailCheckpoint(const FailRequest& request, absl::Time now) {
  if (verdict_.has_value()) return;
  if (together() && request.checkpoint == group_.restore()) return FallBack(request, now);
  const int64_t version = checkpoints_.wanted();
  const bool of_this = absl::StartsWith(request.checkpoint, absl::StrCat(version, "/"));
  if (!checkpoints_.running() || !of_this) return;
  if (++checkpoint_failures_ == 1) {
    Say(now, "checkpoint_failed", {{"version", version}, {"step", ledger_.steps()}},
        absl::StrCat(request.error, "; it is tried again"));
  }
  if (!stop_requested_ && !ledger_.finished()) return;
  if (checkpoint_failures_ < options_.job.elastic.crash_loop_max) return;
  Close(JobState::kFailed,
        absl::StrCat("the last checkpoint, ", version, ", could not be written: ", request.error),
        now);
}

void Master::FailIfHopeless(Role role, absl::Time now) {
  const CrashLoop& loop = role == Role::kServer ? server_crashes_ : worker_crashes_;
  if (loop.crashes < options_.job.elastic.crash_loop_max) return;
  Close(
      JobState::kFailed,
      absl::StrCat(std::string(RoleName(role)), "s crashed ", loop.crashes,
                   " times in a row with no batch committed; the first error: ", loop.first_error),
      now);
}

// With allreduce a member of the view is the view's matter: the others go on without it, and then
// it is evicted here. If all are silent, nobody is left to do so, and their silence is no proof
// that what they hold is lost: they may go on with it, and only their exit ends the wait
// (KillStuck).
void Master::EvictSilent(absl::Time now) {
  if (verdict_.has_value()) return;
  std::vector<WorkerId> silent;
  for (const auto& [id, worker] : members_.workers()) {
    const bool bound = worker.registered && worker.state != State::kEvicted && !InGroupView(id);
    if (bound && now - worker.heard > options_.job.elastic.lease) silent.push_back(id);
  }
  for (const WorkerId id : silent) {
    // The group has let go of it as it was asked to: it tears down, and is late with that at worst.
    if (together() && members_.FindWorker(id)->state == State::kLeaving) {
      TakeTasksBack(id, now);
      continue;
    }
    const absl::Duration silence = now - members_.FindWorker(id)->heard;
    if (together()) NoteSilence(id, "", now);
    Record({.kind = EntryKind::kEvicted,
            .id = id.value(),
            .numbers = Members::Numbers(*members_.FindWorker(id))},
           now);
    // The first view without it: of the group, if it was in one, or of whom servers listen to.
    int64_t view = members_.view().number;
    if (together()) {
      const auto failure = failures_.open().find(id);
      view = failure == failures_.open().end() ? 0 : static_cast<int64_t>(failure->second.view);
    }
    Fields fields = {{"worker", id.value()}};
    if (view > 0) fields.emplace_back("view", view);
    // A group has missed it before, and may have yet to tell when: how long it was silent is in the
    // record of its failure alone.
    const std::string cause =
        together()
            ? absl::StrCat("silent for longer than elastic.lease, ",
                           absl::FormatDuration(options_.job.elastic.lease))
            : absl::StrCat("silent for ",
                           absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(1))));
    Say(now, "worker_evicted", std::move(fields), cause);
  }
}

// For a member of a group of which nobody speaks any more; else the others have gone on without it.
absl::Duration Master::SilenceOf(WorkerId id, const WorkerMember& worker) const {
  if (!worker.registered) return StartGrace(options_.start_grace, worker_crashes_.silent);
  // The silence of one that is in no group is a matter of its lease.
  if (!InGroupView(id)) return absl::InfiniteDuration();
  return std::max(options_.group_silence, 2 * options_.job.elastic.lease);
}

// Kills are repeated until the exit is reported: the signal may have been lost with a master.
void Master::KillStuck(absl::Time now) {
  const auto kill_if = [&](Role role, int64_t id, Member& member, absl::Duration silence_max,
                           absl::Duration grace) {
    const bool deaf = now - member.heard > silence_max;
    const bool lingers = now - member.asked_to_leave > grace;
    if (!deaf && !lingers) return;
    Send(SignalProcess::Kind::kKill, role, id, member.incarnation);
    member.killed = true;
    member.grace = silence_max;
    member.heard = now;
    if (lingers) member.asked_to_leave = now;
  };
  for (auto& [id, worker] : members_.workers()) {
    const absl::Duration silence = now - worker.heard, most = SilenceOf(id, worker);
    if (worker.registered && silence > most) {
      const std::string why = ", and nobody of the group can go on without it";
      NoteSilence(id, why, now);
      Say(now, "worker_killed", {{"worker", id.value()}},
          absl::StrCat("silent for ", absl::FormatDuration(silence), why));
    }
    // The others of a group need it until the end of a step, which may take longer than leaving.
    const bool needed = InGroupView(id) && silence <= options_.job.elastic.lease;
    kill_if(Role::kWorker, id.value(), worker, most,
            needed ? std::max(options_.leave_grace, options_.start_grace) : options_.leave_grace);
  }
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    ServerMember& server = members_.servers()[i];
    if (server.state == State::kGone) continue;
    kill_if(Role::kServer, static_cast<int64_t>(i), server,
            server.registered ? options_.server_silence : options_.start_grace,
            options_.leave_grace);
  }
}

}  // namespace rubato

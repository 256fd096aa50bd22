// What follows from the state: called after every request, it takes each step that has become
// possible. Each step is an entry, so asking again finds it done.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

using State = Member::State;

int64_t Missing(const IntervalSet& from, const IntervalSet& wanted) {
  return wanted.size() - wanted.Intersect(from).size();
}

}  // namespace

void Master::Advance(absl::Time now) {
  cut_due_ = false;
  // Before anybody's word is weighed: whom a restarted master still waits for is known to it.
  if (together() && !authority_.has_value() && group_.generation() > 0) OpenAuthority(now);
  if (!verdict_.has_value()) {
    ReopenFenced(now);
    ReportEvaluation(now);
    EndIfStalled(now);
    AdvanceEvaluation(now);
    AdvanceCheckpoint(now);
    GiveUpLateCuts(now);
    AdvanceBest(now);
    FailIfTooManyBadRows(now);
    if (together()) {
      EndGroupIfOver(now);
    } else {
      EndIfOver(now);
    }
  }
  if (verdict_.has_value()) {
    Dismiss(now);
  } else {
    if (together()) FoundGroup(now);
    AdvanceServers(now);
    DismissThoseOfBefore(now);
    Staff(now);
  }
  if (together()) {
    if (!authority_.has_value() && group_.generation() > 0) OpenAuthority(now);
    TellViews(now);
    TellFailures(now);
  }
}

void Master::ReopenFenced(absl::Time now) {
  for (const auto& [id, worker] : members_.workers()) {
    if (worker.state != State::kEvicted || !ledger_.Fencing(id)) continue;
    if (!members_.FencedEverywhere(worker.evicted_view)) continue;
    Record({.kind = EntryKind::kFenced, .id = id.value()}, now);
    if (together()) {  // No server has to hear of it: whose results are taken is decided here.
      Say(now, "tasks_reopened", {{"worker", id.value()}},
          "what the evicted worker still evaluates is not taken");
    } else {
      Say(now, "tasks_reopened", {{"worker", id.value()}, {"view", worker.evicted_view}},
          "every server refuses the evicted worker");
    }
  }
}

void Master::AdvanceEvaluation(absl::Time now) {
  if (stop_requested_) return;
  const bool trained = ledger_.finished();
  if (trained) {
    if (!evaluations_.DueAtTheEnd()) return;
    if (!together() && evaluations_.Knows(ledger_.steps())) return;
  } else {
    if (!evaluations_.DueInTraining(ledger_.steps(), now)) return;
    if (!together() && (ledger_.AnyTraining() || ledger_.ended_early())) return;
    if (!ledger_.BetweenRounds()) return;
  }
  const int64_t number = evaluations_.next_number();
  const char* cause = trained                                    ? "training is over"
                      : evaluations_.DueBySteps(ledger_.steps()) ? "evaluate.every_steps"
                                                                 : "evaluate.every";
  Record({.kind = EntryKind::kEvaluationBegan, .incarnation = trained ? 1 : 0, .value = number},
         now);
  Say(now, "evaluation_began", {{"number", number}, {"step", ledger_.steps()}}, cause);
}

bool Master::Resting(const Task& next, absl::Time now) const {
  if (together() || ledger_.finished() || ledger_.ended_early()) return false;
  if (evaluations_.running() || evaluations_.BestUnsaved()) return true;
  if ((cut_due_ || AwaitsCuts()) && !ledger_.OfBegunRound(next)) return true;
  return evaluations_.DueInTraining(ledger_.steps(), now) && !ledger_.OfBegunRound(next);
}

// A checkpoint begun after as many steps as the evaluation saw holds the same weights, for nobody
// trains between the two; a group says after how many its copy was made.
void Master::AdvanceBest(absl::Time now) {
  if (!evaluations_.BestUnsaved() || checkpoints_.running()) return;
  const int64_t version = checkpoints_.complete();
  const int64_t step = together() ? checkpoints_.newest().steps : checkpoints_.step();
  const bool current = together() || checkpoints_.current();
  if (version > 0 && current && step == evaluations_.best_step()) {
    Record({.kind = EntryKind::kBestSaved, .value = version}, now);
    effects_.push_back(WriteBest{version});
    Say(now, "best_saved", {{"version", version}, {"step", step}},
        absl::StrCat("evaluation ", evaluations_.best(), " is the best so far"));
  } else if (!ledger_.finished() && !stop_requested_) {
    BeginCheckpoint(/*last=*/false, now, "the best weights so far");
  }
}

void Master::ReportEvaluation(absl::Time now) {
  if (evaluations_.running() || reported_ >= evaluations_.results().size()) return;
  const EvaluationResult& result = evaluations_.results().back();
  reported_ = evaluations_.results().size();
  Fields fields = {{"number", result.number}, {"step", result.step}, {"records", result.records}};
  for (const auto& [name, value] : result.metrics) fields.emplace_back(name, value);
  Say(now, "evaluation_ended", std::move(fields), "every record to evaluate on is scored");
}

void Master::EndIfStalled(absl::Time now) {
  if (ledger_.finished() || ledger_.ended_early() || !evaluations_.Stalled()) return;
  Say(now, "ended_early", {{"step", ledger_.steps()}},
      absl::StrCat(options_.job.evaluate.stop_after_stalls, " evaluations brought nothing better"));
  Record({.kind = EntryKind::kEndedEarly}, now);
}

void Master::AdvanceCheckpoint(absl::Time now) {
  if (going_back_to_ > 0) return;
  if (checkpoints_.running()) {
    if (together()) return WatchSave(now);  // The one who writes it will tell.
    const auto servers = members_.servers().begin();
    const bool all = std::all_of(
        servers, servers + ActiveServers(),
        [&](const ServerMember& server) { return server.checkpointed >= checkpoints_.wanted(); });
    if (all && !TakeBackAtACut(now)) CompleteCheckpoint({}, now);
    return;
  }
  if (stop_requested_ || ledger_.finished()) return;
  if (checkpoints_.DueInTraining(ledger_.steps())) {
    return BeginCheckpoint(/*last=*/false, now,
                           absl::StrCat("every ", options_.job.checkpoint.every_steps, " steps"));
  }
  const int64_t active = ActiveServers();  // One that leaves cuts its log no more.
  for (int64_t id = 0; id < active; ++id) {
    const ServerMember& server = members_.servers()[static_cast<size_t>(id)];
    if (!server.registered || !checkpoints_.DueByLog(server.last.log_bytes)) continue;
    const std::string why = absl::StrCat("the push log of server ", id, ", ", server.last.log_bytes,
                                         " bytes, passes checkpoint.log_bytes");
    return BeginCheckpoint(/*last=*/false, now, why);
  }
  // A server died on the way to the end of one, or had no room for it.
  const bool uneven = checkpoints_.complete() > 0 && checkpoints_.newest().rounds < 0;
  if (InRounds() && uneven && !moved_since_cut_) {
    BeginCheckpoint(/*last=*/false, now, "the one before is not of one round on all servers");
  }
}

// One that cannot write its part does not keep the others waiting.
int64_t Master::AwaitedCut() const {
  if (!InRounds() || !checkpoints_.running() || checkpoint_failures_ > 0) return -1;
  if (checkpoints_.wanted() == late_cuts_) return -1;
  for (int64_t id = 0; id < members_.view().map.servers(); ++id) {
    const ServerMember& server = members_.servers()[static_cast<size_t>(id)];
    const int64_t cut = std::max(server.last.cut, server.checkpointed);
    if (members_.view().map.Owns(id) && cut < checkpoints_.wanted()) return id;
  }
  return -1;
}

// Its folder hangs, say, a network away: nobody will tell.
void Master::GiveUpLateCuts(absl::Time now) {
  const int64_t server = AwaitedCut();
  const bool over = ledger_.finished() || stop_requested_;  // Nobody trains anyway.
  if (server < 0 || !ServerIsUp(server) || over) {
    cut_awaited_ = absl::InfiniteFuture();
    return;
  }
  cut_awaited_ = std::min(cut_awaited_, now);
  if (now - cut_awaited_ < options_.cut_grace) return;
  late_cuts_ = checkpoints_.wanted();
  Say(now, "checkpoint_failed", {{"version", late_cuts_}, {"step", ledger_.steps()}},
      absl::StrCat("server-", server, " has not cut yet, after ",
                   absl::FormatDuration(options_.cut_grace), "; training goes on"));
}

// The same with a group. The one who writes hangs with its folder, and could not begin another; and
// at the end there is nothing else to wait for.
void Master::WatchSave(absl::Time now) {
  // All rest, too, until the best is saved.
  const bool over = ledger_.finished() || stop_requested_ || evaluations_.BestUnsaved();
  const int64_t version = checkpoints_.wanted();
  const WorkerId writer =
      last_view_.size() == 0 ? WorkerId() : WorkerOf(last_view_.members.front().id);
  LateSave& late = late_save_;
  if (late.version != version || late.writer != writer || late.over != over) {
    late = {.version = version, .writer = writer, .over = over, .since = now};
  }
  const WorkerMember* member = members_.FindWorker(writer);
  if (member == nullptr || member->state != State::kRunning) return;
  const absl::Duration waited = now - late.since;
  const std::string what = absl::StrCat(writer.ToString(), " has not written it yet, after ");
  if (!late.told && waited >= options_.save_grace) {
    late.told = true;
    Say(now, "checkpoint_failed", {{"version", version}, {"step", ledger_.steps()}},
        absl::StrCat(what, absl::FormatDuration(options_.save_grace),
                     over ? absl::StrCat("; the job waits for it, up to ",
                                         absl::FormatDuration(options_.save_patience))
                          : "; training goes on without one"));
  }
  if (!over || waited < options_.save_patience) return;
  Close(JobState::kFailed,
        absl::StrCat("checkpoint ", version, " was not written: ", what,
                     absl::FormatDuration(options_.save_patience)),
        now);
}

int64_t Master::RoundsOfCut() const {
  std::optional<int64_t> rounds;
  for (int64_t id = 0; id < members_.view().map.servers(); ++id) {
    if (!members_.view().map.Owns(id)) continue;
    const ServerMember& server = members_.servers()[static_cast<size_t>(id)];
    if (rounds.value_or(server.checkpointed_rounds) != server.checkpointed_rounds) return -1;
    rounds = server.checkpointed_rounds;
  }
  return rounds.value_or(-1);
}

void Master::CompleteCheckpoint(const SavedState& saved, absl::Time now) {
  const int64_t version = checkpoints_.wanted();
  const int64_t dropped = checkpoints_.dropped();
  checkpoint_failures_ = 0;
  JournalEntry entry = {.kind = EntryKind::kCheckpointComplete,
                        .id = saved.writer.value(),
                        .incarnation = saved.steps,
                        .task = TaskId(saved.records),
                        .value = version};
  if (const int64_t rounds = InRounds() ? RoundsOfCut() : -1; rounds >= 0) {
    entry.numbers = {static_cast<double>(rounds)};
  }
  Record(entry, now);
  effects_.push_back(WriteManifest{.version = version, .contents = manifest_});
  if (checkpoints_.dropped() != dropped) {
    effects_.push_back(RemoveCheckpoint{checkpoints_.dropped(), checkpoints_.kept()});
  }
  Say(now, "checkpoint_complete",
      {{"version", version}, {"step", together() ? saved.steps : checkpoints_.step()}},
      checkpoints_.cause());
}

void Master::BeginCheckpoint(bool last, absl::Time now, const std::string& cause) {
  if (members_.view().move.number > 0 || going_back_to_ > 0) return;  // Asked again after that.
  if (!last && !ledger_.BetweenRounds()) {
    cut_due_ = true;
    return;
  }
  Record({.kind = EntryKind::kCheckpointBegan,
          .incarnation = last ? 1 : 0,
          .value = checkpoints_.wanted() + 1,
          .text = cause},
         now);
}

std::string Master::WhyLast() const {
  return stop_requested_ ? "the job stops" : "training is over";
}

void Master::FailIfTooManyBadRows(absl::Time now) {
  const int64_t bad = BadRows();
  if (bad <= options_.job.data.bad_rows_max || verdict_.has_value()) return;
  Close(JobState::kFailed,
        absl::StrCat(bad, " rows could not be read, more than data.bad_rows_max, ",
                     options_.job.data.bad_rows_max,
                     last_bad_row_.empty() ? "" : absl::StrCat("; the last: ", last_bad_row_)),
        now);
}

// Trained: the last evaluation and the last checkpoint run side by side. What each server says
// it applied, when it says that it wrote the last checkpoint, is what it will ever have applied.
void Master::EndIfOver(absl::Time now) {
  const bool stopping = stop_requested_;
  if (stopping ? !members_.WorkersGone() : !ledger_.finished()) return;
  const bool checkpoint = !stopping || stop_checkpoint_;
  if (checkpoint && !checkpoints_.LastBegun() && !checkpoints_.running()) {
    BeginCheckpoint(/*last=*/true, now, WhyLast());
  }
  if (checkpoint && !checkpoints_.LastDone()) return;
  if (stopping) {
    Close(JobState::kStopped, "", now);
  } else if ((evaluations_.FinalDone() || evaluations_.Knows(ledger_.steps())) &&
             !evaluations_.BestUnsaved() && ServersSettled()) {
    if (TakeBackAtTheEnd(now)) return;
    int64_t repeated = 0;
    const absl::Status exact = Audit(&repeated);
    Close(exact.ok() ? JobState::kDone : JobState::kFailed, std::string(exact.message()), now,
          repeated);
  }
}

bool Master::ServersSettled() const {
  const auto servers = members_.servers().begin();
  return std::all_of(servers, servers + ActiveServers(), [&](const ServerMember& server) {
    return server.registered && server.last.checkpointed >= checkpoints_.wanted();
  });
}

absl::Status Master::Audit(int64_t* records_repeated) const {
  std::string wrong;
  for (int64_t epoch = 0; epoch < ledger_.plan().epochs(); ++epoch) {
    const IntervalSet expected = ledger_.Expected(epoch);
    const IntervalSet committed = ledger_.Committed(epoch);
    if (committed != expected) {
      absl::StrAppend(&wrong, "; epoch ", epoch, ": ", Missing(committed, expected),
                      " records were never committed");
    }
    for (size_t i = 0; i < members_.servers().size(); ++i) {
      if (!members_.view().map.Owns(static_cast<int64_t>(i))) continue;
      const ServerMember& server = members_.servers()[i];
      if (epoch == 0 && server.last.uneven > 0) {
        *records_repeated += server.last.uneven;
        absl::StrAppend(&wrong, "; ", server.last.server.ToString(), " has ", server.last.uneven,
                        " records on some of its partitions only");
      }
      const auto it = server.last.applied.find(epoch);
      const IntervalSet applied = it == server.last.applied.end() ? IntervalSet() : it->second;
      if (applied == expected) continue;
      const int64_t missing = Missing(applied, expected), extra = Missing(expected, applied);
      *records_repeated += missing + extra;
      absl::StrAppend(&wrong, "; epoch ", epoch, ": ", server.last.server.ToString(), " lacks ",
                      missing, " records and has ", extra, " it should not");
    }
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("not every record was trained exactly once", wrong));
}

void Master::Close(JobState state, const std::string& error, absl::Time now,
                   int64_t records_repeated, bool bad_input) {
  if (verdict_.has_value()) return;
  Record({.kind = EntryKind::kClosed,
          .id = records_repeated,
          .incarnation = bad_input ? 1 : 0,
          .value = static_cast<int64_t>(state),
          .text = error},
         now);
  Say(now, std::string(JobStateName(state)),
      {{"steps", ledger_.steps()}, {"records", ledger_.records_committed()}},
      !error.empty()                ? error
      : state == JobState::kStopped ? "asked to stop"
                                    : "every record is committed, and applied once everywhere");
}

// ---- processes ---------------------------------------------------------------------------------

void Master::Staff(absl::Time now) {
  const int64_t active = ActiveServers();
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    const ServerMember& server = members_.servers()[i];
    const int64_t id = static_cast<int64_t>(i);
    if (id >= active) {
      if (server.state != State::kStarting && server.state != State::kRunning) continue;
      if (!CopiesSettled()) continue;  // It may have the only copy of somebody's log.
      Record({.kind = EntryKind::kLeaving, .role = Role::kServer, .id = id}, now);
      Send(SignalProcess::Kind::kTerminate, Role::kServer, id, server.incarnation);
      Say(now, "server_leaving", {{"server", id}}, "fewer servers are wanted, and it owns nothing");
      continue;
    }
    if (server.state != State::kGone || server_places_[i].not_before > now) continue;
    const int64_t incarnation = server.incarnation + 1;
    Record(
        {.kind = EntryKind::kLaunched, .role = Role::kServer, .id = id, .incarnation = incarnation},
        now);
    effects_.push_back(LaunchProcess{.role = Role::kServer, .id = id, .incarnation = incarnation});
    Say(now, "server_launched", {{"server", id}, {"incarnation", incarnation}},
        server_places_[i].why);
  }
  StaffWorkers(now);
}

void Master::StaffWorkers(absl::Time now) {
  if (together() && stop_requested_) return;  // They stay until their state is saved.
  const int64_t target = stop_requested_ ? 0 : target_;
  std::vector<WorkerId> staying = members_.Staying();
  while (static_cast<int64_t>(staying.size()) > target) {
    const WorkerId newest = staying.back();
    staying.pop_back();
    Record({.kind = EntryKind::kLeaving, .id = newest.value()}, now);
    Send(SignalProcess::Kind::kTerminate, Role::kWorker, newest.value(), 1);
    Say(now, "worker_leaving", {{"worker", newest.value()}},
        stop_requested_ ? "the job stops" : "fewer workers are wanted");
  }
  // A place that backs off keeps its turn, while those after it are filled.
  std::vector<int64_t> taken;
  for (const WorkerId id : staying) taken.push_back(members_.FindWorker(id)->slot);
  int64_t wanted = target - static_cast<int64_t>(staying.size());
  for (int64_t slot = 0; slot < options_.job.workers.max && wanted > 0; ++slot) {
    if (std::find(taken.begin(), taken.end(), slot) != taken.end()) continue;
    --wanted;
    if (worker_places_[static_cast<size_t>(slot)].not_before > now) continue;
    const int64_t id = members_.NextWorker().value();
    Record({.kind = EntryKind::kLaunched, .id = id, .incarnation = 1, .value = slot}, now);
    effects_.push_back(LaunchProcess{.role = Role::kWorker, .id = id, .incarnation = 1});
    Say(now, "worker_launched", {{"worker", id}}, worker_places_[static_cast<size_t>(slot)].why);
  }
}

void Master::Dismiss(absl::Time now) {
  if (!dismissed_.has_value()) {
    dismissed_ = now;
    for (auto& [id, worker] : members_.workers()) {
      // A frozen one would not hear anything milder.
      const bool evicted = worker.state == State::kEvicted;
      Send(evicted ? SignalProcess::Kind::kKill : SignalProcess::Kind::kTerminate, Role::kWorker,
           id.value(), 1);
      worker.asked_to_leave = now;
    }
    for (size_t i = 0; i < members_.servers().size(); ++i) {
      ServerMember& server = members_.servers()[i];
      if (server.state == State::kGone) continue;
      Send(SignalProcess::Kind::kTerminate, Role::kServer, static_cast<int64_t>(i),
           server.incarnation);
      server.asked_to_leave = now;
    }
  }
  // A launch that never happened has no exit to wait for.
  const bool waited = now - *dismissed_ > 3 * options_.leave_grace;
  if (finished_ || (!members_.EveryoneGone() && !waited)) return;
  finished_ = true;
  effects_.push_back(JobFinished{.state = verdict_->state, .error = verdict_->error});
}

}  // namespace rubato

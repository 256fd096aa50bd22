// What the master tells: events, manifests, the snapshot, and what it repeats after a restart.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

using State = Member::State;

constexpr int64_t kBadRowsNamedMax = 20;

int64_t Sum(const std::vector<DataFile>& files) {
  int64_t records = 0;
  for (const DataFile& file : files) records += file.records;
  return records;
}

}  // namespace

int64_t DataShape::train_records() const { return Sum(train); }
int64_t DataShape::validation_records() const { return Sum(validation); }

std::string DataShape::Describe(const std::vector<DataFile>& files, Interval range) {
  std::vector<std::string> parts;
  int64_t first = 0;  // Of the file at hand.
  for (const DataFile& file : files) {
    const int64_t begin = std::max(range.begin - first, int64_t{0});
    const int64_t end = std::min(range.end - first, file.records);
    if (begin < end) {
      parts.push_back(absl::StrCat("records [", begin, ", ", end, ") of ", file.name));
    }
    first += file.records;
  }
  return absl::StrJoin(parts, " and ");
}

std::string Master::Describe(const Task& task) const {
  const bool training = task.kind == TaskKind::kTrain;
  return absl::StrCat(training ? "epoch " : "evaluation ", task.epoch, ", ",
                      DataShape::Describe(training ? options_.data.train : options_.data.validation,
                                          {task.begin, task.end}));
}

std::string Master::WhyLaunched(const WorkerMember& worker) const {
  const size_t slot = static_cast<size_t>(worker.slot);
  return slot < worker_places_.size() ? worker_places_[slot].why : "";
}

void Master::Say(absl::Time now, std::string kind, Fields fields, std::string cause) {
  effects_.push_back(JobEvent{.time = now,
                              .kind = std::move(kind),
                              .fields = std::move(fields),
                              .cause = std::move(cause)});
}

void Master::Send(SignalProcess::Kind kind, Role role, int64_t id, int64_t incarnation) {
  effects_.push_back(
      SignalProcess{.role = role, .id = id, .incarnation = incarnation, .kind = kind});
}

// The first few: enough to see what is wrong with the data, whatever its size.
void Master::NameBadRows(const CommitRequest& request, absl::Time now) {
  int64_t named = bad_rows_;
  for (const std::string& row : request.bad_rows_named) {
    if (named++ >= kBadRowsNamedMax) return;
    Say(now, "row_skipped", {{"worker", request.worker.value()}}, row);
  }
}

// The old master may have died between its journal and the rest of what it wanted done.
void Master::RepeatEffects(absl::Time now) {
  Say(now, options_.resume ? "resumed" : "master_restarted",
      {{"restarts", restarts_}, {"steps", ledger_.steps()}},
      options_.resume ? "rubato train --resume" : "the master before it died");
  reported_ = evaluations_.results().size();
  group_.Expect(members_.view().workers);
  failures_.Restart(now);
  if (!manifest_.empty() && !checkpoints_.running()) {
    effects_.push_back(WriteManifest{.version = checkpoints_.complete(), .contents = manifest_});
  }
  if (checkpoints_.dropped() > 0) {
    effects_.push_back(RemoveCheckpoint{checkpoints_.dropped(), checkpoints_.kept()});
  }
  if (checkpoints_.best() > 0 || options_.job.evaluate.keep_best)
    effects_.push_back(WriteBest{checkpoints_.best()});
  if (verdict_.has_value()) return;  // Everyone is signalled anyway.
  for (const auto& [id, worker] : members_.workers()) {
    effects_.push_back(LaunchProcess{.role = Role::kWorker, .id = id.value(), .incarnation = 1});
    if (worker.state != State::kLeaving) continue;
    Send(SignalProcess::Kind::kTerminate, Role::kWorker, id.value(), 1);
  }
  for (size_t i = 0; i < members_.servers().size(); ++i) {
    const ServerMember& server = members_.servers()[i];
    if (server.state == State::kGone) continue;
    effects_.push_back(LaunchProcess{
        .role = Role::kServer, .id = static_cast<int64_t>(i), .incarnation = server.incarnation});
    if (server.state != State::kLeaving) continue;
    Send(SignalProcess::Kind::kTerminate, Role::kServer, static_cast<int64_t>(i),
         server.incarnation);
  }
}

std::string Master::Manifest() const {
  std::vector<std::string> epochs;
  for (int64_t epoch = 0; epoch < ledger_.plan().epochs(); ++epoch) {
    const IntervalSet committed = ledger_.Committed(epoch);
    if (!committed.empty()) epochs.push_back(absl::StrCat("\"", epoch, "\": ", committed.size()));
  }
  if (together()) {
    const SavedState saved = checkpoints_.newest();
    return absl::StrCat("{\"version\": ", checkpoints_.complete(), ", \"rubato\": \"",
                        options_.version, "\", \"step\": ", saved.steps,
                        ", \"records\": ", saved.records, ", \"file\": \"", saved.writer.ToString(),
                        ".ckpt\"}\n");
  }
  return absl::StrCat("{\"version\": ", checkpoints_.complete(), ", \"rubato\": \"",
                      options_.version, "\", \"step\": ", checkpoints_.step(),
                      ", \"servers\": ", ActiveServers(), ", \"committed\": {",
                      absl::StrJoin(epochs, ", "), "}}\n");
}

int64_t Master::BadRows() const { return bad_rows_ + group_.bad_rows(); }

JobState Master::state() const {
  if (verdict_.has_value()) return verdict_->state;
  if (stop_requested_) return JobState::kStopping;
  if (ledger_.finished()) return JobState::kEvaluating;
  return ledger_.steps() > 0 || ledger_.AnyLeased() ? JobState::kTraining : JobState::kStarting;
}

TimeSpent Master::Spent() const {
  TimeSpent spent = members_.totals().spent;
  for (const auto& [id, worker] : members_.workers()) spent.Add(worker.spent);
  const double lost = std::min(seconds_lost_, spent.useful);
  spent.useful -= lost;
  spent.redo += lost;
  return spent;
}

Snapshot Master::snapshot() const {
  const MemberTotals& totals = members_.totals();
  int64_t unreadable = 0;
  for (const auto& [worker, count] : unreadable_) unreadable += count;
  Snapshot snapshot = {.state = state(),
                       .error = verdict_.has_value() ? verdict_->error : "",
                       .view = members_.view().number,
                       .epoch = ledger_.epoch(),
                       .steps = ledger_.steps(),
                       .records_committed = ledger_.records_committed(),
                       .records_expected = ledger_.records_expected(),
                       .records_repeated = records_repeated_,
                       .records_recomputed = records_recomputed_ + members_.records_redone(),
                       .records_taken_back = records_taken_back_,
                       .workers_target = target_,
                       .workers_started = totals.workers_started,
                       .workers_lost = totals.workers_lost,
                       .workers_joined = totals.workers_joined,
                       .workers_max = totals.workers_max,
                       .workers_alive = static_cast<int64_t>(members_.Running().size()),
                       .servers_started = totals.servers_started,
                       .servers_lost = totals.servers_lost,
                       .servers_target = servers_target_,
                       .servers_scaled = scaling_,
                       .master_restarts = restarts_,
                       .fenced_pushes = totals.fenced,
                       .bad_rows = BadRows(),
                       .reports_unreadable = unreadable,
                       .checkpoint = checkpoints_.complete(),
                       .best_checkpoint = checkpoints_.best(),
                       .best_evaluation = evaluations_.best(),
                       .loss = loss_,
                       .loss_known = loss_weight_ > 0,
                       .bad_input = verdict_.has_value() && verdict_->bad_input,
                       .run_began = run_began_,
                       .records_before = records_before_,
                       .spent = Spent(),
                       .evaluations = evaluations_.results(),
                       .processes = members_.Processes()};
  for (const ServerMember& server : members_.servers()) {
    snapshot.servers_alive += server.state == State::kRunning;
    snapshot.fenced_pushes += server.last.fenced;
    snapshot.rows += server.last.rows;
    snapshot.bytes += server.last.bytes;
  }
  for (ProcessStatus& process : snapshot.processes) {
    const bool runs = process.role == Role::kWorker && process.state == "running";
    const GroupReport* report = runs ? group_.ReportOf(WorkerId(process.id)) : nullptr;
    const bool counts = report != nullptr && report->generation == group_.generation();
    if (counts && !verdict_.has_value()) process.lagging = report->lagging;
  }
  return snapshot;
}

}  // namespace rubato

// How a master begins, and how entries change it: live and in replay alike.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/master/journal.h"
#include "rubato/master/master.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

// Times are in the journal as microseconds, which a double holds exactly for centuries.
std::vector<double> TimeNumbers(absl::Time now) {
  return {static_cast<double>(absl::ToUnixMicros(now))};
}

absl::Time TimeOf(const JournalEntry& entry) {
  if (entry.numbers.empty()) return absl::UnixEpoch();
  return absl::FromUnixMicros(static_cast<int64_t>(entry.numbers.front()));
}

int64_t StartTarget(const WorkersSpec& workers) {
  return workers.start > 0 ? workers.start : workers.max;
}

// What must be the same for a journal to make sense. The sizes of tasks are not in it: they
// follow workers.max, which may change, so the journal's own are kept.
std::string ShapeOf(const MasterOptions& options) {
  const JobSpec& job = options.job;
  const bool together = job.strategy == "allreduce";
  return absl::StrCat(
      "train records ", options.data.train_records(), ", validation records ",
      options.data.validation_records(), ", batch_size ", job.batch_size, ", epochs ", job.epochs,
      ", max_steps ", job.max_steps, ", seed ", job.seed, ", shuffle.tasks ", job.shuffle.tasks,
      ", shuffle.buffer ", job.shuffle.buffer, job.shuffle.spreads() ? ", shuffle.spread true" : "",
      job.mode == "async"
          ? ""
          : absl::StrCat(", mode ", job.mode, " by ", PlanOf(job, 0, 0).round_tasks),
      together ? ", strategy allreduce" : absl::StrCat(", servers ", job.servers));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Master>> Master::Open(MasterOptions options,
                                                     const std::vector<std::string>& records,
                                                     absl::Time now) {
  if (options.data.train_records() == 0) {
    return absl::InvalidArgumentError("data.train: there is no record to train on");
  }
  if (options.job.strategy == "allreduce") {
    RUBATO_RETURN_IF_ERROR(
        Annotate(AuthorityOptions{.lease = options.job.elastic.lease}.Validate(), "elastic.lease"));
  }
  TaskPlanOptions plan =
      PlanOf(options.job, options.data.train_records(), options.data.validation_records());
  const std::string shape = ShapeOf(options);
  JournalEntry created = {.kind = EntryKind::kCreated,
                          .id = plan.batches_per_task,
                          .incarnation = plan.evaluation_batches_per_task,
                          .text = shape,
                          .numbers = TimeNumbers(now)};
  if (!records.empty()) {
    RUBATO_ASSIGN_OR_RETURN(created, DecodeEntry(records.front()));
    if (created.kind != EntryKind::kCreated || created.id < 1 || created.incarnation < 1) {
      return absl::DataLossError("journal: record 0 does not say which job this is");
    }
    if (created.text != shape) {
      return absl::FailedPreconditionError(
          absl::StrCat("the journal is of another job: ", created.text, "; this one has ", shape));
    }
    plan.batches_per_task = created.id;
    plan.evaluation_batches_per_task = created.incarnation;
  }
  if (options.job.strategy == "allreduce") options.job.servers = 0;
  const bool resume = options.resume;
  std::unique_ptr<Master> master(new Master(std::move(options), plan, now));
  if (records.empty()) {
    master->effects_.push_back(AppendJournal{JournalHeader(master->options_.version)});
    master->Record(created, now);
  } else {
    RUBATO_RETURN_IF_ERROR(master->Replay(records, now));
    if (resume && master->verdict_.has_value() && master->verdict_->state == JobState::kDone) {
      return absl::FailedPreconditionError("the job is done already");
    }
    if (resume) master->NoteGone(now);
    master->Record(
        {.kind = EntryKind::kRestarted, .value = resume ? 1 : 0, .numbers = TimeNumbers(now)}, now);
    master->RepeatEffects(now);
    if (resume) master->ScaleAtResume(now);
  }
  master->Advance(now);
  return master;
}

Master::Master(MasterOptions options, const TaskPlanOptions& plan, absl::Time now)
    : options_(std::move(options)),
      ledger_(plan),
      members_(options_.job.servers),
      evaluations_(options_.job.evaluate, plan.validation_records > 0, now),
      checkpoints_(options_.job.checkpoint),
      worker_places_(static_cast<size_t>(options_.job.workers.max)),
      server_places_(static_cast<size_t>(options_.job.servers)),
      target_(StartTarget(options_.job.workers)),
      servers_target_(options_.job.servers),
      last_tick_(now) {}

absl::Status Master::Replay(const std::vector<std::string>& records, absl::Time now) {
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string where = absl::StrCat("journal: record ", i);
    const absl::StatusOr<JournalEntry> entry = DecodeEntry(records[i]);
    if (!entry.ok()) return Annotate(entry.status(), where);
    if (const absl::Status status = Apply(*entry, now); !status.ok()) {
      return absl::DataLossError(
          absl::StrCat(where, " does not follow from those before: ", status.message().data()));
    }
  }
  members_.FreshLeases(now);
  return absl::OkStatus();
}

void Master::Record(const JournalEntry& entry, absl::Time now) {
  effects_.push_back(AppendJournal{FrameRecord(EncodeEntry(entry))});
  RUBATO_CHECK_OK(Apply(entry, now));
}

absl::Status Master::Apply(const JournalEntry& entry, absl::Time now) {
  switch (entry.kind) {
    case EntryKind::kCreated:
      run_began_ = TimeOf(entry);
      return absl::OkStatus();
    case EntryKind::kRestarted:
      restarts_ += entry.value != 1;  // A new run of the job is its user's wish: nobody died.
      if (entry.value == 1) ApplyResume(entry);
      return absl::OkStatus();
    case EntryKind::kLaunched:
    case EntryKind::kRegistered:
    case EntryKind::kLeaving:
    case EntryKind::kEvicted:
    case EntryKind::kFenced:
    case EntryKind::kExited:
    case EntryKind::kSpent:
      return ApplyToMembers(entry, now);
    case EntryKind::kLeased:
    case EntryKind::kCommitted:
    case EntryKind::kReleased:
    case EntryKind::kTaskFailed:
      return ApplyToTasks(entry);
    case EntryKind::kScaled:
      target_ = entry.value;
      if (entry.incarnation == 1) return absl::OkStatus();  // As they are launched for anyway.
      // Those at work overwrite it when they go.
      for (LaunchPlace& place : worker_places_) place.why = "asked by rubato scale";
      return absl::OkStatus();
    case EntryKind::kStopRequested:
      stop_requested_ = true;
      stop_checkpoint_ = entry.value == 1;
      return absl::OkStatus();
    case EntryKind::kEvaluationBegan:
    case EntryKind::kEndedEarly:
    case EntryKind::kCheckpointBegan:
    case EntryKind::kCheckpointComplete:
    case EntryKind::kBestSaved:
    case EntryKind::kCheckpointDamaged:
      ApplyToCourse(entry, now);
      return absl::OkStatus();
    case EntryKind::kServersScaled:
    case EntryKind::kMoveBegan:
    case EntryKind::kMoved:
    case EntryKind::kServersSettled:
    case EntryKind::kTakenBack:
    case EntryKind::kWentBack:
      return ApplyToServers(entry);
    case EntryKind::kFounded:
      ApplyFounded(entry);
      return absl::OkStatus();
    case EntryKind::kViewIssued:
      return ApplyView(entry);
    case EntryKind::kFailure:
      return ApplyFailure(entry);
    case EntryKind::kTrained:
      ledger_.SetTogether(entry.value, entry.incarnation);
      if (WorkerMember* member = members_.FindWorker(WorkerId(entry.id))) ++member->commits;
      worker_crashes_.Progress();
      return absl::OkStatus();
    case EntryKind::kClosed:
      verdict_ = {.state = static_cast<JobState>(entry.value),
                  .error = entry.text,
                  .bad_input = entry.incarnation == 1};
      records_repeated_ = entry.id;
      return absl::OkStatus();
  }
  return absl::DataLossError("an entry of unknown kind");
}

absl::Status Master::ApplyView(const JournalEntry& entry) {
  RUBATO_ASSIGN_OR_RETURN(last_view_, DecodeGroupView(entry.text));
  for (size_t i = 0; i < last_view_.members.size() && i < entry.numbers.size(); ++i) {
    const WorkerId worker(static_cast<int64_t>(entry.numbers[i]));
    workers_of_[last_view_.members[i].id] = worker;
    // A restarted master may have to tell where it was before it has heard of it again.
    WorkerMember* member = members_.FindWorker(worker);
    if (member == nullptr) continue;
    const std::string& address = last_view_.members[i].address;
    member->address = address.substr(0, address.find(';'));  // What follows is for its group.
  }
  return absl::OkStatus();
}

absl::Status Master::ApplyFailure(const JournalEntry& entry) {
  if (entry.value == 1) {
    failures_.Told(WorkerId(entry.id));
    return absl::OkStatus();
  }
  RUBATO_ASSIGN_OR_RETURN(Failure failure, DecodeFailure(entry.text));
  failures_.Note(WorkerId(entry.id), std::move(failure));
  return absl::OkStatus();
}

// What happens beside training.
void Master::ApplyToCourse(const JournalEntry& entry, absl::Time now) {
  switch (entry.kind) {
    case EntryKind::kEvaluationBegan:
      evaluations_.Begin(entry.value, ledger_.steps(), entry.incarnation == 1, now);
      ledger_.BeginEvaluation(entry.value);
      break;
    case EntryKind::kEndedEarly:
      ledger_.EndEarly();
      break;
    case EntryKind::kCheckpointBegan:
      checkpoints_.Begin(entry.value, ledger_.steps(), entry.incarnation == 1, entry.text);
      moved_since_cut_ = false;  // Nothing moves while it is cut.
      break;
    case EntryKind::kCheckpointComplete:
      checkpoints_.Complete(
          entry.value,
          {.writer = WorkerId(entry.id),
           .steps = entry.incarnation,
           .records = entry.task.value(),
           .rounds = entry.numbers.empty() ? -1 : static_cast<int64_t>(entry.numbers.front())});
      manifest_ = Manifest();
      break;
    case EntryKind::kCheckpointDamaged:
      if (checkpoints_.best() == entry.value) evaluations_.LoseBest();
      checkpoints_.Discard(entry.value);
      manifest_ = Manifest();
      break;
    default:
      checkpoints_.SetBest(entry.value);
      evaluations_.SavedBest();
  }
}

absl::Status Master::ApplyToMembers(const JournalEntry& entry, absl::Time now) {
  const WorkerId worker(entry.id);
  const bool is_server = entry.role == Role::kServer;
  const bool launch = entry.kind == EntryKind::kLaunched;
  const bool known =
      is_server ? entry.id >= 0 && entry.id < static_cast<int64_t>(members_.servers().size())
                : (members_.FindWorker(worker) != nullptr) != launch && worker.valid();
  if (!known || (launch && entry.value < 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat("nothing known of ", std::string(RoleName(entry.role)), "-", entry.id));
  }
  switch (entry.kind) {
    case EntryKind::kLaunched:
      if (is_server) members_.LaunchServer(entry.id, entry.incarnation, ledger_.steps(), now);
      if (!is_server) members_.LaunchWorker(worker, entry.value, now);
      break;
    case EntryKind::kRegistered:
      if (is_server) members_.RegisterServer(entry.id, entry.value, entry.text, now);
      if (is_server) NoteReturned(entry.id);
      if (is_server && entry.incarnation > 1) ForgetTheDeadLife();
      if (!is_server) members_.RegisterWorker(worker, entry.value, ledger_.steps() > 0, now);
      break;
    case EntryKind::kLeaving:
      if (is_server) members_.LeaveServer(entry.id, now);
      if (!is_server) members_.Leave(worker, now);
      break;
    case EntryKind::kEvicted:
      members_.Evict(worker, entry.numbers);
      group_.Forget(worker);
      ledger_.Fence(worker);
      Vacated(worker);
      break;
    case EntryKind::kFenced:
      Reopen(worker);
      break;
    case EntryKind::kSpent:
      members_.NoteSpent(worker, entry.numbers);
      break;
    default:
      ApplyExit(entry, now);
  }
  return absl::OkStatus();
}

void Master::ApplyExit(const JournalEntry& entry, absl::Time now) {
  const ExitKind kind = static_cast<ExitKind>(entry.value);
  const bool lost = kind != ExitKind::kLeft;
  if (entry.role == Role::kServer) {
    const ServerMember& server = members_.servers()[static_cast<size_t>(entry.id)];
    const bool progress = ledger_.steps() > server.steps_at_launch;
    server_places_[static_cast<size_t>(entry.id)].Exited(progress, now);
    server_places_[static_cast<size_t>(entry.id)].why =
        absl::StrCat("replaces server-", entry.id, " of life ", entry.incarnation);
    if (kind == ExitKind::kCrashed) server_crashes_.Crashed(entry.text);
    members_.RemoveServer(entry.id, lost, entry.numbers);
    returned_.erase(entry.id);
    return;
  }
  const WorkerMember& worker = *members_.FindWorker(WorkerId(entry.id));
  const size_t slot = static_cast<size_t>(worker.slot);
  // One that was leaving or evicted had given up its place before.
  const bool had_place =
      worker.state == Member::State::kStarting || worker.state == Member::State::kRunning;
  if (had_place && slot < worker_places_.size()) {
    worker_places_[slot].Exited(worker.commits > 0, now);
    Vacated(WorkerId(entry.id));
  }
  if (kind == ExitKind::kCrashed) worker_crashes_.Crashed(entry.text);
  Reopen(WorkerId(entry.id));
  group_.Forget(WorkerId(entry.id));
  members_.RemoveWorker(WorkerId(entry.id), lost, entry.numbers);
}

void Master::Vacated(WorkerId worker) {
  const size_t slot = static_cast<size_t>(members_.FindWorker(worker)->slot);
  if (slot < worker_places_.size()) {
    worker_places_[slot].why = absl::StrCat("replaces ", worker.ToString());
  }
}

// A worker has at most max_inflight + 1 batches under way, beyond what is committed.
void Master::Reopen(WorkerId worker) {
  const int64_t batch_size = ledger_.plan().options().batch_size;
  int64_t room = (options_.job.max_inflight + 1) * batch_size;
  for (const auto& [id, live] : ledger_.live()) {
    if (live.worker != worker || live.task.kind != TaskKind::kTrain) continue;
    const int64_t under_way = std::min(room, live.task.end - live.task.committed);
    records_recomputed_ += under_way;
    room -= under_way;
  }
  ledger_.Reopen(worker);
}

absl::Status Master::ApplyToTasks(const JournalEntry& entry) {
  const WorkerId worker(entry.id);
  if (entry.kind == EntryKind::kLeased) return ledger_.Lease(entry.task, worker);
  if (entry.kind == EntryKind::kReleased) return ledger_.Release(entry.task);
  if (entry.kind == EntryKind::kTaskFailed) {
    not_finite_ += entry.value;
    RUBATO_RETURN_IF_ERROR(ledger_.AddFailure(entry.task, {worker, entry.text}));
    const Task& task = ledger_.Find(entry.task)->task;
    if (task.kind == TaskKind::kTrain) {  // The batch that failed is tried again.
      records_recomputed_ +=
          std::min(ledger_.plan().options().batch_size, task.end - task.committed);
    }
    return ledger_.Release(entry.task);
  }
  const LiveTask* live = ledger_.Find(entry.task);
  const bool again = live != nullptr && live->task.kind == TaskKind::kTrain &&
                     ledger_.WasTakenBack(live->task.epoch, live->task.committed, entry.value);
  RUBATO_RETURN_IF_ERROR(ledger_.Commit(entry.task, entry.value));
  if (!entry.numbers.empty() && !again) {  // Each bad row counts once.
    bad_rows_ += static_cast<int64_t>(entry.numbers.front());
    last_bad_row_ = entry.text;
  }
  if (WorkerMember* member = members_.FindWorker(worker)) ++member->commits;
  worker_crashes_.Progress();
  server_crashes_.Progress();
  if (entry.sums.has_value()) {
    evaluations_.Add(entry.task, *entry.sums);
    if (!ledger_.evaluating()) evaluations_.End();
  }
  return absl::OkStatus();
}

void Master::ApplyResume(const JournalEntry& entry) {
  run_began_ = TimeOf(entry);
  records_before_ = ledger_.records_committed();
  for (LaunchPlace& place : worker_places_) place.why = "the job is resumed";
  for (LaunchPlace& place : server_places_) place.why = "the job is resumed";
  returned_.clear();
  for (const auto& [id, worker] : members_.workers()) Reopen(id);
  members_.RemoveAll(/*lost=*/!verdict_.has_value());
  ledger_.ForgetFailures();
  not_finite_ = 0;
  worker_crashes_.Progress();
  server_crashes_.Progress();
  checkpoints_.Resume();
  stop_requested_ = false;
  verdict_.reset();
}

}  // namespace rubato

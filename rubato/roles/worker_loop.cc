#include "rubato/roles/worker_loop.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/model/named_tables.h"
#include "rubato/params/learning_rate.h"
#include "rubato/roles/exit_codes.h"

namespace rubato {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(50);

TaskReader::Options ReaderOptions(const JobSpec& job, const Trainer& trainer) {
  return {.seed = job.seed,
          .batch_size = job.batch_size,
          .shuffle_buffer = job.shuffle.buffer,
          .skip_bad_rows = job.data.bad_rows == "skip",
          .score_width = trainer.score_width()};
}

// What a user can do about a step that failed.
absl::string_view Remedy(const absl::Status& status) {
  const bool ran_away = absl::StartsWith(status.message(), "the loss is") ||
                        absl::EndsWith(status.message(), "is not finite");
  return ran_away ? "; a lower optimizer.learning_rate may help" : "";
}

}  // namespace

WorkerLoop::WorkerLoop(const WorkerLoopOptions& options, Trainer& trainer, Readable train,
                       Readable validation)
    : options_(options),
      trainer_(trainer),
      train_(train),
      validation_(validation),
      id_columns_(static_cast<int64_t>(train.parser->shape().ids.size())),
      optimizer_(trainer.optimizer(options.job.optimizer)),
      group_(FindGroup(train.parser->shape(), options.job.evaluate.group).value_or(GroupColumn())),
      window_(options.job.max_inflight),
      time_(options.clock->Now()) {}

WorkerLoop::~WorkerLoop() {
  {
    MutexLock lock(mu_);
    leaving_ = true;
    changed_.NotifyAll();
  }
  if (reader_.joinable()) reader_.join();
  if (client_) client_->Stop();  // Before anything its callbacks touch is gone.
  control_.reset();
}

absl::Status WorkerLoop::Connect() {
  ModelSignature signature = trainer_.signature();
  RUBATO_RETURN_IF_ERROR(UseNamedTables(options_.job, optimizer_, &signature));
  client_ = ParamsClient::Start({.job = options_.job.name,
                                 .secret = options_.secret,
                                 .servers = options_.job.servers,
                                 .wire = WireFormatOf(options_.job.params.wire)});
  control_ = std::make_unique<WorkerControl>(
      WorkerControl::Options{.master = options_.master,
                             .id = options_.id,
                             .version = options_.version,
                             .heartbeat = options_.job.elastic.heartbeat,
                             // Rounds are short, and a worker waits for every one.
                             .ask_again = absl::Milliseconds(options_.job.mode == "async" ? 20 : 2),
                             .describe = [this] { return Describe(); },
                             .on_view =
                                 [this](const View& view) {
                                   std::vector<std::string> addresses;
                                   for (const ServerPlace& server : view.servers)
                                     addresses.push_back(server.address);
                                   client_->SetServers(std::move(addresses));
                                   client_->SetMap(view.map);
                                 },
                             .on_lost =
                                 [this](TaskId task, int64_t lease) {
                                   MutexLock lock(mu_);
                                   // Late news of a lease that was dropped is none of the next.
                                   if (!lost_.contains(lease)) Drop(task);
                                 },
                             .on_leave =
                                 [this] {
                                   MutexLock lock(mu_);
                                   leaving_ = true;
                                   changed_.NotifyAll();
                                 },
                             .on_refused =
                                 [this](std::string why) {
                                   MutexLock lock(mu_);
                                   fenced_ = true;
                                   why_ = std::move(why);
                                   changed_.NotifyAll();
                                 }});
  RUBATO_RETURN_IF_ERROR(control_->Start(options_.stop));

  bool done = false;
  absl::Status declared;
  client_->Declare({.signature = std::move(signature),
                    .optimizer = optimizer_,
                    .rows = options_.job.tables,
                    .seed = options_.job.seed,
                    .mode = PushModeOf(options_.job.mode),
                    .tolerance = options_.job.mode == "async" ? StalenessBound(options_.job)
                                                              : options_.job.rounds.tolerance,
                    .scale_stale = options_.job.params.staleness == "scale",
                    .dense = trainer_.InitialDense(options_.job.seed)},
                   [this, &done, &declared](const absl::Status& status) {
                     MutexLock lock(mu_);
                     declared = status;
                     done = true;
                     changed_.NotifyAll();
                   });
  while (true) {
    MutexLock lock(mu_);
    if (done) return Annotate(declared, "the servers do not take this model");
    if (fenced_ || leaving_ || options_.stop()) break;
    changed_.WaitFor(mu_, kPatience);
  }
  client_->Stop();  // The callback above must not outlive this frame.
  return absl::CancelledError("asked to end while connecting");
}

absl::StatusOr<int> WorkerLoop::Run() {
  absl::Status connected = Connect();
  if (absl::IsCancelled(connected)) return kRoleDone;
  if (absl::IsFailedPrecondition(connected) && !control_->view()) {
    std::fprintf(stderr, "the master does not want this worker: %s\n",
                 std::string(connected.message()).c_str());
    return kRoleFenced;
  }
  RUBATO_RETURN_IF_ERROR(connected);
  reader_ = std::thread([this] { Read(); });
  while (true) {
    {
      MutexLock lock(mu_);
      if (options_.stop()) leaving_ = true;
      FlushFailures();
      if (fenced_ || leaving_) break;
    }
    OpenBatches();
    if (const std::shared_ptr<Work> work = NextPulled()) Handle(work);
  }
  Leave();
  trainer_.OnTrainEnd();
  MutexLock lock(mu_);
  if (!fenced_) return kRoleDone;
  std::fprintf(stderr, "fenced: %s\n", why_.c_str());
  return kRoleFenced;
}

// ---- reading -----------------------------------------------------------------------------------

void WorkerLoop::Read() {
  const TaskReader::Options options = ReaderOptions(options_.job, trainer_);
  TaskReader train(*train_.source, *train_.parser, options);
  std::unique_ptr<TaskReader> validation;
  if (validation_.source != nullptr) {
    validation = std::make_unique<TaskReader>(*validation_.source, *validation_.parser, options);
  }
  while (true) {
    {
      MutexLock lock(mu_);
      reading_ = false;
      if (leaving_ || fenced_) return;
    }
    const std::optional<Task> task = control_->NextTask(kPatience);
    if (!task) continue;
    TaskReader* reader = task->kind == TaskKind::kTrain ? &train : validation.get();
    ReadTask(*task, *reader);
  }
}

void WorkerLoop::ReadTask(const Task& task, TaskReader& reader) {
  {
    MutexLock lock(mu_);
    reading_ = true;
    leases_[task.id] = task.lease;
    window_.Begin(task);
    if (task.kind == TaskKind::kEvaluate) {
      evaluations_.emplace(task.id, Evaluation(trainer_.score_width(), group_));
    }
  }
  Unique unique;
  reader.Start(task);
  while (true) {
    auto work = std::make_shared<Work>();
    work->task = task;
    const absl::StatusOr<bool> more = reader.Next(&work->key, &work->batch);
    if (!more.ok()) {
      work->status = more.status();
      Prepared(std::move(work));
      return;
    }
    if (!*more) return;
    if (FirstPass(task) && reader.skipped().count > 0) Skipped(work->key, reader.skipped());
    for (const TableSpec& table : trainer_.signature().tables) {
      unique.Find(work->batch, id_columns_, table.fields, &work->ids.emplace_back());
    }
    if (!Prepared(std::move(work))) return;
  }
}

void WorkerLoop::Skipped(const BatchKey& key, const SkippedRows& rows) {
  for (const std::string& row : rows.named) {
    if (skipped_logged_++ >= SkippedRows::kNamedMax) break;
    std::fprintf(stderr, "skipped %s\n", row.c_str());
  }
  MutexLock lock(mu_);
  skipped_[TaskId(key.task)][key.begin] = rows;
}

bool WorkerLoop::Prepared(std::shared_ptr<Work> work) {
  MutexLock lock(mu_);
  const size_t room = static_cast<size_t>(options_.job.max_inflight) + 2;
  while (ready_.size() >= room && !leaving_ && !fenced_) changed_.WaitFor(mu_, kPatience);
  if (leaving_ || fenced_ || lost_.contains(work->task.lease)) return false;
  ready_.push_back(std::move(work));
  changed_.NotifyAll();
  return true;
}

// ---- pulling and computing ---------------------------------------------------------------------

// What was refused goes first: its place in the window it has still.
void WorkerLoop::OpenAgain() {
  while (true) {
    std::shared_ptr<Work> work;
    {
      MutexLock lock(mu_);
      if (again_.empty()) return;
      work = again_.front();
      again_.pop_front();
      if (lost_.contains(work->task.lease)) continue;
      opened_.push_back(work);
    }
    Pull(work);
  }
}

void WorkerLoop::OpenBatches() {
  OpenAgain();
  while (true) {
    std::shared_ptr<Work> work;
    {
      MutexLock lock(mu_);
      while (!ready_.empty() && lost_.contains(ready_.front()->task.lease)) ready_.pop_front();
      if (ready_.empty() || !window_.HasRoom()) return;
      work = ready_.front();
      ready_.pop_front();
      changed_.NotifyAll();
      opened_.push_back(work);
      if (!work->status.ok()) {
        work->pulled = true;
        continue;
      }
      window_.Open(work->key);
    }
    Pull(work);
  }
}

void WorkerLoop::Pull(const std::shared_ptr<Work>& work) {
  const std::vector<TableSpec>& tables = trainer_.signature().tables;
  PullRequest request;
  work->rows.resize(tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    std::vector<float>& rows = work->rows[t];
    rows.resize(work->ids[t].ids.size() * static_cast<size_t>(tables[t].dim));
    request.tables.push_back({.ids = work->ids[t].ids, .rows = absl::MakeSpan(rows)});
  }
  work->dense.resize(static_cast<size_t>(trainer_.signature().dense_size));
  request.dense = absl::MakeSpan(work->dense);
  request.rounds = work->task.rounds;
  request.steps = &work->steps;
  client_->Pull(request, [this, work](const absl::Status& status) {
    MutexLock lock(mu_);
    work->status = status;
    work->pulled = true;
    changed_.NotifyAll();
  });
}

std::shared_ptr<WorkerLoop::Work> WorkerLoop::NextPulled() {
  MutexLock lock(mu_);
  if (opened_.empty()) {
    // With room and nothing to open, the reader is behind, or there is no task to read.
    WaitAs(window_.HasRoom() && reading_ ? Activity::kRead : Activity::kWait, kPatience);
    return nullptr;
  }
  if (!opened_.front()->pulled) {
    WaitAs(Activity::kWait, kPatience);
    return nullptr;
  }
  std::shared_ptr<Work> work = opened_.front();
  opened_.pop_front();
  return work;
}

void WorkerLoop::Handle(const std::shared_ptr<Work>& work) {
  {
    MutexLock lock(mu_);
    if (lost_.contains(work->task.lease) || failing_.contains(work->task.id)) return;
    if (!work->status.ok()) {
      if (!absl::IsCancelled(work->status)) GiveUp(work->task.id, work->status);
      return;
    }
    Enter(work->batch.rows > 0 ? Activity::kUseful : Activity::kOther);
  }
  if (work->task.kind == TaskKind::kTrain) {
    Train(work);
  } else {
    Evaluate(*work);
  }
}

StepInput WorkerLoop::InputOf(const Work& work) const {
  StepInput in = {.batch = &work.batch,
                  .dense = work.dense,
                  .seed = Mix(Mix(options_.job.seed, static_cast<uint64_t>(work.key.epoch)),
                              static_cast<uint64_t>(work.key.begin))};
  for (size_t t = 0; t < work.rows.size(); ++t) {
    in.tables.push_back({.rows = work.rows[t], .position = work.ids[t].position});
  }
  return in;
}

void WorkerLoop::Train(const std::shared_ptr<Work>& shared) {
  Work& work = *shared;
  const absl::Time begin = options_.clock->Now();
  if (work.key.begin == work.task.begin && work.refused == 0) trainer_.OnTaskBegin(work.task.epoch);
  const absl::Status status =
      work.batch.rows > 0 ? trainer_.Step(InputOf(work), &out_) : absl::OkStatus();
  work.compute = options_.clock->Now() - begin;
  {
    MutexLock lock(mu_);
    Enter(Activity::kOther);
    if (!status.ok()) {
      GiveUp(work.task.id,
             absl::Status(status.code(),
                          absl::StrCat("records from ", train_.source->Locate(work.task.begin),
                                       ": ", status.message(), Remedy(status))));
    } else if (work.batch.rows > 0) {
      losses_.Add(out_.loss);
    }
  }
  if (status.ok()) Push(shared);
  if (absl::IsOutOfRange(status)) PushNotFinite(shared);
}

PushRequest WorkerLoop::PushOf(const Work& work) {
  PushRequest request = {.key = work.key,
                         .worker = options_.id,
                         .view = control_->view(),
                         .rate = work.task.rate,
                         .records = static_cast<int64_t>(work.batch.rows),
                         .round = work.task.round,
                         .rounds = work.task.rounds};
  request.pulled = work.steps;
  return request;
}

void WorkerLoop::Send(const PushRequest& request, const std::shared_ptr<Work>& work) {
  {
    MutexLock lock(mu_);
    ++pushing_[work->task.id];
  }
  client_->Push(request, [this, work](const absl::StatusOr<PushOutcome>& outcome) {
    Acknowledged(work, outcome);
  });
}

// The model found what is not finite before there was a gradient to push. One server is to refuse
// it all the same, and so to count it where somebody looks.
void WorkerLoop::PushNotFinite(const std::shared_ptr<Work>& work) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  PushRequest request = PushOf(*work);
  request.pulled = {};
  std::vector<float> gradient(work->dense.size());
  if (!gradient.empty()) {
    gradient[0] = kNaN;
    request.dense = gradient;
    return Send(request, work);
  }
  request.tables.resize(work->ids.size());
  for (size_t t = 0; t < work->ids.size(); ++t) {
    if (work->ids[t].ids.empty()) continue;
    gradient.assign(static_cast<size_t>(trainer_.signature().tables[t].dim), kNaN);
    request.tables[t] = {.ids = absl::MakeSpan(work->ids[t].ids).subspan(0, 1),
                         .gradients = gradient};
    return Send(request, work);
  }
}

void WorkerLoop::Push(const std::shared_ptr<Work>& shared) {
  Work& work = *shared;
  PushRequest request = PushOf(work);
  if (work.batch.rows > 0) {
    std::vector<absl::Span<float>> gradient = {absl::MakeSpan(out_.dense_gradient)};
    for (auto& table : out_.table_gradients) gradient.push_back(absl::MakeSpan(table));
    ClipGradient(optimizer_, gradient);
    request.dense = out_.dense_gradient;
    for (size_t t = 0; t < work.ids.size(); ++t) {
      request.tables.push_back({.ids = work.ids[t].ids, .gradients = out_.table_gradients[t]});
    }
  }
  Send(request, shared);
}

void WorkerLoop::Evaluate(Work& work) {
  std::vector<float> scores;
  const absl::Status status =
      work.batch.rows > 0 ? trainer_.Predict(InputOf(work), &scores) : absl::OkStatus();
  MutexLock lock(mu_);
  Enter(Activity::kOther);
  const auto evaluation = evaluations_.find(work.task.id);
  if (evaluation == evaluations_.end()) return;  // Lost meanwhile.
  if (!status.ok()) {
    GiveUp(work.task.id, status);
    return;
  }
  if (work.batch.rows > 0) {
    evaluation->second.Add(work.batch, scores, trainer_.Metrics(work.batch, scores));
  }
  window_.Applied(work.key);
  SendCommits();
}

// ---- after the push ----------------------------------------------------------------------------

void WorkerLoop::Acknowledged(const std::shared_ptr<Work>& work,
                              const absl::StatusOr<PushOutcome>& outcome) {
  const BatchKey& key = work->key;
  MutexLock lock(mu_);
  if (--pushing_[TaskId(key.task)] == 0) pushing_.erase(TaskId(key.task));
  if (outcome.ok() && *outcome == PushOutcome::kFenced) {
    fenced_ = true;
    why_ = "a server refused a push: this worker is no longer in the view";
  } else if (lost_.contains(work->task.lease)) {
    // The same batch may be under way again by a new lease, to which this is no answer: a server
    // that took it may have lost it since.
    if (outcome.ok() && *outcome == PushOutcome::kDuplicate) time_.Redone(work->compute);
  } else if (!outcome.ok()) {
    if (!absl::IsCancelled(outcome.status())) GiveUp(TaskId(key.task), outcome.status());
  } else if (*outcome == PushOutcome::kStale) {
    time_.Redone(work->compute);
    Refused(work);
  } else {
    if (*outcome == PushOutcome::kDuplicate) time_.Redone(work->compute);
    window_.Applied(key);
    SendCommits();
  }
  changed_.NotifyAll();
}

// Computed again from newer weights: here and at once, if only this batch was late (mode async).
// A worker that is late with it twice leaves it to whoever leases it next; and in the other modes
// it takes a lease to know what newer weights are.
void WorkerLoop::Refused(const std::shared_ptr<Work>& work) {
  if (lost_.contains(work->task.lease) || failing_.contains(work->task.id)) return;
  if (options_.job.mode == "async" && ++work->refused == 1) {
    work->pulled = false;
    again_.push_back(work);
    return;
  }
  Drop(work->task.id);
  control_->HandBack(work->task.id);
}

void WorkerLoop::SendCommits() {
  for (const PushWindow::Commit& commit : window_.TakeCommits()) {
    CommitRequest request = {
        .task = commit.task, .lease = leases_[commit.task], .upto = commit.upto};
    const auto evaluation = evaluations_.find(commit.task);
    if (evaluation != evaluations_.end()) {
      if (!commit.finished) continue;  // An evaluation counts whole or not at all.
      request.sums = evaluation->second.sums();
      evaluations_.erase(evaluation);
    }
    TellSkipped(&request);
    control_->Commit(std::move(request));
  }
}

void WorkerLoop::TellSkipped(CommitRequest* request) {
  const auto skipped = skipped_.find(request->task);
  if (skipped == skipped_.end()) return;
  auto& batches = skipped->second;  // By where they begin.
  while (!batches.empty() && batches.begin()->first < request->upto) {
    const SkippedRows& rows = batches.begin()->second;
    request->bad_rows += rows.count;
    for (const std::string& row : rows.named) {
      if (request->bad_rows_named.size() == SkippedRows::kNamedMax) break;
      request->bad_rows_named.push_back(row);
    }
    batches.erase(batches.begin());
  }
  if (batches.empty()) skipped_.erase(skipped);
}

void WorkerLoop::Drop(TaskId task) {
  // By lease, so that the same task leased anew is not taken for the lost one.
  if (const auto lease = leases_.find(task); lease != leases_.end()) lost_.insert(lease->second);
  window_.Drop(task);
  evaluations_.erase(task);
  skipped_.erase(task);
  changed_.NotifyAll();
}

void WorkerLoop::GiveUp(TaskId task, const absl::Status& why) {
  failing_.emplace(task, why);
  changed_.NotifyAll();
}

void WorkerLoop::FlushFailures() {
  for (auto it = failing_.begin(); it != failing_.end();) {
    const TaskId task = it->first;
    if (pushing_.contains(task)) {  // What is on its way to the servers shall count first.
      ++it;
      continue;
    }
    std::fprintf(stderr, "%s failed: %s\n", task.ToString().c_str(),
                 std::string(it->second.message()).c_str());
    Drop(task);
    control_->Fail({.task = task,
                    .error = std::string(it->second.message()),
                    .not_finite = absl::IsOutOfRange(it->second)});
    it = failing_.erase(it);
  }
}

void WorkerLoop::Leave() {
  control_->StopLeasing();
  // What is opened is computed, pushed and acknowledged; what was only read is given back.
  while (true) {
    OpenAgain();
    if (const std::shared_ptr<Work> work = NextPulled()) Handle(work);
    MutexLock lock(mu_);
    ready_.clear();
    changed_.NotifyAll();
    if (fenced_) return;
    FlushFailures();
    if (opened_.empty() && window_.inflight() == 0) break;
  }
  reader_.join();
  control_->ReleaseAll();
  // The master may be away for a moment; what was applied must still be told.
  const absl::Time until = options_.clock->Now() + absl::Seconds(5);
  while (!control_->Settled() && options_.clock->Now() < until) {
    MutexLock lock(mu_);
    if (fenced_) return;
    changed_.WaitFor(mu_, absl::Milliseconds(5));
  }
}

// ---- time --------------------------------------------------------------------------------------

void WorkerLoop::Enter(Activity activity) { time_.Enter(activity, options_.clock->Now()); }

void WorkerLoop::WaitAs(Activity activity, absl::Duration patience) {
  Enter(activity);
  changed_.WaitFor(mu_, patience);
  Enter(Activity::kOther);
}

WorkerHeartbeat WorkerLoop::Describe() {
  std::optional<DataAway> away = train_.away();
  if (!away.has_value()) away = validation_.away();
  MutexLock lock(mu_);
  WorkerHeartbeat beat = {.spent = time_.Spent(options_.clock->Now()), .away = std::move(away)};
  losses_.TakeInto(&beat);
  return beat;
}

}  // namespace rubato

#include "rubato/roles/group_loop.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/job/advice.h"
#include "rubato/params/optimizer.h"
#include "rubato/roles/exit_codes.h"

namespace rubato {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(100);  // To look at the master's wishes.
constexpr absl::Duration kLeavePatience = absl::Seconds(5);
constexpr int kLeaveSteps = 3;  // The one under way, the one that all are asked at, one to spare.
constexpr absl::Duration kIdle = absl::Milliseconds(2);  // Between two steps at rest.
constexpr absl::Duration kBeatAtRest = absl::Milliseconds(10);
constexpr absl::Duration kRetry = absl::Milliseconds(100);  // After a step that failed.

// The group's rows are counted by all together; the master says when there are too many bad ones.
TaskReader::Options ReaderOptions(const JobSpec& job, const Trainer& trainer) {
  return {.seed = job.seed,
          .batch_size = job.batch_size,
          .shuffle_buffer = job.shuffle.buffer,
          .skip_bad_rows = job.data.bad_rows == "skip",
          .score_width = trainer.score_width()};
}

WireFormat WireOf(const std::string& name) {
  if (name == "bf16") return WireFormat::kBf16;
  return name == "fp16" ? WireFormat::kFp16 : WireFormat::kFp32;
}

BatchRule BatchRuleOf(const std::string& name) {
  if (name == "linear") return BatchRule::kLinear;
  return name == "sqrt" ? BatchRule::kSquareRoot : BatchRule::kKeep;
}

GroupNetwork NetworkOf(const std::string& name) {
  if (name == "lan") return GroupNetwork::kLan;
  return name == "wan" ? GroupNetwork::kWan : GroupNetwork::kLoopback;
}

}  // namespace

GroupLoop::GroupLoop(const GroupLoopOptions& options, Trainer& trainer, Readable train,
                     Readable validation)
    : options_(options),
      trainer_(trainer),
      train_(train),
      validation_(validation),
      plan_(PlanOf(options.job, train.records(), validation.records())),
      microbatches_(static_cast<int>(MicrobatchesOf(options.job))),
      stream_(trainer.signature(),
              options.job.allreduce.deterministic ? 0 : options.job.allreduce.bucket_bytes),
      reader_(*train.source, *train.parser, ReaderOptions(options.job, trainer)),
      orders_(options.orders),
      time_(options.clock->Now()) {
  if (options.master.empty()) own_.emplace(JobDirectory(options.directory), options.job.checkpoint);
  if (validation.source != nullptr) {
    const auto group = FindGroup(train.parser->shape(), options.job.evaluate.group);
    evaluator_ = std::make_unique<GroupEvaluator>(trainer, *validation.source, *validation.parser,
                                                  ReaderOptions(options.job, trainer),
                                                  group.value_or(GroupColumn()));
  }
}

GroupLoop::~GroupLoop() { CloseGroup(); }

void GroupLoop::CloseGroup() {
  {
    MutexLock lock(obey_mu_);
    obeying_ = nullptr;
  }
  group_.reset();
  courier_.reset();
  doubts_ = StepsInDoubt();  // What a generation loses the master counts.
  partings_ = 0;
  last_signs_.clear();
}

absl::Status GroupLoop::Register() {
  if (options_.master.empty()) return absl::OkStatus();
  control_ = std::make_unique<WorkerControl>(
      WorkerControl::Options{.master = options_.master,
                             .id = options_.id,
                             .version = options_.version,
                             .heartbeat = options_.job.elastic.heartbeat,
                             .tasks_ahead = 1,
                             .lease = false,
                             .describe = [this] { return Describe(); },
                             .on_view = [](const View&) {},
                             .on_reply =
                                 [this](const HeartbeatReply& reply) {
                                   MutexLock lock(mu_);
                                   if (reply.group.has_value()) orders_ = *reply.group;
                                   checkpoint_wanted_ = reply.checkpoint_wanted;
                                   changed_.NotifyAll();
                                 },
                             .on_lost =
                                 [this](TaskId task, int64_t) {
                                   if (evaluator_) evaluator_->Lost(task);
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
                                   fenced_ = std::move(why);
                                   changed_.NotifyAll();
                                 }});
  return control_->Start(options_.stop);
}

absl::Status GroupLoop::MakeReplica(const GroupOrders& orders) {
  const JobSpec& job = options_.job;
  // Who resumes a job may raise workers.max, by which tasks were cut when it began.
  if (orders.batches_per_task > 0) {
    TaskPlanOptions plan = plan_.options();
    plan.batches_per_task = orders.batches_per_task;
    plan_ = TaskPlan(plan);
  }
  // A newcomer's is overwritten by what it copies.
  RUBATO_ASSIGN_OR_RETURN(
      Replica replica,
      Replica::Make({.optimizer = trainer_.optimizer(job.optimizer),
                     .batch_size = job.batch_size,
                     .batch_rule = BatchRuleOf(job.allreduce.batch_rule),
                     .batch_warmup = job.allreduce.batch_warmup,
                     .pause_every = evaluator_ || !control_ ? job.evaluate.every_steps : 0,
                     .lower_rate = job.evaluate.lower_rate},
                    plan_, trainer_.InitialDense(job.seed)));
  replica_.emplace(std::move(replica));
  if (!orders.found || orders.restore.empty()) return absl::OkStatus();
  return Restore(orders.restore);
}

absl::Status GroupLoop::OpenGroup(const GroupOrders& orders) {
  const JobSpec& job = options_.job;
  CloseGroup();
  marks_.clear();
  saver_.Drop();
  RUBATO_RETURN_IF_ERROR(MakeReplica(orders));
  GroupOptions group;
  group.listen = options_.listen;
  group.join = orders.join;
  group.lease = job.elastic.lease;
  if (control_) {
    courier_ = std::make_unique<ViewCourier>(
        ViewCourier::Options{.master = options_.master,
                             .worker = options_.id,
                             .generation = orders.generation,
                             .deliver = [this](const ViewOrder& order) {
                               MutexLock lock(obey_mu_);
                               if (obeying_ != nullptr) obeying_->Obey(order);
                             }});
    group.report = [this](const ViewReport& report) { courier_->Send(report); };
    group.report_period = job.elastic.lease / 4;
    group.first_step = orders.found ? 0 : -1;
    group.on_change = [this](const GroupView&) {
      CountLostWait();
      NoteLastSigns();
    };
  } else {
    group.on_change = [this](const GroupView& view) {
      CountLostWait();
      EnterView(view);
    };
    group.on_parting = [this](const Parting& parting) { TellParting(parting); };
  }
  group.name = options_.group;
  group.secret = options_.secret;
  group.encrypt = job.allreduce.encrypt;
  group.contract = options_.contract;
  if (control_) absl::StrAppend(&group.contract, "generation: ", orders.generation, "\n");
  group.network = NetworkOf(job.allreduce.network);
  group.quorum = job.allreduce.quorum == "any" ? Quorum::kAny : Quorum::kMajority;
  group.wire = WireOf(job.allreduce.wire);
  group.microbatches = microbatches_;
  // What leaves this loop is committed(). Who chose to train on while one worker lives shall not
  // have to copy the state from one of few.
  group.early_apply = control_ != nullptr || group.quorum == Quorum::kMajority;
  group.verdict_timeout = absl::Seconds(1);
  group.state = replica_->State();
  group.kept_bytes_max = job.allreduce.kept_bytes;
  group.kept_folder = options_.directory;
  group.apply = [this] { replica_->Apply(); };
  RUBATO_ASSIGN_OR_RETURN(group_, ElasticGroup::Open(std::move(group)));
  if (control_) {
    MutexLock lock(obey_mu_);
    obeying_ = group_.get();
  }
  generation_ = orders.generation;
  seen_ = options_.clock->Now();
  if (!control_) BeginRecord(orders);
  MutexLock lock(mu_);
  report_.generation = generation_;
  report_.address = group_->address();
  report_.holds = orders.found;
  report_.steps = replica_->steps();
  report_.records = replica_->records();
  report_.checksum = 0;
  report_.change = {};
  return absl::OkStatus();
}

absl::StatusOr<int> GroupLoop::Run() {
  absl::StatusOr<int> result = Work();
  if (chronicle_.has_value()) EndRecord(result);
  return result;
}

absl::StatusOr<int> GroupLoop::Work() {
  const absl::Status registered = Register();
  if (absl::IsCancelled(registered)) return kRoleDone;
  if (absl::IsFailedPrecondition(registered)) {
    std::fprintf(stderr, "the master does not want this worker: %s\n",
                 std::string(registered.message()).c_str());
    return kRoleFenced;
  }
  RUBATO_RETURN_IF_ERROR(registered);
  absl::Time leaving_since = absl::InfiniteFuture(), leave_by = absl::InfiniteFuture();
  bool left = false;
  while (options_.clock->Now() < leave_by) {
    GroupOrders orders;
    bool leaving = false;
    {
      MutexLock lock(mu_);
      if (options_.stop()) leaving_ = true;
      if (fenced_.has_value()) {
        std::fprintf(stderr, "fenced: %s\n", fenced_->c_str());
        return kRoleFenced;
      }
      if (orders_.over) break;
      orders = orders_;
      leaving = leaving_;
      if (group_ == nullptr && leaving) break;
      if (group_ == nullptr && orders.generation <= generation_) {
        changed_.WaitFor(mu_, kPatience);
        continue;
      }
    }
    if (orders.generation > generation_) {
      const absl::Status opened = OpenGroup(orders);
      if (control_ && TellUnreadable(orders, opened)) continue;
      RUBATO_RETURN_IF_ERROR(opened);
      if (control_) control_->BeatNow();
    }
    if (leaving && leave_by == absl::InfiniteFuture()) {
      leaving_since = options_.clock->Now();
      leave_by = leaving_since + kLeavePatience;
      StopEvaluating();
      if (group_->view().size() <= 1) break;
      group_->Leave();
    }
    const absl::Time began = options_.clock->Now();
    RUBATO_ASSIGN_OR_RETURN(const Outcome outcome, TakeStep());
    // Whoever goes before the others have agreed to it is a loss to them.
    const absl::Duration took = options_.clock->Now() - began;
    leave_by = std::max(leave_by, leaving_since + kLeaveSteps * took);
    left = outcome == Outcome::kLeft;
    if (left) break;
    const Ending ending = control_ ? Ending::kGoOn : EndingOf(StandingAlone());
    if (ending == Ending::kStopped) {
      ending_ = "all is trained, but whether the others have the same is not known";
      break;
    }
    if (ending == Ending::kGoOn) continue;
    if (ending != Ending::kDone) return EndWithout(ending);
    RUBATO_RETURN_IF_ERROR(FinishAlone());
    trainer_.OnTrainEnd();
    return kRoleDone;
  }
  StopEvaluating();
  if (!control_) return StopAlone(left);
  trainer_.OnTrainEnd();
  return kRoleDone;
}

// ---- one step ----------------------------------------------------------------------------------

absl::StatusOr<GroupLoop::Outcome> GroupLoop::TakeStep() {
  Enter(Activity::kRebuild);
  const absl::StatusOr<StepPlan> plan = group_->BeginStep(kPatience);
  if (absl::IsDeadlineExceeded(plan.status())) {
    if (control_) return Outcome::kGoOn;
    SayWhyItWaits(plan.status());
    ShowSometimes();
    RUBATO_RETURN_IF_ERROR(CheckPatience(plan.status()));
    return Outcome::kGoOn;
  }
  if (absl::IsCancelled(plan.status())) return Outcome::kLeft;
  RUBATO_RETURN_IF_ERROR(plan.status());
  seen_ = options_.clock->Now();
  SettleDoubts();
  AtBoundary(*plan);
  const absl::StatusOr<bool> training = TrainingNext();
  if (absl::IsAborted(training.status())) return Outcome::kGoOn;
  RUBATO_RETURN_IF_ERROR(training.status());
  replica_->BeginStep();
  stream_.Begin(*replica_, *group_);
  quota_ = plan->quota;
  attempt_ = plan->step;
  if (options_.job.allreduce.deterministic) canonical_.emplace(microbatches_, quota_.begin);
  computed_ = absl::ZeroDuration();
  computed_positions_ = 0;
  if (!*training) {
    group_->DoNotMeasure();
    Rest();
  } else if (plan->quota.size() > 0) {
    StopEvaluating();
    Compute(*plan);
  }
  CastVotes();
  Enter(Activity::kWait);
  sums_since_ = options_.clock->Now();
  const absl::Status summed = Sum(*training);
  if (!summed.ok() && !absl::IsAborted(summed)) return summed;
  bool applied = false;
  // Only who has applied the last step votes so, and all who sum with it have that step, or copy.
  if (summed.ok() && !control_ && replica_->Votes()[Replica::kRest] > 0) told_ = true;
  if (summed.ok()) {
    seen_ = options_.clock->Now();  // A step may take longer than anybody is waited for.
    RUBATO_ASSIGN_OR_RETURN(applied, Commit());
  }
  if (applied) sums_since_ = absl::InfiniteFuture();
  if (applied && *training && !group_->learning()) {
    if (replica_->overflowed()) {
      SayFailed(absl::OutOfRangeError(
          "the sum of all gradients has an infinity in it, where none of them has; with "
          "`allreduce: {wire: fp16}` it must stay below 65504: try bf16, or a smaller batch_size"));
    }
    if (replica_->failed()) {
      CountRedone({computed_, computed_positions_});
      return FailedAgain();
    }
    failures_ = {};
    if (!control_) NoteLoss(replica_->loss());
  }
  if (applied && *training && quota_.size() > 0) WatchPace();
  Account(plan->step, applied);
  return Outcome::kGoOn;
}

// What comes last carries the group's own votes, so that nobody waits for them.
absl::Status GroupLoop::Sum(bool training) {
  if (!training) return SumVotes();
  if (canonical_.has_value()) {
    RUBATO_RETURN_IF_ERROR(group_->AllreduceCanonical(*canonical_, replica_->Gradient()));
    return SumVotes();
  }
  if (stream_.used()) {
    stream_.StartRest();
    return SumVotes();
  }
  if (options_.job.allreduce.wire == "fp32") return group_->AllreduceLast(replica_->Sum());
  RUBATO_RETURN_IF_ERROR(group_->Allreduce(replica_->Gradient()));
  return SumVotes();
}

absl::Status GroupLoop::SumVotes() { return group_->AllreduceLastExactly(replica_->Votes()); }

// A newcomer cannot know what kind of step the others take; while there is one, they say so.
absl::StatusOr<bool> GroupLoop::TrainingNext() {
  const bool mine = replica_->phase() == Replica::Phase::kTraining;
  const GroupView view = group_->view();
  if (view.holders == view.size()) return mine;
  kind_ = mine && !group_->learning() ? 1 : 0;
  Enter(Activity::kWait);
  RUBATO_RETURN_IF_ERROR(group_->Allreduce({&kind_, 1}));
  return kind_ > 0;
}

absl::StatusOr<bool> GroupLoop::Commit() {
  while (true) {
    const absl::StatusOr<bool> applied = group_->Commit();
    if (!absl::IsDeadlineExceeded(applied.status())) return applied;
    MutexLock lock(mu_);  // Nobody else can be reached: for how long, the master decides.
    if (fenced_.has_value() || orders_.over || orders_.generation > generation_) return false;
    if (leaving_ || options_.stop()) return false;
    // Without a master the others go when they have all; what is left to agree on are votes.
    if (!control_ && replica_->phase() == Replica::Phase::kEnded) return false;
    if (!control_ && EndingOf(StandingAlone()) != Ending::kGoOn) return false;
  }
}

void GroupLoop::Compute(const StepPlan& plan) {
  const PlanRange step = replica_->NextStep(plan.computing);  // As kWorkers will be.
  absl::Status status;
  if (canonical_.has_value()) {
    for (int leaf = plan.quota.begin; leaf < plan.quota.end && status.ok(); ++leaf) {
      status = ComputeRun(step, {leaf, leaf + 1});
    }
  } else {
    status = ComputeRun(step, plan.quota);
  }
  Enter(Activity::kOther);
  if (status.ok()) return;
  // The step counts for nobody, and begins again. What went into the group's sum stays there.
  const absl::Span<float> votes = replica_->Votes();
  std::fill(votes.begin(), votes.end(), 0.0f);
  if (canonical_.has_value()) {
    canonical_.emplace(microbatches_, quota_.begin);
    for (int i = 0; i < quota_.size(); ++i) canonical_->Add(replica_->Gradient());
  }
  replica_->Vote(Replica::kFailed);
  SayFailed(status);
}

void GroupLoop::SayFailed(const absl::Status& status) {
  const std::string error(status.message());
  if (control_) {
    std::fprintf(stderr, "step %d failed: %s\n", static_cast<int>(replica_->steps() + 1),
                 error.c_str());
    control_->Fail({.error = error, .attempt = attempt_});
  } else {
    Record("step_failed",
           {{"worker", chronicle_->self()}, {"what", absl::StrCat("step ", replica_->steps() + 1)}},
           error);
  }
  if (failures_.first.empty()) failures_.first = error;
  absl::SleepFor(kRetry);
}

absl::Status GroupLoop::ComputeRun(const PlanRange& step, Quota run) {
  const Interval positions = {MicrobatchOf(step, run.begin, microbatches_).begin,
                              MicrobatchOf(step, run.end - 1, microbatches_).end};
  if (positions.begin == positions.end) {
    if (canonical_.has_value()) canonical_->Add(replica_->Gradient());  // Zeros.
    return absl::OkStatus();
  }
  Enter(Activity::kRead);
  RUBATO_RETURN_IF_ERROR(reader_.ReadPositions(step.task, positions, &batch_));
  Enter(Activity::kUseful);
  const absl::Time begin = options_.clock->Now();
  const int64_t rows = batch_.rows;
  if (rows > 0) {
    const uint64_t epoch_seed = Mix(options_.job.seed, static_cast<uint64_t>(step.task.epoch));
    absl::Status stepped =
        trainer_.Step({.batch = &batch_,
                       .dense = replica_->weights(),
                       .seed = Mix(epoch_seed, static_cast<uint64_t>(positions.begin)),
                       .watch = stream_.used() ? stream_.Watch(out_, rows) : nullptr},
                      &out_);
    if (stepped.ok() && !AllFinite(out_.dense_gradient)) {
      stepped = absl::OutOfRangeError("the gradient has a NaN or an infinity in it");
    }
    if (!stepped.ok()) {
      computed_ += options_.clock->Now() - begin;  // It took as long, in vain.
      return stepped;
    }
  }
  const PlanRange taken = {step.task, positions.begin, positions.end};
  if (stream_.used()) {
    replica_->Count(rows, taken, out_.loss);
  } else if (canonical_.has_value()) {
    replica_->Count(rows, taken, out_.loss);
    // Of no rows: zeros.
    const float weight = static_cast<float>(rows);
    for (float& value : out_.dense_gradient) value *= weight;
    canonical_->Add(rows > 0 ? absl::MakeConstSpan(out_.dense_gradient) : replica_->Gradient());
  } else {
    replica_->Add(out_.dense_gradient, rows, taken, out_.loss);
  }
  computed_ += options_.clock->Now() - begin;
  computed_positions_ += taken.size();
  if (rows == 0) return absl::OkStatus();
  MutexLock lock(mu_);
  losses_.Add(out_.loss);
  return absl::OkStatus();
}

void GroupLoop::CastVotes() {
  if (group_->learning()) return;
  replica_->Vote(Replica::kWorkers);
  MutexLock lock(mu_);
  // Without a master nobody else tells those who have yet to copy the model.
  const bool ended = !control_ && replica_->phase() == Replica::Phase::kEnded;
  if (orders_.rest || ended) replica_->Vote(Replica::kRest);
  if (orders_.evaluated >= replica_->steps()) replica_->VoteResume(orders_.lowered);
}

// ---- between steps -----------------------------------------------------------------------------

void GroupLoop::AtBoundary(const StepPlan& plan) {
  const int64_t committed = group_->committed();
  // One that has caught up is as good as the others only once the view says so.
  if (group_->learning() || plan.rank >= group_->view().holders) {
    marks_.clear();
    saver_.Drop();
    if (!control_) {  // It lives through what happens to the others all the same.
      TellChange();
      ShowSometimes();
    }
    MutexLock lock(mu_);
    report_.holds = false;
    report_.checksum = 0;
    return;
  }
  if (marks_.empty() || marks_.back().group_step != group_->step()) {
    marks_.push_back({group_->step(), replica_->steps(), replica_->records(),
                      replica_->records_wrong(), replica_->bad_rows()});
  }
  while (marks_.size() > 1 && marks_[1].group_step <= committed) marks_.pop_front();
  saver_.Committed(committed);
  SaveAtBoundary(plan);
  TellProgress();
  TellChange();
  if (control_) return;
  BeginTraining();
  ShowSometimes();
}

void GroupLoop::Rest() {
  if (control_ && evaluator_ && !group_->learning()) {
    Enter(Activity::kUseful);
    if (evaluator_->Go(*control_, replica_->weights())) return;
  }
  if (!control_ && !group_->learning() && replica_->phase() == Replica::Phase::kPaused) {
    return EvaluateAlone();
  }
  Enter(Activity::kWait);
  const absl::Time now = options_.clock->Now();
  if (control_ && now - beaten_ > kBeatAtRest) {
    control_->BeatNow();  // The master's answer is what all wait for.
    beaten_ = now;
  }
  absl::SleepFor(kIdle);
}

void GroupLoop::StopEvaluating() {
  if (control_ && evaluator_) evaluator_->Stop(*control_);
}

}  // namespace rubato

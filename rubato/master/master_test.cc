// The life of a job: it starts, is scaled, evaluated, checkpointed, stopped, and ends.
#include "rubato/master/master.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"

namespace rubato {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Verdict = LeaseReply::Verdict;

TEST(MasterTest, AJobRunsFromLaunchToDone) {
  FakeJob job;
  EXPECT_EQ(job.master->state(), JobState::kStarting);
  EXPECT_THAT(job.TakeLaunched(Role::kServer), SizeIs(2));
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(2));
  job.JoinServers();
  EXPECT_TRUE(job.JoinWorker(0).accepted);
  EXPECT_TRUE(job.JoinWorker(1).accepted);

  for (int64_t i = 0; i < 4; ++i) {
    const LeaseReply lease = job.Lease(i % 2);
    ASSERT_EQ(lease.verdict, Verdict::kTask);
    EXPECT_TRUE(job.Commit(i % 2, lease.task, lease.task.begin + 5).held);
    EXPECT_TRUE(job.Commit(i % 2, lease.task, lease.task.end).held);
    EXPECT_FALSE(job.Commit(i % 2, lease.task, lease.task.end).held);  // Asked twice.
  }
  EXPECT_EQ(job.Lease(0).verdict, Verdict::kWait);  // Until the last checkpoint is written.
  job.WriteCheckpoint();
  EXPECT_EQ(job.master->state(), JobState::kDone);
  EXPECT_THAT(job.manifests, SizeIs(1));
  EXPECT_THAT(job.manifests[0].contents, HasSubstr("\"step\": 8"));
  EXPECT_EQ(job.Lease(0).verdict, Verdict::kDone);
  EXPECT_EQ(job.Beat(1).directive, Directive::kLeave);
  EXPECT_THAT(job.signalled, SizeIs(4));

  EXPECT_FALSE(job.finished.has_value());
  for (int64_t id : {0, 1}) job.Exit(Role::kWorker, id, 1, 0, 0);
  for (int64_t id : {0, 1}) job.Exit(Role::kServer, id, 1, 0, 0);
  ASSERT_TRUE(job.finished.has_value());
  EXPECT_EQ(job.finished->state, JobState::kDone);
  const Snapshot result = job.master->snapshot();
  EXPECT_EQ(result.steps, 8);
  EXPECT_EQ(result.records_committed, 40);
  EXPECT_EQ(result.records_expected, 40);
  EXPECT_EQ(result.records_repeated, 0);
  EXPECT_EQ(result.workers_lost + result.servers_lost, 0);
}

TEST(MasterTest, TheJobFailsIfAServerDoesNotHaveWhatWasCommitted) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  job.WorkOff(0);
  job.disks[1][0] = IntervalSet();
  job.disks[1][0].Add(0, 35);
  job.WriteCheckpoint();
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error, HasSubstr("server-1 lacks 5 records"));
  EXPECT_EQ(job.master->snapshot().records_repeated, 5);
}

TEST(MasterTest, AnswersThatWereLostAreGivenAgain) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  const LeaseReply first = job.Lease(0);
  const LeaseReply again = job.Lease(0);  // The worker never saw the first answer.
  EXPECT_EQ(again.task, first.task);
  const LeaseReply ahead = job.Lease(0, {first.task.id});  // It did, and reads ahead.
  EXPECT_EQ(ahead.verdict, Verdict::kTask);
  EXPECT_NE(ahead.task.id, first.task.id);
  EXPECT_EQ(job.Lease(0, {first.task.id, ahead.task.id}).verdict, Verdict::kWait);
}

TEST(MasterTest, NobodyReadsAheadWhileOthersHaveNothing) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  job.JoinWorker(1);
  const Task first = job.Lease(0).task;
  job.Lease(0, {first.id});
  EXPECT_EQ(job.master->ledger().available(), 2);  // One for each of the two workers.
  const Task other = job.Lease(1).task;
  EXPECT_EQ(job.Lease(1, {other.id}).verdict, Verdict::kWait);
}

TEST(MasterTest, ScalingStaysWithinMinAndMaxAndSaysWhy) {
  FakeJob job;
  job.TakeLaunched(Role::kWorker);
  EXPECT_FALSE(job.Done(job.master->Scale({.workers = 4}, job.now)).accepted);
  const ScaleReply reply = job.Done(job.master->Scale({.workers = 0}, job.now));
  EXPECT_THAT(reply.reason, HasSubstr("workers.min is 1, workers.max 3"));
  EXPECT_EQ(reply.workers_target, 2);
  EXPECT_TRUE(job.Done(job.master->Scale({.workers = 3}, job.now)).accepted);
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));
}

TEST(MasterTest, TheNewestLeaveFirstAndHandBackWhatTheyHold) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task kept = job.Lease(0).task;
  const Task given = job.Lease(1).task;
  job.Done(job.master->Scale({.workers = 1}, job.now));
  ASSERT_THAT(job.signalled, SizeIs(1));
  EXPECT_EQ(job.signalled[0].id, 1);
  EXPECT_EQ(job.Beat(0).directive, Directive::kContinue);
  EXPECT_EQ(job.Beat(1).directive, Directive::kLeave);
  EXPECT_EQ(job.Lease(1, {given.id}).verdict, Verdict::kWait);

  job.Commit(1, given, given.begin + 5, /*release=*/true);
  const Task rest = job.Lease(0, {kept.id}).task;
  EXPECT_EQ(rest.id, given.id);
  EXPECT_EQ(rest.committed, given.begin + 5);
  job.launched.clear();
  job.Exit(Role::kWorker, 1, 1, 0, 0);
  EXPECT_THAT(job.launched, IsEmpty());
  EXPECT_EQ(job.master->snapshot().workers_lost, 0);
}

TEST(MasterTest, OneThatWillNotLeaveIsKilled) {
  FakeJob job;
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  job.Done(job.master->Scale({.workers = 1}, job.now));
  job.signalled.clear();
  for (int i = 0; i < 11; ++i) {
    for (int64_t id : {0, 1}) job.Beat(id);
    job.Pass(absl::Seconds(1));
  }
  ASSERT_THAT(job.signalled, SizeIs(1));
  EXPECT_EQ(job.signalled[0].kind, SignalProcess::Kind::kKill);
  EXPECT_EQ(job.signalled[0].id, 1);
}

TEST(MasterTest, OtherVersionsAndStrangersAreRefused) {
  FakeJob job;
  const RegisterReply other =
      job.Done(job.master->Register({.id = 0, .pid = 1, .version = "2"}, job.now));
  EXPECT_THAT(other.reason, HasSubstr("version 2"));
  EXPECT_THAT(job.JoinWorker(77).reason, HasSubstr("worker-77 is unknown"));
  EXPECT_THAT(job.JoinServer(0, 9).reason, HasSubstr("life 1 now, not 9"));
  EXPECT_FALSE(job.Beat(77).known);
  EXPECT_EQ(job.Lease(1).verdict, Verdict::kUnknown);  // Launched, but not registered yet.
}

TEST(MasterTest, TheEndDoesNotWaitForEverForThoseWhoNeverWere) {
  FakeJob job;
  job.master->Stop(/*checkpoint=*/false, job.now);
  job.Perform();
  for (int64_t id : {0, 1}) job.Exit(Role::kWorker, id, 1, 0, SIGTERM);
  EXPECT_EQ(job.master->state(), JobState::kStopped);
  job.Pass(absl::Seconds(29));  // Of the servers nobody ever hears.
  EXPECT_FALSE(job.finished.has_value());
  job.Pass(absl::Seconds(2));
  EXPECT_TRUE(job.finished.has_value());
}

// ---- evaluation and checkpoints ----------------------------------------------------------------

MasterOptions EvaluatedJob() {
  MasterOptions options = SmallJob();
  options.data.validation = {{"v.tsv", 5}};
  options.job.evaluate.every_steps = 2;
  return options;
}

TEST(MasterTest, EvaluationComesEverySoManyStepsAndAtTheEnd) {
  FakeJob job(EvaluatedJob());
  job.JoinServers();
  job.JoinWorker(0);
  job.sums.AddBinary(0.9f, true);
  job.sums.AddBinary(0.2f, false);
  job.WorkOff(0);
  job.WriteCheckpoint();
  const Snapshot result = job.master->snapshot();
  EXPECT_EQ(result.state, JobState::kDone);
  std::vector<int64_t> steps;
  for (const EvaluationResult& evaluation : result.evaluations) steps.push_back(evaluation.step);
  EXPECT_THAT(steps, ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(result.evaluations.back().metrics.at("auc"), 1.0);
}

// By the clock: once the time is over, and not again before something was trained.
TEST(MasterTest, EvaluationComesByTheClockToo) {
  MasterOptions options = EvaluatedJob();
  options.job.evaluate.every_steps = 0;
  options.job.evaluate.every = absl::Milliseconds(800);
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  job.sums.AddBinary(0.9f, true);
  // What is leased next, after so much time; it is worked off.
  const auto next = [&](absl::Duration later) {
    job.Pass(later);
    const LeaseReply reply = job.Lease(0);
    EXPECT_EQ(reply.verdict, Verdict::kTask);
    job.Commit(0, reply.task, reply.task.end);
    return reply.task.kind;
  };
  EXPECT_EQ(next(absl::Milliseconds(900)), TaskKind::kTrain);  // Nothing is trained yet.
  EXPECT_EQ(job.causes["evaluation_began"], "evaluate.every");
  EXPECT_EQ(next(absl::ZeroDuration()), TaskKind::kEvaluate);
  EXPECT_EQ(next(absl::Milliseconds(900)), TaskKind::kTrain);  // Since then nothing new is.
  EXPECT_EQ(next(absl::ZeroDuration()), TaskKind::kEvaluate);
  EXPECT_EQ(next(absl::Milliseconds(100)), TaskKind::kTrain);
  EXPECT_EQ(next(absl::Milliseconds(100)), TaskKind::kTrain);
  const Snapshot result = job.master->snapshot();
  ASSERT_THAT(result.evaluations, SizeIs(2));
  EXPECT_EQ(result.evaluations[0].step, 2);
  EXPECT_EQ(result.evaluations[1].step, 4);
}

// One version of the weights is evaluated: first everybody finishes, then nobody trains.
TEST(MasterTest, TrainingRestsWhileTheModelIsEvaluated) {
  FakeJob job(EvaluatedJob());
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task first = job.Lease(0).task;
  const Task second = job.Lease(1).task;
  job.Commit(0, first, first.end);
  EXPECT_EQ(job.Lease(0).verdict, Verdict::kWait);  // Due, and the other still pushes.
  job.Commit(1, second, second.end);
  std::vector<Task> tasks;
  for (LeaseReply reply = job.Lease(0); reply.verdict == Verdict::kTask; reply = job.Lease(0)) {
    tasks.push_back(reply.task);
    if (tasks.size() > 1) break;
  }
  ASSERT_THAT(tasks, SizeIs(testing::Ge(1)));
  for (const Task& task : tasks) EXPECT_EQ(task.kind, TaskKind::kEvaluate);
  job.WorkOff(1);  // The rest of the evaluation.
  for (const Task& task : tasks) job.Commit(0, task, task.end);
  EXPECT_EQ(job.Lease(0).task.kind, TaskKind::kTrain);
}

// In rounds the weights that are evaluated are those after whole ones, whenever it is due, and
// whoever dies: a round that is begun is finished first.
TEST(MasterTest, ARoundIsFinishedBeforeTheModelIsEvaluated) {
  MasterOptions options = EvaluatedJob();
  options.job.mode = "sync";
  options.job.rounds.gradients = 4;
  options.job.evaluate.every_steps = 3;
  FakeJob job(options);
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  for (int i = 0; i < 3; ++i) {
    const Task task = job.Lease(0).task;
    job.Commit(0, task, task.end);
  }
  const LeaseReply fourth = job.Lease(1);  // Due, in the middle of a round.
  ASSERT_EQ(fourth.task.kind, TaskKind::kTrain);
  EXPECT_EQ(job.Lease(0).verdict, Verdict::kWait);
  job.KillWorker(1);  // With its task, without which the round is not whole.
  const LeaseReply again = job.Lease(0);
  ASSERT_EQ(again.task.id, fourth.task.id);
  EXPECT_EQ(job.fields.count("evaluation_began"), 0u);
  job.Commit(0, again.task, again.task.end);
  EXPECT_EQ(job.Lease(0).task.kind, TaskKind::kEvaluate);
  EXPECT_EQ(job.master->ledger().steps(), 4);
}

// Whoever dies meanwhile, the evaluation comes to its end.
TEST(MasterTest, AWorkerLostWhileTrainingRestsHoldsNobodyUp) {
  FakeJob job(EvaluatedJob());
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task first = job.Lease(0).task;
  job.Lease(1);
  job.Commit(0, first, first.end);
  job.KillWorker(1);  // With its task, which is open again and waits.
  const LeaseReply evaluate = job.Lease(0);
  EXPECT_EQ(evaluate.task.kind, TaskKind::kEvaluate);
  job.Commit(0, evaluate.task, evaluate.task.end);
  job.WorkOff(0);
  job.WriteCheckpoint();
  EXPECT_EQ(job.master->state(), JobState::kDone);
}

// The recipe: the rate falls when there is no gain, training stops at the second time in a row, and
// the best version is the job's model.
TEST(MasterTest, LowersTheRateAndKeepsTheBest) {
  MasterOptions options = EvaluatedJob();
  options.job.epochs = 10;
  options.job.evaluate.lower_rate = 0.1;
  options.job.evaluate.stop_after_stalls = 2;
  options.job.evaluate.keep_best = true;
  options.job.checkpoint.keep = 1;
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  const auto evaluate_as = [&](float score_of_positive) {
    job.sums = EvaluationSums();
    job.sums.AddBinary(score_of_positive, true);
    job.sums.AddBinary(0.5f, false);
    LeaseReply reply = job.Lease(0);
    double rate = 1;
    for (; reply.verdict == Verdict::kTask && reply.task.kind == TaskKind::kTrain;
         reply = job.Lease(0)) {
      rate = reply.task.rate;
      job.Commit(0, reply.task, reply.task.end);
    }
    for (; reply.verdict == Verdict::kTask && reply.task.kind == TaskKind::kEvaluate;
         reply = job.Lease(0)) {
      job.Commit(0, reply.task, reply.task.end);
      if (!job.master->snapshot().evaluations.empty() && !job.master->ledger().evaluating()) break;
    }
    return rate;
  };
  EXPECT_EQ(evaluate_as(0.1f), 1);                  // AUC 0: a beginning, and the best so far.
  EXPECT_EQ(job.Lease(0).verdict, Verdict::kWait);  // Until it is saved.
  job.WriteCheckpoint();
  EXPECT_EQ(job.best, 1);
  EXPECT_EQ(evaluate_as(0.9f), 1);  // AUC 1.
  job.WriteCheckpoint();
  EXPECT_EQ(job.best, 2);
  EXPECT_EQ(evaluate_as(0.1f), 1);  // A stall:
  job.Open();                       // (what it means outlives the master)
  job.JoinServers();
  job.JoinWorker(0);
  EXPECT_EQ(evaluate_as(0.1f), 0.1);  // a lower rate, and another stall:
  job.WriteCheckpoint();              // the end.
  const Snapshot result = job.master->snapshot();
  EXPECT_EQ(result.state, JobState::kDone) << result.error;
  EXPECT_THAT(result.evaluations, SizeIs(4));
  EXPECT_EQ(result.best_evaluation, 2);
  EXPECT_EQ(result.best_checkpoint, 2);
  EXPECT_EQ(job.best, 2);
  EXPECT_THAT(job.removed, testing::Not(Contains(2)));  // Though only one is kept besides.
}

TEST(MasterTest, AModelThatGetsNoBetterEndsTheJobEarly) {
  MasterOptions options = EvaluatedJob();
  options.job.evaluate.stop_after_stalls = 1;
  options.job.epochs = 10;
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  job.sums.AddBinary(0.5f, true);
  job.WorkOff(0);
  job.WriteCheckpoint();
  const Snapshot result = job.master->snapshot();
  EXPECT_EQ(result.state, JobState::kDone) << result.error;
  EXPECT_EQ(result.steps, 4);  // Two evaluations, the second no better; what was begun is done.
  EXPECT_EQ(result.records_committed, result.records_expected);
  EXPECT_THAT(job.events, Contains("ended_early"));
}

TEST(MasterTest, CheckpointsCompleteWhenEveryServerHasThemAndOldOnesGo) {
  MasterOptions options = SmallJob();
  options.job.checkpoint = {.every_steps = 2, .keep = 2};
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  for (int64_t version = 1; version <= 3; ++version) {
    const Task task = job.Lease(0).task;
    job.Commit(0, task, task.end);
    EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, version);
    EXPECT_EQ(job.BeatServer(0).checkpoint_base, version - 1);  // Complete on both.
    job.checkpointed = version;
    // The log reaches back to the oldest that is kept, so that a damaged newer one can be done
    // without. While one server of two has the new one, nothing goes.
    EXPECT_EQ(job.BeatServer(0).checkpoint_oldest, version == 1 ? 0 : 1);
    EXPECT_EQ(job.BeatServer(1).checkpoint_oldest, version == 3 ? 2 : 1);
  }
  EXPECT_THAT(job.manifests, SizeIs(3));
  EXPECT_THAT(job.removed, ElementsAre(1));
  EXPECT_THAT(job.kept, ElementsAre(2, 3));
}

// A log that nothing cuts would make the next recovery as long as the job.
TEST(MasterTest, ALongLogMakesACheckpoint) {
  MasterOptions options = SmallJob();
  options.job.checkpoint = {.log_bytes = 1 << 20};
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.end);
  job.log_bytes = {1 << 20, 1 << 20, 5 << 20};  // Nobody is the third server.
  job.BeatServers();
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);
  ++job.log_bytes[1];
  job.BeatServers();
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 1);
  // The one before it overtook the beat in which the server had written it: no other begins.
  job.checkpointed = 1;
  job.log_bytes = {0, 0, 0};
  job.BeatServers();
  EXPECT_THAT(job.causes["checkpoint_complete"],
              HasSubstr("the push log of server 1, 1048577 bytes, passes checkpoint.log_bytes"));
  job.checkpointed = 0;
  job.log_bytes = {0, 2 << 20, 0};
  job.BeatServers();
  // A life without that version does not write over what is there.
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);
  job.checkpointed = 1;
  EXPECT_EQ(job.BeatServer(1).checkpoint_wanted, 2);  // This one is of now.
}

TEST(MasterTest, ALogMayBeOfAnyLength) {
  MasterOptions options = SmallJob();
  options.job.checkpoint = {.log_bytes = 0};
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  job.log_bytes = {int64_t{1} << 50, 0, 0};
  job.BeatServers();
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);
}

TEST(CheckpointsTest, OneOfSoManyIsFull) {
  for (const int64_t full_every : {1, 2, 3, 8}) {
    Checkpoints checkpoints({.every_steps = 2, .keep = 2, .full_every = full_every});
    EXPECT_EQ(checkpoints.base(), 0);
    for (int64_t version = 1; version <= 20; ++version) {
      checkpoints.Begin(version, version * 2, /*last=*/false);
      const bool full = full_every == 1 || version % full_every == 1;
      ASSERT_EQ(checkpoints.base(), full ? 0 : version - 1) << full_every << " " << version;
      checkpoints.Complete(version);
    }
  }
}

// The best one goes with those that were given up: what was evaluated was made after that.
TEST(CheckpointsTest, GoingBackGivesUpNewerOnes) {
  Checkpoints checkpoints({.every_steps = 2, .keep = 3});
  for (const int64_t version : {1, 2, 3}) {
    checkpoints.Begin(version, version * 2, /*last=*/false);
    checkpoints.Complete(version, {.rounds = version == 2 ? -1 : version});
  }
  checkpoints.SetBest(1);
  EXPECT_EQ(checkpoints.OfOneRound(3, 0), 3);
  EXPECT_EQ(checkpoints.OfOneRound(3, 3), 1);
  EXPECT_EQ(checkpoints.OfOneRound(3, 1), std::nullopt);
  checkpoints.GoBack(3, 6);
  EXPECT_EQ(checkpoints.complete(), 3);
  EXPECT_EQ(checkpoints.dropped(), 0);
  checkpoints.SetBest(3);
  checkpoints.GoBack(1, 2);
  EXPECT_THAT(checkpoints.kept(), testing::ElementsAre(1));
  EXPECT_EQ(checkpoints.best(), 0);
  EXPECT_EQ(checkpoints.step(), 2);
  EXPECT_GT(checkpoints.dropped(), 0);
  EXPECT_TRUE(checkpoints.DueInTraining(4));
  checkpoints.Begin(4, 4, /*last=*/false);
  EXPECT_EQ(checkpoints.base(), 0);  // Three is no more.
}

TEST(MasterTest, AStoppedJobGoesOnWhereItWas) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.begin + 5);
  job.master->Stop(/*checkpoint=*/true, job.now);
  job.Perform();
  EXPECT_EQ(job.master->state(), JobState::kStopping);
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);  // Not while somebody may still push.
  job.Commit(0, task, task.begin + 5, /*release=*/true);
  for (int64_t id : {0, 1}) job.Exit(Role::kWorker, id, 1, 0, 0);
  job.WriteCheckpoint();
  EXPECT_EQ(job.master->state(), JobState::kStopped);
  for (int64_t id : {0, 1}) job.Exit(Role::kServer, id, 1, 0, 0);
  EXPECT_EQ(job.finished->state, JobState::kStopped);

  job.options.resume = true;
  job.launched.clear();
  job.Open();
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(2));
  EXPECT_EQ(job.TakeLaunched(Role::kServer).front().incarnation, 2);
  for (int64_t id : {0, 1}) EXPECT_TRUE(job.JoinServer(id, 2).accepted);
  job.JoinWorker(2);
  const Task rest = job.Lease(2).task;
  EXPECT_EQ(rest.id, task.id);
  EXPECT_EQ(rest.committed, task.begin + 5);
}

// Nobody is launched to be sent home again.
TEST(MasterTest, AJobIsResumedWithAsManyWorkersAsAskedFor) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  job.options.resume = true;
  job.options.resume_workers = 1;
  job.launched.clear();
  job.Open();
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));
  EXPECT_EQ(job.causes["worker_launched"], "the job is resumed");
  EXPECT_EQ(job.causes["scaled"], "rubato train --resume --workers");
  EXPECT_FALSE(job.causes.contains("worker_leaving"));
  job.options.resume = false;
  job.Open();
  EXPECT_EQ(job.master->snapshot().workers_target, 1);
}

TEST(MasterTest, AJobThatIsDoneIsNotResumed) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  job.WorkOff(0);
  job.WriteCheckpoint();
  job.options.resume = true;
  const auto records = DecodeJournal(job.journal, "1")->records;
  const auto again = Master::Open(job.options, records, job.now);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("done already"));
}

TEST(MasterTest, AJournalOfAnotherJobIsRefused) {
  FakeJob job;
  const auto records = DecodeJournal(job.journal, "1")->records;
  job.options.job.batch_size = 6;
  const auto other = Master::Open(job.options, records, job.now);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status()));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("batch_size 6"));
}

TEST(MasterTest, WithoutRecordsThereIsNoJob) {
  MasterOptions options = SmallJob();
  options.data.train = {{"empty.tsv", 0}};
  EXPECT_TRUE(absl::IsInvalidArgument(Master::Open(options, {}, absl::UnixEpoch()).status()));
}

}  // namespace
}  // namespace rubato

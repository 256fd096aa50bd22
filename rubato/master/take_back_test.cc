// Servers that come back with less than was committed.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"
#include "rubato/master/master.h"
#include "rubato/master/take_back_testing.h"

namespace rubato {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Verdict = LeaseReply::Verdict;

MasterOptions WithValidation() {
  MasterOptions options = SmallJob();
  options.data.validation = {{"valid.tsv", 10}};
  return options;
}

TEST_F(TakeBackTest, WhatAServerLostIsTrainedAgainAndTheJobIsDone) {
  Begin();
  for (int i = 0; i < 2; ++i) {
    const Task task = job->Lease(0).task;
    job->Commit(0, task, task.end);
  }
  EXPECT_TRUE(Lose(Set(0, 5), "servers/1/push-000001.log: damaged at byte 96").accepted);
  EXPECT_EQ(job->master->state(), JobState::kTraining);
  EXPECT_THAT(job->causes["records_taken_back"],
              AllOf(HasSubstr("server-1 came back without 15 records of epoch 0"),
                    HasSubstr("trained again"), HasSubstr("push-000001.log: damaged at byte 96")));
  Snapshot snapshot = job->master->snapshot();
  EXPECT_EQ(snapshot.records_committed, 5);
  EXPECT_EQ(snapshot.steps, 1);
  EXPECT_EQ(snapshot.records_taken_back, 15);
  const LeaseReply again = job->Lease(0);
  ASSERT_EQ(again.verdict, Verdict::kTask);
  EXPECT_EQ(again.task.committed, 5);
  job->Commit(0, again.task, again.task.end);
  Finish();
  snapshot = job->master->snapshot();
  EXPECT_EQ(snapshot.state, JobState::kDone) << snapshot.error;
  EXPECT_EQ(snapshot.records_committed, snapshot.records_expected);
  EXPECT_EQ(snapshot.records_repeated, 0);
  EXPECT_EQ(snapshot.steps, 8);
}

// Also where nothing was lost by it.
TEST_F(TakeBackTest, DamageIsNamedWhetherOrNotRecordsAreLost) {
  Begin();
  const Task task = job->Lease(0).task;
  job->Commit(0, task, task.end);
  EXPECT_TRUE(Lose(Set(0, task.end), "checkpoints/3/server-1.ckpt: damaged at byte 96").accepted);
  EXPECT_FALSE(job->causes.contains("records_taken_back"));
  EXPECT_EQ(job->causes["damage_found"], "checkpoints/3/server-1.ckpt: damaged at byte 96");
}

// The worker was told by the last life of the server that it has the batch.
TEST_F(TakeBackTest, ACommitOfBeforeDoesNotCount) {
  Begin();
  const Task first = job->Lease(0).task;
  job->Commit(0, first, first.end);
  const Task held = job->Lease(0).task;
  EXPECT_TRUE(Lose(Set(0, 5)).accepted);
  EXPECT_FALSE(CommitBy(held, held.begin + 5).held);
  EXPECT_EQ(job->master->snapshot().records_committed, 5);
  // It drops the task, and is given it again.
  const LeaseReply again = job->Lease(0);
  ASSERT_EQ(again.task.id, held.id);
  EXPECT_GT(again.task.lease, held.lease);
  EXPECT_EQ(again.task.committed, held.begin);
  EXPECT_TRUE(CommitBy(again.task, held.begin + 5).held);
  EXPECT_EQ(job->master->snapshot().records_committed, 10);
}

// Nor if nothing committed was lost: what the last life alone knew of may be.
TEST_F(TakeBackTest, ACommitOfBeforeDoesNotCountWhateverIsLost) {
  Begin();
  const Task held = job->Lease(0).task;
  EXPECT_TRUE(Lose(IntervalSet()).accepted);
  EXPECT_FALSE(CommitBy(held, held.begin + 5).held);
  const Task again = job->Lease(0).task;
  ASSERT_EQ(again.id, held.id);
  EXPECT_TRUE(CommitBy(again, held.begin + 5).held);
}

TEST_F(TakeBackTest, ARestartedMasterKnowsOfIt) {
  Begin();
  const Task first = job->Lease(0).task;
  job->Commit(0, first, first.end);
  const Task held = job->Lease(0).task;
  EXPECT_TRUE(Lose(Set(0, 5)).accepted);
  job->Open();
  EXPECT_EQ(job->master->snapshot().records_committed, 5);
  EXPECT_EQ(job->master->snapshot().records_taken_back, 5);
  EXPECT_FALSE(CommitBy(held, held.end).held);
  Finish();
  EXPECT_EQ(job->master->state(), JobState::kDone) << job->master->snapshot().error;
}

TEST_F(TakeBackTest, AJobThatWasAllButOverGoesOn) {
  Begin(WithValidation());
  for (int i = 0; i < 4; ++i) {
    const Task task = job->Lease(0).task;
    job->Commit(0, task, task.end);
  }
  // The last evaluation and the last checkpoint are under way.
  const Task evaluation = job->Lease(0).task;
  ASSERT_EQ(evaluation.kind, TaskKind::kEvaluate);
  EXPECT_EQ(job->BeatServer(0).checkpoint_wanted, 1);
  EXPECT_TRUE(Lose(Set(0, 35)).accepted);
  EXPECT_EQ(job->master->state(), JobState::kTraining);
  // The checkpoint is not the last any more, and says all the same why it was asked for.
  job->checkpointed = 1;
  job->BeatServer(0);
  job->BeatServer(1, life);
  EXPECT_EQ(job->causes["checkpoint_complete"], "training is over");
  // It saw weights from before and after: it does not count.
  job->sums = {.records = 5};
  EXPECT_FALSE(job->Commit(0, evaluation, evaluation.end).held);
  const LeaseReply again = job->Lease(0);
  ASSERT_EQ(again.task.kind, TaskKind::kTrain);
  EXPECT_EQ(again.task.committed, 35);
  job->Commit(0, again.task, again.task.end);
  Finish();
  const Snapshot snapshot = job->master->snapshot();
  EXPECT_EQ(snapshot.state, JobState::kDone) << snapshot.error;
  ASSERT_EQ(snapshot.evaluations.size(), 1U);
  EXPECT_EQ(snapshot.evaluations[0].number, 2);
  EXPECT_EQ(snapshot.evaluations[0].step, 8);
  EXPECT_EQ(snapshot.checkpoint, 2);  // One was cut before; the last is after all of it.
  EXPECT_EQ(job->causes["checkpoint_complete"], "training is over");
}

// Weights after as many steps as were evaluated, and other weights all the same.
TEST_F(TakeBackTest, StepsThatComeAgainAreEvaluatedAgain) {
  MasterOptions options = WithValidation();
  options.job.evaluate.every_steps = 2;
  options.job.evaluate.keep_best = true;
  Begin(options);
  const Task task = job->Lease(0).task;
  job->Commit(0, task, task.end);
  job->sums = {.records = 10, .loss_sum = 1};
  const Task evaluation = job->Lease(0).task;
  ASSERT_EQ(evaluation.kind, TaskKind::kEvaluate);
  while (job->master->ledger().evaluating()) {
    const Task next = job->Lease(0).task;
    job->Commit(0, next, next.end);
  }
  // It is the best so far, and server 1 loses it before it is saved.
  EXPECT_TRUE(Lose(Set(0, 5)).accepted);
  EXPECT_EQ(job->master->snapshot().best_evaluation, 0);
  const Task again = job->Lease(0).task;
  ASSERT_EQ(again.kind, TaskKind::kTrain);
  job->Commit(0, again, again.end);
  EXPECT_EQ(job->master->snapshot().steps, 2);
  EXPECT_EQ(job->Lease(0).task.kind, TaskKind::kEvaluate);
}

TEST_F(TakeBackTest, WhatIsFoundMissingInTheEndIsTrainedAgain) {
  Begin();
  const Task held = job->Lease(0).task;
  EXPECT_TRUE(Lose(IntervalSet()).accepted);  // Nothing was committed yet.
  job->Commit(0, held, held.end);             // Though the server before had it.
  job->WorkOff(0);
  job->disks[1][0] = Set(5, 40);
  job->checkpointed = job->BeatServer(0).checkpoint_wanted;
  job->BeatServer(0);
  job->BeatServer(1, life);
  EXPECT_EQ(job->master->state(), JobState::kTraining);
  EXPECT_THAT(job->causes["records_taken_back"],
              HasSubstr("server-1 turns out to have lost 5 records of epoch 0"));
  job->disks[1][0] = Set(0, 40);
  Finish();
  EXPECT_EQ(job->master->state(), JobState::kDone) << job->master->snapshot().error;
  EXPECT_EQ(job->master->snapshot().records_taken_back, 10);
}

TEST_F(TakeBackTest, EachBadRowIsStillCountedOnce) {
  MasterOptions options = SmallJob();
  options.job.data.bad_rows = "skip";
  options.job.data.bad_rows_max = 3;
  Begin(options);
  const auto commit = [&] {
    const Task task = job->Lease(0).task;
    job->disks[0][0].Add(task.begin, task.end);
    job->disks[1][0].Add(task.begin, task.end);
    job->Done(job->master->Commit({.worker = WorkerId(0),
                                   .task = task.id,
                                   .lease = task.lease,
                                   .upto = task.end,
                                   .bad_rows = 2},
                                  job->now));
  };
  commit();
  EXPECT_TRUE(Lose(IntervalSet()).accepted);
  commit();
  EXPECT_EQ(job->master->snapshot().bad_rows, 2);
  EXPECT_EQ(job->master->state(), JobState::kTraining);
}

TEST_F(TakeBackTest, AServerThatKnowsOfNothingFailsTheJobAndSaysWhatHelps) {
  Begin();
  const Task task = job->Lease(0).task;
  job->Commit(0, task, task.end);
  job->Exit(Role::kServer, 1, 1, 0, SIGKILL);
  const RegisterReply reply = job->Done(job->master->Register({.role = Role::kServer,
                                                               .id = 1,
                                                               .incarnation = 2,
                                                               .version = "1",
                                                               .address = "unix:/s",
                                                               .blank = true},
                                                              job->now));
  EXPECT_FALSE(reply.accepted);
  EXPECT_EQ(job->master->state(), JobState::kFailed);
  EXPECT_THAT(job->master->snapshot().error,
              AllOf(HasSubstr("server-1 came back without 512 of its partitions"),
                    HasSubstr("params.replicas: 1"), HasSubstr("begin the job anew")));
}

TEST_F(TakeBackTest, ModeSyncGoesBackOnlyWithinTheRoundAtHand) {
  MasterOptions options = SmallJob();
  options.job.mode = "sync";
  options.job.rounds.gradients = 2;
  Begin(options);
  for (int i = 0; i < 3; ++i) {
    const Task task = job->Lease(0).task;
    job->Commit(0, task, task.end);
  }
  EXPECT_EQ(job->master->ledger().rounds(), 1);
  EXPECT_TRUE(Lose(Set(0, 10)).accepted);
  EXPECT_EQ(job->master->snapshot().records_committed, 10);
  EXPECT_FALSE(Lose(Set(0, 5)).accepted);
  EXPECT_EQ(job->master->state(), JobState::kFailed);
  EXPECT_THAT(job->master->snapshot().error,
              AllOf(HasSubstr("server-1 came back without 5 records of epoch 0"),
                    HasSubstr("mode sync cannot"), HasSubstr("is of round 0, which is whole"),
                    HasSubstr("params.replicas: 1")));
}

}  // namespace
}  // namespace rubato

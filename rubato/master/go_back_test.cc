// Modes sync and hybrid: all servers go back to a checkpoint, which is a cut at one round.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"
#include "rubato/master/master.h"
#include "rubato/master/take_back_testing.h"

namespace rubato {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Verdict = LeaseReply::Verdict;

// Rounds of two batches, and a checkpoint every four steps.
MasterOptions Sync() {
  MasterOptions options = SmallJob();
  options.job.mode = "sync";
  options.job.rounds.gradients = 2;
  options.job.checkpoint.every_steps = 4;
  options.job.workers = {.min = 1, .max = 3, .start = 1};
  return options;
}

class GoBackTest : public TakeBackTest {
 protected:
  void Train(int batches) {
    for (int i = 0; i < batches; ++i) {
      const LeaseReply reply = job->Lease(worker);
      ASSERT_EQ(reply.verdict, Verdict::kTask) << i;
      job->Commit(worker, reply.task, reply.task.end);
    }
  }
  void BeatBoth() {
    job->BeatServer(0, lives[0]);
    job->BeatServer(1, lives[1]);
  }
  // Checkpoint 1, of two rounds, is complete, and a round and a half were trained since.
  void BeginPastACheckpoint(MasterOptions options = Sync()) {
    Begin(std::move(options));
    Train(4);
    BeatBoth();
    BeatBoth();
    job->checkpointed = 1;
    BeatBoth();
    ASSERT_EQ(job->master->snapshot().checkpoint, 1);
    Train(3);
    BeatBoth();
  }
  RegisterReply Register(int64_t server, int64_t began_from = 0) {
    const auto i = static_cast<size_t>(server);
    return job->Done(job->master->Register({.role = Role::kServer,
                                            .id = server,
                                            .incarnation = lives[i],
                                            .pid = 11,
                                            .version = "1",
                                            .address = "unix:/s",
                                            .applied = job->disks[i],
                                            .began_from = began_from},
                                           job->now));
  }
  // It is gone; the next life of it has what it had at the checkpoint if `lost`.
  void Die(int64_t server, int signal, bool lost) {
    const auto i = static_cast<size_t>(server);
    job->Exit(Role::kServer, server, lives[i]++, 0, signal);
    job->cuts[i] = 1;
    job->cut_rounds[i] = 2;
    if (lost) job->disks[i] = {{0, Set(0, 20)}};
    job->Pass(absl::Seconds(1));
  }
  // As it is told: version 1 has 20 records, 2 has twice as many.
  RegisterReply Return(int64_t server, int64_t version = 1) {
    job->disks[static_cast<size_t>(server)] = {{0, Set(0, 20 * version)}};
    return Register(server, version);
  }
  bool Signalled(Role role, int64_t id, SignalProcess::Kind kind) const {
    return std::any_of(job->signalled.begin(), job->signalled.end(), [&](const auto& signal) {
      return signal.role == role && signal.id == id && signal.kind == kind;
    });
  }
  void FinishSync() {
    for (int i = 0; i < 20 && job->master->state() != JobState::kDone; ++i) {
      job->WorkOff(worker);
      BeatBoth();
      job->checkpointed = std::max(job->cuts[0], job->cuts[1]);
      BeatBoth();
    }
    const Snapshot snapshot = job->master->snapshot();
    EXPECT_EQ(snapshot.state, JobState::kDone) << snapshot.error;
    EXPECT_EQ(snapshot.records_committed, snapshot.records_expected);
    EXPECT_EQ(snapshot.records_repeated, 0);
    EXPECT_EQ(snapshot.steps, snapshot.records_expected / 5);
  }

  std::vector<int64_t> lives = {1, 1};
  int64_t worker = 0;
};

// It begins when the round at hand is whole, and the next is leased when all have made their cut,
// though nobody has written it yet.
TEST_F(GoBackTest, ACheckpointIsACutBetweenTwoRounds) {
  MasterOptions options = Sync();
  options.job.checkpoint.every_steps = 3;
  Begin(options);
  Train(3);
  EXPECT_EQ(job->BeatServer(0).checkpoint_wanted, 0);
  Train(1);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
  EXPECT_EQ(job->BeatServer(0).checkpoint_wanted, 1);
  job->BeatServer(1);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
  job->BeatServer(0);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
  job->BeatServer(1);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kTask);
  EXPECT_EQ(job->master->snapshot().checkpoint, 0);
}

// The last life of a server took a batch that its next life does not know of, before the other took
// it: whoever computed it may be told by the other yet, and commit it.
TEST_F(GoBackTest, WhatOnlyADeadLifeAcknowledgedIsComputedAgain) {
  Begin(Sync());
  const Task held = job->Lease(0).task;
  Die(1, SIGKILL, /*lost=*/false);
  EXPECT_TRUE(Register(1).accepted);
  EXPECT_FALSE(CommitBy(held, held.end).held);
  job->Open();
  EXPECT_FALSE(CommitBy(held, held.end).held);
  const Task again = job->Lease(0).task;
  ASSERT_EQ(again.id, held.id);
  EXPECT_GT(again.lease, held.lease);
  for (auto& disk : job->disks) disk[0].Add(again.begin, again.end);
  EXPECT_TRUE(CommitBy(again, again.end).held);
  FinishSync();
}

// A full disk, say: nobody waits for a cut that cannot be made. What comes of it is not of one
// round, so that another follows.
TEST_F(GoBackTest, ACutThatFailsIsNotWaitedFor) {
  Begin(Sync());
  Train(4);
  job->BeatServer(0);
  job->BeatServer(1);
  job->BeatServer(0);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
  job->master->Fail({.checkpoint = "1/server-1.ckpt", .error = "the disk is full"}, job->now);
  Train(2);
  job->cut_rounds[1] = 3;
  job->checkpointed = 1;
  BeatBoth();
  EXPECT_EQ(job->master->snapshot().checkpoint, 1);
  EXPECT_EQ(job->BeatServer(0).checkpoint_wanted, 2);
  job->BeatServer(1);
  job->checkpointed = 2;
  BeatBoth();
  EXPECT_EQ(job->causes["checkpoint_complete"],
            "the one before is not of one round on all servers");
  Train(2);
}

// A folder that is a network away and does not answer: nor is that waited for, once it takes long.
// Nobody says so but the master, and the others train on.
TEST_F(GoBackTest, ACutThatHangsIsNotWaitedForLong) {
  Begin(Sync());
  Train(4);
  const auto pass = [&](absl::Duration time) {
    for (const absl::Time end = job->now + time; job->now < end; job->Pass(absl::Seconds(1))) {
      job->BeatServer(0);
      job->BeatServer(1);
      job->cuts[1] = 0;
      job->Beat(0);
    }
  };
  pass(absl::Seconds(4));
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
  EXPECT_FALSE(job->causes.contains("checkpoint_failed"));
  pass(absl::Seconds(2));
  EXPECT_THAT(job->causes["checkpoint_failed"],
              AllOf(HasSubstr("server-1 has not cut yet"), HasSubstr("training goes on")));
  Train(2);
  job->cuts[1] = 1;
  job->cut_rounds = {2, 3, 0};
  job->checkpointed = 1;
  BeatBoth();
  EXPECT_EQ(job->master->snapshot().checkpoint, 1);
  // The next is waited for again.
  EXPECT_EQ(job->BeatServer(0).checkpoint_wanted, 2);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
}

// One that is not up cuts when it is back, and its next life has its own time for it.
TEST_F(GoBackTest, ACutOfAServerThatIsDownIsNoneThatHangs) {
  Begin(Sync());
  Train(4);
  BeatBoth();
  Die(1, SIGKILL, /*lost=*/false);
  job->cuts[1] = 0;
  for (int i = 0; i < 8; ++i) {
    job->BeatServer(0);
    job->Beat(0);
    job->Pass(absl::Seconds(1));
  }
  EXPECT_TRUE(Register(1).accepted);
  EXPECT_EQ(job->Lease(0).verdict, Verdict::kWait);
  BeatBoth();
  BeatBoth();
  Train(2);
  EXPECT_FALSE(job->causes.contains("checkpoint_failed"));
}

// All logs are gone with everybody: each comes back as the checkpoint has it.
TEST_F(GoBackTest, AllServersThatLostTheirLogsGoOnFromTheCheckpoint) {
  BeginPastACheckpoint();
  EXPECT_EQ(job->master->ledger().rounds(), 3);
  job->options.resume = true;
  job->Open();
  job->options.resume = false;
  lives = {2, 2};
  job->server_view = {0, 0, 0};
  job->cuts = {1, 1, 0};
  job->cut_rounds = {2, 2, 0};
  for (auto& disk : job->disks) disk = {{0, Set(0, 20)}};
  EXPECT_EQ(Register(0).begin_from, 1);
  EXPECT_THAT(job->causes["went_back"],
              AllOf(HasSubstr("server-0 came back without 15 records of epoch 0"),
                    HasSubstr("all servers go back to checkpoint 1, to round 2")));
  EXPECT_EQ(job->master->snapshot().steps, 4);
  EXPECT_EQ(job->master->snapshot().records_taken_back, 15);
  EXPECT_EQ(Register(1).begin_from, 1);
  EXPECT_TRUE(Return(1).accepted);
  job->Open();  // The master dies on the way.
  EXPECT_FALSE(Register(0).accepted);
  worker = 1;
  job->JoinWorker(1);
  EXPECT_EQ(job->Lease(1).verdict, Verdict::kWait);
  EXPECT_TRUE(Return(0).accepted);
  FinishSync();
}

// Those who have all of it must go back too, and be gone before anybody begins: they would speak of
// rounds that are to come again.
TEST_F(GoBackTest, ThoseWhoHaveItAllGoBackToo) {
  BeginPastACheckpoint();
  const Task held = job->Lease(0).task;
  Die(1, SIGKILL, /*lost=*/true);
  EXPECT_EQ(Register(1).begin_from, 1);
  EXPECT_TRUE(Signalled(Role::kServer, 0, SignalProcess::Kind::kTerminate));
  EXPECT_TRUE(Signalled(Role::kWorker, 0, SignalProcess::Kind::kKill));
  EXPECT_FALSE(CommitBy(held, held.end).held);
  EXPECT_TRUE(Return(1).wait);
  // What server 0 still says is of no account.
  job->checkpointed = 2;
  EXPECT_EQ(job->BeatServer(0).directive, Directive::kLeave);
  job->checkpointed = 1;
  Die(0, 0, /*lost=*/false);
  EXPECT_TRUE(Return(1).wait);
  job->KillWorker(0);
  EXPECT_TRUE(Return(1).accepted);
  EXPECT_EQ(Register(0).begin_from, 1);
  // One that dies before all are back begins again.
  Die(1, SIGKILL, /*lost=*/false);
  EXPECT_TRUE(Return(0).accepted);
  EXPECT_EQ(Register(1).begin_from, 1);
  EXPECT_TRUE(Return(1).accepted);
  worker = 1;
  job->JoinWorker(1);
  FinishSync();
}

TEST_F(GoBackTest, WithoutACheckpointOfOneRoundTheJobFails) {
  Begin(Sync());
  Train(4);
  BeatBoth();
  job->cut_rounds[1] = 1;  // It wrote its part as of another round.
  job->checkpointed = 1;
  BeatBoth();
  ASSERT_EQ(job->master->snapshot().checkpoint, 1);
  BeatBoth();  // The next is cut, and not yet written.
  BeatBoth();
  Train(2);
  Die(1, SIGKILL, /*lost=*/true);
  EXPECT_FALSE(Register(1).accepted);
  EXPECT_EQ(job->master->state(), JobState::kFailed);
  EXPECT_THAT(job->master->snapshot().error,
              AllOf(HasSubstr("checkpoint 1 is not of one round on all servers"),
                    HasSubstr("params.replicas: 1")));
}

// In the files of checkpoint 1 partitions are where they were then. Until there is another nobody
// can go back.
TEST_F(GoBackTest, WhenPartitionsHaveMovedOlderCheckpointsAreNoneToGoBackTo) {
  BeginPastACheckpoint();
  ASSERT_TRUE(job->Done(job->master->Scale({.servers = 3}, job->now)).accepted);
  job->JoinServer(2);
  const MoveOrder move = job->master->view().move;
  ASSERT_EQ(move.to, 2);
  job->Done(job->master->Heartbeat(ServerHeartbeat{.server = ServerId(move.from),
                                                   .incarnation = 1,
                                                   .view = job->master->view().number,
                                                   .applied = job->disks[0],
                                                   .checkpointed = job->checkpointed,
                                                   .moved = move.number},
                                   job->now));
  ASSERT_TRUE(job->master->view().map.Owns(2));
  Die(1, SIGKILL, /*lost=*/true);
  EXPECT_FALSE(Register(1).accepted);
  EXPECT_EQ(job->master->state(), JobState::kFailed);
  EXPECT_THAT(job->master->snapshot().error,
              HasSubstr("checkpoint 1 is not of one round on all servers, as they are now"));
}

// However it came to lack a batch of a whole round: what it says of its own cut is held against the
// rounds of which that is said to be, so that no checkpoint without it is ever complete.
TEST_F(GoBackTest, ACutWithoutABatchOfItsRoundsIsNoneToGoBackTo) {
  BeginPastACheckpoint();
  Die(1, SIGKILL, /*lost=*/false);
  EXPECT_TRUE(Register(1).accepted);
  BeatBoth();
  Train(1);
  job->disks[1][0] = Set(0, 35);
  BeatBoth();
  BeatBoth();
  job->checkpointed = 2;
  BeatBoth();
  EXPECT_EQ(job->master->snapshot().checkpoint, 1);
  EXPECT_THAT(job->causes["went_back"],
              AllOf(HasSubstr("server-1 turns out to have lost 5 records of epoch 0"),
                    HasSubstr("all servers go back to checkpoint 1, to round 2")));
  job->checkpointed = 1;
  job->KillWorker(0);
  Die(0, 0, /*lost=*/false);
  Die(1, 0, /*lost=*/false);
  EXPECT_TRUE(Return(0).accepted);
  EXPECT_TRUE(Return(1).accepted);
  worker = 1;
  job->JoinWorker(1);
  FinishSync();
  EXPECT_EQ(job->master->snapshot().checkpoint, 3);
}

// Server 1 has lost its log, and its file of version 2 is damaged: it begins from version 1, and so
// do all, those who have begun from 2 already too.
TEST_F(GoBackTest, AVersionThatOneServerCannotReadIsPassedOver) {
  MasterOptions options = Sync();
  options.data.train = {{"a.tsv", 80}};
  options.job.checkpoint.keep = 2;
  BeginPastACheckpoint(std::move(options));
  Train(1);
  BeatBoth();
  BeatBoth();
  job->checkpointed = 2;
  BeatBoth();
  ASSERT_EQ(job->master->snapshot().checkpoint, 2);
  Train(3);
  Die(1, SIGKILL, /*lost=*/true);
  EXPECT_EQ(Register(1).begin_from, 2);
  Die(0, 0, /*lost=*/false);
  job->KillWorker(0);
  EXPECT_EQ(Register(0).begin_from, 2);
  EXPECT_TRUE(Return(0, 2).accepted);
  EXPECT_EQ(Register(1, /*began_from=*/2).begin_from, 1);
  EXPECT_THAT(job->causes["went_back"],
              AllOf(HasSubstr("server-1 came back without 20 records of epoch 0"),
                    HasSubstr("all servers go back to checkpoint 1, to round 2")));
  // Nobody is to take version 2 for one that is whole.
  EXPECT_EQ(job->master->snapshot().checkpoint, 1);
  EXPECT_THAT(job->removed, ElementsAre(2));
  EXPECT_THAT(job->kept, ElementsAre(1));
  EXPECT_TRUE(Return(1).wait);
  EXPECT_EQ(job->BeatServer(0, lives[0]).directive, Directive::kLeave);
  Die(0, 0, /*lost=*/false);
  job->Open();                           // The master dies on the way.
  EXPECT_EQ(job->manifests.size(), 2U);  // That of version 1 is as it was.
  EXPECT_EQ(Register(0).begin_from, 1);
  EXPECT_TRUE(Return(1).accepted);
  EXPECT_TRUE(Return(0).accepted);
  EXPECT_EQ(job->master->snapshot().steps, 4);
  job->checkpointed = 1;
  worker = 1;
  job->JoinWorker(1);
  FinishSync();
}

// The newest one is not of one round: the one before it is.
TEST_F(GoBackTest, AVersionThatIsNotOfOneRoundIsPassedOver) {
  MasterOptions options = Sync();
  options.data.train = {{"a.tsv", 80}};
  options.job.checkpoint.keep = 2;
  BeginPastACheckpoint(std::move(options));
  Train(1);
  BeatBoth();
  BeatBoth();
  Train(1);
  job->cut_rounds[1] = 3;  // It wrote its part as of another round.
  job->checkpointed = 2;
  BeatBoth();
  ASSERT_EQ(job->master->snapshot().checkpoint, 2);
  Die(1, SIGKILL, /*lost=*/true);
  EXPECT_EQ(Register(1).begin_from, 1);
}

// Its file of the checkpoint is damaged, say, so that it begins from an older one.
TEST_F(GoBackTest, AServerThatHasLessThanTheCheckpointFailsTheJob) {
  BeginPastACheckpoint();
  Die(1, SIGKILL, /*lost=*/true);
  EXPECT_EQ(Register(1).begin_from, 1);
  Die(0, 0, /*lost=*/false);
  job->KillWorker(0);
  job->disks[1] = {{0, Set(0, 10)}};
  EXPECT_FALSE(Register(1, 1).accepted);
  EXPECT_EQ(job->master->state(), JobState::kFailed);
  EXPECT_THAT(job->master->snapshot().error,
              HasSubstr("checkpoint 1 has less on that server, and none before it is kept"));
}

}  // namespace
}  // namespace rubato

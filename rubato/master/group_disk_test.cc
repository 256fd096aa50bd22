// Checkpoints of a group that cannot be written or read, and what going back to one costs.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// 40 records in 8 steps of 5; a checkpoint every two.
class GroupDiskTest : public testing::Test {
 protected:
  GroupDiskTest() : job_(Options()) {
    job_.JoinWorker(0);
    job_.JoinWorker(1);
  }
  static MasterOptions Options() {
    MasterOptions options = SmallJob();
    options.job.strategy = "allreduce";
    options.job.checkpoint.every_steps = 2;
    return options;
  }
  struct Word {
    int64_t steps = 0;
    int64_t generation = 1;
    int64_t checkpointed = 0;
    uint64_t checksum = 0;
    double useful = 0;
  };
  GroupOrders Beat(int64_t worker, const Word& word) {
    const GroupReport report = {.generation = word.generation,
                                .address = "here",
                                .holds = true,
                                .steps = word.steps,
                                .records = 5 * word.steps,
                                .checksum = word.checksum,
                                .checkpointed = word.checkpointed,
                                .checkpoint_steps = word.steps,
                                .checkpoint_records = 5 * word.steps};
    return Beat({.worker = WorkerId(worker), .spent = {.useful = word.useful}, .group = report});
  }
  GroupOrders Beat(const WorkerHeartbeat& beat) {
    const HeartbeatReply reply = job_.Done(job_.master->Heartbeat(beat, job_.now));
    wanted_ = reply.checkpoint_wanted;
    return reply.group.value_or(GroupOrders());
  }
  // What a worker hears that is in no group yet.
  GroupOrders Ask(int64_t worker) {
    return Beat({.worker = WorkerId(worker), .group = GroupReport()});
  }
  void FailCheckpoint(int64_t worker, const std::string& file) {
    job_.master->Fail({.worker = WorkerId(worker), .checkpoint = file, .error = file + ": no room"},
                      job_.now);
    job_.Perform();
  }
  // Worker 0 is the first of the group's view, and so the one who writes.
  void EnterView() {
    Beat(0, {.steps = 2});
    Beat(1, {.steps = 2});
    for (int64_t worker = 0; worker < 2; ++worker) Report(worker, {.offer = worker == 0 ? 0 : -1});
    job_.Pass(absl::Seconds(1));
  }
  void Report(int64_t worker, ViewReport report) {
    report.from = {MemberId(100 + worker), "here"};
    job_.master->Confer(
        {.worker = WorkerId(worker), .generation = 1, .report = EncodeReport(report)}, job_.now);
    job_.Perform();
  }
  int64_t Told(const char* kind) const {
    return std::count(job_.events.begin(), job_.events.end(), kind);
  }
  Snapshot Shown() const { return job_.master->snapshot(); }
  // Checkpoints 1 and 2 after two and four steps, then everyone dies after the sixth; worker 2 is
  // there to begin again.
  void LoseEveryone() {
    Beat(0, {.steps = 2});
    Beat(0, {.steps = 2, .checkpointed = 1});
    Beat(0, {.steps = 4});
    Beat(0, {.steps = 4, .checkpointed = 2});
    Beat(0, {.steps = 6, .useful = 9});
    Beat(1, {.steps = 6, .useful = 3});
    job_.KillWorker(0);
    job_.KillWorker(1);
    job_.JoinWorker(2);
  }

  FakeJob job_;
  int64_t wanted_ = 0;
};

// While there is something left to train, a full disk is told of once and waited out.
TEST_F(GroupDiskTest, TrainingGoesOnWithoutACheckpoint) {
  Beat(0, {.steps = 2});
  for (int i = 0; i < 20; ++i) FailCheckpoint(0, "1/worker-0.ckpt");
  EXPECT_EQ(Told("checkpoint_failed"), 1);
  EXPECT_THAT(job_.causes["checkpoint_failed"], HasSubstr("1/worker-0.ckpt: no room"));
  Beat(0, {.steps = 3});
  EXPECT_EQ(job_.master->state(), JobState::kTraining);
  EXPECT_EQ(wanted_, 1) << "it is asked for until it is there";
  Beat(0, {.steps = 4, .checkpointed = 1});
  EXPECT_EQ(Told("checkpoint_complete"), 1);
  EXPECT_EQ(Shown().workers_lost, 0);
}

// The last one is the result: after a few tries the job ends, and says why.
TEST_F(GroupDiskTest, TheLastCheckpointMustBeWritten) {
  Beat(0, {.steps = 8, .checksum = 7});
  Beat(1, {.steps = 8, .checksum = 7});
  for (int i = 0; i < 4; ++i) FailCheckpoint(0, "1/worker-0.ckpt");
  EXPECT_NE(job_.master->state(), JobState::kFailed);
  FailCheckpoint(0, "9/worker-0.ckpt");  // Of another time.
  EXPECT_NE(job_.master->state(), JobState::kFailed);
  FailCheckpoint(0, "1/worker-0.ckpt");
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_THAT(Shown().error, HasSubstr("could not be written: 1/worker-0.ckpt: no room"));
}

// A folder that hangs, a network away: nobody says a word. It is told of once, and training goes
// on.
TEST_F(GroupDiskTest, AFolderThatHangsIsToldOfOnce) {
  EnterView();
  for (int i = 0; i < 60; ++i) {
    Beat(0, {.steps = 2 + i / 30});
    Beat(1, {.steps = 2 + i / 30});
    job_.Pass(absl::Seconds(1));
  }
  EXPECT_EQ(Told("checkpoint_failed"), 1);
  EXPECT_EQ(job_.causes["checkpoint_failed"],
            "worker-0 has not written it yet, after 15s; training goes on without one");
  EXPECT_EQ(wanted_, 1) << "one that hangs cannot begin another";
  EXPECT_EQ(job_.master->state(), JobState::kTraining);
  Beat(0, {.steps = 4, .checkpointed = 1});
  EXPECT_EQ(Told("checkpoint_complete"), 1);
}

// At the end the result is waited for, and it is said what that is; but not for ever.
TEST_F(GroupDiskTest, TheLastCheckpointHangs) {
  EnterView();
  job_.master->Stop(/*checkpoint=*/true, job_.now);
  const auto wait = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      Beat(0, {.steps = 2});
      Beat(1, {.steps = 2});
      job_.Pass(absl::Seconds(1));
    }
  };
  wait(30);
  EXPECT_EQ(Told("checkpoint_failed"), 1);
  EXPECT_EQ(job_.causes["checkpoint_failed"],
            "worker-0 has not written it yet, after 15s; the job waits for it, up to 1h");
  wait(59 * 60);
  EXPECT_EQ(job_.master->state(), JobState::kStopping);
  wait(60);
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_THAT(Shown().error,
              HasSubstr("checkpoint 1 was not written: worker-0 has not written it"));
}

// Sound, but of another model: so is every other, and starting anew would not change it.
TEST_F(GroupDiskTest, ACheckpointOfAnotherModel) {
  LoseEveryone();
  job_.master->Fail({.worker = WorkerId(2),
                     .checkpoint = Ask(2).restore,
                     .error = "it is of another model",
                     .unfit = true},
                    job_.now);
  job_.Perform();
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_TRUE(Shown().bad_input);
  EXPECT_THAT(Shown().error, HasSubstr("it is of another model; give job.yaml"));
  EXPECT_EQ(Told("checkpoint_damaged"), 0);
}

// Servers tell of theirs in the same words.
TEST(DiskTest, AServersLastCheckpointMustBeWritten) {
  FakeJob job;
  job.JoinServers();
  job.BeatServers();
  job.JoinWorker(0);
  job.JoinWorker(1);
  job.WorkOff(0);
  ASSERT_EQ(job.BeatServer(0).checkpoint_wanted, 1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(job.master->state(), JobState::kFailed);
    job.master->Fail({.checkpoint = "1/server-0.ckpt", .error = "no room"}, job.now);
    job.Perform();
  }
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error, HasSubstr("no room"));
}

// Steps that went with the last who had them are computed again: neither their records nor the
// time they took count as useful.
TEST_F(GroupDiskTest, WhatIsLostWasNotUseful) {
  LoseEveryone();
  EXPECT_EQ(Ask(2).restore, "2/worker-0.ckpt");
  EXPECT_EQ(Shown().records_committed, 20);
  EXPECT_EQ(Shown().records_recomputed, 10);
  EXPECT_DOUBLE_EQ(Shown().spent.useful, 8);
  EXPECT_DOUBLE_EQ(Shown().spent.redo, 4);
  EXPECT_DOUBLE_EQ(Shown().spent.total(), 12);
  job_.Open();  // All of it is in the journal.
  EXPECT_EQ(Shown().records_recomputed, 10);
  EXPECT_DOUBLE_EQ(Shown().spent.redo, 4);
}

// Of what those did who die together with the master the journal knows all but a tenth.
TEST_F(GroupDiskTest, WhatWasDoneByWhoDiesWithTheMasterCounts) {
  Beat(0, {.steps = 2, .useful = 10});
  Beat(0, {.steps = 2, .useful = 10.9});
  job_.Open();
  EXPECT_DOUBLE_EQ(Shown().spent.useful, 10);
  Beat(0, {.steps = 2, .useful = 11});  // It lives, and tells all of its life.
  EXPECT_DOUBLE_EQ(Shown().spent.useful, 11);
}

// A checkpoint that cannot be read: the one before it serves, at once and in the same processes.
TEST_F(GroupDiskTest, TheOneBeforeADamagedCheckpointServes) {
  LoseEveryone();
  const GroupOrders first = Ask(2);
  EXPECT_EQ(first.generation, 2);
  job_.JoinWorker(3);
  FailCheckpoint(3, first.restore);  // Was not asked to read it.
  EXPECT_EQ(Ask(2).generation, 2);
  FailCheckpoint(2, first.restore);
  EXPECT_THAT(job_.causes["checkpoint_damaged"], HasSubstr("begins from checkpoint 1"));
  const GroupOrders second = Ask(2);
  EXPECT_TRUE(second.found);
  EXPECT_EQ(second.generation, 3);
  EXPECT_EQ(second.restore, "1/worker-0.ckpt");
  EXPECT_EQ(Shown().records_committed, 10);
  EXPECT_EQ(Shown().records_recomputed, 20);
  EXPECT_LE(Shown().records_before, 10);
  FailCheckpoint(2, first.restore);  // Said twice.
  EXPECT_EQ(Ask(2).generation, 3);
  job_.Open();
  EXPECT_EQ(Ask(2).restore, "1/worker-0.ckpt");
  Beat(2, {.steps = 6, .generation = 3});
  EXPECT_EQ(wanted_, 3) << "a damaged one is not written over";
  EXPECT_THAT(job_.events, Not(Contains("failed")));
}

// With no other left there is nothing to begin from: starting it again would say the same.
TEST_F(GroupDiskTest, NoSoundCheckpointIsLeft) {
  LoseEveryone();
  FailCheckpoint(2, Ask(2).restore);
  FailCheckpoint(2, Ask(2).restore);
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_TRUE(Shown().bad_input);
  EXPECT_THAT(Shown().error, HasSubstr("1/worker-0.ckpt: no room; no other checkpoint is kept"));
  EXPECT_EQ(Shown().checkpoint, 1) << "nobody begins anew as if there had been nothing";
}

// One that dies before it has said a word is known by its parent.
TEST_F(GroupDiskTest, AWorkerThatNeverSpoke) {
  Beat(0, {.steps = 2});
  job_.KillWorker(1);
  const std::vector<LaunchProcess> launched = job_.TakeLaunched(Role::kWorker);
  ASSERT_EQ(launched.back().id, 2);
  job_.master->Exit({.id = 2, .incarnation = 1, .signal = SIGKILL, .pid = 4711, .host = "tempo"},
                    job_.now);
  job_.Perform();
  for (int i = 0; i < 40; ++i) {
    Beat(0, {.steps = 2});
    job_.Pass(absl::Milliseconds(100));
  }
  EXPECT_EQ(std::get<int64_t>(job_.fields["failure"].at("worker")), 2);
  EXPECT_EQ(std::get<int64_t>(job_.fields["failure"].at("pid")), 4711);
  EXPECT_EQ(std::get<std::string>(job_.fields["failure"].at("where")), "tempo");
}

}  // namespace
}  // namespace rubato

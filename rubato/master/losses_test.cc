// What a job survives, and what it does not.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/fake_job.h"
#include "rubato/master/master.h"

namespace rubato {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Verdict = LeaseReply::Verdict;

TEST(RelaunchTest, TheFirstTimeAtOnceThenSlowerAndSlower) {
  const double seconds[] = {0, 0, 0.25, 0.5, 1, 2, 4, 8, 10, 10};
  for (int64_t i = 1; i < 10; ++i) {
    EXPECT_EQ(RelaunchWait(i), absl::Seconds(seconds[i])) << i;
  }
  EXPECT_EQ(RelaunchWait(1000), absl::Seconds(10));
}

TEST(LossesTest, ADeadWorkersTaskIsOpenAtOnce) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.begin + 5);
  job.launched.clear();
  job.KillWorker(0);
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));
  const Task rest = job.Lease(1).task;
  EXPECT_EQ(rest.id, task.id);
  EXPECT_EQ(rest.committed, task.begin + 5);
  EXPECT_EQ(job.master->snapshot().workers_lost, 1);
  EXPECT_THAT(job.JoinWorker(0).reason, HasSubstr("known to be dead"));
}

TEST(LossesTest, AFrozenWorkersTaskIsOpenOnceEveryServerRefusesIt) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  job.BeatServers();
  const Task task = job.Lease(0).task;
  job.launched.clear();
  for (int i = 0; i < 7; ++i) {  // 3.5 s: worker 0 says nothing, the lease is 3 s.
    job.Pass(absl::Milliseconds(500));
    job.Beat(1);
    job.BeatServer(0);
  }
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));
  EXPECT_FALSE(job.Beat(0).known);
  EXPECT_FALSE(job.JoinWorker(0).accepted);
  EXPECT_FALSE(job.Commit(0, task, task.end).held);
  EXPECT_EQ(job.master->ledger().Find(task.id)->place, LiveTask::Place::kFencing);

  // Server 0 has refused it for long; server 1 has yet to hear, and to say that it did.
  const View seen = job.BeatServer(1).view;
  EXPECT_FALSE(Admits(seen, WorkerId(0), seen.number - 1));
  EXPECT_NE(job.Lease(1).task.id, task.id);
  job.BeatServer(1);
  job.BeatServer(0);
  EXPECT_EQ(job.master->ledger().Find(task.id)->place, LiveTask::Place::kOpen);
}

// A database that all workers wait for is told of once, and so is its return.
TEST(LossesTest, DataThatIsAwayIsToldOnce) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const auto told = [&](const char* kind) {
    return std::count(job.events.begin(), job.events.end(), kind);
  };
  const auto waits = [&](int64_t worker, absl::Duration waited) {
    job.master->Heartbeat({.worker = WorkerId(worker),
                           .away = DataAway{"clicks", "the database at db", "gone", waited}},
                          job.now);
    job.Perform();
  };
  const auto doing = [&](int64_t worker) {
    for (const ProcessStatus& process : job.master->snapshot().processes) {
      if (process.role == Role::kWorker && process.id == worker) return process.doing;
    }
    return std::string("unknown");
  };
  waits(0, absl::Seconds(2));
  waits(1, absl::Seconds(1));
  job.Pass(absl::Seconds(1));
  waits(0, absl::Seconds(3));
  EXPECT_EQ(told("data_away"), 1);
  EXPECT_EQ(std::get<std::string>(job.fields["data_away"].at("data")), "clicks");
  EXPECT_EQ(std::get<std::string>(job.fields["data_away"].at("place")), "the database at db");
  EXPECT_EQ(std::get<double>(job.fields["data_away"].at("seconds")), 2);
  EXPECT_EQ(job.causes["data_away"], "gone");
  EXPECT_EQ(doing(0), "waiting for the database at db, 3 s");
  job.Beat(0);
  EXPECT_EQ(told("data_back"), 0);  // Another waits still.
  EXPECT_EQ(doing(0), "");
  job.Beat(1);
  EXPECT_EQ(told("data_back"), 1);
  EXPECT_EQ(std::get<double>(job.fields["data_back"].at("seconds")), 3);
  // Late news of the same absence are none; those of the next are.
  waits(1, absl::Seconds(1));
  EXPECT_EQ(told("data_away"), 1);
  job.Pass(absl::Seconds(1));
  waits(0, absl::Milliseconds(500));
  EXPECT_EQ(told("data_away"), 2);
}

// That who waited for it is dead does not bring a database back; records that are trained do.
TEST(LossesTest, DataIsBackWhenSomebodyHasReadIt) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const auto told = [&](const char* kind) {
    return std::count(job.events.begin(), job.events.end(), kind);
  };
  job.master->Heartbeat({.worker = WorkerId(0), .away = DataAway{.data = "clicks"}}, job.now);
  job.KillWorker(0);
  job.Beat(1);
  EXPECT_EQ(told("data_away"), 1);
  EXPECT_EQ(told("data_back"), 0);
  const Task task = job.Lease(1).task;
  job.Commit(1, task, task.begin + 5);
  EXPECT_EQ(told("data_back"), 1);
}

TEST(LossesTest, AWorkerThatFallsSilentWhileLeavingIsNoLoss) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  EXPECT_TRUE(job.master->Scale({.workers = 1}, job.now).accepted);
  job.Perform();
  for (int i = 0; i < 7; ++i) {  // Worker 1, the newest, was asked to go; it says nothing more.
    job.Pass(absl::Milliseconds(500));
    job.Beat(0);
    job.BeatServers();
  }
  EXPECT_FALSE(job.Beat(1).known);
  EXPECT_EQ(job.master->snapshot().workers_lost, 0);
  job.KillWorker(1);
  EXPECT_EQ(job.master->snapshot().workers_lost, 0);
}

TEST(LossesTest, AMasterThatWasAwayBlamesNobodyForSilence) {
  FakeJob job;
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  job.now += absl::Minutes(5);  // The machine slept.
  job.master->Tick(job.now);
  EXPECT_TRUE(job.Beat(0).known);
  EXPECT_EQ(job.master->snapshot().workers_lost, 0);
}

TEST(LossesTest, ARestartedMasterKeepsLeasesAndGivesEverybodyTime) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.begin + 5);
  const View before = job.master->view();
  job.now += absl::Minutes(1);
  job.launched.clear();
  job.Open();
  EXPECT_EQ(job.master->view(), before);
  EXPECT_EQ(job.master->snapshot().master_restarts, 1);
  EXPECT_THAT(job.launched, SizeIs(4));  // Repeated, should they have been lost on the way.
  job.Pass(absl::Seconds(2));
  EXPECT_TRUE(job.Commit(0, task, task.end).held);
  EXPECT_TRUE(job.Beat(1).known);
  EXPECT_EQ(job.master->snapshot().workers_lost, 0);
}

TEST(LossesTest, ATaskThatFailsEverywhereFailsTheJobAndIsNamed) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const Task good = job.Lease(0).task, alright = job.Lease(1).task;
  job.Commit(0, good, good.end);
  job.Commit(1, alright, alright.end);
  const Task bad = job.Lease(0).task;  // Records 20 to 29: five of a.tsv, five of b.tsv.
  job.Fail(0, bad, "a.tsv:22: column 3, 'abc', is not an integer");
  EXPECT_NE(job.Lease(0).task.id, bad.id);  // Somebody else should try.
  EXPECT_EQ(job.Lease(1).task.id, bad.id);
  job.CrashWorker(1, "out of cheese");
  EXPECT_NE(job.master->state(), JobState::kFailed);
  job.JoinWorker(2);
  EXPECT_EQ(job.Lease(2).task.id, bad.id);
  job.Fail(2, bad, "a.tsv:22: still not");
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error,
              AllOf(HasSubstr("records [20, 25) of a.tsv and records [0, 5) of b.tsv"),
                    HasSubstr("failed 3 times, on 3 workers"),
                    HasSubstr("the first error: a.tsv:22: column 3, 'abc'")));
  EXPECT_EQ(job.Beat(0).directive, Directive::kLeave);
}

TEST(LossesTest, ALoneWorkerMayTryAgainButNotForEver) {
  MasterOptions options = SmallJob();
  options.job.workers = {.min = 1, .max = 1};
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  for (int i = 0; i < 3; ++i) job.Fail(0, job.Lease(0).task, "no");
  EXPECT_EQ(job.master->state(), JobState::kFailed);
}

// Batches that diverge here and there, each well when tried again, still end the job after a while;
// a master that restarts goes on counting.
TEST(LossesTest, TooManyBatchesThatAreNotFiniteFailTheJob) {
  MasterOptions options = SmallJob();
  options.job.elastic.not_finite_max = 2;
  FakeJob job(options);
  job.JoinServers();
  for (int64_t id : {0, 1}) job.JoinWorker(id);
  const auto diverge = [&] {
    const Task task = job.Lease(0).task;
    job.master->Fail({.worker = WorkerId(0),
                      .task = task.id,
                      .error = "table deep: gradient is NaN",
                      .not_finite = true},
                     job.now);
    job.Perform();
    const Task again = job.Lease(1).task;
    job.Commit(1, again, again.end);
  };
  diverge();
  job.Open();
  for (int64_t id : {0, 1}) job.Beat(id);
  diverge();
  EXPECT_NE(job.master->state(), JobState::kFailed);
  diverge();
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error,
              AllOf(HasSubstr("training diverges: 3 batches with a NaN or an infinity"),
                    HasSubstr("elastic.not_finite_max is 2"), HasSubstr("table deep")));
}

TEST(LossesTest, WorkersThatCrashAtStartFailTheJobWithTheFirstError) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id = 0; id < 5; ++id) {
    EXPECT_NE(job.master->state(), JobState::kFailed);
    job.CrashWorker(id, id == 0 ? "the model has no such layer" : "later");
    job.Pass(absl::Seconds(1));
  }
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error,
              AllOf(HasSubstr("workers crashed 5 times in a row"),
                    HasSubstr("worker-0: exit code 1: the model has no such layer")));
}

TEST(LossesTest, KilledWorkersAreNoCrashLoop) {
  FakeJob job;
  job.JoinServers();
  for (int64_t id = 0; id < 20; ++id) {
    job.KillWorker(id);
    job.Pass(absl::Seconds(10));
  }
  EXPECT_NE(job.master->state(), JobState::kFailed);
  EXPECT_EQ(job.master->snapshot().workers_lost, 20);
}

TEST(LossesTest, ACommittedBatchBreaksACrashLoop) {
  FakeJob job;
  job.JoinServers();
  int64_t id = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) {
      job.CrashWorker(id++, "no");
      job.Pass(absl::Seconds(10));
    }
    job.JoinWorker(id);
    const Task task = job.Lease(id).task;
    job.Commit(id, task, task.end);
  }
  EXPECT_NE(job.master->state(), JobState::kFailed);
}

TEST(LossesTest, APlaceThatKeepsDyingWaitsWhileOthersAreStartedAtOnce) {
  FakeJob job;
  job.JoinServers();
  job.launched.clear();
  job.KillWorker(0);
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));  // The first time at once.
  job.KillWorker(2);
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), IsEmpty());
  job.KillWorker(1);
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));  // The other place: its first.
  job.Pass(absl::Milliseconds(300));
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(1));
}

// A machine takes thirty of thirty-two along: all are asked for again at once, and the two left
// have the work meanwhile.
TEST(LossesTest, ThirtyOfThirtyTwoAreReplacedAtOnce) {
  MasterOptions options = SmallJob();
  options.job.workers = {.min = 1, .max = 32, .start = 32};
  options.data = {.train = {{"a.tsv", 400}}};
  FakeJob job(options);
  job.JoinServers();
  for (int64_t id = 0; id < 32; ++id) job.JoinWorker(id);
  for (int64_t id = 0; id < 32; ++id) job.Lease(id);
  job.launched.clear();
  const absl::Time died = job.now;
  for (int64_t id = 0; id < 30; ++id) job.KillWorker(id);
  EXPECT_EQ(job.now, died);
  EXPECT_THAT(job.TakeLaunched(Role::kWorker), SizeIs(30));
  EXPECT_EQ(job.master->snapshot().workers_lost, 30);
  for (const int64_t id : {30, 31}) {
    EXPECT_EQ(job.Lease(id).verdict, Verdict::kTask) << "what the dead held is open again";
  }
}

TEST(LossesTest, AServerComesBackInItsPlace) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.end);
  job.launched.clear();
  job.Exit(Role::kServer, 1, 1, 0, SIGKILL);
  EXPECT_EQ(job.Beat(0).view.servers[1].address, "");
  const std::vector<LaunchProcess> launched = job.TakeLaunched(Role::kServer);
  ASSERT_THAT(launched, SizeIs(1));
  EXPECT_EQ(launched[0].id, 1);
  EXPECT_EQ(launched[0].incarnation, 2);
  EXPECT_FALSE(job.JoinServer(1, 1).accepted);
  EXPECT_TRUE(job.JoinServer(1, 2).accepted);
  EXPECT_EQ(job.Beat(0).view.servers[1].address, "unix:/s");
  EXPECT_EQ(job.master->snapshot().servers_lost, 1);
  job.Exit(Role::kServer, 1, 1, 0, SIGKILL);  // Reported again: of a past life.
  EXPECT_EQ(job.master->snapshot().servers_alive, 2);
}

// Silence while it starts is no crash: the next has twice as long, up to eight times. Only who is
// silent for that long counts, and in the end there is no more to hope.
TEST(LossesTest, WhoIsSlowToStartIsGivenLongerEachTime) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(1);
  job.TakeLaunched(Role::kWorker);
  std::vector<int64_t> waited;
  int64_t next = 0;
  for (int i = 0; i < 9 && !job.finished.has_value() && job.master->state() != JobState::kFailed;
       ++i) {
    job.signalled.clear();
    int64_t seconds = 0;
    for (; job.signalled.empty() && seconds < 1000; ++seconds) {
      job.Beat(1);
      job.BeatServers();
      job.Pass(absl::Seconds(1));
    }
    ASSERT_THAT(job.signalled, SizeIs(1));
    EXPECT_EQ(job.signalled[0].id, next);
    job.KillWorker(next);
    waited.push_back(seconds / 60);
    // Its successor is launched, perhaps after a wait.
    for (int wait = 0; wait < 20; ++wait) {
      job.Beat(1);
      job.BeatServers();
      job.Pass(absl::Seconds(1));
      const auto launched = job.TakeLaunched(Role::kWorker);
      if (!launched.empty()) next = launched.front().id;
      if (!launched.empty()) break;
    }
  }
  EXPECT_THAT(waited, ElementsAre(1, 2, 4, 8, 8, 8, 8, 8));
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error, HasSubstr("workers crashed 5 times"));
}

TEST(LossesTest, OneThatNeverStartsIsKilledAndAnotherTakesItsPlace) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(1);
  for (int i = 0; i < 61; ++i) {
    job.Beat(1);
    job.BeatServers();
    job.Pass(absl::Seconds(1));
  }
  ASSERT_THAT(job.signalled, SizeIs(1));
  EXPECT_EQ(job.signalled[0].id, 0);
  EXPECT_EQ(job.signalled[0].kind, SignalProcess::Kind::kKill);
  job.KillWorker(0);
  EXPECT_THAT(job.events.back(), "worker_launched");
}

// However long it takes to read its log; one that gets no further is as good as one that is silent.
TEST(LossesTest, AServerThatReadsItsLogIsNotKilled) {
  FakeJob job;
  job.JoinServer(0);
  job.JoinWorker(1);
  ServerHeartbeat beat = {.server = ServerId(1), .incarnation = 1, .to_recover = 1000};
  const auto pass = [&](int seconds, int64_t bytes) {
    for (int i = 0; i < seconds; ++i) {
      beat.recovered += bytes;
      EXPECT_FALSE(job.Done(job.master->Heartbeat(beat, job.now)).known);
      job.JoinWorker(0);
      for (const int64_t worker : {0, 1}) job.Beat(worker);
      job.BeatServer(0);
      job.Pass(absl::Seconds(1));
    }
  };
  pass(200, 2);
  EXPECT_THAT(job.signalled, IsEmpty());
  const std::vector<ProcessStatus> processes = job.master->snapshot().processes;
  const auto server = std::find_if(processes.begin(), processes.end(), [](const auto& process) {
    return process.role == Role::kServer && process.id == 1;
  });
  ASSERT_NE(server, processes.end());
  EXPECT_EQ(server->doing, "reading its log, 40 %");
  pass(61, 0);
  ASSERT_THAT(job.signalled, SizeIs(1));
  EXPECT_EQ(job.signalled[0].role, Role::kServer);
  EXPECT_EQ(job.signalled[0].kind, SignalProcess::Kind::kKill);
}

TEST(LossesTest, AHungServerIsKilled) {
  FakeJob job;
  job.JoinServers();
  for (int i = 0; i < 31; ++i) {
    job.BeatServer(0);
    job.Pass(absl::Seconds(1));
  }
  ASSERT_THAT(job.signalled, SizeIs(1));
  EXPECT_EQ(job.signalled[0].role, Role::kServer);
  EXPECT_EQ(job.signalled[0].id, 1);
  job.Exit(Role::kServer, 1, 1, 0, SIGKILL);
  EXPECT_EQ(job.causes["server_lost"], "it did not answer and was killed");
  job.Exit(Role::kServer, 0, 1, 0, SIGKILL);  // By somebody else.
  EXPECT_EQ(job.causes["server_lost"], "killed by signal 9");
}

TEST(LossesTest, ACommitWhereNoBatchEndsIsAFailure) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  const Task task = job.Lease(0).task;
  EXPECT_FALSE(job.Commit(0, task, task.begin + 3).held);
  EXPECT_THAT(job.master->ledger().Find(task.id)->failures, SizeIs(1));
  EXPECT_EQ(job.master->ledger().records_committed(), 0);
}

// Bad rows are told with the commit of their batch, so each counts once: a commit said twice, a
// batch computed twice or a master that comes back change nothing.
TEST(LossesTest, EachBadRowIsCountedOnce) {
  MasterOptions options = SmallJob();
  options.job.data.bad_rows_max = 3;
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  const Task task = job.Lease(0).task;
  CommitRequest commit = {.worker = WorkerId(0),
                          .task = task.id,
                          .upto = task.begin + 5,
                          .bad_rows = 2,
                          .bad_rows_named = {"a.tsv:1: bad", "a.tsv:2: bad"}};
  for (int said = 0; said < 3; ++said) job.Done(job.master->Commit(commit, job.now));
  EXPECT_EQ(job.master->snapshot().bad_rows, 2);
  EXPECT_EQ(std::count(job.events.begin(), job.events.end(), "row_skipped"), 2);
  job.KillWorker(0);
  job.Open();
  EXPECT_EQ(job.master->snapshot().bad_rows, 2);
  // The next worker goes on after what is committed, and finds two more: one too many.
  job.JoinWorker(1);
  const Task rest = job.Lease(1).task;
  ASSERT_EQ(rest.id, task.id);
  commit = {.worker = WorkerId(1),
            .task = rest.id,
            .upto = rest.end,
            .bad_rows = 2,
            .bad_rows_named = {"a.tsv:6: bad", "a.tsv:7: bad"}};
  job.Done(job.master->Commit(commit, job.now));
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_THAT(job.master->snapshot().error,
              AllOf(HasSubstr("4 rows"), HasSubstr("data.bad_rows_max, 3"), HasSubstr("a.tsv:7")));
}

// What a lost worker had under way is computed again; what one hands back on leaving is not.
TEST(LossesTest, OnlyWhatWasUnderWayIsComputedAgain) {
  MasterOptions options = SmallJob();
  options.job.max_inflight = 0;
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  job.JoinWorker(1);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.begin + 5, /*release=*/true);
  job.Exit(Role::kWorker, 0, 1, 0, 0);
  EXPECT_EQ(job.master->snapshot().records_recomputed, 0);
  job.Lease(1);
  job.KillWorker(1);
  EXPECT_EQ(job.master->snapshot().records_recomputed, 5);  // One batch: max_inflight + 1.
  job.Open();
  EXPECT_EQ(job.master->snapshot().records_recomputed, 5);
}

// A file that is damaged stays so: the job fails at the first word of it, and says which.
TEST(LossesTest, AServerWithDamagedFilesFailsTheJobAtOnce) {
  FakeJob job;
  job.JoinServers();
  job.Exit(Role::kServer, 0, 1, /*code=*/2, 0, "server-0.ckpt: damaged at byte 7");
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_TRUE(job.master->snapshot().bad_input);
  EXPECT_THAT(job.master->snapshot().error, HasSubstr("server-0.ckpt: damaged at byte 7"));
}

// A run's own time and records: what was there before a resume is not its doing.
TEST(LossesTest, AResumedRunCountsFromItsOwnBeginning) {
  FakeJob job;
  const absl::Time began = job.now;
  job.JoinServers();
  job.JoinWorker(0);
  const Task task = job.Lease(0).task;
  job.Commit(0, task, task.end);
  job.Pass(absl::Seconds(1));
  EXPECT_EQ(job.master->snapshot().run_began, began);
  EXPECT_FALSE(job.master->snapshot().loss_known);
  job.options.resume = true;
  job.Pass(absl::Seconds(1));
  const absl::Time resumed = job.now;
  job.Open();
  job.options.resume = false;
  job.Pass(absl::Seconds(1));
  job.Open();  // A master that merely died changes nothing.
  EXPECT_EQ(job.master->snapshot().run_began, resumed);
  EXPECT_EQ(job.master->snapshot().records_before, 10);
}

}  // namespace
}  // namespace rubato

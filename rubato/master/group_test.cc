// Strategy allreduce as the master sees it: who begins, what counts, what is saved, how it ends.
#include "rubato/master/group.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/group_testing.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

TEST_F(GroupTest, OneBeginsTheOthersJoin) {
  EXPECT_THAT(job_.TakeLaunched(Role::kServer), IsEmpty());
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  EXPECT_FALSE(Beat(1, {}).found);
  const GroupOrders founder = Beat(0, {});
  EXPECT_TRUE(founder.found);
  EXPECT_EQ(founder.generation, 1);
  EXPECT_EQ(founder.restore, "");
  Beat(0, At(0));
  const GroupOrders other = Beat(1, {});
  EXPECT_FALSE(other.found);
  EXPECT_EQ(other.generation, 1);
}

// The job file's limit and that of who issues views must not part.
TEST_F(GroupTest, ALeaseTooShortToAnswerWithinIsRefused) {
  MasterOptions options = Options();
  options.job.elastic.heartbeat = absl::Milliseconds(10);
  for (const int ms : {299, 300}) {
    options.job.elastic.lease = absl::Milliseconds(ms);
    options.job.name = "job";
    options.job.model = "mlp";
    options.job.data.train = {"a.tsv"};
    options.job.servers = 1;
    const bool fits = ms == 300;
    EXPECT_EQ(options.job.Validate().ok(), fits) << options.job.Validate();
    EXPECT_EQ(Master::Open(options, {}, job_.now).status().code(),
              fits ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
  }
}

// Whoever goes on with more workers than the job was made for walks through the plan it began with.
TEST_F(GroupTest, ThePlanStaysAsTheJobBegan) {
  job_.options.job.batches_per_task = 0;
  job_.options.job.workers = {.min = 1, .max = 2};
  job_.options.job.allreduce.batch_rule = "linear";
  job_.options.data = {.train = {{"a.tsv", 4000}}};
  job_ = FakeJob(job_.options);
  job_.JoinWorker(0);
  EXPECT_EQ(Beat(0, {}).batches_per_task, PlanOf(job_.options.job, 4000, 0).batches_per_task);
  const int64_t began_with = Beat(0, At(3)).batches_per_task;
  job_.options.job.workers.max = 16;
  EXPECT_NE(PlanOf(job_.options.job, 4000, 0).batches_per_task, began_with);
  job_.Open();
  EXPECT_EQ(Beat(0, At(4)).batches_per_task, began_with);
}

TEST_F(GroupTest, StepsCountOnceAndTheJobEndsWhenAllAgree) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  Beat(0, At(3));
  Beat(1, At(2));  // Behind by a heartbeat.
  EXPECT_EQ(Shown().steps, 3);
  EXPECT_EQ(Shown().records_committed, 15);
  EXPECT_EQ(job_.Lease(0).verdict, LeaseReply::Verdict::kWait);  // Training is not leased.
  Beat(0, At(8, 77));
  EXPECT_EQ(wanted_, 0);  // The other one is not there yet.
  Beat(1, At(8, 77));
  EXPECT_EQ(wanted_, 1);
  Beat(0, Saved(At(8, 77), 1));
  EXPECT_EQ(job_.master->state(), JobState::kDone);
  EXPECT_TRUE(Beat(1, At(8, 77)).over);
  EXPECT_THAT(job_.manifests.back().contents, HasSubstr("worker-0.ckpt"));
  EXPECT_EQ(Shown().records_committed, 40);
}

TEST_F(GroupTest, DifferentWeightsFailTheJob) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  Beat(0, At(8, 77));
  Beat(1, At(8, 78));
  Beat(0, Saved(At(8, 77), 1));
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_THAT(Shown().error, HasSubstr("worker-1 and worker-0 have different weights"));
}

// A worker that lags is named once, and once more when it is level again.
TEST_F(GroupTest, NamesAStraggler) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  const auto told = [&](const char* kind) {
    return std::count(job_.events.begin(), job_.events.end(), kind);
  };
  GroupReport slow = At(3);
  slow.lagging = 0.48;
  Beat(0, At(2));
  Beat(1, At(2));
  EXPECT_EQ(told("straggler"), 0);
  Beat(1, slow);
  Beat(1, slow);
  Beat(0, At(3));
  EXPECT_EQ(told("straggler"), 1);
  EXPECT_THAT(Lagging(), ElementsAre(Pair(1, 0.48)));
  EXPECT_EQ(std::get<int64_t>(job_.fields["straggler"].at("worker")), 1);
  EXPECT_EQ(std::get<int64_t>(job_.fields["straggler"].at("step")), 3);
  EXPECT_EQ(std::get<double>(job_.fields["straggler"].at("ratio")), 0.48);
  EXPECT_THAT(job_.causes["straggler"], HasSubstr("0.48 of the group's median speed"));
  EXPECT_EQ(told("straggler_recovered"), 0);
  Beat(1, At(4));
  Beat(1, At(5));
  EXPECT_EQ(told("straggler_recovered"), 1);
  EXPECT_THAT(Lagging(), IsEmpty());
  EXPECT_EQ(std::get<int64_t>(job_.fields["straggler_recovered"].at("worker")), 1);
}

// The state outlives any death but the last holder's; then the newest checkpoint is what is left.
TEST_F(GroupTest, TheLastHolderTakesTheStateAlong) {
  job_.options.job.checkpoint.every_steps = 2;
  job_ = FakeJob(job_.options);
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  Beat(0, At(2));
  EXPECT_EQ(wanted_, 1);
  Beat(0, Saved(At(3), 1));
  Beat(1, At(5));
  job_.KillWorker(0);
  EXPECT_EQ(Shown().steps, 5);
  const GroupOrders staying = Beat(1, At(5));
  EXPECT_EQ(staying.generation, 1);
  EXPECT_FALSE(staying.found);
  job_.JoinWorker(2);
  job_.KillWorker(1);  // Worker 2 has nothing yet.
  const GroupOrders orders = Beat(2, {});
  EXPECT_TRUE(orders.found);
  EXPECT_EQ(orders.generation, 2);
  EXPECT_EQ(orders.restore, "1/worker-0.ckpt");
  EXPECT_EQ(Shown().steps, 3);
  EXPECT_EQ(Shown().records_committed, 15);
  Beat(2, At(9, 0, /*generation=*/1));  // A word from the past.
  EXPECT_EQ(Shown().steps, 3);
}

// Most of a large group dies at one moment: each has its successor at once, and the few who are
// left go on meanwhile.
TEST_F(GroupTest, ThirtyOfThirtyTwoDie) {
  job_.options.job.workers = {.min = 1, .max = 32, .start = 32};
  job_ = FakeJob(job_.options);
  for (int64_t worker = 0; worker < 32; ++worker) job_.JoinWorker(worker);
  for (int64_t worker = 0; worker < 32; ++worker) Beat(worker, At(2));
  job_.launched.clear();
  for (int64_t worker = 0; worker < 30; ++worker) job_.KillWorker(worker);
  EXPECT_THAT(job_.TakeLaunched(Role::kWorker), SizeIs(30)) << "nobody waits for another's start";
  for (const int64_t worker : {30, 31}) {
    const GroupOrders orders = Beat(worker, At(4));
    EXPECT_EQ(orders.generation, 1);
    EXPECT_FALSE(orders.rest);
  }
  EXPECT_EQ(Shown().steps, 4);
  EXPECT_EQ(Shown().workers_lost, 30);
  EXPECT_EQ(job_.master->state(), JobState::kTraining);
}

// A restarted master must not take those it has not heard yet for gone.
TEST_F(GroupTest, ARestartedMasterWaitsToHear) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  Beat(0, At(4));
  job_.Open();
  EXPECT_EQ(Shown().steps, 4);
  EXPECT_FALSE(Beat(1, {.generation = 1}).found);  // Still copying; worker 0 may hold the state.
  Beat(0, At(6));
  EXPECT_EQ(Shown().steps, 6);
  EXPECT_FALSE(Beat(1, {.generation = 1}).found);
}

// Ctrl-C: they rest, one of them saves, and then they may go.
TEST_F(GroupTest, StopsWithACheckpointAndResumesFromIt) {
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  Beat(0, At(4));
  Beat(1, At(4));
  job_.master->Stop(/*checkpoint=*/true, job_.now);
  EXPECT_TRUE(Beat(0, At(5)).rest);
  EXPECT_EQ(wanted_, 0);
  Beat(1, At(6, 5));
  Beat(0, At(6, 5));
  EXPECT_EQ(wanted_, 1);
  EXPECT_THAT(job_.signalled, IsEmpty());
  Beat(0, Saved(At(6, 5), 1));
  EXPECT_EQ(job_.master->state(), JobState::kStopped);

  job_.options.resume = true;
  job_.Open();
  job_.JoinWorker(2);
  const GroupOrders orders = Beat(2, {});
  EXPECT_EQ(orders.restore, "1/worker-0.ckpt");
  EXPECT_EQ(Shown().steps, 6);
  EXPECT_FALSE(orders.rest);
}

// An evaluation every two steps, of which the best is kept.
class GroupRecipeTest : public GroupTest {
 protected:
  GroupRecipeTest() {
    job_.options.data.validation = {{"v.tsv", 5}};
    job_.options.job.epochs = 10;
    EvaluateSpec& evaluate = job_.options.job.evaluate;
    evaluate.every_steps = 2;
    evaluate.lower_rate = 0.1;
    evaluate.keep_best = true;
    evaluate.stop_after_stalls = 2;
    job_.options.job.checkpoint.keep = 1;
    job_ = FakeJob(job_.options);
    job_.JoinWorker(0);
    job_.JoinWorker(1);
  }
  // Both rest after `steps`, and one of them evaluates. AUC 1, or 0.
  GroupOrders Evaluate(int64_t steps, bool well, int64_t generation = 1) {
    const auto [first, last] = generation == 1 ? std::pair(0, 1) : std::pair(2, 2);
    for (int64_t worker = first; worker <= last; ++worker) {
      Beat(worker, At(steps, 7, generation));
    }
    job_.sums = EvaluationSums();
    job_.sums.AddBinary(well ? 0.9f : 0.1f, true);
    job_.sums.AddBinary(0.5f, false);
    job_.WorkOff(last);
    return Beat(last, At(steps, 7, generation));
  }
};

// Training goes on when the best is on disk, more slowly after a stall, and ends at the second.
TEST_F(GroupRecipeTest, LowersTheRateAndKeepsTheBest) {
  EXPECT_EQ(Evaluate(2, false).evaluated, 0);  // The first, and so the best: not before
  EXPECT_EQ(wanted_, 1);                       // it is saved.
  GroupOrders orders = Beat(0, Saved(At(2, 7), 1));
  EXPECT_EQ(orders.evaluated, 2);
  EXPECT_EQ(orders.lowered, 0);
  EXPECT_EQ(job_.best, 1);
  EXPECT_EQ(Evaluate(4, true).evaluated, 0);
  EXPECT_EQ(Beat(0, Saved(At(4, 7), 2)).evaluated, 4);
  EXPECT_EQ(job_.best, 2);
  orders = Evaluate(6, false);
  EXPECT_EQ(orders.evaluated, 6);
  EXPECT_EQ(orders.lowered, 1);
  job_.Open();  // It outlives the master.
  EXPECT_EQ(Beat(1, At(6, 7)).lowered, 1);
  EXPECT_FALSE(Beat(0, At(7)).rest);
  EXPECT_TRUE(Evaluate(8, false).rest);
  Evaluate(8, false);  // The last one, as ever.
  Beat(0, Saved(At(8, 7), 3));
  const Snapshot result = Shown();
  EXPECT_EQ(result.state, JobState::kDone) << result.error;
  EXPECT_EQ(result.best_evaluation, 2);
  EXPECT_EQ(result.best_checkpoint, 2);
  EXPECT_THAT(job_.removed, testing::Not(testing::Contains(2)));
}

// A folder that hangs when all rest for the best to be saved: the job says what it waits for, and
// does not wait for ever.
TEST_F(GroupRecipeTest, ABestThatCannotBeSaved) {
  for (int64_t worker = 0; worker < 2; ++worker) {
    ViewReport report;
    report.from = {MemberId(100 + worker), "here"};
    if (worker == 0) report.offer = 0;
    job_.master->Confer(
        {.worker = WorkerId(worker), .generation = 1, .report = EncodeReport(report)}, job_.now);
  }
  job_.Pass(absl::Seconds(1));
  Evaluate(2, false);
  const auto wait = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      for (int64_t worker = 0; worker < 2; ++worker) Beat(worker, At(2, 7));
      job_.Pass(absl::Seconds(1));
    }
  };
  wait(30);
  EXPECT_EQ(job_.causes["checkpoint_failed"],
            "worker-0 has not written it yet, after 15s; the job waits for it, up to 1h");
  wait(3600);
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_THAT(Shown().error, HasSubstr("checkpoint 1 was not written: worker-0 has not"));
}

// A copy that was made after more steps is not the best one; another is asked for.
TEST_F(GroupRecipeTest, OnlyTheStepThatWasEvaluatedCounts) {
  job_.options.job.checkpoint.every_steps = 1;
  job_ = FakeJob(job_.options);
  job_.JoinWorker(0);
  job_.JoinWorker(1);
  Beat(0, At(1));
  EXPECT_EQ(wanted_, 1);
  Evaluate(2, true);
  GroupReport late = At(2, 7);
  late.checkpointed = 1;
  late.checkpoint_steps = 1;
  late.checkpoint_records = 5;
  EXPECT_EQ(Beat(0, late).evaluated, 0);
  EXPECT_EQ(job_.best, 0);
  EXPECT_EQ(wanted_, 2);
  EXPECT_EQ(Beat(0, Saved(At(2, 7), 2)).evaluated, 2);
  EXPECT_EQ(job_.best, 2);
}

// All die before the best is on disk: the one before it is the best again, and nobody waits.
TEST_F(GroupRecipeTest, ABestThatWasLostIsForgotten) {
  Evaluate(2, false);
  Beat(0, Saved(At(2, 7), 1));
  Evaluate(4, true);
  job_.KillWorker(0);
  job_.KillWorker(1);
  job_.JoinWorker(2);
  EXPECT_EQ(Beat(2, {}).restore, "1/worker-0.ckpt");
  EXPECT_EQ(Shown().best_evaluation, 1);
  EXPECT_EQ(Beat(2, At(3, 7, 2)).evaluated, 2);
  Evaluate(4, true, /*generation=*/2);
  EXPECT_EQ(wanted_, 2);
  EXPECT_EQ(Beat(2, Saved(At(4, 7, 2), 2)).evaluated, 4);
  EXPECT_EQ(job_.best, 2);
}

// The best is the newest, and damaged: what begins from the one before does not leave its name
// behind, and the next that is evaluated is the best.
TEST_F(GroupRecipeTest, ABestThatIsDamagedIsNoneAnyMore) {
  Evaluate(2, false);
  Beat(0, Saved(At(2, 7), 1));
  Evaluate(4, true);
  Beat(0, Saved(At(4, 7), 2));
  ASSERT_EQ(job_.best, 2);
  job_.KillWorker(0);
  job_.KillWorker(1);
  job_.JoinWorker(2);
  const std::string file = Beat(2, {}).restore;
  ASSERT_EQ(file, "2/worker-0.ckpt");
  job_.master->Fail({.worker = WorkerId(2), .checkpoint = file, .error = "damaged"}, job_.now);
  job_.Perform();
  EXPECT_EQ(Beat(2, {}).restore, "1/worker-0.ckpt");
  for (const bool restart : {false, true}) {
    if (restart) job_.Open();
    EXPECT_EQ(job_.best, 0);
    EXPECT_EQ(Shown().best_checkpoint, 0);
  }
  Evaluate(4, false, /*generation=*/3);
  EXPECT_EQ(Beat(2, Saved(At(4, 7, 3), 3)).evaluated, 4);
  EXPECT_EQ(job_.best, 3);
}

// All die: what was evaluated after the last checkpoint is of weights that nobody has. The steps
// that come again are evaluated again, and the rate and the stalls are as they were.
TEST_F(GroupRecipeTest, StepsThatComeAgainAreEvaluatedAgain) {
  Evaluate(2, true);
  Beat(0, Saved(At(2, 7), 1));
  EXPECT_EQ(Evaluate(4, false).lowered, 1);
  EXPECT_TRUE(Evaluate(6, false).rest);  // The second stall: training has ended.
  Beat(0, At(6, 7));
  job_.KillWorker(0);
  job_.KillWorker(1);
  job_.JoinWorker(2);
  for (const bool restart : {false, true}) {
    if (restart) job_.Open();
    const GroupOrders orders = Beat(2, At(2, 0, 2));
    EXPECT_EQ(orders.evaluated, 2);
    EXPECT_EQ(orders.lowered, 0);
    EXPECT_FALSE(orders.rest);
    ASSERT_EQ(Shown().evaluations.size(), 1u);
    EXPECT_EQ(Shown().state, JobState::kTraining);
  }
  EXPECT_EQ(Beat(2, At(4, 0, 2)).evaluated, 2);
  const GroupOrders orders = Evaluate(4, false, /*generation=*/2);
  EXPECT_EQ(orders.evaluated, 4);
  EXPECT_EQ(orders.lowered, 1);
  EXPECT_FALSE(orders.rest);
  ASSERT_EQ(Shown().evaluations.size(), 2u);
  EXPECT_EQ(Shown().evaluations[1].step, 4);
  EXPECT_GT(Shown().evaluations[1].number, 3);
  EXPECT_EQ(std::get<int64_t>(job_.fields["evaluation_ended"].at("step")), 4);
}

// They die while they evaluate: what was scored is of other weights than those that come.
TEST_F(GroupRecipeTest, AnEvaluationOfWeightsThatAreLostIsGivenUp) {
  Beat(0, At(2, 7));
  Beat(1, At(2, 7));
  EXPECT_EQ(job_.Lease(1).verdict, LeaseReply::Verdict::kTask);
  job_.KillWorker(0);
  job_.KillWorker(1);
  job_.JoinWorker(2);
  EXPECT_EQ(Beat(2, At(1, 0, 2)).evaluated, 0);
  EXPECT_EQ(job_.Lease(2).verdict, LeaseReply::Verdict::kWait);
  Evaluate(2, true, /*generation=*/2);
  EXPECT_EQ(Beat(2, Saved(At(2, 7, 2), 1)).evaluated, 2);
}

// One that stops while it evaluates is out of the next view before its lease is over, and what
// it had in hand is another's at once. Should it wake, its own result does not count.
TEST_F(GroupRecipeTest, WhoIsLeftOutEvaluatesNoMore) {
  const auto report = [&](int64_t worker, ViewReport report) {
    report.from = {MemberId(100 + worker), "here"};
    job_.master->Confer(
        {.worker = WorkerId(worker), .generation = 1, .report = EncodeReport(report)}, job_.now);
    job_.Perform();
  };
  report(0, {.offer = 0});
  report(1, {});
  job_.Pass(absl::Milliseconds(500));
  const GroupView view = DecodeOrder(job_.orders[0])->view;
  ASSERT_EQ(view.size(), 2);
  Beat(0, At(2, 7));
  Beat(1, At(2, 7));
  const LeaseReply first = job_.Lease(1);
  ASSERT_EQ(first.verdict, LeaseReply::Verdict::kTask);
  EXPECT_EQ(job_.Lease(0).verdict, LeaseReply::Verdict::kWait);
  report(0, {.view = view.number,
             .let_go = true,
             .urgent = true,
             .progress = {2, 2, 2},
             .lost = {{MemberId(101), MemberId(100), LossReason::kLease}}});
  job_.Pass(absl::Milliseconds(1000));
  ASSERT_FALSE(DecodeOrder(job_.orders[0])->view.Contains(MemberId(101)));
  EXPECT_EQ(std::count(job_.events.begin(), job_.events.end(), "worker_evicted"), 0);
  const LeaseReply second = job_.Lease(0);
  ASSERT_EQ(second.verdict, LeaseReply::Verdict::kTask);
  EXPECT_EQ(second.task.id, first.task.id);
  EXPECT_FALSE(job_.Commit(1, first.task, first.task.end).held);
  EXPECT_TRUE(job_.Commit(0, second.task, second.task.end).held);
}

// Worker 0 holds the state and worker 1 learns, both in one view.
class GroupHeirTest : public GroupTest {
 protected:
  GroupHeirTest() {
    job_.JoinWorker(0);
    job_.JoinWorker(1);
    Beat(0, At(3));
    Report(0, {.offer = 0});
    Report(1, {});
    job_.Pass(absl::Seconds(1));
    view_ = DecodeOrder(job_.orders[1])->view;
    EXPECT_EQ(view_.holders, 1);
    EXPECT_EQ(view_.size(), 2);
  }
  void Report(int64_t worker, ViewReport report) {
    report.from = {MemberId(100 + worker), "here"};
    job_.master->Confer(
        {.worker = WorkerId(worker), .generation = 1, .report = EncodeReport(report)}, job_.now);
    job_.Perform();
  }
  ViewReport Learner(bool level, bool let_go = false) const {
    const int64_t applied = level ? 5 : -1;
    return {.view = view_.number,
            .let_go = let_go,
            .urgent = let_go,
            .level = level,
            .progress = {5, applied, let_go ? 6 : 5}};
  }
  // What worker 1 says of itself with every heartbeat: it does not hold the state, yet.
  GroupOrders BeatLearner() {
    GroupReport copied = At(5);
    copied.holds = false;
    return Beat(1, copied);
  }
  int64_t Founded() const {
    return std::count(job_.events.begin(), job_.events.end(), "group_founded");
  }

  GroupView view_;
};

// The last holder dies when a newcomer has just caught up: the state lives on in that one, and no
// checkpoint is needed. So it does if the master dies as well; the next one knows of the death by
// its journal alone, and may hear the newcomer's heartbeat before its report.
enum class MasterDies { kNot, kReportFirst, kHeartbeatFirst };
class GroupInheritsTest : public GroupHeirTest, public testing::WithParamInterface<MasterDies> {};

TEST_P(GroupInheritsTest, ANewcomerThatIsLevelInheritsTheState) {
  Report(1, Learner(/*level=*/true));
  job_.KillWorker(0);
  if (GetParam() != MasterDies::kNot) job_.Open();
  if (GetParam() == MasterDies::kReportFirst) Report(1, Learner(/*level=*/true));
  EXPECT_EQ(BeatLearner().generation, 1);
  job_.Pass(absl::Seconds(1));
  EXPECT_EQ(BeatLearner().generation, 1);
  Report(1, Learner(/*level=*/true, /*let_go=*/true));
  const GroupView next = DecodeOrder(job_.orders[1])->view;
  EXPECT_EQ(next.number, view_.number + 1);
  EXPECT_TRUE(next.Holds(MemberId(101)));
  EXPECT_EQ(next.step, 6);
  EXPECT_EQ(Beat(1, At(6)).generation, 1);
  EXPECT_EQ(Shown().steps, 6);
  EXPECT_EQ(Founded(), 1);
}

INSTANTIATE_TEST_SUITE_P(MasterDiesToo, GroupInheritsTest,
                         testing::Values(MasterDies::kNot, MasterDies::kReportFirst,
                                         MasterDies::kHeartbeatFirst));

// One that has not got it says so when it lets go, and is waited for no longer than a lease: it may
// have the last of it still to put in place.
TEST_F(GroupHeirTest, OneThatIsNotLevelInheritsNothing) {
  Report(1, Learner(/*level=*/false));
  job_.KillWorker(0);
  EXPECT_EQ(Founded(), 1) << "it may have caught up since";
  Report(1, Learner(/*level=*/false, /*let_go=*/true));
  job_.Pass(absl::Milliseconds(50));
  EXPECT_EQ(Founded(), 1);
  for (int beats = 0; beats < 11; ++beats) {
    BeatLearner();
    job_.Pass(0.1 * Options().job.elastic.lease);
  }
  EXPECT_EQ(Founded(), 2);
  EXPECT_EQ(BeatLearner().generation, 2);
}

// Whoever does not say how far it has come within a lease is waited for no longer, though its
// process beats on.
TEST_F(GroupHeirTest, IsWaitedForAsLongAsALease) {
  job_.KillWorker(0);
  job_.Open();
  const absl::Duration lease = Options().job.elastic.lease;
  for (absl::Duration waited; waited < 0.9 * lease; waited += 0.1 * lease) {
    EXPECT_EQ(BeatLearner().generation, 1);
    job_.Pass(0.1 * lease);
  }
  EXPECT_EQ(Founded(), 1);
  BeatLearner();
  job_.Pass(0.2 * lease);
  EXPECT_EQ(Founded(), 2);
}

// Asked to stop meanwhile, the job ends with what the heir has, not without it.
TEST_F(GroupHeirTest, SavesTheStateOfAJobThatStops) {
  Report(1, Learner(/*level=*/true));
  job_.KillWorker(0);
  job_.master->Stop(/*checkpoint=*/true, job_.now);
  job_.Perform();
  BeatLearner();
  EXPECT_EQ(job_.master->state(), JobState::kStopping);
  Report(1, Learner(/*level=*/true, /*let_go=*/true));
  Beat(1, At(6, 77));
  EXPECT_EQ(wanted_, 1);
  Beat(1, Saved(At(6, 77), 1));
  EXPECT_EQ(job_.master->state(), JobState::kStopped);
  EXPECT_EQ(Shown().steps, 6);
}

// A step that cannot be computed fails the job, naming records and reason.
TEST_F(GroupTest, AStepThatFailsAgainAndAgain) {
  job_.JoinWorker(0);
  Beat(0, At(2));
  for (int i = 0; i < 3; ++i) {
    job_.master->Fail({.worker = WorkerId(0), .error = "a.tsv:12: no number", .attempt = i},
                      job_.now);
  }
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_THAT(Shown().error, HasSubstr("step 3 (epoch 0, records [10, 15) of a.tsv)"));
  EXPECT_THAT(Shown().error, HasSubstr("failed 3 times"));
  EXPECT_THAT(Shown().error, HasSubstr("a.tsv:12: no number"));
}

// What many see at once, as a disk that fails for a moment, is one attempt.
TEST_F(GroupTest, AStepThatFailsForAllAtOnceFailedOnce) {
  for (int64_t worker = 0; worker < 2; ++worker) job_.JoinWorker(worker);
  Beat(0, At(2));
  Beat(1, At(2));
  const auto fail = [&](int64_t attempt) {
    for (int64_t worker = 0; worker < 2; ++worker) {
      job_.master->Fail({.worker = WorkerId(worker), .error = "no disk", .attempt = attempt},
                        job_.now);
    }
    job_.Perform();
  };
  fail(7);
  fail(8);
  EXPECT_NE(job_.master->state(), JobState::kFailed);
  EXPECT_EQ(std::count(job_.events.begin(), job_.events.end(), "step_failed"), 4);
  Beat(0, At(3));  // It went well, and the next begins from none.
  fail(10);
  fail(11);
  EXPECT_NE(job_.master->state(), JobState::kFailed);
  fail(12);
  EXPECT_EQ(job_.master->state(), JobState::kFailed);
  EXPECT_THAT(Shown().error, HasSubstr("step 4 (epoch 0, records [15, 20) of a.tsv) failed 3"));
}

}  // namespace
}  // namespace rubato

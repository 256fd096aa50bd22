#include "rubato/tasks/ledger.h"

#include "gtest/gtest.h"

namespace rubato {
namespace {

const WorkerId kAnn(1), kBob(2);

// Leases the next task for `worker`, as the master does.
Task LeaseNext(Ledger& ledger, WorkerId worker, std::vector<WorkerId> alive = {kAnn, kBob}) {
  const std::optional<Task> task = ledger.NextFor(worker, alive);
  EXPECT_TRUE(task.has_value());
  if (!task.has_value()) return {};
  EXPECT_TRUE(ledger.Lease(task->id, worker).ok());
  return *task;
}

TaskPlanOptions TwoTasks() { return {.records = 40, .batch_size = 10, .batches_per_task = 2}; }

TEST(LedgerTest, ALostTaskGoesOnFromItsLastCommittedBatch) {
  Ledger ledger(TwoTasks());
  const Task first = LeaseNext(ledger, kAnn);
  EXPECT_TRUE(ledger.Commit(first.id, first.begin + 10).ok());
  ledger.Reopen(kAnn);
  const Task again = LeaseNext(ledger, kBob);
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.committed, first.begin + 10);
  EXPECT_FALSE(ledger.Holds(kAnn, first.id));
  EXPECT_EQ(ledger.steps(), 1);
}

// Tasks are shuffled, so their ids say nothing about their order. A worker that read ahead and was
// stopped gives back two, and whoever comes goes on where it was, even if that one is stopped too.
TEST(LedgerTest, LostTasksKeepTheOrderOfThePlan) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Ledger ledger({.records = 40,
                   .batch_size = 10,
                   .batches_per_task = 1,
                   .shuffle_tasks = true,
                   .seed = seed});
    const std::vector<Task> plan = ledger.plan().TasksOf(0);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(LeaseNext(ledger, kAnn).id, plan[i].id);
    ledger.Reopen(kAnn);
    EXPECT_EQ(LeaseNext(ledger, kBob).id, plan[0].id);
    ledger.Reopen(kBob);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(LeaseNext(ledger, kAnn).id, plan[i].id) << seed;
  }
}

TEST(LedgerTest, EveryRecordIsCommittedOnce) {
  Ledger ledger(TwoTasks());
  for (int i = 0; i < 2; ++i) {
    const Task task = LeaseNext(ledger, kAnn);
    EXPECT_TRUE(ledger.Commit(task.id, task.begin + 10).ok());
    EXPECT_TRUE(ledger.Commit(task.id, task.begin).ok());  // A late one: no step back.
    EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
    EXPECT_FALSE(ledger.Commit(task.id, task.end).ok());  // Finished: not live any more.
  }
  EXPECT_TRUE(ledger.finished());
  EXPECT_EQ(ledger.steps(), 4);
  EXPECT_EQ(ledger.records_committed(), 40);
  EXPECT_EQ(ledger.Committed(0), ledger.Expected(0));
}

TEST(LedgerTest, OnlyBatchesCanBeCommitted) {
  Ledger ledger(TwoTasks());
  const Task task = LeaseNext(ledger, kAnn);
  for (const int64_t upto : {task.begin + 3, task.begin - 10, task.end + 10}) {
    EXPECT_FALSE(ledger.Commit(task.id, upto).ok()) << upto;
  }
  EXPECT_EQ(ledger.records_committed(), 0);
}

TEST(LedgerTest, AFencingTaskIsNobodysUntilReopened) {
  TaskPlanOptions options = TwoTasks();
  options.max_steps = 2;
  Ledger ledger(options);
  const Task task = LeaseNext(ledger, kAnn);
  ledger.Fence(kAnn);
  EXPECT_TRUE(ledger.Fencing(kAnn));
  EXPECT_FALSE(ledger.Holds(kAnn, task.id));
  EXPECT_FALSE(ledger.NextFor(kBob, {kBob}).has_value());
  EXPECT_FALSE(ledger.Commit(task.id, task.end).ok());
  ledger.Reopen(kAnn);
  EXPECT_EQ(LeaseNext(ledger, kBob).id, task.id);
}

TEST(LedgerTest, TheBarrierHoldsTheNextEpochBack) {
  for (const bool barrier : {true, false}) {
    TaskPlanOptions options = TwoTasks();
    options.epochs = 2;
    options.epoch_barrier = barrier;
    Ledger ledger(options);
    const Task slow = LeaseNext(ledger, kAnn);
    const Task quick = LeaseNext(ledger, kBob);
    EXPECT_TRUE(ledger.Commit(quick.id, quick.end).ok());
    EXPECT_EQ(ledger.NextFor(kBob, {kAnn, kBob}).has_value(), !barrier);
    EXPECT_TRUE(ledger.Commit(slow.id, slow.end).ok());
    EXPECT_EQ(LeaseNext(ledger, kBob).epoch, 1);
    EXPECT_FALSE(ledger.finished());
  }
}

TEST(LedgerTest, EvaluationComesFirstAndCommitsAsAWhole) {
  TaskPlanOptions options = TwoTasks();
  options.validation_records = 30;
  Ledger ledger(options);
  LeaseNext(ledger, kAnn);
  ledger.BeginEvaluation(1);
  EXPECT_TRUE(ledger.evaluating());
  for (int i = 0; i < 3; ++i) {
    const Task task = LeaseNext(ledger, kBob);
    EXPECT_EQ(task.kind, TaskKind::kEvaluate);
    EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
    EXPECT_FALSE(ledger.Commit(task.id, task.end).ok());
  }
  EXPECT_FALSE(ledger.evaluating());
  EXPECT_EQ(ledger.records_committed(), 0);  // Evaluated records are not trained ones.
  EXPECT_EQ(LeaseNext(ledger, kBob).kind, TaskKind::kTrain);
}

TEST(LedgerTest, AFailedTaskGoesToSomebodyElseIfThereIsOne) {
  Ledger ledger(TwoTasks());
  const Task bad = LeaseNext(ledger, kAnn);
  EXPECT_TRUE(ledger.AddFailure(bad.id, {kAnn, "row 3 is no row"}).ok());
  EXPECT_TRUE(ledger.Release(bad.id).ok());
  EXPECT_NE(ledger.NextFor(kAnn, {kAnn, kBob})->id, bad.id);
  EXPECT_EQ(ledger.NextFor(kAnn, {kAnn})->id, bad.id);
  EXPECT_EQ(ledger.NextFor(kBob, {kAnn, kBob})->id, bad.id);
  EXPECT_EQ(ledger.Find(bad.id)->failures.front().error, "row 3 is no row");
}

TEST(LedgerTest, EndingEarlyFinishesWhatWasBegun) {
  TaskPlanOptions options = {.records = 100, .batch_size = 10, .batches_per_task = 2, .epochs = 2};
  Ledger ledger(options);
  const Task begun = LeaseNext(ledger, kAnn);
  const Task lost = LeaseNext(ledger, kBob);
  ledger.EndEarly();
  ledger.Reopen(kBob);
  EXPECT_TRUE(ledger.Commit(begun.id, begun.end).ok());
  EXPECT_FALSE(ledger.finished());
  EXPECT_EQ(LeaseNext(ledger, kAnn).id, lost.id);
  EXPECT_TRUE(ledger.Commit(lost.id, lost.end).ok());
  EXPECT_TRUE(ledger.finished());
  EXPECT_EQ(ledger.records_expected(), 40);
  EXPECT_EQ(ledger.Committed(0), ledger.Expected(0));
  EXPECT_TRUE(ledger.Expected(1).empty());
}

// ---- what a server lost ----

IntervalSet Set(int64_t begin, int64_t end) {
  IntervalSet set;
  set.Add(begin, end);
  return set;
}

TEST(LedgerTest, WhatIsTakenBackIsLeasedAgainInThePlansOrder) {
  TaskPlanOptions options = {
      .records = 40, .batch_size = 10, .batches_per_task = 2, .epochs = 2, .shuffle_tasks = false};
  Ledger ledger(options);
  for (int i = 0; i < 3; ++i) {
    const Task task = LeaseNext(ledger, kAnn);
    EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
  }
  EXPECT_EQ(ledger.epoch(), 1);
  EXPECT_EQ(*ledger.TakeBack(0, Set(30, 40)), 10);
  EXPECT_EQ(*ledger.TakeBack(1, Set(0, 20)), 20);
  EXPECT_EQ(ledger.epoch(), 0);
  EXPECT_EQ(ledger.steps(), 3);
  EXPECT_EQ(ledger.records_committed(), 30);
  EXPECT_TRUE(ledger.WasTakenBack(0, 20, 40));
  EXPECT_FALSE(ledger.WasTakenBack(0, 20, 30));
  const Task first = LeaseNext(ledger, kBob);
  EXPECT_EQ(first.epoch, 0);
  EXPECT_EQ(first.committed, 30);
  while (!ledger.finished()) {
    for (const Task& task : ledger.HeldBy(kBob)) {
      EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
    }
    if (!ledger.finished()) LeaseNext(ledger, kBob);
  }
  EXPECT_EQ(ledger.records_committed(), ledger.records_expected());
  EXPECT_EQ(ledger.steps(), 8);
  for (const int64_t epoch : {0, 1}) EXPECT_EQ(ledger.Committed(epoch), ledger.Expected(epoch));
  // Also when all was over.
  EXPECT_EQ(*ledger.TakeBack(1, Set(0, 10)), 20);  // And what of that task comes after it.
  EXPECT_FALSE(ledger.finished());
  EXPECT_EQ(LeaseNext(ledger, kAnn).committed, 0);
}

TEST(LedgerTest, ATaskInHandIsTakenBackToItsHolderByANewLease) {
  Ledger ledger(TwoTasks());
  const Task task = LeaseNext(ledger, kAnn);
  const int64_t lease = ledger.Find(task.id)->task.lease;
  EXPECT_TRUE(ledger.Commit(task.id, task.begin + 10).ok());
  EXPECT_EQ(*ledger.TakeBack(0, Set(task.begin, task.begin + 10)), 10);
  ledger.RenewLeases();
  EXPECT_TRUE(ledger.Holds(kAnn, task.id));
  EXPECT_GT(ledger.Find(task.id)->task.lease, lease);
  EXPECT_EQ(ledger.Find(task.id)->task.committed, task.begin);
  EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
  EXPECT_EQ(ledger.records_committed(), 20);
}

TEST(LedgerTest, OnlyCommittedBatchesAreTakenBack) {
  Ledger ledger(TwoTasks());
  const Task task = LeaseNext(ledger, kAnn);
  EXPECT_TRUE(ledger.Commit(task.id, task.begin + 10).ok());
  EXPECT_FALSE(ledger.TakeBack(0, Set(task.begin + 5, task.begin + 10)).ok());
  EXPECT_FALSE(ledger.TakeBack(0, Set(task.begin + 10, task.begin + 20)).ok());
  EXPECT_FALSE(ledger.TakeBack(1, Set(0, 10)).ok());
  EXPECT_EQ(ledger.records_committed(), 10);
  EXPECT_EQ(ledger.steps(), 1);
}

// ---- rounds: modes sync and hybrid ----

TaskPlanOptions Rounds(int64_t batches, int64_t tolerance = 0) {
  return {.records = batches * 10,
          .batch_size = 10,
          .batches_per_task = 1,
          .shuffle_tasks = true,
          .round_tasks = 2,
          .round_tolerance = tolerance,
          .seed = 3};
}

TEST(LedgerTest, ARoundIsLeasedWhenTheOneBeforeIsWhole) {
  Ledger ledger(Rounds(5));
  const Task first = LeaseNext(ledger, kAnn);
  const Task second = LeaseNext(ledger, kBob);
  EXPECT_FALSE(ledger.NextFor(kAnn, {kAnn, kBob}).has_value());
  EXPECT_EQ(ledger.available(), 0);
  EXPECT_TRUE(ledger.Commit(second.id, second.end).ok());
  EXPECT_FALSE(ledger.NextFor(kBob, {kAnn, kBob}).has_value());  // Ann's is missing.
  EXPECT_EQ(ledger.rounds(), 0);
  ledger.Reopen(kAnn);
  const Task again = LeaseNext(ledger, kBob);
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(ledger.Find(again.id)->task.round, 0);
  EXPECT_EQ(ledger.Find(again.id)->task.rounds, 0);
  EXPECT_TRUE(ledger.Commit(again.id, again.end).ok());
  EXPECT_EQ(ledger.rounds(), 1);
  EXPECT_EQ(ledger.available(), 2);
  for (int i = 0; i < 2; ++i) {
    const Task task = LeaseNext(ledger, kAnn);
    EXPECT_EQ(ledger.Find(task.id)->task.round, 1);
    EXPECT_EQ(ledger.Find(task.id)->task.rounds, 1);
    EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
  }
  const Task last = LeaseNext(ledger, kAnn);  // A round of one: the plan has no more.
  EXPECT_EQ(ledger.rounds(), 2);
  EXPECT_TRUE(ledger.Commit(last.id, last.end).ok());
  EXPECT_TRUE(ledger.finished());
  EXPECT_EQ(ledger.rounds(), 3);
}

// Others computed the next round from it. Of a round that nobody was told to be whole a batch is
// computed again, from the same weights.
TEST(LedgerTest, ARoundThatMovedTheWeightsIsNotTakenBack) {
  Ledger ledger(Rounds(5));
  std::vector<Task> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(LeaseNext(ledger, kAnn));
    EXPECT_TRUE(ledger.Commit(tasks.back().id, tasks.back().end).ok());
  }
  EXPECT_EQ(ledger.rounds(), 1);
  EXPECT_FALSE(ledger.MayTakeBack(0, Set(tasks[1].begin, tasks[1].end)).ok());
  EXPECT_FALSE(ledger.TakeBack(0, Set(tasks[0].begin, tasks[0].end)).ok());
  EXPECT_TRUE(ledger.MayTakeBack(0, Set(tasks[2].begin, tasks[2].end)).ok());
  EXPECT_EQ(*ledger.TakeBack(0, Set(tasks[2].begin, tasks[2].end)), 10);
  EXPECT_EQ(ledger.rounds(), 1);
  EXPECT_EQ(LeaseNext(ledger, kBob).id, tasks[2].id);
  EXPECT_EQ(ledger.Find(tasks[2].id)->task.round, 1);
  EXPECT_EQ(ledger.Find(tasks[2].id)->task.rounds, 1);
}

// Every server is as it was then, so the plan goes on from there in the same order, with leases
// that are not mistaken for the earlier ones.
TEST(LedgerTest, GoingBackToARoundForgetsAllThatCameAfterIt) {
  for (const int64_t tolerance : {0, 1}) {
    TaskPlanOptions options = Rounds(5, tolerance);
    options.epochs = 3;
    Ledger ledger(options);
    std::vector<Task> order;
    while (order.size() < 13) {
      order.push_back(LeaseNext(ledger, kAnn));
      EXPECT_TRUE(ledger.Commit(order.back().id, order.back().end).ok());
    }
    const int64_t records = ledger.records_committed();
    const Task held = LeaseNext(ledger, kBob);
    EXPECT_FALSE(ledger.GoBack(7).ok());
    const std::map<int64_t, IntervalSet> left = ledger.OfRounds(3);
    const auto gone = ledger.GoBack(3);
    ASSERT_TRUE(gone.ok()) << gone.status();
    EXPECT_EQ(ledger.rounds(), 3);
    EXPECT_TRUE(ledger.BetweenRounds());
    EXPECT_EQ(ledger.steps(), 6);
    EXPECT_EQ(ledger.records_committed(), records - *gone);
    EXPECT_FALSE(ledger.Holds(kBob, held.id));
    EXPECT_EQ(ledger.Committed(0), ledger.Expected(0));
    EXPECT_EQ(ledger.Committed(1).size(), 10);
    EXPECT_TRUE(ledger.Committed(2).empty());
    EXPECT_EQ(left,
              (std::map<int64_t, IntervalSet>{{0, ledger.Committed(0)}, {1, ledger.Committed(1)}}));
    EXPECT_TRUE(ledger.WasTakenBack(order[6].epoch, order[6].begin, order[6].end));
    EXPECT_FALSE(ledger.WasTakenBack(order[5].epoch, order[5].begin, order[5].end));
    for (size_t i = 6; i < 15; ++i) {
      const Task task = LeaseNext(ledger, kBob);
      EXPECT_TRUE(i >= order.size() || task.id == order[i].id);
      const Task& lent = ledger.Find(task.id)->task;
      EXPECT_EQ(lent.round, static_cast<int64_t>(i) / 2);
      EXPECT_GT(lent.lease, 14);
      EXPECT_TRUE(ledger.Commit(task.id, task.end).ok());
    }
    EXPECT_TRUE(ledger.finished());
    EXPECT_EQ(ledger.records_committed(), ledger.records_expected());
    EXPECT_TRUE(ledger.GoBack(ledger.rounds()).ok());  // To where it is.
    EXPECT_TRUE(ledger.finished());
  }
}

TEST(LedgerTest, ToleranceLetsLaterRoundsBegin) {
  Ledger ledger(Rounds(20, /*tolerance=*/1));
  std::vector<Task> held;
  for (int i = 0; i < 4; ++i) held.push_back(LeaseNext(ledger, kAnn));
  EXPECT_FALSE(ledger.NextFor(kBob, {kAnn, kBob}).has_value());
  EXPECT_EQ(ledger.Find(held[3].id)->task.round, 1);
  // All of the second round does not help while the first is not whole.
  for (int i : {1, 2, 3}) EXPECT_TRUE(ledger.Commit(held[i].id, held[i].end).ok());
  EXPECT_FALSE(ledger.NextFor(kBob, {kAnn, kBob}).has_value());
  EXPECT_TRUE(ledger.Commit(held[0].id, held[0].end).ok());
  EXPECT_EQ(ledger.rounds(), 2);
  EXPECT_EQ(ledger.available(), 4);
}

TEST(LedgerTest, EndingEarlyStillMakesTheRoundWhole) {
  Ledger ledger(Rounds(6));
  const Task first = LeaseNext(ledger, kAnn);
  ledger.EndEarly();
  EXPECT_TRUE(ledger.Commit(first.id, first.end).ok());
  EXPECT_FALSE(ledger.finished());
  const Task second = LeaseNext(ledger, kBob);
  EXPECT_TRUE(ledger.Commit(second.id, second.end).ok());
  EXPECT_TRUE(ledger.finished());
  EXPECT_EQ(ledger.rounds(), 1);
  EXPECT_EQ(ledger.Committed(0), ledger.Expected(0));
  EXPECT_EQ(ledger.records_expected(), 20);
}

}  // namespace
}  // namespace rubato

#include "rubato/tasks/task_plan.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/tasks/order.h"

namespace rubato {
namespace {

using testing::ElementsAre;

TEST(PlanTest, AnEpochHoldsEveryRecordOnce) {
  for (const int64_t records : {1, 7, 64, 100, 1000}) {
    const TaskPlan plan({.records = records, .batch_size = 8, .batches_per_task = 3, .epochs = 2});
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      IntervalSet seen;
      int64_t batches = 0;
      for (const Task& task : plan.TasksOf(epoch)) {
        EXPECT_EQ(seen.Add(task.begin, task.end), task.end - task.begin);
        batches += plan.BatchesIn(task.begin, task.end);
      }
      EXPECT_EQ(seen.size(), records);
      EXPECT_EQ(batches * 2, plan.steps());
    }
    EXPECT_EQ(plan.records(), 2 * records);
  }
}

TEST(PlanTest, TheOrderIsSeededAndChangesByEpoch) {
  const TaskPlanOptions options = {.records = 1000, .batch_size = 10, .epochs = 2, .seed = 7};
  EXPECT_EQ(TaskPlan(options).TasksOf(0), TaskPlan(options).TasksOf(0));
  auto firsts = [](const std::vector<Task>& tasks) {
    std::vector<int64_t> begins;
    for (const Task& task : tasks) begins.push_back(task.begin);
    return begins;
  };
  EXPECT_NE(firsts(TaskPlan(options).TasksOf(0)), firsts(TaskPlan(options).TasksOf(1)));
  TaskPlanOptions in_order = options;
  in_order.shuffle_tasks = false;
  const std::vector<int64_t> begins = firsts(TaskPlan(in_order).TasksOf(1));
  EXPECT_TRUE(std::is_sorted(begins.begin(), begins.end()));
}

TEST(PlanTest, IdsAreUniqueInTheWholeJob) {
  const TaskPlan plan({.records = 50, .validation_records = 30, .batch_size = 4, .epochs = 3});
  std::set<TaskId> ids;
  size_t count = 0;
  for (int64_t i = 0; i < 3; ++i) {
    for (const std::vector<Task>& tasks : {plan.TasksOf(i), plan.EvaluationTasks(i)}) {
      count += tasks.size();
      for (const Task& task : tasks) ids.insert(task.id);
    }
  }
  EXPECT_EQ(ids.size(), count);
}

TEST(PlanTest, MaxStepsIsExactWhereverItFalls) {
  for (int64_t max_steps = 1; max_steps <= 40; ++max_steps) {
    // 13 batches an epoch, the last of one record; tasks of 4 batches.
    const TaskPlan plan({.records = 97,
                         .batch_size = 8,
                         .batches_per_task = 4,
                         .epochs = 3,
                         .max_steps = max_steps,
                         .seed = 5});
    int64_t batches = 0, records = 0;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      for (const Task& task : plan.TasksOf(epoch)) {
        EXPECT_LT(task.begin, task.end);
        batches += plan.BatchesIn(task.begin, task.end);
        records += task.end - task.begin;
      }
    }
    EXPECT_EQ(batches, std::min<int64_t>(max_steps, 39));
    EXPECT_EQ(plan.steps(), batches);
    EXPECT_EQ(plan.records(), records);
  }
}

TEST(PlanTest, TasksAreNeitherCrumbsNorLoaves) {
  EXPECT_EQ(ChooseBatchesPerTask(100, 512, 4), 1);
  EXPECT_EQ(ChooseBatchesPerTask(512 * 320, 512, 4), 10);
  EXPECT_EQ(ChooseBatchesPerTask(1'000'000'000, 512, 4), 64);
  EXPECT_EQ(ChooseBatchesPerTask(0, 512, 0), 1);
}

TEST(OrderTest, ABlockIsAPermutationOfItself) {
  const Task task = {.id = TaskId(1), .epoch = 2, .begin = 100, .end = 125, .committed = 100};
  IntervalSet seen;
  for (int64_t position = task.begin; position < task.end;) {
    const Interval block = BlockAt(task, position, 10);
    const std::vector<int64_t> order = BlockOrder(task, block, 7, 10);
    for (const int64_t record : order) {
      EXPECT_TRUE(block.begin <= record && record < block.end);
      EXPECT_EQ(seen.Add(record, record + 1), 1);
    }
    EXPECT_FALSE(block.end - block.begin == 10 && std::is_sorted(order.begin(), order.end()));
    position = block.end;
  }
  EXPECT_EQ(seen.size(), 25);
  EXPECT_EQ(BlockAt(task, 124, 10), (Interval{120, 125}));
}

TEST(OrderTest, ItDependsOnSeedEpochAndPlaceOnly) {
  Task task = {.id = TaskId(1), .epoch = 2, .begin = 0, .end = 64, .committed = 0};
  const Interval block = BlockAt(task, 40, 32);
  const std::vector<int64_t> order = BlockOrder(task, block, 7, 32);
  task.committed = 48;
  task.id = TaskId(9);
  EXPECT_EQ(BlockOrder(task, block, 7, 32), order);
  EXPECT_NE(BlockOrder(task, block, 8, 32), order);
  task.epoch = 3;
  EXPECT_NE(BlockOrder(task, block, 7, 32), order);
}

TEST(OrderTest, WithoutABufferOrForEvaluationNothingMoves) {
  Task task = {.begin = 4, .end = 8};
  EXPECT_THAT(BlockOrder(task, BlockAt(task, 5, 0), 7, 0), ElementsAre(4, 5, 6, 7));
  task.kind = TaskKind::kEvaluate;
  EXPECT_THAT(BlockOrder(task, BlockAt(task, 5, 64), 7, 64), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(BatchAt(task, 6, 4), (Interval{6, 8}));
}

}  // namespace
}  // namespace rubato

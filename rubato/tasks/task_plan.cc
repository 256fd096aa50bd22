#include "rubato/tasks/task_plan.h"

#include <algorithm>

#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Evaluation tasks are numbered from here, far beyond any training task.
constexpr int64_t kFirstEvaluationTask = int64_t{1} << 48;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t ChooseBatchesPerTask(int64_t records, int64_t batch_size, int64_t workers_max) {
  const int64_t batches = CeilDivide(records, batch_size);
  return std::clamp<int64_t>(batches / (8 * std::max<int64_t>(workers_max, 1)), 1, 64);
}

namespace {

// A step never passes the end of its task, so where steps grow with the workers, tasks are long.
int64_t BatchesPerTask(const JobSpec& job, int64_t records) {
  if (job.mode != "async") return 1;
  if (job.batches_per_task > 0) return job.batches_per_task;
  const bool together = job.strategy == "allreduce";
  const int64_t batches =
      ChooseBatchesPerTask(records, job.batch_size, together ? 1 : job.workers.max);
  const bool grows = together && job.allreduce.batch_rule != "constant";
  return grows ? std::max(batches, 8 * job.workers.max) : batches;
}

}  // namespace

TaskPlanOptions PlanOf(const JobSpec& job, int64_t records, int64_t validation_records) {
  const bool together = job.strategy == "allreduce";
  const int64_t gradients = job.rounds.gradients > 0 ? job.rounds.gradients : job.workers.max;
  return {.records = records,
          .validation_records = validation_records,
          .batch_size = job.batch_size,
          .batches_per_task = BatchesPerTask(job, records),
          .evaluation_batches_per_task =
              ChooseBatchesPerTask(validation_records, job.batch_size, job.workers.max),
          .epochs = job.epochs,
          .max_steps = job.max_steps,
          .shuffle_tasks = job.shuffle.tasks,
          .spread = job.shuffle.spreads(),
          .epoch_barrier = job.epoch_barrier,
          .together = together,
          .round_tasks = job.mode == "async" ? 0 : gradients,
          .round_tolerance = job.rounds.tolerance,
          .seed = job.seed};
}

TaskPlan::TaskPlan(const TaskPlanOptions& options) : options_(options) {
  RUBATO_CHECK(options.batch_size > 0 && options.batches_per_task > 0);
  RUBATO_CHECK(options.evaluation_batches_per_task > 0);
  const int64_t steps_per_epoch = CeilDivide(options.records, options.batch_size);
  if (steps_per_epoch == 0 || options.epochs <= 0) return;
  steps_ = steps_per_epoch * options.epochs;
  if (options.max_steps > 0) steps_ = std::min(steps_, options.max_steps);
  epochs_ = CeilDivide(steps_, steps_per_epoch);
  steps_of_last_ = steps_ - (epochs_ - 1) * steps_per_epoch;
  records_ = (epochs_ - 1) * options.records;
  for (const Task& task : TasksOf(epochs_ - 1)) records_ += task.end - task.begin;
}

int64_t TaskPlan::BatchesIn(int64_t begin, int64_t end) const {
  return CeilDivide(end - begin, options_.batch_size);
}

std::vector<Task> TaskPlan::TasksOf(int64_t epoch) const {
  if (epoch >= epochs_) return {};
  const int64_t task_records = options_.batches_per_task * options_.batch_size;
  const int64_t count = CeilDivide(options_.records, task_records);
  std::vector<Task> tasks;
  tasks.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * task_records;
    tasks.push_back({.id = TaskId(epoch * count + i),
                     .epoch = epoch,
                     .begin = begin,
                     .end = std::min(begin + task_records, options_.records),
                     .committed = begin});
  }
  if (options_.shuffle_tasks) {
    Rng(Mix(options_.seed, static_cast<uint64_t>(epoch))).Shuffle(tasks);
  }
  if (epoch + 1 < epochs_) return tasks;
  int64_t left = steps_of_last_;
  for (size_t i = 0; i < tasks.size(); ++i) {
    Task& task = tasks[i];
    task.end = std::min(task.end, task.begin + left * options_.batch_size);
    left -= BatchesIn(task.begin, task.end);
    if (left == 0) tasks.resize(i + 1);
  }
  return tasks;
}

std::vector<Task> TaskPlan::EvaluationTasks(int64_t number) const {
  const int64_t task_records = options_.evaluation_batches_per_task * options_.batch_size;
  const int64_t count = CeilDivide(options_.validation_records, task_records);
  std::vector<Task> tasks;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * task_records;
    tasks.push_back({.id = TaskId(kFirstEvaluationTask + number * count + i),
                     .kind = TaskKind::kEvaluate,
                     .epoch = number,
                     .begin = begin,
                     .end = std::min(begin + task_records, options_.validation_records),
                     .committed = begin});
  }
  return tasks;
}

IntervalSet TaskPlan::Positions(int64_t epoch, int64_t tasks) const {
  IntervalSet positions;
  for (const Task& task : TasksOf(epoch)) {
    if (tasks-- <= 0) break;
    positions.Add(task.begin, task.end);
  }
  return positions;
}

}  // namespace rubato

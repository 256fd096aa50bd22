// Which tasks a job has: epochs cut into ranges of records, in a seeded order, ending after
// exactly max_steps batches. A pure function of its options; nothing here changes as a job runs.
#ifndef RUBATO_TASKS_TASK_PLAN_H_
#define RUBATO_TASKS_TASK_PLAN_H_

#include <cstdint>
#include <vector>

#include "rubato/base/interval_set.h"
#include "rubato/job/job_spec.h"
#include "rubato/tasks/task.h"

namespace rubato {

struct TaskPlanOptions {
  int64_t records = 0;
  int64_t validation_records = 0;
  int64_t batch_size = 1;
  int64_t batches_per_task = 1;
  int64_t evaluation_batches_per_task = 1;
  int64_t epochs = 1;
  int64_t max_steps = 0;       // 0: no limit.
  bool shuffle_tasks = true;   // The order of tasks within an epoch.
  bool spread = false;         // Records are numbered in an order of their own (data/spread.h).
  bool epoch_barrier = false;  // Every record of an epoch before the first of the next.
  // Strategy allreduce: all workers go through the plan together, in its order, and no training
  // task is leased.
  bool together = false;
  // Modes sync and hybrid: tasks in the order of the plan, `round_tasks` at a time, are rounds, and
  // one of round r is leased once those before round r - round_tolerance are whole. 0: no rounds.
  int64_t round_tasks = 0;
  int64_t round_tolerance = 0;
  uint64_t seed = 0;
};

// Eight tasks or more for each worker of an epoch, so that none waits long for the last, but
// between 1 and 64 batches a task: fewer would make leasing the work, more would lose much of it.
int64_t ChooseBatchesPerTask(int64_t records, int64_t batch_size, int64_t workers_max);

// The plan of `job` over so many records. With strategy allreduce it does not depend on the number
// of workers, so every worker has the same without being told.
TaskPlanOptions PlanOf(const JobSpec& job, int64_t records, int64_t validation_records);

class TaskPlan {
 public:
  explicit TaskPlan(const TaskPlanOptions& options);

  const TaskPlanOptions& options() const { return options_; }
  // Epochs that have any step; max_steps may leave fewer than asked for.
  int64_t epochs() const { return epochs_; }
  int64_t steps() const { return steps_; }      // Batches in all.
  int64_t records() const { return records_; }  // Records in all, once an epoch each.
  // How many batches positions [begin, end) of a task are, begin being where a batch starts.
  int64_t BatchesIn(int64_t begin, int64_t end) const;

  // The tasks of `epoch` in the order in which they are leased. The last epoch may have fewer and
  // end with a shorter one; the records left out are then no part of the job.
  std::vector<Task> TasksOf(int64_t epoch) const;
  // The tasks of evaluation `number`, in file order.
  std::vector<Task> EvaluationTasks(int64_t number) const;
  // The positions that the first `tasks` tasks of `epoch` hold.
  IntervalSet Positions(int64_t epoch, int64_t tasks) const;

 private:
  TaskPlanOptions options_;
  int64_t epochs_ = 0;
  int64_t steps_ = 0;
  int64_t records_ = 0;
  int64_t steps_of_last_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_TASKS_TASK_PLAN_H_

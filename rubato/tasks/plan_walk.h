// A plan gone through by everybody together, record after record: what strategy allreduce does.
//
// A place is how many records lie before it, over all epochs, in the order in which the plan would
// lease its tasks. Which records a step holds is a function of its place and size alone.
#ifndef RUBATO_TASKS_PLAN_WALK_H_
#define RUBATO_TASKS_PLAN_WALK_H_

#include <cstdint>
#include <vector>

#include "rubato/tasks/task_plan.h"

namespace rubato {

// Positions [begin, end) of one task.
struct PlanRange {
  Task task;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

class PlanWalk {
 public:
  explicit PlanWalk(const TaskPlan& plan) : plan_(plan) {}

  // The step after `place` records: at most `size` positions, none beyond the end of its task.
  // Empty at the end of the plan.
  PlanRange StepAt(int64_t place, int64_t size);
  // The positions of `epoch` that lie before `place`.
  IntervalSet Before(int64_t epoch, int64_t place);
  // The epoch `place` lies in; the last one at the end of the plan.
  int64_t EpochOf(int64_t place) const;
  const TaskPlan& plan() const { return plan_; }

 private:
  const std::vector<Task>& TasksOf(int64_t epoch);

  TaskPlan plan_;
  int64_t epoch_ = -1;
  std::vector<Task> tasks_;  // Of epoch_.
};

// The positions of microbatch `index` of `count`: a step cut into nearly equal parts.
Interval MicrobatchOf(const PlanRange& step, int index, int count);

}  // namespace rubato

#endif  // RUBATO_TASKS_PLAN_WALK_H_

#include "rubato/tasks/plan_walk.h"

#include <algorithm>

#include "rubato/base/status.h"

namespace rubato {

int64_t PlanWalk::EpochOf(int64_t place) const {
  if (plan_.epochs() == 0) return 0;
  return std::min(place / plan_.options().records, plan_.epochs() - 1);
}

const std::vector<Task>& PlanWalk::TasksOf(int64_t epoch) {
  if (epoch != epoch_) {
    tasks_ = plan_.TasksOf(epoch);
    epoch_ = epoch;
  }
  return tasks_;
}

PlanRange PlanWalk::StepAt(int64_t place, int64_t size) {
  RUBATO_CHECK(place >= 0 && size > 0);
  const int64_t epoch = EpochOf(place);
  int64_t left = place - epoch * plan_.options().records;
  for (const Task& task : TasksOf(epoch)) {
    const int64_t records = task.end - task.begin;
    if (left < records) {
      const int64_t begin = task.begin + left;
      return {task, begin, std::min(begin + size, task.end)};
    }
    left -= records;
  }
  return {};
}

IntervalSet PlanWalk::Before(int64_t epoch, int64_t place) {
  IntervalSet positions;
  int64_t left = place - epoch * plan_.options().records;
  for (const Task& task : TasksOf(epoch)) {
    if (left <= 0) break;
    const int64_t records = std::min(left, task.end - task.begin);
    positions.Add(task.begin, task.begin + records);
    left -= records;
  }
  return positions;
}

Interval MicrobatchOf(const PlanRange& step, int index, int count) {
  return {step.begin + step.size() * index / count, step.begin + step.size() * (index + 1) / count};
}

}  // namespace rubato

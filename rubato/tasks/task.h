// A range of records that one worker holds at a time.
#ifndef RUBATO_TASKS_TASK_H_
#define RUBATO_TASKS_TASK_H_

#include <cstdint>
#include <string>

#include "rubato/base/ids.h"

namespace rubato {

enum class TaskKind { kTrain, kEvaluate };

// A range of positions of one epoch (or of the validation set). Its records are those of the
// same numbers, in the order that order.h gives.
struct Task {
  TaskId id;
  TaskKind kind = TaskKind::kTrain;
  int64_t epoch = 0;  // Training: the epoch. Evaluation: the number of the evaluation.
  int64_t begin = 0;  // Positions [begin, end).
  int64_t end = 0;
  int64_t committed = 0;  // The first position not yet committed: where to go on.
  int64_t lease = 0;      // Leases are numbered: the smaller, the longer in hand.
  double rate = 1;        // What the learning rate is multiplied with, as of the lease.
  // Modes sync and hybrid: the round that a training task is of, and how many were whole as of the
  // lease: those its weights are to hold.
  int64_t round = 0;
  int64_t rounds = 0;
  friend bool operator==(const Task&, const Task&) = default;
};

// Whether this is the first pass over the records of `task`: what is counted once a record,
// however many epochs and evaluations there are, is counted there. Evaluations count from 1.
inline bool FirstPass(const Task& task) {
  return task.epoch == (task.kind == TaskKind::kTrain ? 0 : 1);
}

}  // namespace rubato

#endif  // RUBATO_TASKS_TASK_H_

// In which order the records of a task are seen: a function of (seed, epoch, position) alone, so
// a batch computed again by somebody else is the same batch.
#ifndef RUBATO_TASKS_ORDER_H_
#define RUBATO_TASKS_ORDER_H_

#include <cstdint>
#include <vector>

#include "rubato/base/interval_set.h"
#include "rubato/tasks/task.h"

namespace rubato {

// The batch of `task` that starts at `position`: [position, position + batch_size) or what is
// left of the task.
Interval BatchAt(const Task& task, int64_t position, int64_t batch_size);

// The block of `task` that holds `position`. Records move within their block only, so a reader
// reads one block, in file order, and hands out its records permuted. Blocks have `buffer`
// records, the last of a task fewer; with a buffer of 0 or 1 nothing moves, and the block is the
// whole task. Evaluation tasks are never shuffled.
Interval BlockAt(const Task& task, int64_t position, int64_t buffer);

// The permuted records of a block: element i is the record at position block.begin + i.
std::vector<int64_t> BlockOrder(const Task& task, Interval block, uint64_t seed, int64_t buffer);

}  // namespace rubato

#endif  // RUBATO_TASKS_ORDER_H_

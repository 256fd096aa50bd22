#include "rubato/tasks/order.h"

#include <algorithm>
#include <numeric>

#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

bool Shuffled(const Task& task, int64_t buffer) {
  return task.kind == TaskKind::kTrain && buffer > 1;
}

}  // namespace

Interval BatchAt(const Task& task, int64_t position, int64_t batch_size) {
  return {position, std::min(position + batch_size, task.end)};
}

Interval BlockAt(const Task& task, int64_t position, int64_t buffer) {
  RUBATO_CHECK(task.begin <= position && position < task.end);
  if (!Shuffled(task, buffer)) return {task.begin, task.end};
  const int64_t begin = position - (position - task.begin) % buffer;
  return {begin, std::min(begin + buffer, task.end)};
}

std::vector<int64_t> BlockOrder(const Task& task, Interval block, uint64_t seed, int64_t buffer) {
  std::vector<int64_t> order(static_cast<size_t>(block.end - block.begin));
  std::iota(order.begin(), order.end(), block.begin);
  if (Shuffled(task, buffer)) {
    const uint64_t epoch_seed = Mix(seed, static_cast<uint64_t>(task.epoch));
    Rng(Mix(epoch_seed, static_cast<uint64_t>(block.begin))).Shuffle(order);
  }
  return order;
}

}  // namespace rubato

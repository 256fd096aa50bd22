// What a worker has pulled and not yet seen applied: how far behind itself it is, and how far each
// of its tasks is committed.
#ifndef RUBATO_WORKER_PUSH_WINDOW_H_
#define RUBATO_WORKER_PUSH_WINDOW_H_

#include <cstdint>
#include <map>
#include <vector>

#include "rubato/base/ids.h"
#include "rubato/data/batch.h"
#include "rubato/tasks/task.h"

namespace rubato {

// A batch is committed when its push is acknowledged, which is when every server has it; pushes are
// acknowledged in any order, and a task is committed up to its first batch that is not.
//
//     HasRoom ──Open──▶ in flight ──Applied──▶ committed, once all before it are
//        ▲                              │
//        └──────────────────────────────┘
//
// At most max_inflight + 1 batches are in flight: with 0 a batch is pulled only after the one
// before it is in the model everywhere. Not thread-safe: the worker's loop owns it.
class PushWindow {
 public:
  struct Commit {
    TaskId task;
    int64_t upto = 0;
    bool finished = false;  // The whole task.
    friend bool operator==(const Commit&, const Commit&) = default;
  };

  explicit PushWindow(int64_t max_inflight) : max_inflight_(max_inflight) {}

  // A task leased; its batches come from task.committed on.
  void Begin(const Task& task);

  bool HasRoom() const { return inflight() <= max_inflight_; }
  int64_t inflight() const { return static_cast<int64_t>(inflight_.size()); }

  // `key` of a task begun is being pulled: only with room.
  void Open(const BatchKey& key);
  // Every server has it, from this push or from an earlier one. False if it was dropped meanwhile.
  bool Applied(const BatchKey& key);

  // Tasks that got further since last asked, by id. A finished task is forgotten with it.
  std::vector<Commit> TakeCommits();
  // Whether none of the task's batches is in flight: it can be handed back without loss.
  bool Idle(TaskId task) const;
  // The lease is lost: its batches no longer count, whatever the servers answer.
  void Drop(TaskId task);

 private:
  struct Progress {
    int64_t upto = 0;
    int64_t end = 0;
    bool news = false;
    std::map<int64_t, int64_t> beyond;  // Batches applied past a gap: begin -> end.
  };

  const int64_t max_inflight_;
  std::vector<BatchKey> inflight_;    // As opened; a handful.
  std::map<TaskId, Progress> tasks_;  // Ordered, so that commits are repeatable.
};

}  // namespace rubato

#endif  // RUBATO_WORKER_PUSH_WINDOW_H_

// What a worker has pulled and not yet seen applied: the bound on staleness, and how far each of
// its tasks is committed.
#ifndef RUBATO_WORKER_PUSH_WINDOW_H_
#define RUBATO_WORKER_PUSH_WINDOW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rubato/base/ids.h"
#include "rubato/data/batch.h"
#include "rubato/master/messages.h"

namespace rubato {

// A batch is committed when every server has answered its push, in whatever order; a task is
// committed up to its first batch that is not.
//
//     HasRoom ──Open──▶ pulled ──Push──▶ pushed ──Ack by every server──▶ applied
//        ▲                                                                  │
//        └──────────────────────────────────────────────────────────────────┘
//
// At most max_inflight + 1 batches are between Open and applied: with 0 a batch is pulled only
// after the one before it is in the model everywhere. Not thread-safe: the worker's loop owns it.
class PushWindow {
 public:
  struct Options {
    int64_t max_inflight = 2;
    int64_t servers = 1;
  };
  // A batch that every server has answered.
  struct Applied {
    bool duplicate = false;  // Every server had it already: the work was done twice.
  };
  struct Commit {
    TaskId task;
    int64_t upto = 0;
    bool finished = false;  // The whole task.
    friend bool operator==(const Commit&, const Commit&) = default;
  };

  explicit PushWindow(Options options) : options_(options) {}

  // A task leased; its batches come from task.committed on.
  void Begin(const Task& task);

  bool HasRoom() const { return inflight() <= options_.max_inflight; }
  int64_t inflight() const { return static_cast<int64_t>(batches_.size()); }

  // `key` of a task begun is being pulled: only with room.
  void Open(const BatchKey& key);
  // Its gradients were handed to every server's connection.
  void Push(const BatchKey& key);
  // `server` has applied it, now or (duplicate) before. The last answer completes the batch;
  // answers repeated, or for batches dropped meanwhile, are nothing.
  std::optional<Applied> Ack(const BatchKey& key, ServerId server, bool duplicate);

  // Pushes `server` has not answered, oldest first: what to send again to its next life.
  std::vector<BatchKey> Unanswered(ServerId server) const;

  // Tasks that got further since last asked, by id. A finished task is forgotten with it.
  std::vector<Commit> TakeCommits();
  // Whether all of a task's batches have been applied or none was begun: nothing to lose.
  bool Idle(TaskId task) const;
  // The lease is lost: its batches no longer count, whatever the servers answer.
  void Drop(TaskId task);

 private:
  struct InFlight {
    BatchKey key;
    bool pushed = false;
    bool fresh = false;          // Some server applied it just now.
    std::vector<bool> answered;  // By server.
    int64_t missing = 0;
  };
  struct Progress {
    int64_t upto = 0;
    int64_t end = 0;
    bool news = false;
    std::map<int64_t, int64_t> beyond;  // Batches applied past a gap: begin -> end.
  };
  std::map<int64_t, InFlight>::iterator Find(const BatchKey& key);
  void Advance(const BatchKey& key);

  const Options options_;
  int64_t opened_ = 0;
  std::map<int64_t, InFlight> batches_;  // By the order in which they were opened.
  std::map<TaskId, Progress> tasks_;     // Ordered, so that commits are repeatable.
};

}  // namespace rubato

#endif  // RUBATO_WORKER_PUSH_WINDOW_H_

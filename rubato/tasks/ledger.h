// Which record is committed, and who works on which of the rest.
//
//     fresh ──Lease──▶ leased ──Commit up to its end──▶ finished
//     open  ──Lease──▲  │  │
//      ▲                │  └──Fence──▶ fencing ──Reopen──┐
//      └──────────── Release, Reopen ◀───────────────────┘
//
// A task is in exactly one of these places and leased to one worker at most. Committed positions
// grow, batch by batch; an open task goes on from its last committed batch. They shrink when a
// server lost what it had applied (TakeBack): a finished task is then open again. A task is
// fencing while its worker, given up for dead, might still push: nobody else may have it yet.
// Not thread-safe: the master owns it. What comes next is asked with const methods and then done
// with the others, which refuse (FAILED_PRECONDITION) what cannot be, so that a journal replays.
#ifndef RUBATO_TASKS_LEDGER_H_
#define RUBATO_TASKS_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/tasks/plan_walk.h"
#include "rubato/tasks/task.h"
#include "rubato/tasks/task_plan.h"

namespace rubato {

// A task was given up by a worker, or took it down.
struct TaskFailure {
  WorkerId worker;
  std::string error;
};

// A task that has been leased once and is not finished.
struct LiveTask {
  enum class Place { kOpen, kLeased, kFencing };
  Task task;
  int64_t order = 0;  // Training: its place in the plan, in which lost ones are done again.
  Place place = Place::kOpen;
  WorkerId worker;  // Unless open: who holds or held it.
  std::vector<TaskFailure> failures;
};

class Ledger {
 public:
  explicit Ledger(const TaskPlanOptions& options);
  const TaskPlan& plan() const { return plan_; }

  // ---- what could be done ----
  // What `worker` should get: evaluation first, then what was lost, in the order of the plan, then
  // the next fresh task. A job with one worker so keeps its order, whoever dies. A task that failed
  // on `worker` goes to others as long as any of `alive` has not failed it.
  std::optional<Task> NextFor(WorkerId worker, const std::vector<WorkerId>& alive) const;
  // Tasks that could be leased right now.
  int64_t available() const;
  // Null once finished or if never leased.
  const LiveTask* Find(TaskId id) const;
  bool Holds(WorkerId worker, TaskId id) const;
  // The tasks leased to `worker`, the longest held first.
  std::vector<Task> HeldBy(WorkerId worker) const;
  // Whether a task of `worker` is fencing.
  bool Fencing(WorkerId worker) const;
  bool AnyLeased() const;
  // Whether somebody may be pushing: a training task is leased or fencing.
  bool AnyTraining() const;
  // Modes sync and hybrid: how many rounds are whole, every batch of theirs committed.
  int64_t rounds() const;
  // Whether all that are begun are whole; in other modes always.
  bool BetweenRounds() const;
  // Whether `task`, as NextFor() gave it, is of one that is begun.
  bool OfBegunRound(const Task& task) const;
  // Whether a batch of `task` ends at `position`.
  bool IsBatchEnd(const Task& task, int64_t position) const;
  // OK if `lost`, committed positions of `epoch`, can be taken back. FAILED_PRECONDITION if they
  // are of a round that was told to be whole: later ones may be computed from weights it made.
  absl::Status MayTakeBack(int64_t epoch, const IntervalSet& lost) const;
  // Whether some of [begin, end) was taken back once, so that committing it is no news.
  bool WasTakenBack(int64_t epoch, int64_t begin, int64_t end) const;

  // ---- doing it ----
  absl::Status Lease(TaskId id, WorkerId worker);
  // Training: everything before `upto` is applied. Finishes the task at its end; evaluation tasks
  // know no other commit. Going back is ignored, for commits may overtake each other.
  absl::Status Commit(TaskId id, int64_t upto);
  absl::Status Release(TaskId id);
  absl::Status AddFailure(TaskId id, TaskFailure failure);
  void Fence(WorkerId worker);   // All its leases.
  void Reopen(WorkerId worker);  // All it held, leased or fencing.
  void ForgetFailures();         // The user says that what was wrong is mended.
  // A server has lost `lost`, committed positions of `epoch`. Each task that holds some is
  // committed up to the first of them only, and leased again unless somebody has it in hand.
  // Returns how many records are to be trained again. What is no batch, or not committed, is
  // FAILED_PRECONDITION, and nothing has changed.
  absl::StatusOr<int64_t> TakeBack(int64_t epoch, const IntervalSet& lost);
  // Modes sync and hybrid: all servers are as they were when `rounds` rounds were whole and no more
  // was begun. What was committed since is to be trained again; nobody holds any of it any more.
  // Returns how many records that are. FAILED_PRECONDITION if there never were so many.
  absl::StatusOr<int64_t> GoBack(int64_t rounds);
  // Gives training tasks that are leased new numbers, to the same workers: what these did by the
  // old ones does not count.
  void RenewLeases();
  void BeginEvaluation(int64_t number);
  void EndEvaluation();  // It does not count: its tasks are forgotten.
  // No fresh tasks from now on; those begun are still finished, since a batch of theirs may be
  // on some servers already, and so is a round begun.
  void EndEarly() { ended_early_ = true; }
  void GoOn() { ended_early_ = false; }  // What it ended for was lost, together with that state.
  // TaskPlanOptions::together: the first `records` of the plan's order are applied, by `steps`
  // steps, and nothing else. Goes back when that state was lost and an older one is restored.
  void SetTogether(int64_t steps, int64_t records);

  // ---- where it stands ----
  bool finished() const;  // Training: every task committed.
  bool ended_early() const { return ended_early_; }
  bool evaluating() const;
  int64_t epoch() const;  // The oldest that is not finished.
  int64_t steps() const { return steps_; }
  int64_t records_committed() const { return records_committed_; }
  int64_t records_expected() const;
  IntervalSet Committed(int64_t epoch) const;
  IntervalSet Expected(int64_t epoch) const;
  // Modes sync and hybrid: by epoch, what the first `rounds` rounds hold. They are whole.
  std::map<int64_t, IntervalSet> OfRounds(int64_t rounds) const;
  const std::map<TaskId, LiveTask>& live() const { return live_; }

 private:
  // What of a task was lost: everything from `from` on, up to which it was committed.
  struct LostTask {
    Task task;
    int64_t order = 0;
    int64_t from = 0;
    int64_t committed = 0;
  };
  absl::StatusOr<std::vector<LostTask>> FindLost(int64_t epoch, const IntervalSet& lost) const;
  const Task* Fresh() const;
  bool MidRound() const;  // A round is begun, and not all of its tasks are.
  void TakeFresh();

  TaskPlan plan_;
  std::map<TaskId, LiveTask> live_;  // Ordered: older epochs first, evaluations last.
  int64_t fresh_epoch_ = 0;
  size_t fresh_next_ = 0;          // Into fresh_tasks_.
  std::vector<Task> fresh_tasks_;  // Of fresh_epoch_.
  bool ended_early_ = false;
  std::map<int64_t, IntervalSet> committed_;
  std::map<int64_t, IntervalSet> taken_back_;  // Ever.
  int64_t steps_ = 0;
  int64_t records_committed_ = 0;
  int64_t leases_ = 0;
  int64_t begun_ = 0;  // Training tasks ever leased.
  PlanWalk walk_;
};

}  // namespace rubato

#endif  // RUBATO_TASKS_LEDGER_H_

// What must hold at every moment of a job, seen from outside with eyes that miss nothing.
//
// - On each server every position of every epoch is applied at most once.
// - What the ledger calls committed is applied on every server.
// - A push is applied only from the worker that holds its task, unless that worker is known to
//   be dead: nobody frozen writes behind the back of its successor.
// - What a master promised before it died is known to the next.
// - Steps never go back, but for what a server lost.
// - A round that a server hears to be whole is whole there, however much was lost before.
// - In the end everything is applied exactly once, in exactly the steps that were asked for.
#ifndef RUBATO_SIM_CHECKER_H_
#define RUBATO_SIM_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rubato/data/batch.h"
#include "rubato/master/master.h"
#include "rubato/tasks/task_plan.h"

namespace rubato {

// Methods return what is wrong, or nothing.
class Checker {
 public:
  // Of `servers` without parameters; 0 if they have some, which are looked at in the end.
  Checker(int64_t servers, const TaskPlanOptions& plan)
      : plan_(plan), applied_(static_cast<size_t>(servers)) {}

  // A server applied a batch of `worker`.
  std::string Applied(int64_t server, const BatchKey& batch, WorkerId worker);
  // Modes sync and hybrid: a server that has `applied` hears that so many rounds are whole.
  std::string Whole(int64_t server, int64_t rounds,
                    const std::map<int64_t, IntervalSet>& applied) const;
  // The same, only that it is of the worker that holds the task.
  std::string FromHolder(int64_t server, const BatchKey& batch, WorkerId worker) const;
  // A server's log was cut: nothing but `left` is there. Of one with parameters, those know.
  void Lost(int64_t server, const std::map<int64_t, IntervalSet>& left);
  // Every server that owned something by one map said so. The same batch may come again.
  void Acknowledged(const BatchKey& batch);
  const std::vector<BatchKey>& acknowledged() const { return acknowledged_; }
  // A call of the master is over, and all its effects are out.
  std::string Answered(const Master& master);
  int64_t steps() const { return steps_; }  // Committed, as of the last answer.
  // The master died in between calls, or was replayed from what it journaled.
  void Died(bool in_call) { clean_death_ = !in_call; }
  std::string Replayed(const Master& master);
  std::string Finished(const Master& master, const Snapshot& result);

 private:
  struct Counts {
    std::map<std::pair<int64_t, int64_t>, int> times;  // (epoch, position)
    std::map<int64_t, IntervalSet> set;
  };
  std::string CommittedIsApplied(const Ledger& ledger) const;

  const TaskPlan plan_;
  std::vector<Counts> applied_;
  std::vector<BatchKey> acknowledged_;  // Each once, in the order in which they first were.
  std::set<std::pair<int64_t, int64_t>> known_;  // Of those: (epoch, position).
  std::map<TaskId, LiveTask> live_;              // As of the last answer.
  std::vector<WorkerId> present_;                // Workers the master does not know to be dead.
  std::set<int64_t> returning_;                  // Servers that set aside what they hold.
  int64_t steps_ = 0;
  int64_t view_ = 0;
  bool clean_death_ = false;
  bool lost_ = false;  // Something, by some server.
};

}  // namespace rubato

#endif  // RUBATO_SIM_CHECKER_H_

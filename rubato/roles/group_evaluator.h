// Evaluation by a group at rest: tasks leased from the master, a batch at a time between the steps
// in which the group only votes, so that members come and go meanwhile.
#ifndef RUBATO_ROLES_GROUP_EVALUATOR_H_
#define RUBATO_ROLES_GROUP_EVALUATOR_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/base/mutex.h"
#include "rubato/data/source.h"
#include "rubato/metrics/evaluation.h"
#include "rubato/model/trainer.h"
#include "rubato/roles/worker_control.h"
#include "rubato/tasks/task_plan.h"
#include "rubato/worker/evaluation.h"
#include "rubato/worker/task_reader.h"

namespace rubato {

// The compute thread owns it; Lost() may come from any.
class GroupEvaluator {
 public:
  GroupEvaluator(Trainer& trainer, RecordSource& validation, const RecordParser& parser,
                 const TaskReader::Options& options, GroupColumn group)
      : trainer_(trainer), reader_(validation, parser, options), group_(group) {}

  // One batch of a task in hand, asking for one if there is none. False if there is none to have.
  bool Go(WorkerControl& control, absl::Span<const float> weights);
  // Gives back what is in hand, and asks for no more.
  void Stop(WorkerControl& control);
  // The master has given `task` to somebody else.
  void Lost(TaskId task);

  // All of it, here and now.
  absl::StatusOr<EvaluationSums> EvaluateAll(const TaskPlan& plan, absl::Span<const float> weights);

 private:
  // False at the end of the task that was started.
  absl::StatusOr<bool> Next(Evaluation& evaluation, absl::Span<const float> weights);

  Trainer& trainer_;
  TaskReader reader_;
  const GroupColumn group_;
  bool leasing_ = false;
  std::optional<Task> task_;  // In hand.
  std::optional<Evaluation> evaluation_;
  Batch batch_;
  std::vector<float> scores_;
  Mutex mu_;
  std::optional<TaskId> lost_ ABSL_GUARDED_BY(mu_);
};

}  // namespace rubato

#endif  // RUBATO_ROLES_GROUP_EVALUATOR_H_

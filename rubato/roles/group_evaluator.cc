#include "rubato/roles/group_evaluator.h"

#include <cstdio>
#include <string>
#include <utility>

#include "rubato/base/status.h"

namespace rubato {

bool GroupEvaluator::Go(WorkerControl& control, absl::Span<const float> weights) {
  if (!std::exchange(leasing_, true)) control.StartLeasing();
  {
    MutexLock lock(mu_);
    if (task_.has_value() && lost_ == task_->id) task_.reset();
    lost_.reset();
  }
  if (!task_.has_value()) {
    task_ = control.NextTask(absl::ZeroDuration());
    if (!task_.has_value()) return false;
    reader_.Start(*task_);
    evaluation_.emplace(trainer_.score_width(), group_);
  }
  const absl::StatusOr<bool> more = Next(*evaluation_, weights);
  if (more.ok() && *more) return true;
  if (more.ok()) {
    control.Commit({.task = task_->id, .upto = task_->end, .sums = evaluation_->sums()});
  } else {
    const std::string error(more.status().message());
    std::fprintf(stderr, "%s failed: %s\n", task_->id.ToString().c_str(), error.c_str());
    control.Fail({.task = task_->id, .error = error});
  }
  task_.reset();
  return true;
}

void GroupEvaluator::Stop(WorkerControl& control) {
  if (!std::exchange(leasing_, false)) return;
  task_.reset();
  control.StopLeasing();
  control.ReleaseAll();
}

void GroupEvaluator::Lost(TaskId task) {
  MutexLock lock(mu_);
  lost_ = task;
}

absl::StatusOr<EvaluationSums> GroupEvaluator::EvaluateAll(const TaskPlan& plan,
                                                           absl::Span<const float> weights) {
  Evaluation evaluation(trainer_.score_width(), group_);
  for (const Task& task : plan.EvaluationTasks(1)) {
    reader_.Start(task);
    bool more = true;
    while (more) {
      RUBATO_ASSIGN_OR_RETURN(more, Next(evaluation, weights));
    }
  }
  return evaluation.sums();
}

absl::StatusOr<bool> GroupEvaluator::Next(Evaluation& evaluation, absl::Span<const float> weights) {
  BatchKey key;
  RUBATO_ASSIGN_OR_RETURN(const bool more, reader_.Next(&key, &batch_));
  if (!more || batch_.rows == 0) return more;
  RUBATO_RETURN_IF_ERROR(trainer_.Predict({.batch = &batch_, .dense = weights}, &scores_));
  evaluation.Add(batch_, scores_, trainer_.Metrics(batch_, scores_));
  return true;
}

}  // namespace rubato

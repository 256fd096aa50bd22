#include "rubato/master/evaluations.h"

#include <utility>

#include "rubato/metrics/evaluation.h"

namespace rubato {

Evaluations::Evaluations(const EvaluateSpec& spec, bool validation)
    : spec_(spec), validation_(validation), next_at_(spec.every_steps) {}

bool Evaluations::DueInTraining(int64_t steps) const {
  return validation_ && spec_.every_steps > 0 && !running() && steps >= next_at_;
}

bool Evaluations::DueAtTheEnd() const { return validation_ && !running() && !final_begun_; }

bool Evaluations::Stalled() const {
  return spec_.stop_after_stalls > 0 && stalls_ >= spec_.stop_after_stalls;
}

void Evaluations::Begin(int64_t number, int64_t step, bool final) {
  running_ = Running{.number = number, .step = step};
  final_begun_ = final;
  next_number_ = number + 1;
  // The next whole multiple: an evaluation slower than its period skips rather than piles up.
  if (spec_.every_steps > 0) next_at_ = (step / spec_.every_steps + 1) * spec_.every_steps;
}

void Evaluations::Add(TaskId task, EvaluationSums sums) {
  if (running_.has_value()) running_->sums.emplace(task, std::move(sums));
}

void Evaluations::End() {
  if (!running_.has_value()) return;
  EvaluationSums sums;
  for (const auto& [task, part] : running_->sums) sums.Add(part);
  EvaluationResult result = {.number = running_->number,
                             .step = running_->step,
                             .records = sums.records,
                             .metrics = Metrics(sums)};
  running_.reset();
  const bool binary = result.metrics.contains("auc");
  const double score = binary ? result.metrics["auc"] : -result.metrics["loss"];
  const bool better = !best_.has_value() || score > *best_;
  stalls_ = better ? 0 : stalls_ + 1;
  if (better) best_ = score;
  results_.push_back(std::move(result));
}

}  // namespace rubato

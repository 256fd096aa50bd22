// What a push does to the weights once it is checked and logged.
#include <utility>

#include "rubato/base/status.h"
#include "rubato/params/learning_rate.h"
#include "rubato/params/shard.h"

namespace rubato {

// To those partitions that do not have it yet: all of them, but for a push that overtook a move.
absl::Status Shard::Apply(const DecodedPush& push, PushTurn& turn) {
  const PushRequest& request = push.request;
  RUBATO_RETURN_IF_ERROR(Whole(request.rounds));
  if (histories_.size() == 1 && !InRounds()) {
    ApplyTo(histories_[0], request, push.pulled, &turn);
    return absl::OkStatus();
  }
  if (InRounds()) {
    Stage(push);
  } else {
    for (History& history : histories_) {
      if (history.HeldOf(request.key) != History::Held::kNothing) continue;
      ApplyTo(history, request, push.pulled, nullptr);
    }
  }
  if (histories_.size() > 1) JoinHistories(histories_);
  BeginNextStep();
  return absl::OkStatus();
}

// First all that the next push is checked by, then what only rows and weights are made of. With a
// `turn` this is the only history, and the tables are left at its next step.
void Shard::ApplyTo(History& history, const PushRequest& request, int64_t pulled, PushTurn* turn) {
  const double freshness = Freshness(history, pulled);
  const bool begins = histories_.size() > 1 || request.rate != history.rate || freshness != 1;
  history.rate = request.rate;
  StepAt now = StepOf(history);
  now.dense.freshness = freshness;
  history.applied.Add(request.key.epoch, request.key.begin, request.key.end);
  const int64_t steps = ++history.steps;
  const StepAt next = StepOf(history);
  if (turn != nullptr) {
    NoteRoom(request);
    turn->PassOn();
  }
  if (begins) BeginStep(now, /*evict=*/false, freshness);
  MoveWeights(history.partitions, request, now.dense);
  ForgetCounted(steps, history.partitions);
  if (turn != nullptr) BeginStep(next, TakeEviction(next));
}

void Shard::MoveWeights(const IntervalSet& partitions, const PushRequest& request,
                        const OptimizerStep& step) {
  if (!request.dense.empty()) UpdateDense(partitions, request.dense, step);
  std::vector<uint64_t> ids;
  std::vector<float> gradients;
  for (size_t t = 0; t < request.tables.size(); ++t) {
    TablePush part = request.tables[t];
    const size_t dim = tables_[t]->dim();
    if (histories_.size() > 1) {
      ids.clear();
      gradients.clear();
      for (size_t i = 0; i < part.ids.size(); ++i) {
        if (!partitions.Contains(PartitionOf(PointOf(part.ids[i])))) continue;
        const float* gradient = part.gradients.data() + i * dim;
        ids.push_back(part.ids[i]);
        gradients.insert(gradients.end(), gradient, gradient + dim);
      }
      part = {ids, gradients};
    }
    // There is room: that was looked at before it was logged.
    RUBATO_CHECK_OK(tables_[t]->Update(part.ids, part.gradients.data()));
  }
}

void Shard::CountStep(History& history) { ForgetCounted(++history.steps, history.partitions); }

void Shard::ForgetCounted(int64_t steps, const IntervalSet& partitions) {
  for (const auto& table : tables_) table->ForgetCounted(steps, partitions);
}

// It follows from the push and what was applied before it, so a replay comes to the same.
double Shard::Freshness(const History& history, int64_t pulled) const {
  const bool known = pulled >= 0 && pulled <= history.steps;
  if (!declaration_->scale_stale || !known) return 1;
  return 1 / (1 + static_cast<double>(history.steps - pulled));
}

void Shard::UpdateDense(const IntervalSet& partitions, absl::Span<const float> gradient,
                        const OptimizerStep& step) {
  for (const auto& [s, slice] : dense_) {
    const size_t floats = SliceFloats(s);
    if (histories_.size() == 1 || partitions.Contains(PartitionOfSlice(s))) {
      UpdateSlice(s, gradient.subspan(0, floats), step);
    }
    gradient.remove_prefix(floats);
  }
}

void Shard::UpdateSlice(int64_t s, absl::Span<const float> gradient, const OptimizerStep& step) {
  DenseSlice& slice = dense_.at(s);
  if (dense_observer_ != nullptr) dense_observer_->BeforeUpdate(s, slice);
  const auto all = absl::MakeSpan(slice);
  optimizer_->UpdateDense(all.subspan(0, gradient.size()), all.subspan(gradient.size()), gradient,
                          step);
  if (changes_.known) changes_.MarkSlice(s);
}

OptimizerStep Shard::DenseStep(const History& history) const {
  const int64_t steps = InRounds() ? history.rounds : history.steps;
  const int64_t samples = InRounds() ? history.round_samples : history.samples();
  return {.number = static_cast<uint32_t>(steps + 1),
          .learning_rate = history.rate * LearningRateAt(optimizer_->spec(), samples)};
}

// Both the number and the rate follow from what was applied, so a replay comes to the same ones.
Shard::StepAt Shard::StepOf(const History& history) const {
  const bool sync = declared() && declaration_->mode == PushMode::kSync;
  StepAt step;
  step.number = static_cast<uint32_t>(history.steps + 1);
  step.samples = sync ? history.round_samples : history.samples();
  step.rate = history.rate;
  step.dense = DenseStep(history);
  return step;
}

void Shard::BeginStep(const StepAt& step, bool evict, double freshness) const {
  for (const auto& table : tables_) {
    table->BeginStep(step.number, step.samples, step.rate, evict, freshness);
  }
}

// Rows go only while all partitions count the same steps, so that they are as old everywhere, and
// none is between two servers; and once a step, however often it is said to begin: what goes of
// those that are late hangs on it, and a log's replay says it less often.
bool Shard::TakeEviction(const StepAt& step) {
  const bool takes = settled() && step.number != evicted_;
  if (takes) evicted_ = step.number;
  return takes;
}

void Shard::BeginNextStep() {
  if (histories_.empty()) return;
  const StepAt step = StepOf(histories_[0]);
  if (histories_.size() > 1) evicted_ = 0;
  BeginStep(step, histories_.size() == 1 && TakeEviction(step));
}

}  // namespace rubato

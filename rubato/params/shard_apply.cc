// What a push does to the weights once it is checked and logged.
#include <utility>

#include "rubato/base/status.h"
#include "rubato/params/learning_rate.h"
#include "rubato/params/shard.h"

namespace rubato {

// To those partitions that do not have it yet: all of them, but for a push that overtook a move.
absl::Status Shard::Apply(const PushRequest& request) {
  RUBATO_RETURN_IF_ERROR(Whole(request.rounds));
  for (History& history : histories_) {
    if (history.HeldOf(request.key) != History::Held::kNothing) continue;
    RUBATO_RETURN_IF_ERROR(InRounds() ? Stage(history, request) : ApplyTo(history, request));
  }
  if (histories_.size() > 1) JoinHistories(histories_);
  BeginNextStep();
  return absl::OkStatus();
}

absl::Status Shard::ApplyTo(History& history, const PushRequest& request) {
  const bool all = histories_.size() == 1;
  const double freshness = Freshness(history);
  if (!all || request.rate != history.rate || freshness != 1) {
    history.rate = request.rate;
    BeginStep(history, /*evict=*/false, freshness);
  }
  if (!request.dense.empty()) UpdateDense(history, request.dense, freshness);
  std::vector<uint64_t> ids;
  std::vector<float> gradients;
  for (size_t t = 0; t < request.tables.size(); ++t) {
    TablePush part = request.tables[t];
    const size_t dim = tables_[t]->dim();
    if (!all) {
      ids.clear();
      gradients.clear();
      for (size_t i = 0; i < part.ids.size(); ++i) {
        if (!history.partitions.Contains(PartitionOf(PointOf(part.ids[i])))) continue;
        const float* gradient = part.gradients.data() + i * dim;
        ids.push_back(part.ids[i]);
        gradients.insert(gradients.end(), gradient, gradient + dim);
      }
      part = {ids, gradients};
    }
    RUBATO_RETURN_IF_ERROR(tables_[t]->Update(part.ids, part.gradients.data()));
  }
  history.applied[request.key.epoch].Add(request.key.begin, request.key.end);
  CountStep(history);
  return absl::OkStatus();
}

void Shard::CountStep(History& history) {
  ++history.steps;
  for (const auto& table : tables_) table->ForgetCounted(history.steps, history.partitions);
}

// It follows from the push and what was applied before it, so a replay comes to the same.
double Shard::Freshness(const History& history) const {
  const bool known = push_.pulled >= 0 && push_.pulled <= history.steps;
  if (!declaration_->scale_stale || !known) return 1;
  return 1 / (1 + static_cast<double>(history.steps - push_.pulled));
}

void Shard::UpdateDense(const History& history, absl::Span<const float> gradient,
                        double freshness) {
  OptimizerStep step = DenseStep(history);
  step.freshness = freshness;
  for (const auto& [s, slice] : dense_) {
    const size_t floats = SliceFloats(s);
    if (histories_.size() == 1 || history.partitions.Contains(PartitionOfSlice(s))) {
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
void Shard::BeginStep(const History& history, bool evict, double freshness) const {
  const bool sync = declared() && declaration_->mode == PushMode::kSync;
  const int64_t samples = sync ? history.round_samples : history.samples();
  for (const auto& table : tables_) {
    table->BeginStep(static_cast<uint32_t>(history.steps + 1), samples, history.rate, evict,
                     freshness);
  }
}

// Rows go only while all partitions count the same steps, so that they are as old everywhere, and
// none is between two servers.
void Shard::BeginNextStep() {
  if (histories_.size() == 1) BeginStep(histories_[0], /*evict=*/settled());
}

}  // namespace rubato

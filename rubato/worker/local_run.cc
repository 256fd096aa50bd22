#include "rubato/worker/local_run.h"

#include <numeric>

#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/learning_rate.h"

namespace rubato {

LocalRun::LocalRun(Trainer& trainer, const Options& options)
    : trainer_(trainer),
      id_columns_(options.id_columns),
      seed_(options.seed),
      dense_(trainer.InitialDense(options.seed)) {
  const OptimizerSpec spec = trainer.optimizer(options.optimizer);
  absl::StatusOr<Optimizer> optimizer = Optimizer::Make(spec);
  RUBATO_CHECK_OK(optimizer.status());
  optimizer_ = *std::move(optimizer);
  dense_state_.resize(optimizer_.dense_state_floats(dense_.size()));
  optimizer_.StartDense(dense_, absl::MakeSpan(dense_state_));
  std::vector<EmbeddingTableOptions> all;
  for (const TableSpec& table : trainer.signature().tables) {
    all.push_back({.spec = table,
                   .optimizer = spec,
                   .rows = options.rows,
                   .seed = seed_,
                   .rows_max = uint64_t{1} << 28});
  }
  auto tables = EmbeddingTable::MakeAll(memory_, std::move(all));
  RUBATO_CHECK_OK(tables.status());
  for (auto& table : *tables) tables_.emplace_back().rows = std::move(table);
}

int64_t LocalRun::rows() const {
  int64_t rows = 0;
  for (const Table& table : tables_) rows += static_cast<int64_t>(table.rows->rows());
  return rows;
}

std::vector<float> LocalRun::Rows(size_t table, uint64_t ids) const {
  EmbeddingTable& rows = *tables_[table].rows;
  rows.BeginStep(steps_ + 1, samples_);
  std::vector<uint64_t> wanted(ids);
  std::iota(wanted.begin(), wanted.end(), uint64_t{0});
  std::vector<float> values(ids * rows.dim());
  rows.Gather(wanted, values.data());
  return values;
}

OptimizerStep LocalRun::NextStep() const {
  return {.number = steps_ + 1, .learning_rate = LearningRateAt(optimizer_.spec(), samples_)};
}

StepInput LocalRun::Gather(const Batch& batch) {
  StepInput in{.batch = &batch, .dense = dense_, .seed = Mix(seed_, steps_)};
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    unique_.Find(batch, id_columns_, trainer_.signature().tables[t].fields, &table.unique);
    table.gathered.resize(table.unique.ids.size() * table.rows->dim());
    table.rows->BeginStep(steps_ + 1, samples_);
    table.rows->Gather(table.unique.ids, table.gathered.data());
    in.tables.push_back({.rows = table.gathered, .position = table.unique.position});
  }
  return in;
}

absl::StatusOr<double> LocalRun::Step(const Batch& batch) {
  RUBATO_RETURN_IF_ERROR(trainer_.Step(Gather(batch), &out_));
  std::vector<absl::Span<float>> parts = {absl::MakeSpan(out_.dense_gradient)};
  for (auto& gradient : out_.table_gradients) parts.push_back(absl::MakeSpan(gradient));
  ClipGradient(optimizer_.spec(), parts);
  optimizer_.UpdateDense(absl::MakeSpan(dense_), absl::MakeSpan(dense_state_), out_.dense_gradient,
                         NextStep());
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    RUBATO_RETURN_IF_ERROR(table.rows->Update(table.unique.ids, out_.table_gradients[t].data()));
  }
  ++steps_;
  samples_ += batch.rows;
  return out_.loss;
}

absl::StatusOr<std::vector<float>> LocalRun::Predict(const Batch& batch) {
  std::vector<float> scores;
  RUBATO_RETURN_IF_ERROR(trainer_.Predict(Gather(batch), &scores));
  return scores;
}

}  // namespace rubato

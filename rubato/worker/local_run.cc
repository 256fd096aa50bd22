#include "rubato/worker/local_run.h"

#include <algorithm>
#include <cmath>

#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
LocalRun::LocalRun(Trainer& trainer, const Options& options)
    : trainer_(trainer),
      optimizer_(trainer.optimizer(options.optimizer)),
      id_columns_(options.id_columns),
      seed_(options.seed),
      dense_(trainer.InitialDense(options.seed)),
      dense_squares_(dense_.size(), static_cast<float>(optimizer_.initial_accumulator)),
      tables_(trainer.signature().tables.size()) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableSpec& spec = trainer.signature().tables[t];
    absl::StatusOr<Initializer> made = Initializer::Make(spec.initializer, seed_, spec.name);
    RUBATO_CHECK_OK(made.status());
    tables_[t].initializer = *made;
  }
}

int64_t LocalRun::rows() const {
  int64_t rows = 0;
  for (const Table& table : tables_) rows += static_cast<int64_t>(table.row_of.size());
  return rows;
}

StepInput LocalRun::Gather(const Batch& batch) {
  StepInput in{.batch = &batch, .dense = dense_, .seed = Mix(seed_, steps_)};
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableSpec& spec = trainer_.signature().tables[t];
    const size_t dim = static_cast<size_t>(spec.dim);
    Table& table = tables_[t];
    unique_.Find(batch, id_columns_, spec.fields, &table.unique);
    table.row_index.clear();
    table.gathered.clear();
    for (const uint64_t id : table.unique.ids) {
      const auto [it, is_new] = table.row_of.try_emplace(id, table.row_of.size());
      if (is_new) {
        table.weights.resize(table.weights.size() + dim);
        table.squares.resize(table.weights.size(),
                             static_cast<float>(optimizer_.initial_accumulator));
        table.initializer.Fill(id, {&table.weights[it->second * dim], dim});
      }
      table.row_index.push_back(it->second);
      const float* row = &table.weights[it->second * dim];
      table.gathered.insert(table.gathered.end(), row, row + dim);
    }
    in.tables.push_back({.rows = table.gathered, .position = table.unique.position});
  }
  return in;
}

absl::StatusOr<double> LocalRun::Step(const Batch& batch) {
  RUBATO_RETURN_IF_ERROR(trainer_.Step(Gather(batch), &out_));
  Update(dense_.data(), dense_squares_.data(), out_.dense_gradient.data(),
         static_cast<int64_t>(dense_.size()));
  for (size_t t = 0; t < tables_.size(); ++t) {
    const int64_t dim = trainer_.signature().tables[t].dim;
    Table& table = tables_[t];
    for (size_t i = 0; i < table.row_index.size(); ++i) {
      const int64_t at = table.row_index[i] * dim;
      Update(&table.weights[at], &table.squares[at], &out_.table_gradients[t][i * dim], dim);
    }
  }
  ++steps_;
  return out_.loss;
}

absl::StatusOr<std::vector<float>> LocalRun::Predict(const Batch& batch) {
  std::vector<float> scores;
  RUBATO_RETURN_IF_ERROR(trainer_.Predict(Gather(batch), &scores));
  return scores;
}

void LocalRun::Update(float* weights, float* squares, const float* gradient, int64_t n) const {
  const float rate = static_cast<float>(optimizer_.learning_rate);
  const float epsilon = static_cast<float>(optimizer_.epsilon);
  if (optimizer_.name == "sgd") {
    for (int64_t i = 0; i < n; ++i) weights[i] -= rate * gradient[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    squares[i] += gradient[i] * gradient[i];
    weights[i] -= rate * gradient[i] / (std::sqrt(squares[i]) + epsilon);
  }
}

}  // namespace rubato

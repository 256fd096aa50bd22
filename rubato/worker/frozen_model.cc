#include "rubato/worker/frozen_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

template <typename T>
absl::Status Differ(absl::string_view what, const T& stored, const T& made) {
  return absl::FailedPreconditionError(absl::StrCat("the weights are of another model: ", what, " ",
                                                    stored, ", but the model makes ", made));
}

}  // namespace

absl::StatusOr<FrozenModel> FrozenModel::Make(Trainer& trainer, const FrozenWeights& weights,
                                              int64_t id_columns) {
  const ModelSignature& stored = weights.model().signature;
  const ModelSignature& made = trainer.signature();
  if (stored.dense_size != made.dense_size) {
    return Differ("dense weights:", stored.dense_size, made.dense_size);
  }
  if (stored.tables.size() != made.tables.size()) {
    return Differ("tables:", stored.tables.size(), made.tables.size());
  }
  for (size_t t = 0; t < made.tables.size(); ++t) {
    const TableSpec &a = stored.tables[t], &b = made.tables[t];
    if (a.name != b.name) return Differ("table", a.name, b.name);
    if (a.dim != b.dim) return Differ(absl::StrCat("table ", a.name, " of dim"), a.dim, b.dim);
  }
  return FrozenModel(trainer, weights, id_columns);
}

absl::StatusOr<absl::Span<const float>> FrozenModel::Predict(const Batch& batch) {
  scores_.clear();
  if (batch.rows == 0) return absl::Span<const float>(scores_);
  StepInput in{.batch = &batch, .dense = weights_.dense()};
  ids_.resize(weights_.tables());
  rows_.resize(weights_.tables());
  for (size_t t = 0; t < weights_.tables(); ++t) {
    const EmbeddingTable& table = weights_.table(t);
    unique_.Find(batch, id_columns_, trainer_.signature().tables[t].fields, &ids_[t]);
    rows_[t].resize(ids_[t].ids.size() * table.dim());
    table.Gather(ids_[t].ids, rows_[t].data());
    in.tables.push_back({.rows = rows_[t], .position = ids_[t].position});
  }
  RUBATO_RETURN_IF_ERROR(trainer_.Predict(in, &scores_));
  return absl::Span<const float>(scores_);
}

void ToProbabilities(int64_t width, std::vector<float>* scores) {
  if (width == 1) return;
  for (auto row = scores->begin(); row != scores->end(); row += width) {
    const float most = *std::max_element(row, row + width);
    double sum = 0;
    for (auto score = row; score != row + width; ++score) sum += std::exp(*score - most);
    for (auto score = row; score != row + width; ++score) {
      *score = static_cast<float>(std::exp(*score - most) / sum);
    }
  }
}

}  // namespace rubato

// A model that only scores: weights at one version, and the code that reads them. Evaluation,
// prediction and serving all go through here.
#ifndef RUBATO_WORKER_FROZEN_MODEL_H_
#define RUBATO_WORKER_FROZEN_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/data/batch.h"
#include "rubato/model/trainer.h"
#include "rubato/params/weights.h"
#include "rubato/worker/unique.h"

namespace rubato {

// One thread uses it.
class FrozenModel {
 public:
  // Neither is owned. FAILED_PRECONDITION, naming the difference, if the weights are of another
  // model than `trainer` is, as when a plug-in has been built anew.
  static absl::StatusOr<FrozenModel> Make(Trainer& trainer, const FrozenWeights& weights,
                                          int64_t id_columns);

  // Scores as Trainer::Predict gives them; valid until the next call.
  absl::StatusOr<absl::Span<const float>> Predict(const Batch& batch);

 private:
  FrozenModel(Trainer& trainer, const FrozenWeights& weights, int64_t id_columns)
      : trainer_(trainer), weights_(weights), id_columns_(id_columns) {}

  Trainer& trainer_;
  const FrozenWeights& weights_;
  int64_t id_columns_;
  Unique unique_;
  std::vector<UniqueIds> ids_;            // By table.
  std::vector<std::vector<float>> rows_;  // Likewise.
  std::vector<float> scores_;
};

// Logits of `width` classes a row as probabilities, in place; those of width 1 are already.
void ToProbabilities(int64_t width, std::vector<float>* scores);

}  // namespace rubato

#endif  // RUBATO_WORKER_FROZEN_MODEL_H_

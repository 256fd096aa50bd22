// A validation task's scores, summed into the few numbers that travel to the master.
#ifndef RUBATO_WORKER_EVALUATION_H_
#define RUBATO_WORKER_EVALUATION_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/types/span.h"
#include "rubato/data/batch.h"
#include "rubato/metrics/evaluation.h"

namespace rubato {

// Adds up batch after batch of one task. Sums of any cut of the data add to the sums of the whole.
class Evaluation {
 public:
  // As Trainer::score_width(): 1 for a probability, else one logit a class.
  explicit Evaluation(int64_t score_width) : width_(score_width) {}

  // `scores` as Trainer::Predict gave them, `user` as Trainer::Metrics.
  void Add(const Batch& batch, absl::Span<const float> scores,
           const std::map<std::string, double>& user);
  const EvaluationSums& sums() const { return sums_; }

 private:
  void AddLogits(float label, absl::Span<const float> logits);

  const int64_t width_;
  EvaluationSums sums_;
};

}  // namespace rubato

#endif  // RUBATO_WORKER_EVALUATION_H_

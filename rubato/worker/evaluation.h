// A validation task's scores, summed into the few numbers that travel to the master.
#ifndef RUBATO_WORKER_EVALUATION_H_
#define RUBATO_WORKER_EVALUATION_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/data/batch.h"
#include "rubato/metrics/evaluation.h"

namespace rubato {

// Which id column of a batch says whose record it is, for the metrics of groups.
struct GroupColumn {
  size_t column = 0;
  size_t columns = 0;  // 0: records have no group.
};
// Of the column `name` among the ids of `shape`; none if `name` is empty. INVALID_ARGUMENT, with
// the nearest name, if it is not there.
absl::StatusOr<GroupColumn> FindGroup(const BatchShape& shape, const std::string& name);

// Adds up batch after batch of one task. Sums of any cut of the data add to the sums of the whole.
class Evaluation {
 public:
  // As Trainer::score_width(): 1 for a probability, else one logit a class.
  explicit Evaluation(int64_t score_width, GroupColumn group = {})
      : width_(score_width), group_(group) {}

  // `scores` as Trainer::Predict gave them, `user` as Trainer::Metrics.
  void Add(const Batch& batch, absl::Span<const float> scores,
           const std::map<std::string, double>& user);
  const EvaluationSums& sums() const { return sums_; }

 private:
  void AddLogits(float label, absl::Span<const float> logits);

  const int64_t width_;
  const GroupColumn group_;
  EvaluationSums sums_;
};

}  // namespace rubato

#endif  // RUBATO_WORKER_EVALUATION_H_

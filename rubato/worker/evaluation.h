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

// What of a batch says whose record it is, for the metrics of groups: the cell as it came, where
// features are made of it (rare users may share an id, and are groups all the same), or an id.
struct GroupColumn {
  size_t column = 0;
  size_t columns = 0;    // 0: no id is it.
  bool is_cell = false;  // Batch::groups.
};
// Of the column `name`, or of that name among the ids of `shape`; none if `name` is empty.
// INVALID_ARGUMENT, with the nearest name, if it is not there.
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

// Scores of a model summed up so that parts can be merged: each worker sums over its tasks, the
// master adds the sums, in the order of tasks, and reads the metrics off the total: so the same
// weights give the same metrics to the last bit, whoever evaluated which task.
#ifndef RUBATO_METRICS_EVALUATION_H_
#define RUBATO_METRICS_EVALUATION_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace rubato {

// Partial sums of an evaluation, small enough to send: AUC by a histogram of scores.
struct EvaluationSums {
  int64_t records = 0;
  double loss_sum = 0;  // Logloss for binary models.
  int64_t correct = 0;
  // Binary models: BinOf(score) -> (negatives, positives).
  std::map<int32_t, std::pair<int64_t, int64_t>> histogram;
  std::map<std::string, double> user_sums;

  void Add(const EvaluationSums& other);
  // One record of a binary model: counts it in its bin, its logloss and whether it is right.
  void AddBinary(double score, bool positive);
};

// The bin of a probability: bins are equally wide in the logit, 1024 to one unit of it, so that
// they stay fine near 0 and 1 where click rates live; beyond logit +-32 everything shares the
// outermost bin. A score that is not a number falls into the lowest.
int32_t BinOf(double score);

// The chance that a random positive scores above a random negative, ties counting half; records
// of one bin are ties, which is off by less than 1e-4 on any spread of scores worth the name.
// 0.5 if there are no positives or no negatives.
double Auc(const EvaluationSums& sums);

// Everything the sums tell, by name: loss, accuracy, the user's own, and for binary models auc
// and logloss. Empty for no records.
std::map<std::string, double> Metrics(const EvaluationSums& sums);

}  // namespace rubato

#endif  // RUBATO_METRICS_EVALUATION_H_

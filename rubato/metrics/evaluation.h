// Scores of a model summed up so that parts can be merged: each worker sums over its tasks, the
// master adds the sums, in the order of tasks, and reads the metrics off the total: so the same
// weights give the same metrics to the last bit, whoever evaluated which task.
#ifndef RUBATO_METRICS_EVALUATION_H_
#define RUBATO_METRICS_EVALUATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/metrics/score_counts.h"

namespace rubato {

// Partial sums of an evaluation, small enough to send: about six bytes a record at most.
struct EvaluationSums {
  int64_t records = 0;
  double loss_sum = 0;  // Logloss for binary models.
  int64_t correct = 0;
  // Binary models:
  double score_sum = 0;
  int64_t positives = 0;
  double square_sum = 0;                   // Of score - label.
  ScoreCounts scores;                      // Of all records,
  std::map<uint64_t, ScoreCounts> groups;  // and of each group, if records have one.
  std::map<std::string, double> user_sums;

  void Add(const EvaluationSums& other);
  // One record of a binary model, whose score is a probability.
  void AddBinary(float score, bool positive, std::optional<uint64_t> group = std::nullopt);

  friend bool operator==(const EvaluationSums&, const EvaluationSums&) = default;
};

// For the journal and the wire. DATA_LOSS if the bytes are none of ours.
std::string EncodeSums(const EvaluationSums& sums);
absl::StatusOr<EvaluationSums> DecodeSums(absl::string_view bytes);

// The mean of the groups' own AUCs, weighted by their records; groups without positives or without
// negatives say nothing and are left out. Nothing if that leaves none.
std::optional<double> GroupAuc(const EvaluationSums& sums);

// Everything the sums tell, by name. Empty for no records.
//   loss         its mean                    accuracy  of score >= 0.5, or of the best class
// and for binary models
//   auc          see ScoreCounts::Auc        logloss   the loss
//   gauc         see GroupAuc                rmse      of the score against 0 and 1
//   calibration  the mean score over the share of positives: 1 is right, 2 promises twice as many
//   base_logloss that of the share of positives as the score of every record; not of one class
// and the user's own.
std::map<std::string, double> Metrics(const EvaluationSums& sums);

// Whether the scores say less than the share of positives alone would: `logloss` is not below
// `base_logloss`. Ranks may be right all the same; as probabilities they mislead. False where
// either is not there.
bool IsWorseThanConstant(const std::map<std::string, double>& metrics);

// Whether more is better: not for losses and rmse, nor for whatever is not known here.
bool MoreIsBetter(absl::string_view metric);

}  // namespace rubato

#endif  // RUBATO_METRICS_EVALUATION_H_

// When the model is evaluated, what came of it, and whether it still gets better.
#ifndef RUBATO_MASTER_EVALUATIONS_H_
#define RUBATO_MASTER_EVALUATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"

namespace rubato {

class Evaluations {
 public:
  // `validation`: whether there is anything to evaluate on; if not, none is ever due.
  Evaluations(const EvaluateSpec& spec, bool validation, absl::Time now);

  // One is running at a time. During training one is due every `every_steps` or `every`; after it,
  // one more over the final weights.
  bool DueInTraining(int64_t steps, absl::Time now) const;
  bool DueBySteps(int64_t steps) const;  // Else it is by time.
  bool DueAtTheEnd() const;
  bool FinalDone() const { return !validation_ || (final_begun_ && !running_.has_value()); }
  bool running() const { return running_.has_value(); }
  int64_t step() const {
    return running_.has_value() ? running_->step : -1;
  }  // Of the running one.
  int64_t next_number() const { return next_number_; }
  const std::vector<EvaluationResult>& results() const { return results_; }
  // No gain `stop_after_stalls` times in a row. An evaluation brings a gain if its metric is the
  // best so far, and also if its loss is the lowest: on a plateau the ranks of rows waver for a
  // long time while the loss tells that the model still learns. Before the first of a job that
  // counts, `forgive_stalls` in a row do not, unless the loss is two hundredths above its lowest:
  // who is on a plateau has time, who forgets what it learned has none.
  bool Stalled() const;
  // What learning rates are multiplied with from now on: lower with every stall that counts.
  double rate() const { return rate_; }
  int64_t lowered() const { return lowered_; }  // How often it was.
  // The weights after `steps` are those that were evaluated last.
  bool Knows(int64_t steps) const;
  // The best so far by its metric, which is what a model is chosen for, and of equal ones the one
  // of the lowest loss: of few rows, or easy ones, many versions rank alike. 0 for none. A metric
  // of ranks (auc, gauc, accuracy) does not see what scores are worth as probabilities, so there
  // one that is worse than the constant rate (see IsWorseThanConstant) is never before one that is
  // not.
  int64_t best() const { return best_.number; }
  int64_t best_step() const { return best_.step; }
  // It is to be kept (`keep_best`), and is not on disk yet.
  bool BestUnsaved() const { return spec_.keep_best && best_.number != saved_.number; }

  void Begin(int64_t number, int64_t step, bool final, absl::Time now);
  void Add(TaskId task, EvaluationSums sums);
  // All tasks are in.
  void End();
  void SavedBest();
  // The weights of a best that was not on disk are gone: the one before it is the best again.
  void LoseUnsavedBest();
  // So are those of the one that was on disk: there is none.
  void LoseBest();
  // The state was lost, and training goes on from the one after `steps` steps, every bit of which
  // is kept: what was evaluated later is of weights that nobody has, and all that was judged by it
  // (the best, stalls, the rate) is as it was then. True if one that was running is given up.
  bool GoBack(int64_t steps);
  // A server lost part of the weights, and `steps` are left: one that is running saw both kinds,
  // and does not count; what was evaluated is not what is there, whatever the step.
  void TakeBack(int64_t steps);

 private:
  struct Running {
    int64_t number = 0;
    int64_t step = 0;
    std::map<TaskId, EvaluationSums> sums;  // Added up in this order, whoever came first.
  };

  struct Best {
    std::optional<double> score;
    std::optional<double> loss;
    bool misleads = false;  // Its probabilities do.
    int64_t number = 0, step = 0;
    std::optional<double> highest_score;  // So far, whichever version had it.
    std::optional<double> lowest_loss;    // Likewise.
  };

  std::string MetricOf(const std::map<std::string, double>& metrics) const;
  double ScoreOf(const std::map<std::string, double>& metrics) const;
  bool Misleads(const std::map<std::string, double>& metrics) const;
  bool IsBetter(const Best& next) const;  // Than the best.
  // Whether it is the best, a gain, forgiven or a stall.
  void Judge(const EvaluationResult& result);

  EvaluateSpec spec_;
  bool validation_;
  std::optional<Running> running_;
  bool final_begun_ = false;
  bool current_ = true;  // Nothing was taken back since the last result.
  int64_t next_number_ = 1;
  int64_t next_at_ = 0;   // The step at which the next is due.
  int64_t stalls_ = 0;    // In a row.
  int64_t forgiven_ = 0;  // In a row.
  absl::Time began_;      // The last one, or this master's life.
  double rate_ = 1;
  int64_t lowered_ = 0;
  Best best_, saved_;  // The second is on disk.
  std::vector<EvaluationResult> results_;
};

}  // namespace rubato

#endif  // RUBATO_MASTER_EVALUATIONS_H_

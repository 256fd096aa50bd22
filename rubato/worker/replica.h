// One worker's copy of a model that a whole group holds: weights, optimizer, how far training is.
//
//     training ──pause_every steps──▶ paused ──someone votes to resume──▶ training
//         └────── the last record ──▶ ended ◀── someone votes to rest
//
// A state machine whose only input is what the group has summed: gradients, and behind the same
// sum the counts and votes of a step. So all copies stay equal to the bit, whoever hears what and
// when; a newcomer needs the state's bytes and the sums since. Outside training the group goes on
// with steps that sum the votes alone, so that members can come, go and agree at any time.
//
// Pure: no threads, no clock, no files.
#ifndef RUBATO_WORKER_REPLICA_H_
#define RUBATO_WORKER_REPLICA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/job/job_spec.h"
#include "rubato/params/learning_rate.h"
#include "rubato/params/optimizer.h"
#include "rubato/tasks/plan_walk.h"

namespace rubato {

class Replica {
 public:
  enum class Phase : int64_t { kTraining, kPaused, kEnded };

  struct Options {
    OptimizerSpec optimizer;
    int64_t batch_size = 1;  // Records of a step, over all workers; or of each of them,
    BatchRule batch_rule = BatchRule::kKeep;  // if they change it.
    int64_t batch_warmup = 0;                 // Samples.
    int64_t pause_every = 0;                  // Steps; 0: never.
    double lower_rate = 1;  // What the learning rate is multiplied with each time it is lowered.
  };

  // What is summed with the gradients, each in a float: exact below 2^24. kWorkers: one of each who
  // holds the state and had a part of the step to compute. kLowered: see VoteResume(). kMarks: of
  // the positions, see MarkOf(); a number of 12 bits from each of at most 4096.
  enum Field {
    kPositions,
    kRows,
    kLoss,
    kFailed,
    kResume,
    kRest,
    kWorkers,
    kLowered,
    kMarks,
    kFields
  };

  // `weights` is a new model's.
  static absl::StatusOr<Replica> Make(const Options& options, const TaskPlan& plan,
                                      absl::Span<const float> weights);

  Phase phase() const { return counters_.phase; }
  int64_t steps() const { return counters_.steps; }
  int64_t records() const { return counters_.records; }
  int64_t bad_rows() const { return counters_.bad_rows; }
  // Positions of applied steps that were summed twice or not at all: 0, or there is a bug. Where
  // as many were doubled as are missing, or others were summed in their place, a step counts as 1.
  int64_t records_wrong() const { return counters_.wrong; }
  absl::Span<const float> weights() const { return {row_.data(), dense_}; }
  // The records of the next training step, taken by so many workers.
  PlanRange NextStep(int64_t workers = 1);

  // ---- this worker's part of a step ----
  void BeginStep();
  // A mean gradient over `rows` rows, all that can be read of the positions of `run`.
  void Add(absl::Span<const float> gradient, int64_t rows, const PlanRange& run, double loss);
  // The same for one whose gradient is summed by other means, into Gradient().
  void Count(int64_t rows, const PlanRange& run, double loss);
  void Vote(Field field) { sum_[field] = 1; }
  // To go on after a pause, now that the rate was lowered so often since training began. All who
  // vote have it from one master, so their mean is what each of them said.
  void VoteResume(int64_t lowered);
  // What the group must sum: all of it in a step of training, the counts and votes in any other.
  absl::Span<float> Sum() { return absl::MakeSpan(sum_); }
  absl::Span<float> Votes() { return Sum().subspan(0, kFields); }
  absl::Span<float> Gradient() { return Sum().subspan(kFields); }

  // Applies what was summed. A step in which somebody failed changes nothing, nor does one whose
  // sum is not finite: 16 bits on the wire hold less than those of who added to it.
  void Apply();
  // Whether the last step applied was such a sum; the same at everybody.
  bool overflowed() const { return overflowed_; }
  // Whether the last step applied changed nothing, since somebody failed or by its sum.
  bool failed() const { return failed_; }
  // Mean loss of the last step applied.
  double loss() const { return loss_; }

  // ---- the whole state ----
  // What a newcomer copies.
  std::vector<absl::Span<char>> State();
  uint64_t Checksum() const;
  // The same bytes for the same weights, whoever writes them.
  std::string Encode() const;
  // Encode() in two parts, for who copies State() beside training: what comes before its bytes, as
  // of now, and the rest, once they follow in `bytes`, one piece of State() after the other.
  std::string EncodeHead() const;
  static void EncodeRest(std::string& bytes);
  // DATA_LOSS if the bytes are damaged, FAILED_PRECONDITION if they are of another model or plan.
  // Nothing has changed then.
  absl::Status Decode(absl::string_view bytes);

 private:
  struct Counters {  // Replicated as it lies in memory.
    int64_t steps = 0;
    int64_t records = 0;
    int64_t bad_rows = 0;
    int64_t wrong = 0;
    Phase phase = Phase::kTraining;
    // Where the batch may change: how many workers took the last step, since how many records, and
    // the factor on the learning rate before that.
    int64_t workers = 1;
    int64_t workers_since = 0;
    double factor_before = 1;
    int64_t lowered = 0;  // How often the learning rate was.
  };

  Replica(const Options& options, const TaskPlan& plan, Optimizer optimizer, size_t dense);
  absl::Span<float> OptimizerState() { return absl::MakeSpan(row_).subspan(dense_); }
  void ApplyTraining();
  double LearningRate(int64_t workers);
  Phase PhaseAfterStep() const;

  Options options_;
  PlanWalk walk_;
  Optimizer optimizer_;
  size_t dense_;
  std::vector<float> row_;  // Weights, then the optimizer's state.
  Counters counters_;
  std::vector<float> sum_;  // kFields counts and votes, then the gradient.
  double loss_ = 0;
  bool overflowed_ = false;
  bool failed_ = false;
};

// The weights alone of what Replica::Encode() wrote. DATA_LOSS if the bytes are damaged.
absl::StatusOr<std::vector<float>> ReplicaWeights(absl::string_view bytes);

}  // namespace rubato

#endif  // RUBATO_WORKER_REPLICA_H_

// How weights move against their gradients: one optimizer, for rows and for dense weights.
//
//     row    [weights | state, slot by slot | scalars]    a slot is dim floats
//     dense  [weights]  [state, slot by slot]             a slot is a float for each weight
//
// Rows are updated lazily: only those of a batch move, and each as if the others were not there.
// - Adam's bias correction counts the updates of the row, so rare ids get full steps.
// - weight_decay catches up: a row that missed m steps first loses what m steps without a gradient
//   would have taken; Present() is the same for a reader. For SGD, momentum and AdamW that leaves
//   (1 - rate * weight_decay)^m. Rules that divide by a root of squares divide the pull by it in
//   a batch, and so does the catching up: root / (root + m * rate * weight_decay) is left, where
//   Adam's root is as small as if it had been averaged over the m steps, too.
// - Momentum and running means do rest while a row is not in a batch.
// dense_adam is the exception: its rows are where a dense Adam would have them. The steps that one
// missed, in which its means decay, the mean gradient goes on moving it and weight_decay pulls, are
// made up for by about 4 log2(m) steps of growing length, within some hundredths of the m
// (optimizer_test.cc); bias correction counts the steps of the job.
// Dense weights follow libtorch's optimizers of the same names to the letter. rowwise_adagrad has
// one accumulator a row; dense weights are not rows, and are moved by adagrad then.
//
// The loops are compiled for plain x86-64, AVX2 and AVX-512 and chosen when the process starts; all
// of them round alike (no fused multiply-add), so the result does not depend on the machine.
#ifndef RUBATO_PARAMS_OPTIMIZER_H_
#define RUBATO_PARAMS_OPTIMIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/job/optimizer_spec.h"
#include "rubato/params/optimizer_kernels.h"

namespace rubato {

// Where in the course of a job an update falls.
struct OptimizerStep {
  uint32_t number = 1;       // From 1.
  double learning_rate = 0;  // As of now: see learning_rate.h.
  // What is left of it for an update that comes late. Steps that a row missed were at the full
  // rate.
  double freshness = 1;
};

// Where in a row an optimizer's columns and their state lie.
struct RowPart {
  size_t dim = 0;         // Columns.
  size_t weights_at = 0;  // Of the row, and of its gradient.
  size_t state_at = 0;    // Of the row; Optimizer::row_state_floats(dim) floats.

  // A row that is all one optimizer's.
  static RowPart Whole(size_t dim) { return {dim, 0, dim}; }
};

struct RowUpdate {
  float* row;             // Need not be aligned.
  const float* gradient;  // Of the whole row.
};

class Optimizer {
 public:
  // INVALID_ARGUMENT naming what is wrong with `spec`. Rows carry the number of their last step if
  // their decay needs it, or if `stamp_rows`.
  static absl::StatusOr<Optimizer> Make(const OptimizerSpec& spec, bool stamp_rows = false);

  const OptimizerSpec& spec() const { return spec_; }

  // ---- dense weights: any flat array, moved as a whole ----

  size_t dense_state_floats(size_t weights) const { return weights * dense_rule_->slots; }
  void StartDense(absl::Span<const float> weights, absl::Span<float> state) const;
  // One step. The caller counts the steps and knows the learning rate; everything that lasts is in
  // `weights` and `state`, so any number of arrays may share one optimizer.
  void UpdateDense(absl::Span<float> weights, absl::Span<float> state,
                   absl::Span<const float> gradient, OptimizerStep step) const;

  // ---- rows ----

  size_t row_state_floats(size_t dim) const { return dim * rule_->slots + scalars_; }
  // Fills the state of a new row, whose first update will be step `number`.
  void StartRow(float* row, const RowPart& part, uint32_t number) const;
  // What UpdateRows and Present need of a step; made once for many rows.
  OptimizerConstants At(OptimizerStep step) const;
  // Moves distinct rows against their gradients.
  void UpdateRows(absl::Span<const RowUpdate> updates, const RowPart& part,
                  const OptimizerConstants& constants) const;

  // Whether rows may be moved by their numbers: they have nothing to catch up with, and no stamps.
  bool moves_by_number() const;
  // The same as UpdateRows for the rows of `rows`, in which part and optimizer are yet to be named.
  void UpdateNumbered(NumberedRows rows, const RowPart& part,
                      const OptimizerConstants& constants) const;

  // Whether a row's weights must go through Present before they are read.
  bool moves_meanwhile() const { return spec_.weight_decay > 0 || rule_->meanwhile != nullptr; }
  // Gives the part's columns in `weights`, a copy of all of a row's, what the row has yet to catch
  // up with before step `constants.step`.
  void Present(const float* row, float* weights, const RowPart& part,
               const OptimizerConstants& constants) const;

  // The step of a row's last update; only if rows are stamped.
  bool stamps_rows() const { return stamped_; }
  uint32_t StampOf(const float* row, const RowPart& part) const;

 private:
  BiasCorrection CorrectionFor(uint32_t updates) const;
  // Whether a row counts its own updates: a dense Adam's are the job's steps.
  bool counts_updates() const { return rule_->corrects_bias && rule_->meanwhile == nullptr; }
  // Present, writing the state as well, if that moves, unless `state_after` is null.
  void CatchUp(const float* row, float* weights, float* state_after, const RowPart& part,
               const OptimizerConstants& constants) const;
  void Meanwhile(uint32_t last, uint32_t missed, float* columns, const float* state,
                 float* state_after, size_t dim, const OptimizerConstants& constants) const;
  size_t CountAt(const RowPart& part) const;  // Where a row counts its updates, if it does.

  OptimizerSpec spec_;
  const OptimizerRule* rule_ = nullptr;
  const OptimizerRule* dense_rule_ = nullptr;
  bool stamped_ = false;
  size_t scalars_ = 0;  // The rule's, then the count of updates, then the stamp.
  OptimizerConstants constants_;
  std::shared_ptr<const std::vector<BiasCorrection>> corrections_;  // By count of updates.
  std::array<MissedSteps, 32> doublings_ = {};  // By number of doublings; without corrections.
};

// Whether no value is a NaN or an infinity.
bool AllFinite(absl::Span<const float> values);

}  // namespace rubato

#endif  // RUBATO_PARAMS_OPTIMIZER_H_

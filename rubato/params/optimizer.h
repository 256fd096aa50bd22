// How weights move against their gradients. One row = [weights | state, slot by slot], `dim` floats
// each; the dense weights are one long row. The state lies beside the weights it belongs to, so an
// update touches one place in memory.
//
// The loops are compiled for plain x86-64, AVX2 and AVX-512 and chosen when the process starts; all
// three round alike (no fused multiply-add), so the result does not depend on the machine.
#ifndef RUBATO_PARAMS_OPTIMIZER_H_
#define RUBATO_PARAMS_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// What an optimizer's loops read, in the precision of the weights.
struct OptimizerConstants {
  float learning_rate = 0;
  float epsilon = 0;
};

// Moves rows[i] against gradients + i * dim, for all i < count.
using UpdateRowsFunction = void (*)(float* const* rows, const float* gradients, size_t count,
                                    size_t dim, const OptimizerConstants& constants);

class Optimizer {
 public:
  // INVALID_ARGUMENT for an unknown name (listing the known) or a number out of range.
  static absl::StatusOr<Optimizer> Make(const OptimizerSpec& spec);

  // Floats of state for each weight.
  size_t slots() const { return slots_; }
  size_t row_floats(size_t dim) const { return dim * (1 + slots_); }
  // Fills the state behind the weights of a new row.
  void InitializeState(float* row, size_t dim) const;

  // All distinct. Rows need not be aligned.
  void UpdateRows(absl::Span<float* const> rows, const float* gradients, size_t dim) const {
    update_(rows.data(), gradients, rows.size(), dim, constants_);
  }
  void UpdateDense(float* row, absl::Span<const float> gradient) const {
    update_(&row, gradient.data(), 1, gradient.size(), constants_);
  }

 private:
  size_t slots_ = 0;
  float initial_state_ = 0;
  OptimizerConstants constants_;
  UpdateRowsFunction update_ = nullptr;
};

// Whether no value is a NaN or an infinity.
bool AllFinite(absl::Span<const float> values);

}  // namespace rubato

#endif  // RUBATO_PARAMS_OPTIMIZER_H_

// The optimizers as a table of rules, and their inner loops, once for each instruction set that the
// compiler is told to use. A new optimizer is one rule and one line in optimizer_kernels.cc, and
// its name in job/optimizer_spec.cc.
#ifndef RUBATO_PARAMS_OPTIMIZER_KERNELS_H_
#define RUBATO_PARAMS_OPTIMIZER_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace rubato {

// What the loops read, in the precision of the weights: the spec, as of one step.
struct OptimizerConstants {
  float rate = 0;           // Of this update.
  float catch_up_rate = 0;  // Of the steps a row missed: the same, but for a stale update.
  // For a rule that keeps one rate, and has what others do to theirs act on the gradient:
  float base_rate = 0;     // the job's,
  float rate_of_base = 1;  // and this update's as a share of it.
  float epsilon = 0;
  float initial_accumulator = 0;
  float weight_decay = 0;
  float momentum = 0;
  float beta1 = 0, one_minus_beta1 = 0;
  float beta2 = 0, one_minus_beta2 = 0;
  float alpha = 0, one_minus_alpha = 0;
  float l1 = 0, l2 = 0, beta = 0;
  // For rows that were not in the last batches.
  uint32_t step = 1;        // The number of this step, from 1.
  double missed_decay = 0;  // The logarithm of what a missed step leaves of a weight.
};

// What Adam's running means lack because they started from zero, as factors.
struct BiasCorrection {
  float mean = 1;         // 1 / (1 - beta1^t)
  float root_square = 1;  // 1 / sqrt(1 - beta2^t)
};

// Some weights beside each other, slot k of their state at state + k * count, and their gradient.
struct OptimizerRun {
  float* weights;
  float* state;
  const float* gradient;
};
// runs[i] of `count` weights each; corrections[i] is its bias correction.
using UpdateFunction = void (*)(const OptimizerRun* runs, const BiasCorrection* corrections,
                                size_t runs_count, size_t count, const OptimizerConstants& c);

// Rows of one optimizer that lie at equal distances, told by their numbers: `weights` and `state`
// are row 0's. The i-th number goes with gradients + i * count; numbers from `numbers_end` on are
// those of no row, and passed over.
struct NumberedRows {
  float* weights = nullptr;
  float* state = nullptr;
  size_t stride = 0;     // Bytes from one row to the next,
  size_t row_bytes = 0;  // and those of a row that are worth asking for ahead, from its weights on.
  const uint32_t* numbers = nullptr;
  size_t numbers_count = 0;
  uint32_t numbers_end = UINT32_MAX;
  const float* gradients = nullptr;
  // All rows have corrections[0], unless each counts its own updates, at state + updates_at: then
  // corrections[n] is that of the nth update, and beyond the last there is nothing to correct.
  bool counts = false;
  size_t updates_at = 0;
  const BiasCorrection* corrections = nullptr;
  size_t corrections_count = 0;
};
using UpdateNumberedFunction = void (*)(const NumberedRows& rows, size_t count,
                                        const OptimizerConstants& c);
// The state of new weights, where it is not zero.
using StartFunction = void (*)(const OptimizerRun& run, size_t count, const OptimizerConstants& c);
// Moves `count` weights to zero by `missed` steps of decay alone; `state` rests.
using CatchUpFunction = void (*)(float* weights, const float* state, size_t count, float missed,
                                 const OptimizerConstants& c, const BiasCorrection& correction);

// Some of the steps that a row missed, taken as one with the same root throughout.
struct MissedSteps {
  uint32_t doublings;       // 2^doublings steps.
  float kept;               // What they leave of a mean of squares,
  float kept_half;          // and what they have left of it at the middle one.
  float mean, root_square;  // The BiasCorrection at the middle one.
};
// Moves `count` weights through steps without a gradient, as a dense optimizer would, and writes
// the state they end with to `state_after`, which may be `state`, or null if nobody asks.
using MeanwhileFunction = void (*)(float* weights, const float* state, float* state_after,
                                   size_t count, const MissedSteps* missed, size_t missed_count,
                                   const OptimizerConstants& c);

struct OptimizerRule {
  const char* name;
  size_t slots;         // Floats of state for each weight.
  size_t scalars;       // Floats of state for a whole row, behind the slots.
  bool corrects_bias;   // Needs to know how often a row was moved.
  double epsilon;       // Unless the spec says another.
  StartFunction start;  // May be null.
  UpdateFunction update;
  UpdateNumberedFunction update_numbered;  // The same.
  CatchUpFunction catch_up;  // Null: decay is the same for all weights (missed_decay).
  const char* dense;         // The rule for dense weights, which are not rows; null: this one.
  // Not null: rows go through the steps they miss, and their bias is that of the job's steps.
  MeanwhileFunction meanwhile = nullptr;
};

struct OptimizerKernels {
  const OptimizerRule* rules;
  size_t rules_count;
  bool (*all_finite)(const float* values, size_t count);
  // What the rules take for square roots; for tests.
  void (*roots)(const float* values, size_t count, float* out);
};

// Defined by optimizer_kernels.cc, compiled four times.
extern const OptimizerKernels kKernelsPlain;
extern const OptimizerKernels kKernelsAvx2;
extern const OptimizerKernels kKernelsAvx512;
extern const OptimizerKernels kKernelsAvx512Roots;  // Takes no roots by instruction.

}  // namespace rubato

#endif  // RUBATO_PARAMS_OPTIMIZER_KERNELS_H_

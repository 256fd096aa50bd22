// The learning rate as a pure function of the samples trained so far, so that servers and workers,
// a replayed log and a resumed job all come to the same one. Counted in samples, not in steps: a
// job that changes its number of workers keeps its schedule.
//
//     rate    ____________          warm-up first, from 0, whatever the shape;
//            /            \__       then constant, by steps, or down to `end` times the rate
//     ______/_________________▶     over `samples` samples, and constant ever after
#ifndef RUBATO_PARAMS_LEARNING_RATE_H_
#define RUBATO_PARAMS_LEARNING_RATE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rubato/job/optimizer_spec.h"

namespace rubato {

// The rate of a step that begins after `samples` samples. `spec` is valid. The first step of a
// warm-up already moves: its rate is that of the end of one sample.
double LearningRateAt(const OptimizerSpec& spec, int64_t samples);

// What to do with the learning rate when the batch itself must change.
enum class BatchRule : uint8_t { kKeep, kLinear, kSquareRoot };

// The factor on the learning rate for a batch that is `ratio` times the one asked for.
double BatchFactor(BatchRule rule, double ratio);
// The factor `samples` samples after it was changed from `before` to `after`: a growth is phased in
// over `warmup` samples, for at once it may throw the weights far off (Goyal et al., 2017).
double PhaseIn(double before, double after, int64_t samples, int64_t warmup);

// Makes a step's whole gradient, in parts, fit for use: first no element passes clip_value, then
// the norm of all parts together does not pass clip_norm. Whoever holds all of a step calls this:
// the worker before its push, or after its reduction. A gradient that is not finite stays so.
void ClipGradient(const OptimizerSpec& spec, absl::Span<const absl::Span<float>> parts);

}  // namespace rubato

#endif  // RUBATO_PARAMS_LEARNING_RATE_H_

// Where a model's gradient is cut, so that its parts can be on their way while backward still
// computes the rest.
#ifndef RUBATO_MODEL_GRADIENT_RANGES_H_
#define RUBATO_MODEL_GRADIENT_RANGES_H_

#include <cstdint>
#include <vector>

#include "rubato/model/trainer.h"

namespace rubato {

// Floats [begin, end) of the flat vector of dense weights.
struct GradientRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const GradientRange&, const GradientRange&) = default;
};

// Whole parameters, merged from the back, where backward begins, until a range has `bucket_floats`;
// the front one takes what is left. All workers of a model cut alike.
std::vector<GradientRange> CutGradient(const ModelSignature& signature, int64_t bucket_floats);

}  // namespace rubato

#endif  // RUBATO_MODEL_GRADIENT_RANGES_H_

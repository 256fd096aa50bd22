#include "rubato/model/gradient_ranges.h"

namespace rubato {

std::vector<GradientRange> CutGradient(const ModelSignature& signature, int64_t bucket_floats) {
  std::vector<GradientRange> ranges;
  for (auto spec = signature.dense.rbegin(); spec != signature.dense.rend(); ++spec) {
    const int64_t end = spec->offset + spec->size;
    if (ranges.empty() || ranges.back().size() >= bucket_floats) ranges.push_back({end, end});
    ranges.back().begin = spec->offset;
  }
  return ranges;
}

}  // namespace rubato

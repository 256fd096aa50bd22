// One feature, compiled: columns of a chunk in, one column of codes or numbers out.
#ifndef RUBATO_FEATURES_STEP_H_
#define RUBATO_FEATURES_STEP_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/features/features_spec.h"
#include "rubato/features/raw_chunk.h"

namespace rubato {

// What stands for a missing category. A category's code is a bucket, a position or a hash.
constexpr int64_t kMissingCode = std::numeric_limits<int64_t>::min();
// Of merge_rare: all that its vocabulary does not have.
constexpr int64_t kRareCode = kMissingCode + 1;

// What a step made of a chunk; which of these are filled depends on the step.
struct FeatureColumn {
  std::vector<float> numbers;  // A row each.
  std::vector<int64_t> codes;  // A row each; in a bag, all rows' values one after the other.
  std::vector<uint32_t> ends;  // Of a bag: where each row's values end in `codes`.
  std::vector<float> weights;  // Of a bag with weights: as `codes`.

  void Clear() {
    numbers.clear();
    codes.clear();
    ends.clear();
    weights.clear();
  }
};

// Where a step finds what it reads.
struct StepSource {
  enum class Kind { kNumber, kText, kStep };
  Kind kind = Kind::kText;
  int slot = 0;  // Among the chunk's numbers or texts, or the number of an earlier step.
};

class Step {
 public:
  virtual ~Step() = default;
  // Fills `out`, which is clear; `done` are the outputs of the steps before it.
  virtual void Run(const RawChunk& chunk, const std::vector<FeatureColumn>& done,
                   FeatureColumn* out) const = 0;
  // Codes are below this; 0 if they are hashes or have no bound.
  virtual int64_t size() const { return 0; }
  // Codes are small integers, not hashes already mixed.
  virtual bool is_index() const { return true; }
};

// `spec` is valid; `missing` are all texts that are nothing, which no bag has; `sizes` are those of
// its inputs.
absl::StatusOr<std::unique_ptr<Step>> MakeStep(const FeatureSpec& spec,
                                               const std::vector<std::string>& missing,
                                               const std::vector<StepSource>& inputs,
                                               const std::vector<int64_t>& sizes);

}  // namespace rubato

#endif  // RUBATO_FEATURES_STEP_H_

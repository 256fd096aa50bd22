// A step's gradient on its way into the group's sum, range after range while backward still
// computes the rest.
//
//     backward    ▕ layer 3 ▏ layer 2 ▏ layer 1 ▏
//     the group             ▕ sum of 3 ▏ sum of 2 ▏ sum of 1 ▏ votes
//
// All members start the same ranges in the same order, also those who have nothing to add or whose
// step failed half-way. Until the group has been waited for, started ranges must not be touched.
#ifndef RUBATO_ROLES_GRADIENT_STREAM_H_
#define RUBATO_ROLES_GRADIENT_STREAM_H_

#include <cstdint>
#include <vector>

#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/model/gradient_ranges.h"
#include "rubato/model/trainer.h"
#include "rubato/worker/replica.h"

namespace rubato {

class GradientStream {
 public:
  // Ranges of about this size; 0: the gradient is summed in one piece, and this is not used().
  GradientStream(const ModelSignature& signature, int64_t bucket_bytes);

  // A single range would only be there when backward is over: nothing can be gained.
  bool used() const { return ranges_.size() > 1; }
  // `replica`'s sum is empty. Both must stay until the step has ended.
  void Begin(Replica& replica, ElasticGroup& group);
  // To be given to the Step() whose gradient, the mean over `rows` rows, appears in `out`.
  const GradientWatch* Watch(const StepOutput& out, int64_t rows);
  // The ranges that nobody announced.
  void StartRest();

 private:
  void Announced(GradientRange range);
  void StartNext();

  const std::vector<GradientRange> ranges_;
  GradientWatch watch_;
  size_t started_ = 0;  // So many of the ranges.
  Replica* replica_ = nullptr;
  ElasticGroup* group_ = nullptr;
  const StepOutput* out_ = nullptr;
  float weight_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_GRADIENT_STREAM_H_

// Brings the gradients of dense weights into one flat buffer while backward still runs, and tells
// whoever waits for them, in buckets from the back to the front.
//
//     Begin ──▶ backward: each gradient is copied as it appears, each full bucket announced ──▶ End
//
// libtorch has no way to make an operation write its gradient where we want it. A parameter's
// .grad that is a view of the buffer costs a fill beforehand and a read more than the copy made
// here, which finds the gradient still in the cache.
#ifndef RUBATO_ADAPTERS_TORCH_DENSE_GRADIENTS_H_
#define RUBATO_ADAPTERS_TORCH_DENSE_GRADIENTS_H_

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rubato/model/trainer.h"

namespace torch::autograd {
struct Node;
}

namespace rubato {

// Hangs on the parameters' gradient accumulators as long as it lives. One thread, the one that
// calls backward: libtorch runs the backward of CPU tensors there.
class DenseGradients {
 public:
  // `parameters` as in `signature`, which must outlive this, with their shapes in place.
  DenseGradients(std::vector<torch::Tensor> parameters, const ModelSignature& signature);
  ~DenseGradients();
  DenseGradients(const DenseGradients&) = delete;
  DenseGradients& operator=(const DenseGradients&) = delete;

  // The next backward fills `flat`; `watch` may be null. Both live until End().
  void Begin(absl::Span<float> flat, const GradientWatch* watch);
  // After backward: weights it did not reach have gradient 0, and what was not announced is.
  // OUT_OF_RANGE names the first gradient that is not finite; it and what is in front of it were
  // not announced.
  absl::Status End();

 private:
  class Hook;
  struct Bucket {
    int64_t begin = 0, end = 0;  // Floats of the flat buffer.
    int64_t awaited = 0;         // Parameters in there whose gradient is not final.
  };

  void CutBuckets();
  // The gradient of a parameter has appeared, or (TakeZeros) never will.
  void Take(size_t parameter);
  void TakeZeros(size_t parameter);
  // Counts a gradient as final and announces the buckets that this completes.
  void Settle(size_t parameter);

  std::vector<torch::Tensor> parameters_;
  const ModelSignature& signature_;
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;

  // Of the step under way.
  absl::Span<float> flat_;
  const GradientWatch* watch_ = nullptr;
  std::vector<bool> there_;        // By parameter: its gradient is in `flat_`.
  std::vector<Bucket> buckets_;    // The last one of the buffer first.
  std::vector<size_t> bucket_of_;  // By parameter.
  size_t announced_ = 0;           // So many of the buckets.
  absl::Status error_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_DENSE_GRADIENTS_H_

// Distinct rows spread over the cells of a batch, and back: what a lookup is once ids are unique.
#ifndef RUBATO_ADAPTERS_TORCH_GATHER_H_
#define RUBATO_ADAPTERS_TORCH_GATHER_H_

#include <torch/types.h>

namespace rubato {

struct PulledRows {
  torch::Tensor rows;      // distinct ids x dim, float; requires a gradient while training.
  torch::Tensor position;  // batch rows x fields, int32: which of `rows` each cell takes.
  // Where the gradient of `rows` is added, zeroed beforehand: straight into the worker's buffer.
  // Undefined: it goes through autograd, to rows.grad().
  torch::Tensor gradient;
};

// batch rows x fields x dim; one pass forward, one scatter-add back.
torch::Tensor Gather(const PulledRows& pulled);

// Returns what the backward of a custom lookup returns for `rows`: adds into the sink when there
// is one (giving autograd nothing), else makes a zeroed tensor to add into.
struct GradientSink {
  explicit GradientSink(const torch::Tensor& sink, int64_t distinct, int64_t dim);
  float* data() const { return target_.data_ptr<float>(); }
  torch::Tensor ForAutograd() const { return owned_ ? target_ : torch::Tensor(); }

 private:
  torch::Tensor target_;
  bool owned_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_GATHER_H_

// Batch normalization whose running statistics every worker shares. libtorch keeps them in buffers,
// which nobody would carry from worker to worker; here they are the one row of a table on the
// servers, and what moves it is that table's optimizer: SGD at rate 0.1 against (running -
// observed) is the running mean of libtorch's BatchNorm.
#ifndef RUBATO_ADAPTERS_TORCH_BATCH_NORM_H_
#define RUBATO_ADAPTERS_TORCH_BATCH_NORM_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "rubato/adapters/torch/embedding.h"

namespace rubato {

// The module behind `BatchNorm`. Needs servers.
class BatchNormImpl : public torch::nn::Module {
 public:
  // `name`: of the table; no two of a model may share it.
  BatchNormImpl(const std::string& name, int64_t width);

  // rows x width. Training: by the mean and variance of the batch, with gradients through both.
  // Otherwise, and for a batch of one row, which has no variance: by the running ones, unmoved.
  torch::Tensor forward(const ModelInput& in, const torch::Tensor& x);

 private:
  const int64_t width_;
  Embedding statistics_{nullptr};  // One row: means, then variances.
  torch::Tensor weight_, bias_;
};
TORCH_MODULE(BatchNorm);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_BATCH_NORM_H_

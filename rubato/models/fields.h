// What models of clicks share: a row of weight and vector for every id, and a perceptron. Each
// model is what it does with the two.
#ifndef RUBATO_MODELS_FIELDS_H_
#define RUBATO_MODELS_FIELDS_H_

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rubato/adapters/torch/batch_norm.h"
#include "rubato/adapters/torch/model.h"

namespace rubato {

// A batch, looked up.
struct FieldRows {
  torch::Tensor logit;    // rows: the weights, summed.
  torch::Tensor vectors;  // rows x fields x dim
  torch::Tensor flat;     // rows x width(): the vectors one after the other, then the numbers.
};

// All id columns and bags of a job in one table. Asks for the options
//   dim=16           floats of an id's vector; its weight lies beside it, in the same row
//   use_dense=false  also read the dense columns
//   init=0.01        half-width of the uniform start of rows
//   l2=0             pull of all rows to zero in every step, whether they are in its batch or not
//   wide_ftrl=0      above 0: the weights are moved by FTRL at this rate, the vectors as ever
// and refuses data without ids.
class FieldsImpl : public torch::nn::Module {
 public:
  explicit FieldsImpl(ModelSetup& setup);

  FieldRows forward(const ModelInput& in);
  // The same for models that go on with fm_lookup.h.
  PulledRows Pull(const ModelInput& in) { return table_->Pull(in); }
  // The dense columns, if they are read; else undefined.
  torch::Tensor Numbers(const ModelInput& in) const;

  int64_t count() const { return count_; }
  int64_t dim() const { return dim_; }
  int64_t width() const { return std::max<int64_t>(count_ * dim_ + numbers_, 1); }
  int64_t numbers() const { return numbers_; }

 private:
  int64_t count_ = 0, dim_ = 0, numbers_ = 0;
  Embedding table_{nullptr};
};
TORCH_MODULE(Fields);

// A perceptron's options, asked for once however many there are:
//   hidden=256,128    widths of its layers
//   dropout=0         chance of an activation to be left out of a step
//   batch_norm=false  normalize by the batch before each activation; needs servers
struct MlpOptions {
  explicit MlpOptions(ModelSetup& setup);
  std::vector<int64_t> hidden;
  double dropout = 0;
  bool batch_norm = false;
  int64_t out(int64_t in) const { return hidden.empty() ? in : hidden.back(); }
};

// Linear, normalized if asked, ReLU, dropout, for each hidden layer; then a linear layer to `out`,
// unless that is 0.
class MlpImpl : public torch::nn::Module {
 public:
  // `name`: no two of a model may share it.
  MlpImpl(const std::string& name, const MlpOptions& options, int64_t in, int64_t out);
  torch::Tensor forward(const ModelInput& in, torch::Tensor x);

 private:
  torch::nn::ModuleList linears_, norms_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Linear out_{nullptr};
};
TORCH_MODULE(Mlp);

}  // namespace rubato

#endif  // RUBATO_MODELS_FIELDS_H_

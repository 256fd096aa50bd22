// dcn (Wang et al., 2017) and dcnv2 (Wang et al., 2021): layers that multiply the input with itself
// once more each, beside a perceptron; a linear layer reads both.
//
//     dcn    x' = x0 * <x, w> + b + x          w a vector: all columns are crossed alike
//     dcnv2  x' = x0 * (W x + b) + x           W a matrix: each column chooses
//
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h; the weights are added
//   hidden, dropout, batch_norm           as in fields.h
//   layers=3                              of crossing
//   rank=0                                dcnv2: W is a product of two thin matrices of this rank;
//   0:
//                                         it is whole
#include "rubato/models/fields.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

using torch::nn::Linear;
using torch::nn::LinearOptions;

// What stands for W x + b, one a layer.
torch::nn::Sequential Crossing(int64_t width, int64_t rank) {
  if (rank == 0) return torch::nn::Sequential(Linear(width, width));
  return torch::nn::Sequential(Linear(LinearOptions(width, rank).bias(false)), Linear(rank, width));
}

class CrossNetwork : public TorchModel {
 public:
  CrossNetwork(ModelSetup& setup, bool matrix) : matrix_(matrix) {
    fields_ = register_module("fields", Fields(setup));
    const MlpOptions options(setup);
    const int64_t layers = setup.options.Int("layers", 3, 1);
    const int64_t rank = matrix ? setup.options.Int("rank", 0, 0) : 0;
    const int64_t width = fields_->width();
    for (int64_t i = 0; i < layers; ++i) {
      if (matrix) {
        crossings_->push_back(Crossing(width, rank));
      } else {
        crossings_->push_back(Linear(LinearOptions(width, 1).bias(false)));
        biases_.push_back(register_parameter("bias" + std::to_string(i), torch::zeros({width})));
      }
    }
    register_module("crossings", crossings_);
    mlp_ = register_module("mlp", Mlp("mlp", options, width, 0));
    out_ = register_module("out", Linear(width + options.out(width), 1));
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FieldRows rows = fields_->forward(in);
    torch::Tensor x = rows.flat;
    for (size_t i = 0; i < crossings_->size(); ++i) {
      x = matrix_ ? rows.flat * Crossed(i, x) + x : rows.flat * Crossed(i, x) + biases_[i] + x;
    }
    const torch::Tensor deep = mlp_->forward(in, rows.flat);
    return rows.logit + out_->forward(torch::cat({x, deep}, 1)).squeeze(1);
  }

 private:
  torch::Tensor Crossed(size_t layer, const torch::Tensor& x) {
    return matrix_ ? crossings_->at<torch::nn::SequentialImpl>(layer).forward(x)
                   : crossings_->at<torch::nn::LinearImpl>(layer).forward(x);
  }

  const bool matrix_;
  Fields fields_{nullptr};
  torch::nn::ModuleList crossings_;
  std::vector<torch::Tensor> biases_;
  Mlp mlp_{nullptr};
  Linear out_{nullptr};
};

}  // namespace

TorchModel* MakeDcn(ModelSetup& setup) { return new CrossNetwork(setup, /*matrix=*/false); }
TorchModel* MakeDcnV2(ModelSetup& setup) { return new CrossNetwork(setup, /*matrix=*/true); }

}  // namespace rubato

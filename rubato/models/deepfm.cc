// deepfm (Guo et al., 2017): a factorization machine and a multilayer perceptron read the same
// embeddings, and their logits are added.
//   dim=16          floats of an id's vector; its weight lies beside it, in the same row
//   hidden=256,128  widths of the perceptron's layers
//   use_dense=false also feed the dense columns to the perceptron
//   init=0.01       half-width of the uniform start of rows
#include "rubato/models/fm.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

class DeepFm : public TorchModel {
 public:
  explicit DeepFm(ModelSetup& setup)
      : use_dense_(setup.options.Bool("use_dense", false) && !setup.shape.dense.empty()) {
    if (AllFields(setup.shape).empty()) {
      setup.options.Refuse("deepfm needs id columns");
      return;
    }
    const int64_t dim = setup.options.Int("dim", 16, 1);
    const int64_t fields = static_cast<int64_t>(AllFields(setup.shape).size());
    const InitializerSpec start = Uniform(setup.options.Number("init", 0.01));
    table_ = register_module("table", Embedding("fm", 1 + dim, AllFields(setup.shape), start));
    int64_t width = fields * dim;
    if (use_dense_) width += static_cast<int64_t>(setup.shape.dense.size());
    for (const int64_t next : setup.options.Ints("hidden", {256, 128}, 1)) {
      mlp_->push_back(torch::nn::Linear(width, next));
      mlp_->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
      width = next;
    }
    mlp_->push_back(torch::nn::Linear(width, 1));
    register_module("mlp", mlp_);
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FmOutput fm = FmLookup(table_->Pull(in), use_dense_ ? in.dense : torch::Tensor());
    return fm.logit + mlp_->forward(fm.deep).squeeze(1);
  }

 private:
  const bool use_dense_;
  Embedding table_{nullptr};
  torch::nn::Sequential mlp_;
};

}  // namespace

TorchModel* MakeDeepFm(ModelSetup& setup) { return new DeepFm(setup); }

}  // namespace rubato

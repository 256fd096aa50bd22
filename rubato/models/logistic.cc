// logistic: one weight an id, and one a dense column if asked.
//   use_dense=false  also a weight for each dense column
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

class Logistic : public TorchModel {
 public:
  explicit Logistic(ModelSetup& setup) {
    if (AllFields(setup.shape).empty()) {
      setup.options.Refuse("logistic needs id columns");
      return;
    }
    weights_ = register_module("weights", Embedding("weights", 1, AllFields(setup.shape), Zeros()));
    bias_ = register_parameter("bias", torch::zeros({1}));
    if (setup.options.Bool("use_dense", false)) {
      const int64_t columns = static_cast<int64_t>(setup.shape.dense.size());
      dense_ = register_parameter("dense", torch::zeros({columns}));
    }
  }

  torch::Tensor Forward(const ModelInput& in) override {
    torch::Tensor logit = weights_->forward(in).sum({1, 2}) + bias_;
    return dense_.defined() ? logit + in.dense.mv(dense_) : logit;
  }

 private:
  Embedding weights_{nullptr};
  torch::Tensor bias_, dense_;
};

}  // namespace

TorchModel* MakeLogistic(ModelSetup& setup) { return new Logistic(setup); }

}  // namespace rubato

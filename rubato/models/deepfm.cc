// deepfm (Guo et al., 2017): a factorization machine and a multilayer perceptron read the same
// embeddings, and their logits are added.
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h
//   hidden, dropout, batch_norm           as in fields.h
#include "rubato/models/fields.h"
#include "rubato/models/fm_lookup.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

class DeepFm : public TorchModel {
 public:
  explicit DeepFm(ModelSetup& setup) {
    PairsInBags(setup);
    fields_ = register_module("fields", Fields(setup));
    const MlpOptions options(setup);
    mlp_ = register_module("mlp", Mlp("mlp", options, fields_->width(), 1));
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FmOutput fm = FmLookup(fields_->Pull(in), fields_->Numbers(in));
    return fm.logit + mlp_->forward(in, fm.deep).squeeze(1);
  }

 private:
  Fields fields_{nullptr};
  Mlp mlp_{nullptr};
};

}  // namespace

TorchModel* MakeDeepFm(ModelSetup& setup) { return new DeepFm(setup); }

}  // namespace rubato

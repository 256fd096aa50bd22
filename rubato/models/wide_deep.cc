// wide_deep (Cheng et al., 2016): a weight an id, and a perceptron over the ids' vectors.
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h
//   hidden, dropout, batch_norm           as in fields.h
// Crossed columns, the wide part's strength, are features: `transform: cross`.
#include "rubato/models/fields.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

class WideDeep : public TorchModel {
 public:
  explicit WideDeep(ModelSetup& setup) {
    fields_ = register_module("fields", Fields(setup));
    const MlpOptions options(setup);
    mlp_ = register_module("mlp", Mlp("mlp", options, fields_->width(), 1));
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FieldRows rows = fields_->forward(in);
    return rows.logit + mlp_->forward(in, rows.flat).squeeze(1);
  }

 private:
  Fields fields_{nullptr};
  Mlp mlp_{nullptr};
};

}  // namespace

TorchModel* MakeWideDeep(ModelSetup& setup) { return new WideDeep(setup); }

}  // namespace rubato

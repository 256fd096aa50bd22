// fm (Rendle, 2010): a weight an id, and the product of the vectors of every pair of fields.
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h; each dense column has a weight
#include "rubato/models/fields.h"
#include "rubato/models/fm_lookup.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

class FactorizationMachine : public TorchModel {
 public:
  explicit FactorizationMachine(ModelSetup& setup) {
    PairsInBags(setup);
    fields_ = register_module("fields", Fields(setup));
    bias_ = register_parameter("bias", torch::zeros({1}));
    if (fields_->numbers() == 0) return;
    dense_ = register_parameter("dense", torch::zeros({fields_->numbers()}));
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const torch::Tensor logit = FmLookup(fields_->Pull(in), torch::Tensor()).logit + bias_;
    return dense_.defined() ? logit + in.dense.mv(dense_) : logit;
  }

 private:
  Fields fields_{nullptr};
  torch::Tensor bias_, dense_;
};

}  // namespace

TorchModel* MakeFm(ModelSetup& setup) { return new FactorizationMachine(setup); }

}  // namespace rubato

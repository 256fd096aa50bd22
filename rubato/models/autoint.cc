// autoint (Song et al., 2019): fields attend to each other, layer by layer; what comes out goes to
// a linear layer, beside a perceptron (AutoInt+) and the ids' weights.
//
//     head     softmax over fields j of <Q v_i, K v_j>, times V v_j
//     layer    ReLU(the heads, one after the other, + R v_i)
//
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h
//   hidden, dropout, batch_norm           as in fields.h; nothing in hidden: plain AutoInt
//   layers=2  heads=2                     of the attention
//   attention=16                          floats of a field after a layer, all heads together
#include "absl/strings/str_cat.h"
#include "rubato/models/attention.h"
#include "rubato/models/fields.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

using torch::nn::Linear;
using torch::nn::LinearOptions;

class AttentionImpl : public torch::nn::Module {
 public:
  AttentionImpl(int64_t in, int64_t out, int64_t heads)
      : heads_(heads),
        qkv_(register_module("qkv", Linear(LinearOptions(in, 3 * out).bias(false)))),
        residual_(register_module("residual", Linear(LinearOptions(in, out).bias(false)))) {}

  torch::Tensor forward(const torch::Tensor& x) {  // rows x fields x in
    return torch::relu(Attend(qkv_->forward(x), heads_) + residual_->forward(x));
  }

 private:
  const int64_t heads_;
  Linear qkv_, residual_;
};
TORCH_MODULE(Attention);

class AutoInt : public TorchModel {
 public:
  explicit AutoInt(ModelSetup& setup) {
    fields_ = register_module("fields", Fields(setup));
    const MlpOptions options(setup);
    const int64_t layers = setup.options.Int("layers", 2, 1);
    const int64_t heads = setup.options.Int("heads", 2, 1);
    const int64_t out = setup.options.Int("attention", 16, 1);
    if (out % heads != 0) {
      setup.options.Refuse(absl::StrCat("heads, ", heads, ", does not divide attention, ", out));
      return;
    }
    for (int64_t i = 0; i < layers; ++i) {
      layers_->push_back(Attention(i == 0 ? fields_->dim() : out, out, heads));
    }
    register_module("layers", layers_);
    out_ = register_module("out", Linear(fields_->count() * out, 1));
    if (options.hidden.empty()) return;
    mlp_ = register_module("mlp", Mlp("mlp", options, fields_->width(), 1));
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FieldRows rows = fields_->forward(in);
    const torch::Tensor attended = layers_->forward(rows.vectors).flatten(1);
    const torch::Tensor logit = rows.logit + out_->forward(attended).squeeze(1);
    return mlp_.is_empty() ? logit : logit + mlp_->forward(in, rows.flat).squeeze(1);
  }

 private:
  Fields fields_{nullptr};
  torch::nn::Sequential layers_;
  Mlp mlp_{nullptr};
  Linear out_{nullptr};
};

}  // namespace

TorchModel* MakeAutoInt(ModelSetup& setup) { return new AutoInt(setup); }

}  // namespace rubato

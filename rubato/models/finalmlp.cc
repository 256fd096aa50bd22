// finalmlp (Mao et al., 2023): two perceptrons read the same input through gates of their own, and
// what they see is multiplied.
//
//     a = mlp1(x * 2 sigmoid(g1)), b = mlp2(x * 2 sigmoid(g2))
//     logit = c + <u, a> + <v, b> + sum over heads of a_h' W_h b_h
//
// A gate is a number a column, learned; the paper's gates may also depend on chosen fields. The
// heads are equal parts of a and b, each pair with a matrix of its own.
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h; the weights are added
//   hidden, dropout, batch_norm           as in fields.h, of both perceptrons
//   heads=2                               divides the last of `hidden`
#include "absl/strings/str_cat.h"
#include "rubato/models/fields.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

class FinalMlp : public TorchModel {
 public:
  explicit FinalMlp(ModelSetup& setup) {
    fields_ = register_module("fields", Fields(setup));
    const MlpOptions options(setup);
    heads_ = setup.options.Int("heads", 2, 1);
    const int64_t width = fields_->width(), out = options.out(width);
    if (options.hidden.empty() || out % heads_ != 0) {
      setup.options.Refuse(
          absl::StrCat("heads, ", heads_, ", does not divide the last of hidden, ", out));
      return;
    }
    gates_ = register_parameter("gates", torch::zeros({2, width}));
    mlp1_ = register_module("mlp1", Mlp("mlp1", options, width, 0));
    mlp2_ = register_module("mlp2", Mlp("mlp2", options, width, 0));
    linear_ = register_module("linear", torch::nn::Linear(2 * out, 1));
    const int64_t part = out / heads_;
    product_ = register_parameter("product", torch::empty({heads_, part, part}));
    torch::nn::init::xavier_normal_(product_);
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FieldRows rows = fields_->forward(in);
    const torch::Tensor gates = 2 * torch::sigmoid(gates_);
    const torch::Tensor a = mlp1_->forward(in, rows.flat * gates[0]);
    const torch::Tensor b = mlp2_->forward(in, rows.flat * gates[1]);
    const auto parts = [&](const torch::Tensor& x) {
      return x.view({-1, heads_, x.size(1) / heads_}).transpose(0, 1);  // heads x rows x part
    };
    const torch::Tensor products = (parts(a).bmm(product_) * parts(b)).sum(2).sum(0);
    return rows.logit + linear_->forward(torch::cat({a, b}, 1)).squeeze(1) + products;
  }

 private:
  int64_t heads_ = 0;
  Fields fields_{nullptr};
  torch::Tensor gates_, product_;
  Mlp mlp1_{nullptr}, mlp2_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

}  // namespace

TorchModel* MakeFinalMlp(ModelSetup& setup) { return new FinalMlp(setup); }

}  // namespace rubato

// transformer (Vaswani et al., 2017; normalized before each sublayer): a small encoder over a
// sequence, whose mean is classified. The sequence is what the data has: the rows of an image, from
// top to bottom, or, for data with id columns, the columns, each id a token.
//   layers=2    attention and perceptron, this many times
//   heads=4     of the attention; divides dim
//   dim=64      floats of a token
//   dropout=0   of what every sublayer adds
//   classes=    10 for images; 1, which means yes or no, for ids
//   image=      height,width or channels,height,width, if the data does not say
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/models/image.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

class LayerImpl : public torch::nn::Module {
 public:
  LayerImpl(int64_t dim, int64_t heads, double dropout)
      : heads_(heads),
        norm1_(register_module("norm1", LayerNorm(LayerNormOptions({dim})))),
        attention_in_(register_module("attention_in", Linear(dim, 3 * dim))),
        attention_out_(register_module("attention_out", Linear(dim, dim))),
        norm2_(register_module("norm2", LayerNorm(LayerNormOptions({dim})))),
        hidden_(register_module("hidden", Linear(dim, 4 * dim))),
        out_(register_module("out", Linear(4 * dim, dim))),
        dropout_(register_module("dropout", torch::nn::Dropout(dropout))) {}

  torch::Tensor forward(torch::Tensor x) {  // rows x tokens x dim
    x = x + dropout_->forward(Attend(norm1_->forward(x)));
    return x + dropout_->forward(out_->forward(torch::gelu(hidden_->forward(norm2_->forward(x)))));
  }

 private:
  torch::Tensor Attend(const torch::Tensor& x) {
    const int64_t tokens = x.size(1), dim = x.size(2);
    const torch::Tensor parts = attention_in_->forward(x)
                                    .view({-1, tokens, 3, heads_, dim / heads_})
                                    .permute({2, 0, 3, 1, 4});  // 3 x rows x heads x tokens x ...
    const torch::Tensor query = parts[0], key = parts[1], value = parts[2];
    const double scale = 1 / std::sqrt(static_cast<double>(dim / heads_));
    const torch::Tensor weights = (scale * query.matmul(key.transpose(2, 3))).softmax(-1);
    return attention_out_->forward(
        weights.matmul(value).transpose(1, 2).reshape({-1, tokens, dim}));
  }

  const int64_t heads_;
  LayerNorm norm1_;
  Linear attention_in_, attention_out_;
  LayerNorm norm2_;
  Linear hidden_, out_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(Layer);

class Transformer : public TorchModel {
 public:
  explicit Transformer(ModelSetup& setup) {
    int64_t tokens = static_cast<int64_t>(AllFields(setup.shape).size());
    const bool of_ids = tokens > 0;
    int64_t dim = setup.options.Int("dim", 64, 1);
    const int64_t heads = setup.options.Int("heads", 4, 1);
    if (dim % heads != 0) {
      setup.options.Refuse(absl::StrCat("heads, ", heads, ", does not divide dim, ", dim));
      dim = heads;
    }
    classes_ = setup.options.Int("classes", of_ids ? 1 : 10, 1);
    if (of_ids) {
      table_ = register_module("table", Embedding("token", dim, AllFields(setup.shape)));
    } else {
      image_ = AskImageShape(setup);
      tokens = image_.height;
      row_ = register_module("row", Linear(image_.channels * image_.width, dim));
    }
    position_ = register_parameter("position", 0.02 * torch::randn({tokens, dim}));
    const double dropout = setup.options.Number("dropout", 0);
    for (int64_t i = setup.options.Int("layers", 2, 1); i > 0; --i) {
      layers_->push_back(Layer(dim, heads, dropout));
    }
    register_module("layers", layers_);
    norm_ = register_module("norm", LayerNorm(LayerNormOptions({dim})));
    out_ = register_module("out", Linear(dim, classes_));
  }

  int64_t score_width() const override { return classes_; }

  torch::Tensor Forward(const ModelInput& in) override {
    const torch::Tensor x = layers_->forward(Tokens(in) + position_);
    return out_->forward(norm_->forward(x.mean(1)));
  }

 private:
  torch::Tensor Tokens(const ModelInput& in) {
    if (!table_.is_empty()) return table_->forward(in);
    return row_->forward(image_.View(in).transpose(1, 2).flatten(2));
  }

  int64_t classes_ = 0;
  ImageShape image_;
  Embedding table_{nullptr};
  Linear row_{nullptr};
  torch::Tensor position_;
  torch::nn::Sequential layers_;
  LayerNorm norm_{nullptr};
  Linear out_{nullptr};
};

}  // namespace

TorchModel* MakeTransformer(ModelSetup& setup) { return new Transformer(setup); }

}  // namespace rubato

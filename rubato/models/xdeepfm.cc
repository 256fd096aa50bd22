// xdeepfm (Lian et al., 2018): a compressed interaction network, which multiplies whole vectors
// rather than single columns, beside a perceptron and the ids' weights.
//
//     layer k has maps of dim floats:  map h = sum over (i, j) of W[h][i, j] * map_i' * vector_j
//     where map' are those of the layer before, and the vectors those of the fields. The sums over
//     dim of all maps of all layers go to a linear layer.
//
//   dim, use_dense, init, l2, wide_ftrl   as in fields.h
//   hidden, dropout, batch_norm           as in fields.h
//   maps=16,16                            of each layer of the interaction
#include "rubato/models/fields.h"
#include "rubato/models/interaction.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

using torch::nn::Linear;
using torch::nn::LinearOptions;

class XDeepFm : public TorchModel {
 public:
  explicit XDeepFm(ModelSetup& setup) {
    fields_ = register_module("fields", Fields(setup));
    const MlpOptions options(setup);
    int64_t before = fields_->count(), all = 0;
    for (const int64_t maps : setup.options.Ints("maps", {16, 16}, 1)) {
      layers_->push_back(Linear(LinearOptions(before * fields_->count(), maps).bias(false)));
      all += before = maps;
    }
    register_module("layers", layers_);
    mlp_ = register_module("mlp", Mlp("mlp", options, fields_->width(), 1));
    if (all > 0) out_ = register_module("out", Linear(LinearOptions(all, 1).bias(false)));
  }

  torch::Tensor Forward(const ModelInput& in) override {
    const FieldRows rows = fields_->forward(in);
    torch::Tensor logit = rows.logit + mlp_->forward(in, rows.flat).squeeze(1);
    if (out_.is_empty()) return logit;
    torch::Tensor maps;  // rows x maps x dim; at first, the vectors.
    std::vector<torch::Tensor> sums;
    for (const auto& layer : *layers_) {
      maps = Interact(maps, rows.vectors, layer->as<torch::nn::LinearImpl>()->weight);
      sums.push_back(maps.sum(2));
    }
    return logit + out_->forward(torch::cat(sums, 1)).squeeze(1);
  }

 private:
  Fields fields_{nullptr};
  torch::nn::ModuleList layers_;
  Mlp mlp_{nullptr};
  Linear out_{nullptr};
};

}  // namespace

TorchModel* MakeXDeepFm(ModelSetup& setup) { return new XDeepFm(setup); }

}  // namespace rubato

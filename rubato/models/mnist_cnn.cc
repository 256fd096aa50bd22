// mnist_cnn: two convolutions and two linear layers on 28 x 28 images, ten classes. The images are
// the dense columns; there are no tables.
//   dropout=0.25  before the last layer
#include "absl/strings/str_cat.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

constexpr int64_t kSide = 28;

class MnistCnn : public TorchModel {
 public:
  explicit MnistCnn(ModelSetup& setup) {
    const size_t columns = setup.shape.dense.size();
    if (columns != kSide * kSide) {
      setup.options.Refuse(
          absl::StrCat("mnist_cnn needs 784 dense columns, a 28 x 28 image; there are ", columns));
    }
    conv1_ = register_module("conv1", torch::nn::Conv2d(1, 16, 3));
    conv2_ = register_module("conv2", torch::nn::Conv2d(16, 32, 3));
    hidden_ = register_module("hidden", torch::nn::Linear(32 * 5 * 5, 64));
    dropout_ =
        register_module("dropout", torch::nn::Dropout(setup.options.Number("dropout", 0.25)));
    out_ = register_module("out", torch::nn::Linear(64, 10));
  }

  int64_t score_width() const override { return 10; }

  torch::Tensor Forward(const ModelInput& in) override {
    torch::Tensor x = in.dense.view({-1, 1, kSide, kSide});
    x = torch::max_pool2d(torch::relu(conv1_->forward(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2_->forward(x)), 2);
    x = torch::relu(hidden_->forward(x.flatten(1)));
    return out_->forward(dropout_->forward(x));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear hidden_{nullptr}, out_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};

}  // namespace

TorchModel* MakeMnistCnn(ModelSetup& setup) { return new MnistCnn(setup); }

}  // namespace rubato

// resnet (He et al., 2016): a small residual network for images. Three stages, each half the size
// and twice the channels of the one before. GroupNorm stands for BatchNorm, whose running averages
// are no weights: nobody would add them up or hand them to a newcomer, and they would depend on
// how many workers share a batch.
//   depth=1     residual blocks of each stage; 1 makes 8 layers with weights
//   width=16    channels of the first stage
//   classes=10  how many kinds of images there are
//   image=      height,width or channels,height,width, if the data does not say
#include <numeric>

#include "rubato/models/image.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

constexpr int kStages = 3;

torch::nn::Conv2d Conv(int64_t from, int64_t to, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
}

torch::nn::GroupNorm Norm(int64_t channels) {
  return torch::nn::GroupNorm(
      torch::nn::GroupNormOptions(std::gcd(channels, int64_t{8}), channels));
}

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t from, int64_t to, int64_t stride)
      : conv1_(register_module("conv1", Conv(from, to, 3, stride))),
        norm1_(register_module("norm1", Norm(to))),
        conv2_(register_module("conv2", Conv(to, to, 3, 1))),
        norm2_(register_module("norm2", Norm(to))) {
    if (from != to) shortcut_ = register_module("shortcut", Conv(from, to, 1, stride));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = torch::relu(norm1_->forward(conv1_->forward(x)));
    return torch::relu(norm2_->forward(conv2_->forward(y)) +
                       (shortcut_.is_empty() ? x : shortcut_->forward(x)));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::GroupNorm norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::GroupNorm norm2_;
  torch::nn::Conv2d shortcut_{nullptr};
};
TORCH_MODULE(Block);

class ResNet : public TorchModel {
 public:
  explicit ResNet(ModelSetup& setup)
      : image_(AskImageShape(setup)), classes_(setup.options.Int("classes", 10, 2)) {
    const int64_t depth = setup.options.Int("depth", 1, 1);
    int64_t channels = setup.options.Int("width", 16, 1);
    stem_ = register_module("stem", Conv(image_.channels, channels, 3, 1));
    norm_ = register_module("norm", Norm(channels));
    for (int stage = 0; stage < kStages; ++stage) {
      const int64_t from = stage == 0 ? channels : channels / 2;
      for (int64_t i = 0; i < depth; ++i) {
        const bool shrinks = stage > 0 && i == 0;
        blocks_->push_back(Block(i == 0 ? from : channels, channels, shrinks ? 2 : 1));
      }
      if (stage + 1 < kStages) channels *= 2;
    }
    register_module("blocks", blocks_);
    out_ = register_module("out", torch::nn::Linear(channels, classes_));
  }

  int64_t score_width() const override { return classes_; }

  torch::Tensor Forward(const ModelInput& in) override {
    torch::Tensor x = torch::relu(norm_->forward(stem_->forward(image_.View(in))));
    if (image_.height >= 16 && image_.width >= 16) x = torch::max_pool2d(x, 2);
    return out_->forward(blocks_->forward(x).mean({2, 3}));
  }

 private:
  const ImageShape image_;
  const int64_t classes_;
  torch::nn::Conv2d stem_{nullptr};
  torch::nn::GroupNorm norm_{nullptr};
  torch::nn::Sequential blocks_;
  torch::nn::Linear out_{nullptr};
};

}  // namespace

TorchModel* MakeResNet(ModelSetup& setup) { return new ResNet(setup); }

}  // namespace rubato

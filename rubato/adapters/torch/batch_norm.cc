#include "rubato/adapters/torch/batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>

namespace rubato {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

struct Observed {
  torch::Tensor statistics, sink;
};

// `x` as it is; backward gives the running statistics their distance from the observed ones.
struct TrackFunction : torch::autograd::Function<TrackFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& running, const Observed& observed) {
    ctx->save_for_backward({running - observed.statistics, observed.sink});
    return x.clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const GradientSink sink(saved[1], 1, saved[0].size(1));
    const float* distance = saved[0].data_ptr<float>();
    for (int64_t i = 0; i < saved[0].size(1); ++i) sink.data()[i] += distance[i];
    return {grads[0], sink.ForAutograd(), torch::Tensor()};
  }
};

}  // namespace

BatchNormImpl::BatchNormImpl(const std::string& name, int64_t width) : width_(width) {
  statistics_ = register_module("statistics", Embedding(name, 2 * width, std::vector<int64_t>()));
  const OptimizerSpec average = {.name = "sgd", .learning_rate = kMomentum};
  statistics_->spec().groups = {{width, Zeros(), average}, {width, Constant(1), average}};
  statistics_->spec().rows = RowsSpec();  // Neither late nor ever gone.
  weight_ = register_parameter("weight", torch::ones({width}));
  bias_ = register_parameter("bias", torch::zeros({width}));
}

torch::Tensor BatchNormImpl::forward(const ModelInput& in, const torch::Tensor& x) {
  const PulledRows pulled = statistics_->Pull(in);
  if (!is_training() || x.size(0) == 1) {
    const torch::Tensor running = pulled.rows.detach();
    const torch::Tensor mean = running.narrow(1, 0, width_);
    const torch::Tensor variance = running.narrow(1, width_, width_);
    return (x - mean) * torch::rsqrt(variance + kEpsilon) * weight_ + bias_;
  }
  const torch::Tensor mean = x.mean(0);
  const torch::Tensor centred = x - mean;
  const torch::Tensor variance = centred.square().mean(0);
  const torch::Tensor out = centred * torch::rsqrt(variance + kEpsilon) * weight_ + bias_;
  // What is remembered is the variance of the population, a little above that of a sample.
  const double n = static_cast<double>(x.size(0));
  const torch::Tensor population = variance * (n / std::max(1.0, n - 1));
  const torch::Tensor observed = torch::cat({mean, population}).detach().unsqueeze(0);
  return TrackFunction::apply(out, pulled.rows, Observed{observed, pulled.gradient});
}

}  // namespace rubato

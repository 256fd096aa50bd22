// The optimizers of the servers against libtorch's, step by step.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <tuple>

#include "rubato/base/rng.h"
#include "rubato/params/optimizer.h"

namespace rubato {
namespace {

std::unique_ptr<torch::optim::Optimizer> Torchs(const OptimizerSpec& s, torch::Tensor weights) {
  const std::vector<torch::Tensor> all = {std::move(weights)};
  const auto betas = std::make_tuple(s.beta1, s.beta2);
  const double rate = s.learning_rate, decay = s.weight_decay;
  if (s.name == "adagrad") {
    return std::make_unique<torch::optim::Adagrad>(
        all, torch::optim::AdagradOptions(rate)
                 .weight_decay(decay)
                 .initial_accumulator_value(s.initial_accumulator)
                 .eps(1e-10));
  }
  if (s.name == "adam" || s.name == "dense_adam" || s.name == "amsgrad") {
    return std::make_unique<torch::optim::Adam>(
        all, torch::optim::AdamOptions(rate).betas(betas).eps(1e-8).weight_decay(decay).amsgrad(
                 s.name == "amsgrad"));
  }
  if (s.name == "adamw") {
    return std::make_unique<torch::optim::AdamW>(
        all, torch::optim::AdamWOptions(rate).betas(betas).eps(1e-8).weight_decay(decay));
  }
  if (s.name == "rmsprop") {
    return std::make_unique<torch::optim::RMSprop>(
        all, torch::optim::RMSpropOptions(rate).alpha(s.alpha).eps(1e-8).weight_decay(decay));
  }
  return std::make_unique<torch::optim::SGD>(all, torch::optim::SGDOptions(rate)
                                                      .momentum(s.name == "sgd" ? 0 : s.momentum)
                                                      .nesterov(s.name == "nesterov")
                                                      .weight_decay(decay));
}

class OptimizerTorchTest : public testing::TestWithParam<std::tuple<std::string, double>> {};

// Both start each step from the same weights, with the state they have each come to by themselves.
TEST_P(OptimizerTorchTest, EachStepIsLibtorchs) {
  constexpr int64_t kSize = 333;
  OptimizerSpec spec;
  std::tie(spec.name, spec.weight_decay) = GetParam();
  spec.learning_rate = 0.02;
  spec.initial_accumulator = 0.1;
  const auto ours = Optimizer::Make(spec);
  ASSERT_TRUE(ours.ok());
  Rng rng(5);
  std::vector<float> weights(kSize), state(ours->dense_state_floats(kSize)), gradient(kSize);
  for (float& w : weights) w = static_cast<float>(rng.Normal());
  ours->StartDense(weights, absl::MakeSpan(state));
  const torch::Tensor tensor = torch::empty({kSize}, torch::requires_grad());
  const auto theirs = Torchs(spec, tensor);
  for (uint32_t step = 1; step <= 40; ++step) {
    for (float& g : gradient) {
      g = static_cast<float>(rng.Normal() * std::pow(10, rng.Uniform(-4, 1)));
    }
    const std::vector<float> before = weights;
    {
      const torch::NoGradGuard no_grad;
      tensor.copy_(torch::from_blob(weights.data(), {kSize}));
    }
    tensor.mutable_grad() = torch::from_blob(gradient.data(), {kSize}).clone();
    theirs->step();
    ours->UpdateDense(absl::MakeSpan(weights), absl::MakeSpan(state), gradient,
                      {.number = step, .learning_rate = spec.learning_rate});
    for (int64_t i = 0; i < kSize; ++i) {
      const double expected = tensor.data_ptr<float>()[i];
      const double size = std::max<double>(std::fabs(before[i]), std::fabs(expected));
      ASSERT_NEAR(weights[i], expected, 1e-6 * size) << "step " << step << ", weight " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(NamesAndDecays, OptimizerTorchTest,
                         testing::Combine(testing::Values("sgd", "momentum", "nesterov", "adagrad",
                                                          "adam", "dense_adam", "amsgrad", "adamw",
                                                          "rmsprop"),
                                          testing::Values(0.0, 0.1)));

}  // namespace
}  // namespace rubato

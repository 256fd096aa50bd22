#include "rubato/adapters/torch/dense_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rubato/adapters/torch/torch_trainer.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int64_t kColumns = 6, kRows = 16;
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

// Called when backward has come to the output of the first layer.
std::function<void()> on_first_layer;

// Three layers of 6 x 6 weights and 6 biases, 126 floats in all. The second runs twice, so its
// gradient is a sum.
class Layers : public TorchModel {
 public:
  explicit Layers(ModelSetup&) {
    for (torch::nn::Linear* layer : {&first_, &second_, &third_}) {
      *layer = torch::nn::Linear(kColumns, kColumns);
    }
    register_module("first", first_);
    register_module("second", second_);
    register_module("third", third_);
  }
  int64_t score_width() const override { return kColumns; }
  torch::Tensor Forward(const ModelInput& in) override {
    torch::Tensor x = first_->forward(in.dense);
    if (on_first_layer) x.register_hook([](torch::Tensor) { on_first_layer(); });
    x = second_->forward(torch::tanh(second_->forward(torch::tanh(x))));
    return third_->forward(torch::tanh(x));
  }

  torch::nn::Linear first_{nullptr}, second_{nullptr}, third_{nullptr};
};

Batch SomeBatch() {
  torch::manual_seed(4);
  const torch::Tensor x = torch::randn({kRows, kColumns});
  Batch batch;
  batch.rows = kRows;
  batch.dense.assign(x.data_ptr<float>(), x.data_ptr<float>() + x.numel());
  for (int64_t row = 0; row < kRows; ++row) {
    batch.labels.push_back(static_cast<float>(row % kColumns));
  }
  return batch;
}

// One step of one model, and what was announced during it.
template <typename Model>
struct OneStep {
  explicit OneStep(bool watched, int64_t bucket_floats = 1) {
    const ModelSetup setup{.shape = {.dense = std::vector<std::string>(kColumns, "x")}};
    auto trainer = TorchTrainer::Make([](ModelSetup& s) { return new Model(s); }, setup, "test");
    const std::vector<float> weights = (*trainer)->InitialDense(3);
    const Batch batch = SomeBatch();
    const GradientWatch watch = {.ready =
                                     [this](int64_t begin, int64_t end) {
                                       ranges.emplace_back(begin, end);
                                       as_announced.resize(out.dense_gradient.size());
                                       std::copy(out.dense_gradient.begin() + begin,
                                                 out.dense_gradient.begin() + end,
                                                 as_announced.begin() + begin);
                                     },
                                 .bucket_floats = bucket_floats};
    on_first_layer = [this] { at_first_layer = ranges; };
    status = (*trainer)->Step(
        {.batch = &batch, .dense = weights, .watch = watched ? &watch : nullptr}, &out);
    on_first_layer = nullptr;
  }

  absl::Status status;
  StepOutput out;
  Ranges ranges;                    // In the order announced.
  std::vector<float> as_announced;  // Each range as it was when it was announced.
  Ranges at_first_layer;            // Announced when backward came to the first layer.
};

// What the two layers at the back know is told before backward reaches the first.
TEST(DenseGradientsTest, RangesComeWhileBackwardRuns) {
  const OneStep<Layers> run(/*watched=*/true, /*bucket_floats=*/42);
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_THAT(run.ranges, ElementsAre(Pair(84, 126), Pair(42, 84), Pair(0, 42)));
  EXPECT_THAT(run.at_first_layer, ElementsAre(Pair(84, 126), Pair(42, 84)));
}

TEST(DenseGradientsTest, AnnouncedValuesAreThoseOfAnUnwatchedStepBitForBit) {
  const OneStep<Layers> plain(/*watched=*/false);
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  EXPECT_THAT(plain.ranges, IsEmpty());
  for (const int64_t bucket : {1, 7, 50, 1000}) {
    const OneStep<Layers> run(/*watched=*/true, bucket);
    ASSERT_TRUE(run.status.ok()) << run.status;
    EXPECT_EQ(run.as_announced, plain.out.dense_gradient) << "buckets of " << bucket;
    EXPECT_EQ(run.out.dense_gradient, plain.out.dense_gradient);
    EXPECT_EQ(run.out.loss, plain.out.loss);
  }
}

// Whatever the size of a bucket, ranges follow one another from the end to the start.
TEST(DenseGradientsTest, RangesCoverEverythingOnce) {
  for (const int64_t bucket : {1, 6, 7, 37, 42, 43, 125, 126, 1 << 20}) {
    const OneStep<Layers> run(/*watched=*/true, bucket);
    int64_t expected_end = 126;
    for (const auto& [begin, end] : run.ranges) {
      EXPECT_EQ(end, expected_end);
      EXPECT_TRUE(end - begin >= bucket || begin == 0) << begin << ".." << end;
      expected_end = begin;
    }
    EXPECT_EQ(expected_end, 0);
  }
  EXPECT_THAT(OneStep<Layers>(true, 1).ranges, SizeIs(6));  // One a parameter at most.
  EXPECT_THAT(OneStep<Layers>(true, 1000).ranges, ElementsAre(Pair(0, 126)));
}

// The last layer is frozen and the second unused: both have gradient 0, and only the unused one is
// waited for.
class Partial : public Layers {
 public:
  explicit Partial(ModelSetup& setup) : Layers(setup) {
    for (torch::Tensor& parameter : third_->parameters()) parameter.set_requires_grad(false);
  }
  torch::Tensor Forward(const ModelInput& in) override {
    torch::Tensor x = first_->forward(in.dense);
    x.register_hook([](torch::Tensor) { on_first_layer(); });
    return third_->forward(torch::tanh(x));
  }
};

TEST(DenseGradientsTest, WeightsThatBackwardDoesNotReachHaveGradientZero) {
  const OneStep<Partial> run(/*watched=*/true, /*bucket_floats=*/42);
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_THAT(run.ranges, ElementsAre(Pair(84, 126), Pair(42, 84), Pair(0, 42)));
  EXPECT_THAT(run.at_first_layer, ElementsAre(Pair(84, 126)));
  const auto is_zero = [](float x) { return x == 0; };
  const std::vector<float>& gradient = run.out.dense_gradient;
  EXPECT_FALSE(std::all_of(gradient.begin(), gradient.begin() + 42, is_zero));
  EXPECT_TRUE(std::all_of(gradient.begin() + 42, gradient.end(), is_zero));
}

// The square root at zero, in the second layer.
class Steep : public Layers {
 public:
  using Layers::Layers;
  torch::Tensor Loss(const torch::Tensor& output, const ModelInput& in) override {
    return (second_->bias - second_->bias.detach()).abs().sqrt().sum() + Layers::Loss(output, in);
  }
};

// Nobody shall add up a gradient that is not a number.
TEST(DenseGradientsTest, WhatIsNotFiniteIsNotAnnounced) {
  const OneStep<Steep> run(/*watched=*/true, /*bucket_floats=*/42);
  EXPECT_EQ(run.status, absl::OutOfRangeError("the gradient of second.bias is not finite"));
  EXPECT_THAT(run.ranges, ElementsAre(Pair(84, 126)));
}

}  // namespace
}  // namespace rubato

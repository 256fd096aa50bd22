// Layers whose state is on the servers, against libtorch's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "rubato/adapters/torch/bags.h"
#include "rubato/adapters/torch/batch_norm.h"
#include "rubato/adapters/torch/torch_trainer.h"
#include "rubato/base/rng.h"
#include "rubato/worker/local_run.h"

namespace rubato {
namespace {

// ---- bags --------------------------------------------------------------------------------------

struct BagCase {
  std::string combiner;
  bool weighted;
};
class BagsTest : public testing::TestWithParam<BagCase> {};

// Bags of any length, an empty one among them: what libtorch's embedding_bag makes of them, and the
// same gradients, in the worker's buffer.
TEST_P(BagsTest, AgreeWithEmbeddingBag) {
  const auto& [combiner, weighted] = GetParam();
  constexpr int64_t kDistinct = 6, kDim = 3, kRows = 4;
  torch::manual_seed(3);
  Batch batch;
  batch.rows = kRows;
  std::vector<uint32_t> values = {0, 3, 5, 1, 1, 4, 2};  // Two, none, four, one.
  batch.bag_ends = {2, 2, 6, 7};
  batch.bag_ids.assign(values.begin(), values.end());
  if (weighted) batch.bag_weights = {0.5f, 2, -1, 3, 0.25f, 1, 4};

  const torch::Tensor gradient = torch::zeros({kDistinct, kDim});
  PulledRows pulled = {.rows = torch::randn({kDistinct, kDim}).set_requires_grad(true),
                       .position = torch::zeros({kRows, 1}, torch::kInt32),
                       .gradient = gradient};
  const torch::Tensor plain = pulled.rows.detach().clone().set_requires_grad(true);
  CombineBags(batch, {{.field = 0, .bag = 0, .combiner = combiner}}, values, &pulled);
  const torch::Tensor got = Gather(pulled).squeeze(1);

  // libtorch takes weights for sums only: the others are sums of scaled weights.
  std::vector<float> weights = batch.bag_weights;
  if (weights.empty()) weights.assign(values.size(), 1);
  std::vector<int64_t> offsets;
  for (size_t row = 0; row < kRows; ++row) {
    const size_t begin = row == 0 ? 0 : batch.bag_ends[row - 1], end = batch.bag_ends[row];
    offsets.push_back(static_cast<int64_t>(begin));
    double sum = 0, squares = 0;
    for (size_t v = begin; v < end; ++v) {
      sum += weights[v];
      squares += static_cast<double>(weights[v]) * weights[v];
    }
    const double divisor = combiner == "sum" ? 1 : combiner == "mean" ? sum : std::sqrt(squares);
    for (size_t v = begin; v < end; ++v) weights[v] = static_cast<float>(weights[v] / divisor);
  }
  const torch::Tensor input =
      torch::tensor(std::vector<int64_t>(values.begin(), values.end()), torch::kInt64);
  const torch::Tensor want =
      torch::nn::functional::embedding_bag(input, plain,
                                           torch::nn::functional::EmbeddingBagFuncOptions()
                                               .offsets(torch::tensor(offsets, torch::kInt64))
                                               .mode(torch::kSum)
                                               .per_sample_weights(torch::tensor(weights)));
  EXPECT_TRUE(torch::allclose(got, want, 1e-5, 1e-6));
  if (combiner == "mean" && !weighted) {
    const torch::Tensor mean =
        torch::nn::functional::embedding_bag(input, plain,
                                             torch::nn::functional::EmbeddingBagFuncOptions()
                                                 .offsets(torch::tensor(offsets, torch::kInt64))
                                                 .mode(torch::kMean));
    EXPECT_TRUE(torch::allclose(got, mean, 1e-5, 1e-6));
  }
  const torch::Tensor coefficient = torch::randn({kRows, kDim});
  (got * coefficient).sum().backward();
  (want * coefficient).sum().backward();
  EXPECT_TRUE(torch::allclose(gradient, plain.grad(), 1e-5, 1e-6));
}
INSTANTIATE_TEST_SUITE_P(Combiners, BagsTest,
                         testing::Values(BagCase{"sum", false}, BagCase{"mean", false},
                                         BagCase{"sqrtn", false}, BagCase{"sum", true},
                                         BagCase{"mean", true}, BagCase{"sqrtn", true}),
                         [](const auto& info) {
                           return info.param.combiner + (info.param.weighted ? "Weighted" : "");
                         });

// Weights that cancel out, be it but for rounding, are a sum; large ones are no infinity.
TEST(BagWeightsTest, NoWeightsMakeAMeanOfInfinities) {
  const torch::Tensor rows = torch::tensor({{1.0f}, {2.0f}, {4.0f}});
  const auto mean_of = [&](const std::vector<float>& weights) {
    Batch batch;
    batch.rows = 1;
    batch.bag_ends = {weights.size()};
    batch.bag_weights = weights;
    std::vector<uint32_t> values(weights.size());
    std::iota(values.begin(), values.end(), 0u);
    batch.bag_ids.assign(values.begin(), values.end());
    PulledRows pulled = {.rows = rows, .position = torch::zeros({1, 1}, torch::kInt32)};
    CombineBags(batch, {{.field = 0, .bag = 0, .combiner = "mean"}}, values, &pulled);
    return Gather(pulled).item<float>();
  };
  EXPECT_NEAR(mean_of({1.1f, 2.2f, -3.3f}), 1.1 + 4.4 - 13.2, 1e-5);
  EXPECT_EQ(mean_of({1, -1}), -1);
  EXPECT_EQ(mean_of({0, 0}), 0);
  EXPECT_NEAR(mean_of({3e38f, 3e38f}), 1.5, 1e-6);
  EXPECT_NEAR(mean_of({-1, -3}), 1.75, 1e-6) << "as with 1 and 3";
  EXPECT_NEAR(mean_of({2, -1}), 0, 1e-6) << "2 * 1 - 1 * 2, over 1";
}

// Every pair of a bag's vectors, the columns behind the weight, in a loop; weights of values count,
// an empty bag and one of one value have no pairs, and other bags are left as they are.
TEST(PairsTest, AreAddedToTheWeightOfASum) {
  constexpr int64_t kDistinct = 5, kDim = 4;
  torch::manual_seed(4);
  Batch batch;
  batch.rows = 3;
  const std::vector<uint32_t> values = {0, 3, 4, 1, 2, 1, 2};
  batch.bag_ends = {3, 5, 5, 5, 6, 7};  // By row: three and two; none and none; one and one.
  batch.bag_weights = {0.5f, 2, -1, 3, 0.25f, 1, 4};
  const torch::Tensor gradient = torch::zeros({kDistinct, kDim});
  PulledRows pulled = {.rows = torch::randn({kDistinct, kDim}).set_requires_grad(true),
                       .position = torch::zeros({3, 2}, torch::kInt32),
                       .gradient = gradient};
  const torch::Tensor plain = pulled.rows.detach().clone().set_requires_grad(true);
  CombineBags(
      batch,
      {{.field = 0, .bag = 0, .combiner = kSumAndPairs}, {.field = 1, .bag = 1, .combiner = "sum"}},
      values, &pulled);
  const torch::Tensor got = Gather(pulled);
  const auto part = [&](size_t v) { return plain[values[v]] * batch.bag_weights[v]; };
  torch::Tensor pairs = torch::zeros({});
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i + 1; j < 3; ++j) {
      pairs = pairs + (part(i).narrow(0, 1, 3) * part(j).narrow(0, 1, 3)).sum();
    }
  }
  const torch::Tensor sum = part(0) + part(1) + part(2);
  const torch::Tensor want = torch::cat({(sum[0] + pairs).unsqueeze(0), sum.narrow(0, 1, 3)});
  EXPECT_TRUE(torch::allclose(got[0][0], want, 1e-5, 1e-6)) << got << want;
  EXPECT_TRUE(torch::allclose(got[0][1], part(3) + part(4), 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(got[1], torch::zeros({2, kDim})));
  EXPECT_TRUE(torch::allclose(got[2][0], part(5), 1e-5, 1e-6));
  got[0][0].sum().backward();
  want.sum().backward();
  EXPECT_TRUE(torch::allclose(gradient, plain.grad(), 1e-5, 1e-6));
}

// ---- batch normalization -----------------------------------------------------------------------

class Normalized : public TorchModel {
 public:
  explicit Normalized(ModelSetup&) { norm_ = register_module("norm", BatchNorm("norm", 3)); }
  torch::Tensor Forward(const ModelInput& in) override {
    return (norm_->forward(in, in.dense) * Coefficient()).sum(1);
  }
  static torch::Tensor Coefficient() { return torch::tensor({0.5f, -1.0f, 0.25f}); }

 private:
  BatchNorm norm_{nullptr};
};

TEST(BatchNormTest, RemembersWhatLibtorchsRemembers) {
  const BatchShape shape{.dense = {"x", "y", "z"}};
  const ModelSetup setup{.shape = shape};
  const auto trainer =
      *TorchTrainer::Make([](ModelSetup& s) { return new Normalized(s); }, setup, "test");
  // The rate is the weights'; the statistics have one of their own.
  LocalRun run(*trainer, {.optimizer = {.name = "sgd", .learning_rate = 1e-9}});
  torch::nn::BatchNorm1d plain(3);
  Rng rng(5);
  for (int step = 0; step < 20; ++step) {
    Batch batch;
    batch.rows = 16;
    for (int i = 0; i < 16; ++i) {
      batch.labels.push_back(static_cast<float>(i % 2));
      for (const double centre : {3.0, -1.0, 0.0}) {
        batch.dense.push_back(static_cast<float>(centre + (2 + centre) * rng.Normal()));
      }
    }
    const torch::Tensor x = torch::from_blob(batch.dense.data(), {16, 3});
    plain->eval();
    const torch::Tensor want =
        torch::sigmoid((plain->forward(x) * Normalized::Coefficient()).sum(1));
    const std::vector<float> got = run.Predict(batch).value();
    EXPECT_TRUE(torch::allclose(torch::tensor(got), want, 1e-4, 1e-5)) << "step " << step;
    plain->train();
    const torch::Tensor logits = (plain->forward(x) * Normalized::Coefficient()).sum(1);
    const double loss =
        torch::binary_cross_entropy_with_logits(logits, torch::from_blob(batch.labels.data(), {16}))
            .item<double>();
    EXPECT_NEAR(run.Step(batch).value(), loss, 1e-5) << "step " << step;
  }
}

// The last batch of a task may be one row. It has no variance: it is normalized by what is
// remembered, and does not move that.
TEST(BatchNormTest, OneRowIsNormalizedByWhatIsRemembered) {
  const ModelSetup setup{.shape = {.dense = {"x", "y", "z"}}};
  const auto trainer =
      *TorchTrainer::Make([](ModelSetup& s) { return new Normalized(s); }, setup, "test");
  LocalRun run(*trainer, {.optimizer = {.name = "sgd", .learning_rate = 1e-9}});
  Batch two;
  two.rows = 2;
  two.labels = {1, 0};
  two.dense = {3, -1, 0, 5, 2, 1};
  ASSERT_TRUE(run.Step(two).ok());
  Batch one;
  one.rows = 1;
  one.labels = {1};
  one.dense = {4, 9, -2};
  const std::vector<float> before = run.Predict(one).value();
  EXPECT_NEAR(run.Step(one).value(), -std::log(before[0]), 1e-4);
  EXPECT_NEAR(run.Predict(one).value()[0], before[0], 1e-6);
}

}  // namespace
}  // namespace rubato

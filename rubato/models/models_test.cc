#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rubato/adapters/torch/engine.h"
#include "rubato/base/rng.h"
#include "rubato/metrics/evaluation.h"
#include "rubato/models/fm.h"
#include "rubato/models/zoo.h"
#include "rubato/worker/evaluation.h"
#include "rubato/worker/local_run.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// ---- the factorization machine -----------------------------------------------------------------

struct FmCase {
  int64_t dim, fields, extra;
};
class FmTest : public testing::TestWithParam<FmCase> {};

// The fused lookup gives what the textbook formula gives, and the same gradients.
TEST_P(FmTest, AgreesWithPlainOperations) {
  const auto [dim, fields, extra_columns] = GetParam();
  constexpr int64_t kBatch = 7, kDistinct = 5;
  torch::manual_seed(2);
  PulledRows pulled;
  pulled.rows = torch::randn({kDistinct, 1 + dim}).set_requires_grad(true);
  pulled.position = torch::randint(0, kDistinct, {kBatch, fields}, torch::kInt32);
  const torch::Tensor extra =
      extra_columns > 0 ? torch::randn({kBatch, extra_columns}) : torch::Tensor();
  const FmOutput got = FmLookup(pulled, extra);

  const torch::Tensor plain = pulled.rows.detach().clone().set_requires_grad(true);
  const torch::Tensor cells = plain.index_select(0, pulled.position.flatten().to(torch::kLong))
                                  .view({kBatch, fields, 1 + dim});
  const torch::Tensor v = cells.narrow(2, 1, dim);
  torch::Tensor logit = cells.select(2, 0).sum(1);
  for (int64_t i = 0; i < fields; ++i) {
    for (int64_t j = i + 1; j < fields; ++j) {
      logit = logit + (v.select(1, i) * v.select(1, j)).sum(1);
    }
  }
  torch::Tensor deep = v.reshape({kBatch, fields * dim});
  if (extra_columns > 0) deep = torch::cat({deep, extra}, 1);
  EXPECT_TRUE(torch::equal(got.deep, deep));
  EXPECT_TRUE(torch::allclose(got.logit, logit, 1e-4, 1e-4));

  const torch::Tensor weight = torch::randn_like(deep), coefficient = torch::randn({kBatch});
  ((got.deep * weight).sum() + (got.logit * coefficient).sum()).backward();
  ((deep * weight).sum() + (logit * coefficient).sum()).backward();
  EXPECT_TRUE(torch::allclose(pulled.rows.grad(), plain.grad(), 1e-4, 1e-4));
}
INSTANTIATE_TEST_SUITE_P(Shapes, FmTest,
                         testing::Values(FmCase{16, 4, 0}, FmCase{8, 3, 2}, FmCase{5, 6, 1},
                                         FmCase{1, 1, 0}));

// ---- learning ----------------------------------------------------------------------------------

std::unique_ptr<Trainer> Make(const std::string& name, const BatchShape& shape,
                              std::map<std::string, std::string> options) {
  const ModelSetup setup{.options = ModelOptions(std::move(options)), .shape = shape};
  absl::StatusOr<std::unique_ptr<TorchTrainer>> trainer =
      TorchTrainer::Make(FindZooModel(name).value(), setup, "test");
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return std::move(*trainer);
}

// Two ids of 20 values each. `pairs`: the label hangs on both together and on neither alone, which
// weights cannot express and vectors can. Otherwise each id has a weight.
Batch Planted(Rng& rng, bool pairs) {
  Batch batch;
  batch.rows = 128;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const uint64_t a = rng.Below(20), b = rng.Below(20);
    batch.ids.push_back(a);
    batch.ids.push_back(uint64_t{1} << 56 | b);
    const bool label = pairs ? (a % 2) == (b % 2) : a + b < 20;
    batch.labels.push_back(label ? 1 : 0);
  }
  return batch;
}

double TrainedAuc(Trainer& trainer, bool pairs, int steps) {
  LocalRun run(trainer, {.optimizer = {.name = "adagrad", .learning_rate = 0.1}, .id_columns = 2});
  Rng rng(11);
  for (int step = 0; step < steps; ++step) {
    const absl::StatusOr<double> loss = run.Step(Planted(rng, pairs));
    EXPECT_TRUE(loss.ok()) << loss.status();
  }
  Evaluation evaluation(1);
  for (int i = 0; i < 10; ++i) {
    const Batch batch = Planted(rng, pairs);
    evaluation.Add(batch, run.Predict(batch).value(), {});
  }
  return Auc(evaluation.sums());
}

const BatchShape kTwoIds{.ids = {"a", "b"}};

TEST(DeepFmTest, LearnsWhatPairsOfIdsMean) {
  const auto trainer = Make("deepfm", kTwoIds, {{"dim", "4"}, {"hidden", "16"}, {"init", "0.1"}});
  EXPECT_GT(TrainedAuc(*trainer, /*pairs=*/true, 300), 0.98);
}

TEST(LogisticTest, LearnsWeightsAndNothingElse) {
  EXPECT_GT(TrainedAuc(*Make("logistic", kTwoIds, {}), /*pairs=*/false, 300), 0.97);
  EXPECT_LT(TrainedAuc(*Make("logistic", kTwoIds, {}), /*pairs=*/true, 100), 0.6);
}

// The same steps give the same weights, bit for bit.
TEST(DeepFmTest, ARunRepeatsExactly) {
  std::vector<float> dense[2];
  for (std::vector<float>& weights : dense) {
    const auto trainer = Make("deepfm", kTwoIds, {{"dim", "8"}});
    LocalRun run(*trainer, {.id_columns = 2});
    Rng rng(4);
    for (int step = 0; step < 20; ++step) ASSERT_TRUE(run.Step(Planted(rng, true)).ok());
    weights = run.dense();
  }
  EXPECT_EQ(dense[0], dense[1]);
}

TEST(DeepFmTest, DenseColumnsReachThePerceptron) {
  const BatchShape shape{.dense = {"x"}, .ids = {"a"}};
  const auto trainer = Make("deepfm", shape, {{"use_dense", "true"}, {"hidden", "8"}});
  LocalRun run(*trainer, {.optimizer = {.learning_rate = 0.1}, .id_columns = 1});
  Rng rng(3);
  double loss = 1;
  for (int step = 0; step < 200; ++step) {
    Batch batch;
    batch.rows = 64;
    for (int64_t row = 0; row < batch.rows; ++row) {
      batch.dense.push_back(static_cast<float>(rng.Uniform(-1, 1)));
      batch.labels.push_back(batch.dense.back() > 0 ? 1 : 0);
      batch.ids.push_back(0);
    }
    loss = run.Step(batch).value();
  }
  EXPECT_LT(loss, 0.2);
}

// Ten "digits": a bright square in one of ten places.
TEST(MnistCnnTest, LearnsWhereTheLightIs) {
  const BatchShape shape{.dense = std::vector<std::string>(28 * 28, "pixel")};
  const auto trainer = Make("mnist_cnn", shape, {{"dropout", "0"}});
  LocalRun run(*trainer, {.optimizer = {.name = "sgd", .learning_rate = 0.1}});
  Rng rng(8);
  const auto digits = [&] {
    Batch batch;
    batch.rows = 32;
    for (int64_t row = 0; row < batch.rows; ++row) {
      const size_t digit = rng.Below(10);
      std::vector<float> image(28 * 28);
      const size_t top = 4 + 12 * (digit / 5), left = 2 + 5 * (digit % 5);
      for (size_t i = 0; i < 16; ++i) image[(top + i / 4) * 28 + left + i % 4] = 1;
      for (float& pixel : image) pixel += static_cast<float>(0.1 * rng.Normal());
      batch.dense.insert(batch.dense.end(), image.begin(), image.end());
      batch.labels.push_back(static_cast<float>(digit));
    }
    return batch;
  };
  for (int step = 0; step < 80; ++step) ASSERT_TRUE(run.Step(digits()).ok());
  Evaluation evaluation(trainer->score_width());
  const Batch batch = digits();
  evaluation.Add(batch, run.Predict(batch).value(), {});
  EXPECT_GT(Metrics(evaluation.sums()).at("accuracy"), 0.9);
}

// ---- refusals ----------------------------------------------------------------------------------

std::string Refusal(const std::string& name, const BatchShape& shape,
                    std::map<std::string, std::string> options) {
  const ModelSetup setup{.options = ModelOptions(std::move(options)), .shape = shape};
  return std::string(
      TorchTrainer::Make(FindZooModel(name).value(), setup, "test").status().message());
}

TEST(ZooTest, SaysWhatIsWrong) {
  EXPECT_THAT(std::string(FindZooModel("depfm").status().message()),
              HasSubstr("did you mean 'deepfm'?"));
  EXPECT_THAT(Refusal("deepfm", kTwoIds, {{"dims", "8"}}), HasSubstr("did you mean 'dim'?"));
  EXPECT_THAT(Refusal("deepfm", kTwoIds, {{"dim", "0"}}), HasSubstr("'0' is not a whole number"));
  EXPECT_THAT(Refusal("deepfm", {.dense = {"x"}}, {}), HasSubstr("needs id columns"));
  EXPECT_THAT(Refusal("mnist_cnn", kTwoIds, {}), HasSubstr("784 dense columns"));
}

TEST(EngineTest, NamesItsBlas) {
  const absl::StatusOr<std::string> engine = PrepareEngine();
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_THAT(*engine, HasSubstr("blas"));
  EXPECT_THAT(*engine, HasSubstr("1 thread"));
}

}  // namespace
}  // namespace rubato

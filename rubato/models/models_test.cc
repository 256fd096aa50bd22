#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch/engine.h"
#include "rubato/base/rng.h"
#include "rubato/data/digits_generator.h"
#include "rubato/metrics/evaluation.h"
#include "rubato/models/fm_lookup.h"
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
  return evaluation.sums().scores.Auc();
}

const BatchShape kTwoIds{.ids = {"a", "b"}};

TEST(DeepFmTest, LearnsWhatPairsOfIdsMean) {
  const auto trainer = Make("deepfm", kTwoIds, {{"dim", "4"}, {"hidden", "16"}, {"init", "0.1"}});
  EXPECT_GT(TrainedAuc(*trainer, /*pairs=*/true, 300), 0.98);
}

// By name; those whose width follows from the dim have a factor of 1, the others are 0.01 wide.
TEST(DeepFmTest, RowsStartAsTheJobSays) {
  const auto start = [](std::map<std::string, std::string> options) {
    options["hidden"] = "16";
    return Make("deepfm", kTwoIds, std::move(options))->signature().tables.at(0).initializer;
  };
  EXPECT_EQ(start({}), (InitializerSpec{"uniform", 0.01}));
  EXPECT_EQ(start({{"initializer", "he_normal"}}), (InitializerSpec{"he_normal", 1}));
  EXPECT_EQ(start({{"initializer", "normal"}, {"init", "0.1"}}), (InitializerSpec{"normal", 0.1}));
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

TEST(DeepFmTest, LearnsWithoutServersInBuckets) {
  const ModelSetup setup{
      .options =
          ModelOptions({{"dim", "4"}, {"hidden", "16"}, {"init", "0.1"}, {"buckets", "2000"}}),
      .shape = kTwoIds,
      .servers = false};
  auto trainer = TorchTrainer::Make(FindZooModel("deepfm").value(), setup, "test");
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_TRUE((*trainer)->signature().tables.empty());
  EXPECT_GT(TrainedAuc(**trainer, /*pairs=*/true, 300), 0.95);
}

// Tokens are the two ids; that they are of a kind only shows when one attends to the other.
TEST(TransformerTest, LearnsWhatPairsOfIdsMean) {
  const auto trainer = Make("transformer", kTwoIds, {{"dim", "16"}, {"layers", "1"}});
  EXPECT_EQ(trainer->score_width(), 1);
  EXPECT_GT(TrainedAuc(*trainer, /*pairs=*/true, 300), 0.95);
}

// ---- images ------------------------------------------------------------------------------------

const BatchShape kDigitShape{.dense = std::vector<std::string>(kDigitSide * kDigitSide, "pixel"),
                             .dense_shape = {kDigitSide, kDigitSide}};

Batch Digits(Rng& rng, int64_t rows) {
  Batch batch;
  batch.rows = rows;
  std::string pixels;
  for (int64_t row = 0; row < rows; ++row) {
    batch.labels.push_back(static_cast<float>(DrawDigit({}, rng, &pixels)));
  }
  for (const char pixel : pixels) {
    batch.dense.push_back(static_cast<float>(static_cast<unsigned char>(pixel)) / 255.0f);
  }
  return batch;
}

// Trains on `images` drawn digits; the accuracy on a thousand others.
double AccuracyOnDigits(Trainer& trainer, double learning_rate, int64_t images) {
  LocalRun run(trainer, {.optimizer = {.name = "adagrad", .learning_rate = learning_rate}});
  Rng rng(8);
  constexpr int64_t kBatch = 32;
  for (int64_t i = 0; i < images; i += kBatch) {
    const absl::StatusOr<double> loss = run.Step(Digits(rng, kBatch));
    EXPECT_TRUE(loss.ok()) << loss.status();
    if (i == 0) {
      EXPECT_NEAR(*loss, std::log(10), 0.7);  // It knows nothing yet.
    }
  }
  Evaluation evaluation(trainer.score_width());
  const Batch batch = Digits(rng, 1000);
  evaluation.Add(batch, run.Predict(batch).value(), {});
  return Metrics(evaluation.sums()).at("accuracy");
}

struct ImageCase {
  std::string model;
  std::map<std::string, std::string> options;
  double learning_rate;
  int64_t images;
  double accuracy;  // At least.
};
class ImageModelTest : public testing::TestWithParam<ImageCase> {};

TEST_P(ImageModelTest, LearnsDrawnDigits) {
  const auto trainer = Make(GetParam().model, kDigitShape, GetParam().options);
  EXPECT_EQ(trainer->score_width(), 10);
  const double accuracy = AccuracyOnDigits(*trainer, GetParam().learning_rate, GetParam().images);
  RecordProperty("accuracy", absl::StrCat(accuracy));
  EXPECT_GT(accuracy, GetParam().accuracy);
}
INSTANTIATE_TEST_SUITE_P(
    Zoo, ImageModelTest,
    testing::Values(ImageCase{"mnist_cnn", {{"dropout", "0"}}, 0.01, 9600, 0.85},
                    ImageCase{"resnet", {}, 0.05, 9600, 0.8},
                    ImageCase{"transformer", {{"dim", "32"}}, 0.02, 9600, 0.65}),
    [](const auto& info) { return info.param.model; });

// What the digits are for: where a thing lies in the picture must not matter, and to a weight for
// every pixel it does.
class Linear : public TorchModel {
 public:
  explicit Linear(ModelSetup&) { out_ = register_module("out", torch::nn::Linear(784, 10)); }
  int64_t score_width() const override { return 10; }
  torch::Tensor Forward(const ModelInput& in) override { return out_->forward(in.dense); }

 private:
  torch::nn::Linear out_{nullptr};
};

TEST(DigitsTest, ALinearModelIsClearlyWorse) {
  const ModelSetup setup{.shape = kDigitShape};
  const auto trainer =
      TorchTrainer::Make([](ModelSetup& s) { return new Linear(s); }, setup, "test");
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_LT(AccuracyOnDigits(**trainer, 0.02, 20000), 0.75);
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
  const BatchShape columns{.dense = std::vector<std::string>(12, "x")};
  EXPECT_THAT(Refusal("resnet", columns, {}), HasSubstr("give the option image as height,width"));
  EXPECT_THAT(Refusal("resnet", columns, {{"image", "3,5"}}),
              HasSubstr("an image of 3 x 5 needs as many dense columns; there are 12"));
  EXPECT_EQ(Refusal("resnet", columns, {{"image", "3,2,2"}}), "");
  EXPECT_THAT(Refusal("transformer", kTwoIds, {{"dim", "10"}}),
              HasSubstr("heads, 4, does not divide dim, 10"));
}

TEST(EngineTest, NamesItsBlas) {
  const absl::StatusOr<std::string> engine = PrepareEngine();
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_THAT(*engine, HasSubstr("blas"));
  EXPECT_THAT(*engine, HasSubstr("1 thread"));
}

}  // namespace
}  // namespace rubato

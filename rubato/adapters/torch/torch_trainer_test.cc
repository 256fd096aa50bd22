#include "rubato/adapters/torch/torch_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "rubato/base/rng.h"
#include "rubato/worker/local_run.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 6;

// Two id columns in one table, one dense column, dropout, a linear layer.
class Small : public TorchModel {
 public:
  explicit Small(ModelSetup& setup) {
    table_ = register_module("t", Embedding("t", 3, AllFields(setup.shape), Normal(0.5)));
    linear_ = register_module("linear", torch::nn::Linear(7, 1));
    dropout_ = register_module("dropout", torch::nn::Dropout(setup.options.Number("dropout", 0)));
  }
  torch::Tensor Forward(const ModelInput& in) override {
    const torch::Tensor x = torch::cat({table_->forward(in).flatten(1), in.dense}, 1);
    return linear_->forward(dropout_->forward(x));
  }
  std::map<std::string, double> Metrics(const ModelInput& in,
                                        const torch::Tensor& scores) override {
    return {{"distance", (scores - in.labels).abs().sum().item<double>()}};
  }

  Embedding table_{nullptr};
  torch::nn::Linear linear_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};

const BatchShape kShape{.dense = {"x"}, .ids = {"a", "b"}};

template <typename Model>
absl::StatusOr<std::unique_ptr<TorchTrainer>> MakeTrainer(
    std::map<std::string, std::string> options = {}) {
  const ModelSetup setup{.options = ModelOptions(std::move(options)), .shape = kShape};
  return TorchTrainer::Make([](ModelSetup& s) { return new Model(s); }, setup, "test");
}

Batch MakeBatch() {
  Batch batch;
  batch.rows = kRows;
  batch.labels = {1, 0, 1, 1, 0, 0};
  batch.dense = {0.1f, -1, 2, 0.5f, 0, 1};
  batch.ids = {7, 8, 7, 9, 5, 8, 7, 7, 5, 9, 6, 6};
  return batch;
}

// A step's input with all it points to.
struct Case {
  explicit Case(Trainer& trainer) : batch(MakeBatch()), dense(trainer.InitialDense(3)) {
    Unique().Find(batch, 2, trainer.signature().tables[0].fields, &ids);
    Rng rng(1);
    rows.resize(ids.ids.size() * static_cast<size_t>(trainer.signature().tables[0].dim));
    for (float& value : rows) value = static_cast<float>(rng.Uniform(-1, 1));
  }
  StepInput Input(uint64_t seed = 0) const {
    return {.batch = &batch, .dense = dense, .tables = {{rows, ids.position}}, .seed = seed};
  }
  Batch batch;
  std::vector<float> dense, rows;
  UniqueIds ids;
};

torch::Tensor AsTensor(const std::vector<float>& values, at::IntArrayRef shape) {
  return torch::tensor(values).view(shape);
}

// ---- gradients ---------------------------------------------------------------------------------

TEST(GatherTest, AgreesWithIndexSelect) {
  torch::manual_seed(1);
  for (const bool with_sink : {false, true}) {
    PulledRows pulled;
    pulled.rows = torch::randn({5, 4}).set_requires_grad(true);
    pulled.position = torch::randint(0, 5, {6, 3}, torch::kInt32);
    if (with_sink) pulled.gradient = torch::zeros({5, 4});
    const torch::Tensor plain = pulled.rows.detach().clone().set_requires_grad(true);
    const torch::Tensor want =
        plain.index_select(0, pulled.position.flatten().to(torch::kLong)).view({6, 3, 4});
    const torch::Tensor got = Gather(pulled);
    ASSERT_TRUE(torch::equal(got, want));
    const torch::Tensor weight = torch::randn({6, 3, 4});
    (got * weight).sum().backward();
    (want * weight).sum().backward();
    const torch::Tensor gradient = with_sink ? pulled.gradient : pulled.rows.grad();
    EXPECT_TRUE(torch::allclose(gradient, plain.grad(), 1e-6, 1e-6));
    EXPECT_EQ(pulled.rows.grad().defined(), !with_sink);
  }
}

// The trainer's flat gradients are those that plain libtorch gives the same model.
TEST(TorchTrainerTest, AStepGivesAutogradsGradients) {
  auto trainer = MakeTrainer<Small>().value();
  const Case given(*trainer);
  StepOutput out;
  ASSERT_TRUE(trainer->Step(given.Input(), &out).ok());

  const torch::Tensor rows = AsTensor(given.rows, {-1, 3}).set_requires_grad(true);
  const torch::Tensor weights = AsTensor(given.dense, {8}).set_requires_grad(true);
  std::vector<int64_t> position(given.ids.position.begin(), given.ids.position.end());
  const torch::Tensor x =
      torch::cat({rows.index_select(0, torch::tensor(position)).view({kRows, 6}),
                  AsTensor(given.batch.dense, {kRows, 1})},
                 1);
  const torch::Tensor logit = x.mv(weights.narrow(0, 0, 7)) + weights[7];
  const torch::Tensor loss =
      torch::binary_cross_entropy_with_logits(logit, AsTensor(given.batch.labels, {kRows}));
  loss.backward();
  EXPECT_NEAR(out.loss, loss.item<double>(), 1e-6);
  EXPECT_TRUE(torch::allclose(AsTensor(out.dense_gradient, {8}), weights.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(AsTensor(out.table_gradients[0], {-1, 3}), rows.grad(), 1e-5, 1e-6));
}

TEST(TorchTrainerTest, TheSignatureNamesWeightsAndTables) {
  auto trainer = MakeTrainer<Small>().value();
  const ModelSignature& signature = trainer->signature();
  ASSERT_EQ(signature.dense.size(), 2u);
  EXPECT_EQ(signature.dense[0].name, "linear.weight");
  EXPECT_THAT(signature.dense[0].shape, ElementsAre(1, 7));
  EXPECT_EQ(signature.dense[1].offset, 7);
  EXPECT_EQ(signature.dense_size, 8);
  ASSERT_EQ(signature.tables.size(), 1u);
  EXPECT_EQ(signature.tables[0].name, "t");
  EXPECT_EQ(signature.tables[0].initializer.name, "normal");
}

// ---- repeatability -----------------------------------------------------------------------------

// Dropout follows the batch's seed, so whoever computes a batch computes the same.
TEST(TorchTrainerTest, TheSameInputGivesTheSameOutputInAnyTrainer) {
  auto one = MakeTrainer<Small>({{"dropout", "0.5"}}).value();
  auto two = MakeTrainer<Small>({{"dropout", "0.5"}}).value();
  const Case given(*one);
  StepOutput a, b, other;
  ASSERT_TRUE(one->Step(given.Input(9), &a).ok());
  ASSERT_TRUE(two->Step(given.Input(4), &other).ok());
  ASSERT_TRUE(two->Step(given.Input(9), &b).ok());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.dense_gradient, b.dense_gradient);
  EXPECT_EQ(a.table_gradients, b.table_gradients);
  EXPECT_NE(a.dense_gradient, other.dense_gradient);
}

TEST(TorchTrainerTest, StartingWeightsFollowTheSeed) {
  auto one = MakeTrainer<Small>().value();
  auto two = MakeTrainer<Small>().value();
  EXPECT_EQ(one->InitialDense(5), two->InitialDense(5));
  EXPECT_NE(one->InitialDense(5), two->InitialDense(6));
}

TEST(TorchTrainerTest, PredictGivesProbabilitiesWithoutDropout) {
  auto trainer = MakeTrainer<Small>({{"dropout", "0.5"}}).value();
  const Case given(*trainer);
  std::vector<float> once, again;
  StepOutput out;
  ASSERT_TRUE(trainer->Predict(given.Input(1), &once).ok());
  ASSERT_TRUE(trainer->Step(given.Input(1), &out).ok());
  ASSERT_TRUE(trainer->Predict(given.Input(2), &again).ok());
  EXPECT_EQ(once, again);
  ASSERT_EQ(once.size(), static_cast<size_t>(kRows));
  double distance = 0;
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_GT(once[i], 0);
    EXPECT_LT(once[i], 1);
    distance += std::abs(once[i] - given.batch.labels[i]);
  }
  EXPECT_NEAR(trainer->Metrics(given.batch, once).at("distance"), distance, 1e-5);
}

// ---- what goes wrong ---------------------------------------------------------------------------

TEST(TorchTrainerTest, ANanInTheDataIsAnErrorNotAModel) {
  auto trainer = MakeTrainer<Small>().value();
  Case given(*trainer);
  given.batch.dense[2] = std::numeric_limits<float>::quiet_NaN();
  StepOutput out;
  const absl::Status status = trainer->Step(given.Input(), &out);
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_EQ(status.message(), "the loss is nan");
}

// A finite loss whose gradient is infinite: the square root at zero.
class SteepModel : public Small {
 public:
  using Small::Small;
  torch::Tensor Loss(const torch::Tensor& output, const ModelInput& in) override {
    return (linear_->bias - linear_->bias.detach()).abs().sqrt().sum() + Small::Loss(output, in);
  }
};

TEST(TorchTrainerTest, AGradientThatIsNotFiniteIsNamed) {
  auto trainer = MakeTrainer<SteepModel>().value();
  const Case given(*trainer);
  StepOutput out;
  const absl::Status status = trainer->Step(given.Input(), &out);
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_EQ(status.message(), "the gradient of linear.bias is not finite");
}

class WrongShapes : public Small {
 public:
  using Small::Small;
  torch::Tensor Forward(const ModelInput& in) override { return linear_->forward(in.dense); }
};

TEST(TorchTrainerTest, WhatLibtorchThrowsBecomesAStatus) {
  auto trainer = MakeTrainer<WrongShapes>().value();
  const Case given(*trainer);
  StepOutput out;
  const absl::Status status = trainer->Step(given.Input(), &out);
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("training step: mat1 and mat2 shapes"));
}

class BadMetrics : public Small {
 public:
  using Small::Small;
  std::map<std::string, double> Metrics(const ModelInput& in,
                                        const torch::Tensor& scores) override {
    return {{"far", scores[1000].item<double>()}};
  }
};

// Metrics have no Status to return: the worker ends with the reason as its last words.
TEST(TorchTrainerDeathTest, AMetricThatThrowsEndsTheWorkerAndSaysWhy) {
  auto trainer = MakeTrainer<BadMetrics>().value();
  const std::vector<float> scores(kRows, 0.5f);
  EXPECT_EXIT(trainer->Metrics(MakeBatch(), scores), testing::ExitedWithCode(1),
              "the model's metrics: .*index 1000");
}

class WithBatchNorm : public Small {
 public:
  explicit WithBatchNorm(ModelSetup& setup) : Small(setup) {
    register_module("norm", torch::nn::BatchNorm1d(3));
  }
};

class WithFarField : public Small {
 public:
  explicit WithFarField(ModelSetup& setup) : Small(setup) {
    register_module("far", Embedding("far", 2, std::vector<int64_t>{5}));
  }
};

TEST(TorchTrainerTest, ModelsThatCannotBeServedAreRefused) {
  EXPECT_THAT(std::string(MakeTrainer<WithBatchNorm>().status().message()),
              HasSubstr("keeps a buffer, norm.running_mean"));
  EXPECT_THAT(std::string(MakeTrainer<WithFarField>().status().message()),
              HasSubstr("embedding far looks up field 5, and the data has 2 id columns"));
  EXPECT_EQ(MakeTrainer<Small>({{"drop", "1"}}).status().message(),
            "model_options.drop: this model knows dropout, buckets");
}

// ---- without servers ---------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<TorchTrainer>> MakeWithoutServers(
    std::map<std::string, std::string> options) {
  const ModelSetup setup{
      .options = ModelOptions(std::move(options)), .shape = kShape, .servers = false};
  return TorchTrainer::Make([](ModelSetup& s) { return new Small(s); }, setup, "test");
}

// Tables become dense weights, as many rows as the user allows, and train as such.
TEST(TorchTrainerTest, WithoutServersTablesAreDenseWeights) {
  auto trainer = MakeWithoutServers({{"buckets", "50"}}).value();
  EXPECT_TRUE(trainer->signature().tables.empty());
  EXPECT_EQ(trainer->signature().dense_size, 50 * 3 + 8);
  EXPECT_EQ(trainer->InitialDense(5), trainer->InitialDense(5));
  LocalRun run(*trainer, {.optimizer = {.name = "sgd", .learning_rate = 0.5}, .id_columns = 2});
  const std::vector<float> start = run.dense();
  double loss = 0;
  for (int step = 0; step < 200; ++step) loss = run.Step(MakeBatch()).value();
  EXPECT_LT(loss, 0.1);
  // The batch has five ids: at most so many rows of three floats moved, beside the layer's eight.
  int64_t moved = 0;
  for (size_t i = 0; i < start.size(); ++i) moved += start[i] != run.dense()[i];
  EXPECT_LE(moved, 5 * 3 + 8);
  EXPECT_GT(moved, 3 * 3);
}

TEST(TorchTrainerTest, WithoutServersAnUnboundedTableIsRefused) {
  EXPECT_THAT(std::string(MakeWithoutServers({}).status().message()),
              HasSubstr("no server holds embedding t in this strategy: give the option buckets"));
}

// ---- the rest of the API -----------------------------------------------------------------------

// "label,x,a,b", its own columns, and its own optimizer.
class WithParser : public Small {
 public:
  using Small::Small;
  std::optional<BatchShape> Columns() const override { return kShape; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override {
    if (record.empty()) return absl::InvalidArgumentError("an empty record");
    batch->labels.push_back(static_cast<float>(record[0] - '0'));
    batch->dense.push_back(0);
    batch->ids.insert(batch->ids.end(), {1, 2});
    ++batch->rows;
    return absl::OkStatus();
  }
  OptimizerSpec Optimizer(const OptimizerSpec& job) const override {
    return {.name = "sgd", .learning_rate = job.learning_rate / 2};
  }
};

TEST(TorchTrainerTest, AModelMayBringItsParserAndOptimizer) {
  auto trainer = MakeTrainer<WithParser>().value();
  ASSERT_NE(trainer->parser(), nullptr);
  EXPECT_EQ(trainer->parser()->shape().ids.size(), 2u);
  Batch batch;
  EXPECT_TRUE(trainer->parser()->Parse("1", &batch).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(trainer->parser()->Parse("", &batch)));
  EXPECT_EQ(batch.rows, 1);
  EXPECT_EQ(trainer->optimizer({.learning_rate = 1}).name, "sgd");
  EXPECT_EQ(MakeTrainer<Small>().value()->parser(), nullptr);
}

// The same model without Rubato around it: rows live in the module, plain libtorch trains it.
TEST(EmbeddingTest, AloneAModelTrainsInOneProcess) {
  ModelSetup setup{.shape = kShape};
  torch::manual_seed(1);
  const auto model = std::make_shared<Small>(setup);
  Batch batch = MakeBatch();
  ModelInput in;
  in.rows = kRows;
  in.labels = AsTensor(batch.labels, {kRows});
  in.dense = AsTensor(batch.dense, {kRows, 1});
  in.ids = torch::tensor(std::vector<int64_t>(batch.ids.begin(), batch.ids.end())).view({kRows, 2});
  torch::optim::SGD optimizer(model->parameters(), 0.5);
  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = model->Loss(model->Forward(in), in);
    loss.backward();
    optimizer.step();
    model->table_->UpdateAlone(0.5);
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_GT(first, 0.4);
  EXPECT_LT(last, 0.1);
}

// The second column as a bag: `copies` of the value in every row, or none in row `empty`.
Batch WithBags(int copies, int64_t empty = -1) {
  Batch batch = MakeBatch();
  const std::vector<uint64_t> ids = std::exchange(batch.ids, {});
  for (int64_t row = 0; row < kRows; ++row) {
    batch.ids.push_back(ids[static_cast<size_t>(2 * row)]);
    for (int i = 0; i < copies && row != empty; ++i) {
      batch.bag_ids.push_back(ids[static_cast<size_t>(2 * row + 1)]);
    }
    batch.bag_ends.push_back(batch.bag_ids.size());
  }
  return batch;
}

struct BagStep {
  double loss = 0;
  std::map<uint64_t, std::vector<float>> gradients;  // By id.
};

BagStep StepOf(const BatchShape& shape, const Batch& batch) {
  const ModelSetup setup{.shape = shape};
  const auto trainer =
      *TorchTrainer::Make([](ModelSetup& s) { return new Small(s); }, setup, "test");
  UniqueIds ids;
  Unique().Find(batch, static_cast<int64_t>(shape.ids.size()),
                trainer->signature().tables[0].fields, &ids);
  std::vector<float> rows;
  for (const uint64_t id : ids.ids) {
    Rng rng(id);
    for (int d = 0; d < 3; ++d) rows.push_back(static_cast<float>(rng.Uniform(-1, 1)));
  }
  const std::vector<float> dense = trainer->InitialDense(3);
  StepOutput out;
  EXPECT_TRUE(
      trainer->Step({.batch = &batch, .dense = dense, .tables = {{rows, ids.position}}}, &out)
          .ok());
  BagStep step = {.loss = out.loss};
  for (size_t i = 0; i < ids.ids.size(); ++i) {
    const auto at = out.table_gradients[0].begin() + static_cast<int64_t>(3 * i);
    step.gradients[ids.ids[i]].assign(at, at + 3);
  }
  return step;
}

BatchShape BagShapeOf(const char* combiner) {
  return {.dense = {"x"}, .ids = {"a"}, .bags = {{"b", combiner}}};
}

void ExpectSame(const BagStep& a, const BagStep& b) {
  EXPECT_NEAR(a.loss, b.loss, 1e-6);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [id, gradient] : a.gradients) {
    EXPECT_THAT(b.gradients.at(id), testing::Pointwise(testing::FloatNear(1e-6f), gradient)) << id;
  }
}

TEST(BagsTest, ABagOfOneIsAnOrdinaryCell) {
  const BagStep plain = StepOf(kShape, MakeBatch());
  for (const char* combiner : {"sum", "mean", "sqrtn"}) {
    ExpectSame(StepOf(BagShapeOf(combiner), WithBags(1)), plain);
  }
  ExpectSame(StepOf(BagShapeOf("mean"), WithBags(4)), plain);
  EXPECT_GT(std::abs(StepOf(BagShapeOf("sum"), WithBags(4)).loss - plain.loss), 1e-3);
  // sqrtn of four is twice the value, as is the sum of two.
  ExpectSame(StepOf(BagShapeOf("sqrtn"), WithBags(4)), StepOf(BagShapeOf("sum"), WithBags(2)));
}

TEST(BagsTest, AnEmptyBagIsZeros) {
  const BagStep step = StepOf(BagShapeOf("mean"), WithBags(2, /*empty=*/2));
  EXPECT_TRUE(std::isfinite(step.loss));
  EXPECT_NE(step.loss, StepOf(BagShapeOf("mean"), WithBags(2)).loss);
}

}  // namespace
}  // namespace rubato

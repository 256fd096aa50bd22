// Every model as TorchScript scores as the model does, for batches of any size; a model that cannot
// be traced is told so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

using Options = std::map<std::string, std::string>;
using ::testing::HasSubstr;

// A batch with the rows of its tables, as a worker or a frozen model brings them.
struct Input {
  Batch batch;
  std::vector<float> dense;
  std::vector<std::vector<float>> rows;
  std::vector<std::vector<uint32_t>> positions;

  StepInput Step() const {
    StepInput in = {.batch = &batch, .dense = dense};
    for (size_t t = 0; t < rows.size(); ++t) {
      in.tables.push_back({.rows = rows[t], .position = positions[t]});
    }
    return in;
  }
};

Input RandomInput(Trainer& trainer, const BatchShape& shape, int64_t rows, uint64_t seed) {
  Rng rng(seed);
  Input in;
  in.dense = trainer.InitialDense(7);
  in.batch.rows = rows;
  in.batch.labels.assign(static_cast<size_t>(rows), 0);
  for (size_t i = 0; i < static_cast<size_t>(rows) * shape.dense.size(); ++i) {
    in.batch.dense.push_back(static_cast<float>(rng.Uniform()));
  }
  in.batch.ids.assign(static_cast<size_t>(rows) * shape.ids.size(), 1);
  for (const TableSpec& table : trainer.signature().tables) {
    const size_t fields = table.fields.size();
    const size_t distinct = std::max<size_t>(1, 2 * fields);
    auto& values = in.rows.emplace_back();
    for (size_t i = 0; i < distinct * static_cast<size_t>(table.dim); ++i) {
      values.push_back(
          static_cast<float>(fields == 0 ? 0.5 + rng.Uniform() : 0.4 * rng.Uniform() - 0.2));
    }
    auto& position = in.positions.emplace_back();
    for (size_t i = 0; i < static_cast<size_t>(rows) * fields; ++i) {
      position.push_back(static_cast<uint32_t>(rng.Below(distinct)));
    }
  }
  return in;
}

const BatchShape kShape = {.dense = {"a", "b"}, .ids = {"x", "y", "z"}};

std::unique_ptr<TorchTrainer> Make(ModelFactory factory, const BatchShape& shape, Options options) {
  const ModelSetup setup{.options = ModelOptions(std::move(options)), .shape = shape};
  auto trainer = TorchTrainer::Make(std::move(factory), setup, "test");
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return trainer.ok() ? *std::move(trainer) : nullptr;
}

struct ScriptCase {
  std::string model;
  Options options;
};

class ModelScriptTest : public testing::TestWithParam<ScriptCase> {};

TEST_P(ModelScriptTest, ScoresAsTheModelDoes) {
  BatchShape shape = kShape;
  if (GetParam().model == "mnist_cnn") {
    shape = {.dense = std::vector<std::string>(784, "p"), .dense_shape = {28, 28}};
  }
  const auto model = Make(FindZooModel(GetParam().model).value(), shape, GetParam().options);
  const auto script = Make(FindZooModel(GetParam().model).value(), shape, GetParam().options);
  const std::string path = testing::TempDir() + "/" + GetParam().model + ".pt";
  const absl::Status saved = model->SaveScript(model->InitialDense(7), path);
  ASSERT_TRUE(saved.ok()) << saved;
  ASSERT_TRUE(script->UseScript(path).ok());
  std::filesystem::remove(path);
  for (const int64_t rows : {1, 2, 64}) {
    const Input in = RandomInput(*model, shape, rows, /*seed=*/static_cast<uint64_t>(rows));
    std::vector<float> expected, found;
    ASSERT_TRUE(model->Predict(in.Step(), &expected).ok());
    // Weights are in the script: those handed in are not looked at.
    Input other = in;
    std::fill(other.dense.begin(), other.dense.end(), 0.0f);
    const absl::Status predicted = script->Predict(other.Step(), &found);
    ASSERT_TRUE(predicted.ok()) << predicted;
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
  }
}

const Options kRich = {{"dim", "4"},
                       {"use_dense", "true"},
                       {"hidden", "8,4"},
                       {"dropout", "0.2"},
                       {"batch_norm", "true"}};
INSTANTIATE_TEST_SUITE_P(Zoo, ModelScriptTest,
                         testing::Values(ScriptCase{"logistic", {{"use_dense", "true"}}},
                                         ScriptCase{"fm", {{"dim", "4"}, {"use_dense", "true"}}},
                                         ScriptCase{"wide_deep", kRich},
                                         ScriptCase{"deepfm", kRich}, ScriptCase{"deepfm", {}},
                                         ScriptCase{"dcn", kRich}, ScriptCase{"dcnv2", kRich},
                                         ScriptCase{"xdeepfm", kRich}, ScriptCase{"autoint", kRich},
                                         ScriptCase{"finalmlp", kRich},
                                         ScriptCase{"mnist_cnn", {}}));

// Reads a size in C++, and so is right for the traced batch alone.
class BySize : public TorchModel {
 public:
  explicit BySize(ModelSetup&) { weight_ = register_parameter("weight", torch::ones({2})); }
  torch::Tensor Forward(const ModelInput& in) override {
    return in.dense.mv(weight_) + static_cast<double>(in.dense.size(0));
  }

 private:
  torch::Tensor weight_;
};

TEST(ModelScriptTest, WhatATraceLosesIsNotWritten) {
  const auto model = Make([](ModelSetup& setup) { return new BySize(setup); }, kShape, {});
  const std::string path = testing::TempDir() + "/by_size.pt";
  const absl::Status saved = model->SaveScript(model->InitialDense(7), path);
  EXPECT_TRUE(absl::IsFailedPrecondition(saved)) << saved;
  EXPECT_THAT(std::string(saved.message()), HasSubstr("cannot be traced: for a batch of 7 rows"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace rubato

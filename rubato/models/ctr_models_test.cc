// Every model of clicks against the same computed in plain loops from its paper's formulas, and
// against data that only pairs of ids explain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/models/zoo.h"
#include "rubato/worker/evaluation.h"
#include "rubato/worker/local_run.h"

namespace rubato {
namespace {

using Vector = std::vector<double>;
using Options = std::map<std::string, std::string>;
using ::testing::HasSubstr;

constexpr int64_t kFields = 3, kDim = 4, kNumbers = 2;
constexpr int64_t kWidth = kFields * kDim + kNumbers;

std::unique_ptr<TorchTrainer> Make(const std::string& name, const BatchShape& shape,
                                   Options options) {
  const ModelSetup setup{.options = ModelOptions(std::move(options)),
                         .shape = shape,
                         .optimizer = {.name = "adam", .learning_rate = 0.25}};
  auto trainer = TorchTrainer::Make(FindZooModel(name).value(), setup, "test");
  EXPECT_TRUE(trainer.ok()) << name << ": " << trainer.status();
  return trainer.ok() ? std::move(*trainer) : nullptr;
}

// ---- plain loops -------------------------------------------------------------------------------

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector Join(Vector a, const Vector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Vector Relu(Vector x) {
  for (double& v : x) v = std::max(v, 0.0);
  return x;
}

// One row of a batch, and the model's weights by name.
struct Plain {
  const ModelSignature& signature;
  const std::vector<float>& dense;
  double wide = 0;                // The ids' weights, summed.
  std::vector<Vector> vectors{};  // Of the fields.
  Vector x{};                     // The vectors, then the numbers.

  const DenseParameter& Find(const std::string& name) const {
    for (const DenseParameter& parameter : signature.dense) {
      if (parameter.name == name) return parameter;
    }
    ADD_FAILURE() << "no parameter " << name;
    return signature.dense[0];
  }
  Vector Get(const std::string& name) const {
    const DenseParameter& p = Find(name);
    return {dense.begin() + p.offset, dense.begin() + p.offset + p.size};
  }
  // Matrix times vector, plus the bias if the layer has one.
  Vector Linear(const std::string& name, const Vector& in, bool bias = true) const {
    const Vector w = Get(name + ".weight");
    Vector out = bias ? Get(name + ".bias") : Vector(w.size() / in.size());
    for (size_t o = 0; o < out.size(); ++o) {
      for (size_t i = 0; i < in.size(); ++i) out[o] += w[o * in.size() + i] * in[i];
    }
    return out;
  }
  // With one hidden layer.
  Vector Hidden(const std::string& name, const Vector& in) const {
    return Relu(Linear(name + ".linears.0", in));
  }
  double Mlp() const { return Linear("mlp.out", Hidden("mlp", x))[0]; }
  double Pairs() const {
    double sum = 0;
    for (size_t i = 0; i < vectors.size(); ++i) {
      for (size_t j = i + 1; j < vectors.size(); ++j) sum += Dot(vectors[i], vectors[j]);
    }
    return sum;
  }
};

double PlainFm(const Plain& p) {
  const Vector numbers(p.x.end() - kNumbers, p.x.end());
  return p.wide + p.Pairs() + p.Get("bias")[0] + Dot(p.Get("dense"), numbers);
}
double PlainWideDeep(const Plain& p) { return p.wide + p.Mlp(); }
double PlainDeepFm(const Plain& p) { return p.wide + p.Pairs() + p.Mlp(); }

double PlainDcn(const Plain& p) {
  Vector x = p.x;
  for (int layer = 0; layer < 2; ++layer) {
    const double crossed = p.Linear(absl::StrCat("crossings.", layer), x, false)[0];
    const Vector bias = p.Get(absl::StrCat("bias", layer));
    for (size_t i = 0; i < x.size(); ++i) x[i] += p.x[i] * crossed + bias[i];
  }
  return p.wide + p.Linear("out", Join(x, p.Hidden("mlp", p.x)))[0];
}

double PlainDcnV2(const Plain& p) {
  Vector x = p.x;
  for (int layer = 0; layer < 2; ++layer) {
    const Vector crossed = p.Linear(absl::StrCat("crossings.", layer, ".0"), x);
    for (size_t i = 0; i < x.size(); ++i) x[i] += p.x[i] * crossed[i];
  }
  return p.wide + p.Linear("out", Join(x, p.Hidden("mlp", p.x)))[0];
}

double PlainXDeepFm(const Plain& p) {
  std::vector<Vector> maps = p.vectors;
  Vector sums;
  for (int layer = 0; layer < 2; ++layer) {
    const Vector w = p.Get(absl::StrCat("layers.", layer, ".weight"));
    const size_t pairs = maps.size() * kFields;
    std::vector<Vector> next(w.size() / pairs, Vector(kDim));
    for (size_t h = 0; h < next.size(); ++h) {
      for (size_t i = 0; i < maps.size(); ++i) {
        for (size_t j = 0; j < kFields; ++j) {
          for (size_t d = 0; d < kDim; ++d) {
            next[h][d] += w[h * pairs + i * kFields + j] * maps[i][d] * p.vectors[j][d];
          }
        }
      }
      double sum = 0;
      for (const double v : next[h]) sum += v;
      sums.push_back(sum);
    }
    maps = next;
  }
  return p.wide + p.Mlp() + p.Linear("out", sums, false)[0];
}

double PlainAutoInt(const Plain& p) {
  constexpr size_t kOut = 6, kHeads = 2, kPart = kOut / kHeads;
  std::vector<Vector> x = p.vectors;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = absl::StrCat("layers.", layer);
    std::vector<Vector> qkv, next;
    for (const Vector& field : x) {
      qkv.push_back(p.Linear(name + ".qkv", field, false));
      next.push_back(p.Linear(name + ".residual", field, false));
    }
    for (size_t head = 0; head < kHeads; ++head) {
      const auto part = [&](size_t field, size_t which) {
        const auto at = qkv[field].begin() + static_cast<int64_t>(which * kOut + head * kPart);
        return Vector(at, at + kPart);
      };
      for (size_t i = 0; i < kFields; ++i) {
        Vector chance;
        double sum = 0;
        for (size_t j = 0; j < kFields; ++j) {
          chance.push_back(std::exp(Dot(part(i, 0), part(j, 1)) / std::sqrt(double{kPart})));
          sum += chance[j];
        }
        for (size_t j = 0; j < kFields; ++j) {
          for (size_t d = 0; d < kPart; ++d) {
            next[i][head * kPart + d] += chance[j] / sum * part(j, 2)[d];
          }
        }
      }
    }
    x.clear();
    for (const Vector& field : next) x.push_back(Relu(field));
  }
  Vector all;
  for (const Vector& field : x) all = Join(all, field);
  return p.wide + p.Mlp() + p.Linear("out", all)[0];
}

double PlainFinalMlp(const Plain& p) {
  const Vector gates = p.Get("gates"), product = p.Get("product");
  Vector in[2], out[2];
  for (size_t s = 0; s < 2; ++s) {
    for (size_t i = 0; i < kWidth; ++i) {
      in[s].push_back(p.x[i] * 2 / (1 + std::exp(-gates[s * kWidth + i])));
    }
    out[s] = p.Hidden(s == 0 ? "mlp1" : "mlp2", in[s]);
  }
  const size_t part = out[0].size() / 2;
  double logit = p.wide + p.Linear("linear", Join(out[0], out[1]))[0];
  for (size_t h = 0; h < 2; ++h) {
    for (size_t i = 0; i < part; ++i) {
      for (size_t j = 0; j < part; ++j) {
        logit += out[0][h * part + i] * product[(h * part + i) * part + j] * out[1][h * part + j];
      }
    }
  }
  return logit;
}

struct ModelCase {
  std::string name;
  Options options;
  double (*plain)(const Plain&);
};

class CtrModelTest : public testing::TestWithParam<ModelCase> {};

TEST_P(CtrModelTest, ComputesWhatItsFormulaSays) {
  const auto& [name, own, plain] = GetParam();
  Options options = own;
  options.insert({{"dim", absl::StrCat(kDim)}, {"use_dense", "true"}});
  const BatchShape shape{.dense = {"x", "y"}, .ids = {"a", "b", "c"}};
  const auto trainer = Make(name, shape, options);
  ASSERT_NE(trainer, nullptr);
  constexpr int64_t kRows = 5;
  Rng rng(17);
  std::vector<float> dense(static_cast<size_t>(trainer->signature().dense_size));
  for (float& w : dense) w = static_cast<float>(rng.Uniform(-0.5, 0.5));
  Batch batch;
  batch.rows = kRows;
  std::vector<uint32_t> position;
  std::vector<float> rows;  // Seven of them, shared by cells as it comes.
  for (int64_t i = 0; i < 7 * (1 + kDim); ++i) {
    rows.push_back(static_cast<float>(rng.Uniform(-1, 1)));
  }
  for (int64_t i = 0; i < kRows; ++i) {
    batch.labels.push_back(static_cast<float>(i % 2));
    for (int64_t n = 0; n < kNumbers; ++n) {
      batch.dense.push_back(static_cast<float>(rng.Uniform(-1, 1)));
    }
    for (int64_t f = 0; f < kFields; ++f) {
      position.push_back(static_cast<uint32_t>(rng.Below(7)));
      batch.ids.push_back(position.back());
    }
  }
  std::vector<float> scores;
  ASSERT_TRUE(
      trainer->Predict({.batch = &batch, .dense = dense, .tables = {{rows, position}}}, &scores)
          .ok());
  for (size_t i = 0; i < kRows; ++i) {
    Plain p{.signature = trainer->signature(), .dense = dense};
    for (size_t f = 0; f < kFields; ++f) {
      const auto row = rows.begin() + position[i * kFields + f] * (1 + kDim);
      p.wide += *row;
      p.vectors.emplace_back(row + 1, row + 1 + kDim);
      p.x = Join(p.x, p.vectors.back());
    }
    p.x = Join(p.x, {batch.dense[2 * i], batch.dense[2 * i + 1]});
    EXPECT_NEAR(scores[i], 1 / (1 + std::exp(-plain(p))), 1e-5) << name << ", row " << i;
  }
}

// ---- learning ----------------------------------------------------------------------------------

// The label hangs on both ids together and on neither alone.
Batch Planted(Rng& rng) {
  Batch batch;
  batch.rows = 128;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const uint64_t a = rng.Below(20), b = rng.Below(20);
    batch.ids.push_back(a);
    batch.ids.push_back(uint64_t{1} << 56 | b);
    batch.labels.push_back((a % 2) == (b % 2) ? 1 : 0);
  }
  return batch;
}

double TrainedAuc(Trainer& trainer, int steps) {
  LocalRun run(trainer, {.optimizer = {.name = "adam", .learning_rate = 0.01}, .id_columns = 2});
  Rng rng(11);
  for (int step = 0; step < steps; ++step) {
    const absl::StatusOr<double> loss = run.Step(Planted(rng));
    EXPECT_TRUE(loss.ok()) << loss.status();
  }
  Evaluation evaluation(1);
  const Batch batch = Planted(rng);
  evaluation.Add(batch, run.Predict(batch).value(), {});
  return evaluation.sums().scores.Auc();
}

const BatchShape kTwoIds{.ids = {"a", "b"}};
const Options kSmall = {{"dim", "4"}, {"hidden", "16"}, {"init", "0.1"}};

TEST_P(CtrModelTest, LearnsWhatPairsOfIdsMean) {
  Options options = kSmall;
  if (GetParam().name == "fm") options.erase("hidden");
  EXPECT_GT(TrainedAuc(*Make(GetParam().name, kTwoIds, options), 300), 0.97);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, CtrModelTest,
    testing::Values(ModelCase{"fm", {}, PlainFm},
                    ModelCase{"wide_deep", {{"hidden", "5"}}, PlainWideDeep},
                    ModelCase{"deepfm", {{"hidden", "5"}}, PlainDeepFm},
                    ModelCase{"dcn", {{"hidden", "5"}, {"layers", "2"}}, PlainDcn},
                    ModelCase{"dcnv2", {{"hidden", "5"}, {"layers", "2"}}, PlainDcnV2},
                    ModelCase{"xdeepfm", {{"hidden", "5"}, {"maps", "3,2"}}, PlainXDeepFm},
                    ModelCase{"autoint", {{"hidden", "5"}, {"attention", "6"}}, PlainAutoInt},
                    ModelCase{"finalmlp", {{"hidden", "6"}}, PlainFinalMlp}),
    [](const auto& info) { return info.param.name; });

// The same two ids in one bag, as libsvm brings them: what they mean together is found there too,
// by models that multiply pairs.
TEST(BagOfEntriesTest, PairsWithinItAreLearned) {
  const BatchShape shape{.bags = {{"entries", "sum"}}};
  for (const std::string name : {"fm", "deepfm"}) {
    Options options = kSmall;
    if (name == "fm") options.erase("hidden");
    const auto trainer = Make(name, shape, options);
    LocalRun run(*trainer, {.optimizer = {.name = "adam", .learning_rate = 0.01}, .id_columns = 0});
    Rng rng(11);
    const auto planted = [&] {
      Batch batch = Planted(rng);
      batch.bag_ids = std::exchange(batch.ids, {});
      for (int64_t row = 0; row < batch.rows; ++row) {
        batch.bag_ends.push_back(static_cast<uint32_t>(2 * row + 2));
      }
      return batch;
    };
    for (int step = 0; step < 300; ++step) ASSERT_TRUE(run.Step(planted()).ok());
    Evaluation evaluation(1);
    const Batch batch = planted();
    evaluation.Add(batch, run.Predict(batch).value(), {});
    EXPECT_GT(evaluation.sums().scores.Auc(), 0.97) << name;
  }
}

// ---- options -----------------------------------------------------------------------------------

TEST(CtrOptionsTest, BatchNormAndDropoutLearnToo) {
  Options options = kSmall;
  options["batch_norm"] = "true";
  options["dropout"] = "0.1";
  const auto trainer = Make("wide_deep", kTwoIds, options);
  EXPECT_EQ(trainer->signature().tables.size(), 2u);  // The ids' and the statistics'.
  EXPECT_GT(TrainedAuc(*trainer, 300), 0.97);
}

TEST(CtrOptionsTest, L2IsTheTablesAlone) {
  Options options = kSmall;
  options["l2"] = "0.5";
  const auto trainer = Make("deepfm", kTwoIds, options);
  const TableSpec& table = trainer->signature().tables[0];
  ASSERT_TRUE(table.optimizer.has_value());
  EXPECT_EQ(table.optimizer->name, "adam");  // The job's in all else.
  EXPECT_EQ(table.optimizer->learning_rate, 0.25);
  EXPECT_EQ(table.optimizer->weight_decay, 0.5);
  EXPECT_EQ(trainer->optimizer({}).weight_decay, 0);
  // Ids that no batch has shrink as well: the servers let them catch up.
  LocalRun run(*trainer, {.id_columns = 2});
  Rng rng(2);
  ASSERT_TRUE(run.Step(Planted(rng)).ok());
}

TEST(CtrOptionsTest, WeightsMayBeMovedByFtrlAndVectorsNot) {
  Options options = kSmall;
  options["wide_ftrl"] = "0.3";
  const auto trainer = Make("wide_deep", kTwoIds, options);
  const std::vector<ColumnGroup>& groups = trainer->signature().tables[0].groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].dim, 1);
  EXPECT_EQ(groups[0].optimizer->name, "ftrl");
  EXPECT_EQ(groups[1].optimizer->name, "adam");
  EXPECT_GT(TrainedAuc(*trainer, 300), 0.97);
}

std::string Refusal(const std::string& name, Options options, bool servers = true,
                    const BatchShape& shape = kTwoIds) {
  const ModelSetup setup{
      .options = ModelOptions(std::move(options)), .shape = shape, .servers = servers};
  return std::string(
      TorchTrainer::Make(FindZooModel(name).value(), setup, "test").status().message());
}

TEST(CtrOptionsTest, SayWhatIsWrong) {
  EXPECT_THAT(Refusal("autoint", {{"heads", "3"}}), HasSubstr("does not divide attention, 16"));
  EXPECT_THAT(Refusal("finalmlp", {{"hidden", "7"}}), HasSubstr("does not divide the last"));
  EXPECT_THAT(Refusal("dcnv2", {{"dropout", "1"}}), HasSubstr("from 0 to below 1"));
  EXPECT_THAT(Refusal("fm", {{"l2", "-1"}}), HasSubstr("0 or above"));
  EXPECT_THAT(Refusal("fm", {{"initializer", "gauss"}}),
              HasSubstr("model_options.initializer: table fm: unknown initializer 'gauss'; there "
                        "are zeros, constant, uniform, normal"));
  EXPECT_THAT(Refusal("wide_deep", {{"batch_norm", "true"}, {"buckets", "9"}}, false),
              HasSubstr("need servers"));
}

// What would do nothing without servers is refused, not forgotten.
TEST(CtrOptionsTest, SayWhatNeedsServers) {
  EXPECT_EQ(Refusal("deepfm", {{"buckets", "9"}}, false), "");
  EXPECT_THAT(Refusal("deepfm", {{"l2", "0.001"}, {"buckets", "9"}}, false),
              HasSubstr("model_options.l2: it is the servers that pull rows to zero; with "
                        "strategy: allreduce use optimizer.weight_decay"));
  EXPECT_THAT(Refusal("wide_deep", {{"wide_ftrl", "0.1"}, {"buckets", "9"}}, false),
              HasSubstr("model_options.wide_ftrl: without servers"));
  const BatchShape with_bag{.ids = {"a"}, .bags = {{"genres", "mean"}}};
  EXPECT_EQ(Refusal("logistic", {}, true, with_bag), "");
  EXPECT_THAT(Refusal("logistic", {{"buckets", "9"}}, false, with_bag),
              HasSubstr("feature 'genres' has several values a row"));
}

}  // namespace
}  // namespace rubato

#include "rubato/params/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "rubato/base/rng.h"
#include "rubato/params/optimizer_builds.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// Settings under which every term of every rule matters.
OptimizerSpec SpecOf(const std::string& name) {
  OptimizerSpec spec;
  spec.name = name;
  spec.learning_rate = 0.05;
  spec.initial_accumulator = 0.1;
  if (name == "ftrl") {
    spec.l1 = 0.02;
    spec.l2 = 0.3;
    spec.beta = 1;
  } else {
    spec.weight_decay = 0.1;
  }
  return spec;
}

// What the textbook says, in double precision: one weight with its state, moved by `gradient` in
// its `t`th update. `mean_square` is that of its row, for the rule that wants it.
struct Reference {
  double weight = 0;
  std::vector<double> s = {0, 0, 0};

  void Step(const OptimizerSpec& spec, double gradient, int t, double mean_square) {
    const double rate = spec.learning_rate, epsilon = spec.epsilon;
    const double g = gradient + (spec.name == "adamw" ? 0 : spec.weight_decay * weight);
    const auto move = [&](double delta) { weight -= rate * delta; };
    if (spec.name == "sgd") {
      move(g);
    } else if (spec.name == "momentum" || spec.name == "nesterov") {
      s[0] = spec.momentum * s[0] + g;
      move(spec.name == "momentum" ? s[0] : g + spec.momentum * s[0]);
    } else if (spec.name == "adagrad" || spec.name == "rowwise_adagrad") {
      s[0] += spec.name == "adagrad" ? g * g : mean_square;
      move(g / (std::sqrt(s[0]) + epsilon));
    } else if (spec.name == "rmsprop") {
      s[0] = spec.alpha * s[0] + (1 - spec.alpha) * g * g;
      move(g / (std::sqrt(s[0]) + epsilon));
    } else if (spec.name == "ftrl") {
      const double root_before = std::sqrt(s[1]);
      s[1] += g * g;
      s[0] += g - (std::sqrt(s[1]) - root_before) / rate * weight;
      const double strength = (spec.beta + std::sqrt(s[1])) / rate + spec.l2;
      const double sign = s[0] < 0 ? -1 : 1;
      weight = std::abs(s[0]) <= spec.l1 ? 0 : (sign * spec.l1 - s[0]) / strength;
    } else {
      if (spec.name == "adamw") weight *= 1 - rate * spec.weight_decay;
      s[0] = spec.beta1 * s[0] + (1 - spec.beta1) * g;
      s[1] = spec.beta2 * s[1] + (1 - spec.beta2) * g * g;
      s[2] = std::max(s[2], s[1]);
      const double square = spec.name == "amsgrad" ? s[2] : s[1];
      move(s[0] / (1 - std::pow(spec.beta1, t)) /
           (std::sqrt(square / (1 - std::pow(spec.beta2, t))) + epsilon));
    }
  }
};

class OptimizerTest : public testing::TestWithParam<std::string> {
 protected:
  // A row's weights and state as the reference keeps them.
  std::vector<Reference> ReferenceOf(const std::vector<float>& row, size_t dim) {
    const size_t slots = optimizer_.row_state_floats(1000) / 1000;
    std::vector<Reference> copy(dim);
    for (size_t i = 0; i < dim; ++i) {
      copy[i].weight = row[i];
      for (size_t k = 0; k < slots; ++k) copy[i].s[k] = row[(1 + k) * dim + i];
      if (GetParam() == "rowwise_adagrad") copy[i].s[0] = row[dim];
    }
    return copy;
  }
  double MeanSquare(const std::vector<Reference>& row, const std::vector<float>& gradient) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      sum += std::pow(gradient[i] + spec_.weight_decay * row[i].weight, 2);
    }
    return sum / static_cast<double>(row.size());
  }

  OptimizerSpec spec_ = [] {
    OptimizerSpec spec = SpecOf(GetParam());
    spec.epsilon = 1e-8;
    return spec;
  }();
  Optimizer optimizer_ = *Optimizer::Make(spec_);
};

// One step from any state stays within 1e-6 of the reference, for rows of every length.
TEST_P(OptimizerTest, EachStepAgreesWithTheReference) {
  Rng rng(11);
  for (size_t dim = 1; dim <= 70; ++dim) {
    std::vector<float> row(dim + optimizer_.row_state_floats(dim)), gradient(dim);
    for (size_t i = 0; i < dim; ++i) row[i] = static_cast<float>(rng.Normal());
    const RowPart whole = RowPart::Whole(dim);
    optimizer_.StartRow(row.data(), whole, 1);
    for (uint32_t t = 1; t <= 6; ++t) {
      for (float& g : gradient) {
        g = static_cast<float>(rng.Normal() * std::pow(10, rng.Uniform(-4, 1)));
      }
      std::vector<Reference> expected = ReferenceOf(row, dim);
      const std::vector<Reference> before = expected;
      const double mean_square = MeanSquare(expected, gradient);
      optimizer_.UpdateRows({{row.data(), gradient.data()}}, whole,
                            optimizer_.At({.number = t, .learning_rate = spec_.learning_rate}));
      for (size_t i = 0; i < dim; ++i) {
        expected[i].Step(spec_, gradient[i], static_cast<int>(t), mean_square);
        const double size = std::max(std::abs(before[i].weight), std::abs(expected[i].weight));
        ASSERT_NEAR(row[i], expected[i].weight, 1e-6 * std::max(size, 1e-3)) << dim << " " << t;
      }
    }
  }
}

// The dense vector follows the same rule, its steps counted by the caller.
TEST_P(OptimizerTest, DenseAndSparseAreTheSameRule) {
  if (GetParam() == "rowwise_adagrad") GTEST_SKIP() << "moves dense weights by adagrad";
  constexpr size_t kSize = 1000;
  std::vector<float> row(kSize + optimizer_.row_state_floats(kSize), 0.5f);
  std::vector<float> dense(kSize, 0.5f), state(optimizer_.dense_state_floats(kSize));
  const RowPart whole = RowPart::Whole(kSize);
  optimizer_.StartRow(row.data(), whole, 1);
  optimizer_.StartDense(dense, absl::MakeSpan(state));
  std::vector<float> gradient(kSize);
  for (uint32_t t = 1; t <= 3; ++t) {
    for (size_t i = 0; i < kSize; ++i) gradient[i] = 0.001f * static_cast<float>(i * t) - 0.3f;
    const OptimizerStep step = {.number = t, .learning_rate = 0.1 / t};
    optimizer_.UpdateRows({{row.data(), gradient.data()}}, whole, optimizer_.At(step));
    optimizer_.UpdateDense(absl::MakeSpan(dense), absl::MakeSpan(state), gradient, step);
  }
  row.resize(kSize);
  EXPECT_EQ(row, dense);
}

// The three builds of the loops give the same bits, so a job may move between machines.
TEST_P(OptimizerTest, InstructionSetsRoundAlike) {
  const std::vector<const OptimizerKernels*> builds = OptimizerBuilds();
  const OptimizerConstants constants = optimizer_.At({.number = 1, .learning_rate = 0.05});
  for (const size_t dim : {1, 7, 8, 16, 33}) {
    std::vector<std::vector<float>> results;
    for (const OptimizerKernels* build : builds) {
      const OptimizerRule* rule =
          std::find_if(build->rules, build->rules + build->rules_count,
                       [](const OptimizerRule& candidate) { return candidate.name == GetParam(); });
      Rng rng(dim);
      std::vector<float> row(dim + optimizer_.row_state_floats(dim), 0.25f), gradient(dim);
      const OptimizerRun run = {row.data(), row.data() + dim, gradient.data()};
      if (rule->start != nullptr) rule->start(run, dim, constants);
      for (int step = 0; step < 20; ++step) {
        for (float& g : gradient) g = static_cast<float>(rng.Normal());
        const BiasCorrection correction = {1.5f, 2.5f};
        rule->update(&run, &correction, 1, dim, constants);
        if (rule->meanwhile == nullptr) continue;
        const MissedSteps missed[] = {{0, 0.999f, 0.999f, 1.5f, 2.5f}, {3, 0.99f, 0.995f, 1, 2}};
        rule->meanwhile(run.weights, run.state, run.state, dim, missed, 2, constants);
      }
      results.push_back(row);
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]) << dim;
  }
}

// staleness: scale. What comes late moves a weight less, as the reference has it; for FTRL, whose
// rate is that of all updates at once, as a smaller gradient.
TEST_P(OptimizerTest, AStaleStepAgreesWithTheReference) {
  Rng rng(12);
  const size_t dim = 9;
  const RowPart whole = RowPart::Whole(dim);
  std::vector<float> row(dim + optimizer_.row_state_floats(dim)), gradient(dim);
  for (size_t i = 0; i < dim; ++i) row[i] = static_cast<float>(rng.Normal());
  optimizer_.StartRow(row.data(), whole, 1);
  const bool ftrl = GetParam() == "ftrl";
  for (int t = 1; t <= 40; ++t) {
    const double freshness = 1.0 / (1 + t % 5);
    std::vector<Reference> expected = ReferenceOf(row, dim);
    for (float& g : gradient) g = static_cast<float>(rng.Normal());
    const double mean_square = MeanSquare(expected, gradient);
    OptimizerSpec spec = spec_;
    if (!ftrl) spec.learning_rate *= freshness;
    for (size_t i = 0; i < dim; ++i) {
      expected[i].Step(spec, ftrl ? gradient[i] * freshness : gradient[i], t, mean_square);
    }
    const RowUpdate update = {row.data(), gradient.data()};
    optimizer_.UpdateRows({&update, 1}, whole,
                          optimizer_.At({.number = static_cast<uint32_t>(t),
                                         .learning_rate = spec_.learning_rate,
                                         .freshness = freshness}));
    for (size_t i = 0; i < dim; ++i) {
      EXPECT_NEAR(row[i], expected[i].weight, 1e-6 * std::max(1.0, std::abs(expected[i].weight)))
          << t << " " << i;
    }
  }
}

// A weight that starts as 0.7, after a push with `gradients`.
float AfterFtrl(const OptimizerSpec& spec, const std::vector<float>& gradients,
                OptimizerStep step) {
  const Optimizer ftrl = *Optimizer::Make(spec);
  std::vector<float> weight = {0.7f}, state(ftrl.dense_state_floats(1));
  ftrl.StartDense(weight, absl::MakeSpan(state));
  for (const float& gradient : gradients) {
    ftrl.UpdateDense(absl::MakeSpan(weight), absl::MakeSpan(state), {&gradient, 1}, step);
    ++step.number;
  }
  return weight[0];
}

// A gradient of nothing leaves a weight where it is, however stale, and after the rate was lowered.
TEST(FtrlTest, NoRateScalesWhatWasLearnt) {
  const OptimizerSpec spec = SpecOf("ftrl");
  EXPECT_NEAR(AfterFtrl(spec, {0}, {1, 0.05, /*freshness=*/0.1}), 0.7f, 1e-6);
  EXPECT_NEAR(AfterFtrl(spec, {0}, {1, /*learning_rate=*/0.005}), 0.7f, 1e-6);
  const float full = AfterFtrl(spec, {1}, {1, 0.05}), low = AfterFtrl(spec, {1}, {1, 0.005});
  EXPECT_LT(full, low);
  EXPECT_LT(low, 0.7f);
}

// Without beta, l2 and initial_accumulator nothing yet says how strongly a weight is held.
TEST(FtrlTest, AWeightWithoutAGradientStaysByDefaultsToo) {
  const OptimizerSpec spec = {.name = "ftrl", .learning_rate = 0.05};
  EXPECT_EQ(AfterFtrl(spec, {0, 0}, {1, 0.05}), 0.7f);
  EXPECT_NEAR(AfterFtrl(spec, {0, 3}, {1, 0.05}), 0.65f, 1e-6);
  OptimizerSpec sparse = spec;
  sparse.l1 = 0.01;
  EXPECT_EQ(AfterFtrl(sparse, {0}, {1, 0.05}), 0.7f);
}

INSTANTIATE_TEST_SUITE_P(Names, OptimizerTest, testing::ValuesIn(OptimizerNames()));

TEST(OptimizerTableTest, TheJobKnowsTheSameNames) {
  for (const OptimizerKernels* build :
       {&kKernelsPlain, &kKernelsAvx2, &kKernelsAvx512, &kKernelsAvx512Roots}) {
    std::set<std::string> names;
    for (size_t i = 0; i < build->rules_count; ++i) names.insert(build->rules[i].name);
    EXPECT_EQ(names, std::set<std::string>(OptimizerNames().begin(), OptimizerNames().end()));
  }
}

// ---- rows that come rarely ----

// With SGD, a row that was away for any number of steps holds what it would hold had it been in
// every batch with a gradient of zero; and a reader sees that at any moment, whatever the rate was.
TEST(LazyTest, DecayCatchesUp) {
  OptimizerSpec spec{.name = "sgd", .learning_rate = 0.1, .weight_decay = 0.3};
  const auto lazy = Optimizer::Make(spec);
  ASSERT_TRUE(lazy.ok());
  Rng rng(4);
  constexpr size_t kDim = 5;
  std::vector<float> row(kDim + lazy->row_state_floats(kDim), 1.0f);
  const RowPart whole = RowPart::Whole(kDim);
  double always = 1;
  lazy->StartRow(row.data(), whole, 1);
  for (uint32_t step = 1; step <= 200; ++step) {
    const OptimizerConstants now = lazy->At({.number = step, .learning_rate = 0.1});
    std::vector<float> seen(row.begin(), row.begin() + kDim);
    lazy->Present(row.data(), seen.data(), whole, now);
    ASSERT_NEAR(seen[2], always, 2e-6 * always) << step;
    const double gradient = rng.Chance(0.1) ? rng.Uniform() - 0.8 : 0;
    always -= 0.1 * (gradient + 0.3 * always);
    if (gradient == 0) continue;
    const std::vector<float> gradients(kDim, static_cast<float>(gradient));
    lazy->UpdateRows({{row.data(), gradients.data()}}, whole, now);
    ASSERT_EQ(lazy->StampOf(row.data(), whole), step);
  }
}

// Rules that divide by a root of squares: what a row loses while it is away is what it would lose
// in batches without a gradient whose means rest, as long as that is little; and however long it is
// away, a weight never passes zero. Plain decay would be too weak by the root.
TEST(LazyTest, DecayCatchesUpByTheRoot) {
  for (const std::string name : {"adagrad", "rowwise_adagrad", "adam", "amsgrad", "rmsprop"}) {
    SCOPED_TRACE(name);
    constexpr double kRate = 0.001, kDecay = 0.01;
    const auto lazy = Optimizer::Make({.name = name,
                                       .learning_rate = kRate,
                                       .initial_accumulator = 1e-6,
                                       .weight_decay = kDecay});
    ASSERT_TRUE(lazy.ok()) << lazy.status();
    std::vector<float> row(2 + lazy->row_state_floats(2), 0.5f);
    const RowPart whole = RowPart::Whole(2);
    lazy->StartRow(row.data(), whole, 1);
    const std::vector<float> gradient = {0.02f, 0.02f};
    lazy->UpdateRows({{row.data(), gradient.data()}}, whole,
                     lazy->At({.number = 1, .learning_rate = kRate}));
    const double weight = row[0], g = 0.02 + kDecay * 0.5;
    const bool is_adam = name == "adam" || name == "amsgrad";
    double root = is_adam ? g : name == "rmsprop" ? std::sqrt(0.01) * g : std::sqrt(1e-6 + g * g);
    // A mean over all steps, were the row in every 51st batch.
    if (is_adam) root *= std::sqrt(0.001 / (1 - std::pow(0.999, 51)));
    const auto seen_at = [&](uint32_t step) {
      std::vector<float> seen(row.begin(), row.begin() + 2);
      lazy->Present(row.data(), seen.data(), whole,
                    lazy->At({.number = step, .learning_rate = kRate}));
      EXPECT_EQ(seen[0], seen[1]);
      return static_cast<double>(seen[0]);
    };
    EXPECT_EQ(seen_at(2), weight) << "nothing was missed";
    const double one_by_one = weight * std::pow(1 - kRate * kDecay / root, 50);
    EXPECT_NEAR(seen_at(52), one_by_one, 0.12 * (weight - one_by_one));
    EXPECT_LT(one_by_one, weight * 0.999) << "more than plain decay, 0.9995, would take";
    EXPECT_GT(seen_at(4'000'000), 0);
    EXPECT_LT(seen_at(4'000'000), 0.01 * weight);
    // An update begins with what a reader saw.
    const double before = seen_at(52);
    const std::vector<float> none = {0, 0};
    lazy->UpdateRows({{row.data(), none.data()}}, whole,
                     lazy->At({.number = 52, .learning_rate = kRate}));
    EXPECT_NEAR(row[0], before, 0.002);
  }
}

// The first update of an id seen late is as large as that of one seen early: the learning rate.
TEST(LazyTest, RareIdsGetFullSteps) {
  for (const std::string name : {"adam", "amsgrad", "adamw"}) {
    const auto adam = Optimizer::Make({.name = name, .learning_rate = 0.01});
    ASSERT_TRUE(adam.ok());
    for (const uint32_t seen_at : {1, 1000, 1000000}) {
      std::vector<float> row(3 + adam->row_state_floats(3));
      const RowPart whole = RowPart::Whole(3);
      adam->StartRow(row.data(), whole, seen_at);
      const std::vector<float> gradient = {1e-3f, 1, -50};
      adam->UpdateRows({{row.data(), gradient.data()}}, whole,
                       adam->At({.number = seen_at, .learning_rate = 0.01}));
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(std::abs(row[i]), 0.01, 1e-6);
    }
  }
}

// Corrections worked out ahead and those worked out on the spot are the same ones.
TEST(LazyTest, ManyUpdatesOfOneRow) {
  OptimizerSpec spec{.name = "adam", .learning_rate = 1e-4, .beta2 = 0.99999};
  const auto adam = Optimizer::Make(spec);
  ASSERT_TRUE(adam.ok());
  std::vector<float> row(1 + adam->row_state_floats(1)), weight(1),
      state(adam->dense_state_floats(1));
  const RowPart whole = RowPart::Whole(1);
  adam->StartRow(row.data(), whole, 1);
  adam->StartDense(weight, absl::MakeSpan(state));
  Rng rng(3);
  for (uint32_t step = 1; step < 40000; ++step) {
    const std::vector<float> gradient = {static_cast<float>(rng.Normal())};
    const OptimizerStep at = {.number = step, .learning_rate = 1e-4};
    adam->UpdateRows({{row.data(), gradient.data()}}, whole, adam->At(at));
    adam->UpdateDense(absl::MakeSpan(weight), absl::MakeSpan(state), gradient, at);
    ASSERT_EQ(row[0], weight[0]) << step;
  }
}

// With one gradient all the time a corrected step is the learning rate, also where corrections are
// worked out on the spot.
TEST(LazyTest, TheCorrectionGoesOnForLong) {
  const auto adam = Optimizer::Make({.name = "adam", .learning_rate = 1e-4, .beta2 = 0.99999});
  ASSERT_TRUE(adam.ok());
  std::vector<float> row(1 + adam->row_state_floats(1));
  const RowPart whole = RowPart::Whole(1);
  adam->StartRow(row.data(), whole, 1);
  const std::vector<float> gradient = {1};
  for (uint32_t step = 1; step < 33000; ++step) {
    const float before = row[0];
    adam->UpdateRows({{row.data(), gradient.data()}}, whole,
                     adam->At({.number = step, .learning_rate = 1e-4}));
    ASSERT_NEAR(before - row[0], 1e-4, 1e-6) << step;
  }
}

// AMSGrad divides by the root of the largest mean of squares there was, and so does what its rows
// have to catch up with.
TEST(LazyTest, AmsgradCatchesUpByItsLargestRoot) {
  const auto lost = [](const std::string& name) {
    const auto optimizer =
        *Optimizer::Make({.name = name, .learning_rate = 0.01, .beta2 = 0.9, .weight_decay = 0.01});
    std::vector<float> row(1 + optimizer.row_state_floats(1), 3);
    const RowPart whole = RowPart::Whole(1);
    optimizer.StartRow(row.data(), whole, 1);
    for (uint32_t step = 1; step <= 80; ++step) {
      const std::vector<float> gradient = {step == 1 ? 1.0f : 1e-3f};
      optimizer.UpdateRows({{row.data(), gradient.data()}}, whole,
                           optimizer.At({.number = step, .learning_rate = 0.01}));
    }
    float seen = row[0];
    optimizer.Present(row.data(), &seen, whole,
                      optimizer.At({.number = 131, .learning_rate = 0.01}));
    return 1 - seen / row[0];
  };
  EXPECT_GT(lost("adam"), 0.3);
  EXPECT_NEAR(lost("amsgrad"), 0.05, 0.01);
}

// Dense weights are no rows.
TEST(OptimizerTableTest, RowwiseAdagradMovesDenseWeightsAsAdagrad) {
  const auto moved = [](const std::string& name) {
    const auto optimizer = *Optimizer::Make({.name = name, .learning_rate = 0.1});
    std::vector<float> weights = {1, 2, 3}, state(optimizer.dense_state_floats(3));
    optimizer.StartDense(weights, absl::MakeSpan(state));
    for (uint32_t step = 1; step <= 3; ++step) {
      optimizer.UpdateDense(absl::MakeSpan(weights), absl::MakeSpan(state), {0.1f, -2, 30},
                            {.number = step, .learning_rate = 0.1});
    }
    return weights;
  };
  EXPECT_EQ(moved("rowwise_adagrad"), moved("adagrad"));
  EXPECT_NE(moved("rowwise_adagrad"), moved("sgd"));
}

TEST(LazyTest, RowsPayOnlyForWhatTheirRuleNeeds) {
  const auto floats = [](OptimizerSpec spec) { return Optimizer::Make(spec)->row_state_floats(8); };
  EXPECT_EQ(floats({.name = "sgd"}), 0u);
  EXPECT_EQ(floats({.name = "adagrad"}), 8u);
  EXPECT_EQ(floats({.name = "adagrad", .weight_decay = 0.1}), 9u);
  EXPECT_EQ(floats({.name = "rowwise_adagrad"}), 1u);
  EXPECT_EQ(floats({.name = "adam"}), 17u);
  EXPECT_EQ(floats({.name = "dense_adam"}), 17u);
}

// ---- what is refused ----

TEST(OptimizerTableTest, NotFiniteIsFoundWhereverItHides) {
  for (const size_t size : {1, 15, 16, 17, 100}) {
    std::vector<float> values(size, std::numeric_limits<float>::max());
    EXPECT_TRUE(AllFinite(values));
    for (size_t i = 0; i < size; ++i) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        values[i] = bad;
        EXPECT_FALSE(AllFinite(values));
      }
      values[i] = -1e-40f;
    }
  }
  EXPECT_TRUE(AllFinite({}));
}

TEST(OptimizerTableTest, ImpossibleNumbersAreNamed) {
  EXPECT_THAT(std::string(Optimizer::Make({.name = "sgd", .learning_rate = -1}).status().message()),
              HasSubstr("optimizer.learning_rate: -1 is not a finite number above 0"));
}

}  // namespace
}  // namespace rubato

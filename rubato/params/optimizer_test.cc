#include "rubato/params/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rubato/base/rng.h"
#include "rubato/params/optimizer_kernels.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// What the textbook says, in double precision: one weight, its state, one gradient.
struct Reference {
  double weight = 0;
  double sum = 0;
  void Step(const OptimizerSpec& spec, double gradient) {
    if (spec.name == "sgd") {
      weight -= spec.learning_rate * gradient;
    } else {
      sum += gradient * gradient;
      weight -= spec.learning_rate * gradient / (std::sqrt(sum) + spec.epsilon);
    }
  }
};

class OptimizerTest : public testing::TestWithParam<std::string> {};

// One step from any state stays within 1e-6 of the reference, for rows of every length.
TEST_P(OptimizerTest, EachStepAgreesWithTheReference) {
  OptimizerSpec spec{
      .name = GetParam(), .learning_rate = 0.05, .epsilon = 1e-8, .initial_accumulator = 0.1};
  const auto optimizer = Optimizer::Make(spec);
  ASSERT_TRUE(optimizer.ok());
  Rng rng(11);
  for (size_t dim = 1; dim <= 70; ++dim) {
    std::vector<float> row(optimizer->row_floats(dim)), gradient(dim);
    for (float& w : row) w = static_cast<float>(rng.Normal());
    optimizer->InitializeState(row.data(), dim);
    for (int step = 0; step < 5; ++step) {
      std::vector<Reference> expected(dim);
      for (size_t i = 0; i < dim; ++i) {
        gradient[i] = static_cast<float>(rng.Normal() * std::pow(10, rng.Uniform(-4, 1)));
        expected[i] = {row[i], optimizer->slots() > 0 ? row[dim + i] : 0};
        expected[i].Step(spec, gradient[i]);
      }
      float* rows[] = {row.data()};
      optimizer->UpdateRows(rows, gradient.data(), dim);
      for (size_t i = 0; i < dim; ++i) {
        ASSERT_NEAR(row[i], expected[i].weight, 1e-6 * std::max(0.1, std::abs(expected[i].weight)));
      }
    }
  }
}

// The dense vector is one long row.
TEST_P(OptimizerTest, DenseAndSparseAreTheSameRule) {
  const auto optimizer = Optimizer::Make({.name = GetParam()});
  ASSERT_TRUE(optimizer.ok());
  constexpr size_t kSize = 1000;
  std::vector<float> sparse(optimizer->row_floats(kSize), 0.5f);
  std::vector<float> dense = sparse;
  std::vector<float> gradient(kSize);
  for (size_t i = 0; i < kSize; ++i) gradient[i] = 0.001f * static_cast<float>(i) - 0.3f;
  float* rows[] = {sparse.data()};
  optimizer->UpdateRows(rows, gradient.data(), kSize);
  optimizer->UpdateDense(dense.data(), gradient);
  EXPECT_EQ(sparse, dense);
}

INSTANTIATE_TEST_SUITE_P(Names, OptimizerTest, testing::Values("sgd", "adagrad"));

// The three builds of the loops give the same bits, so a job may move between machines.
TEST(OptimizerTest, InstructionSetsRoundAlike) {
#if defined(__x86_64__)
  std::vector<const OptimizerKernels*> builds = {&kKernelsPlain};
  if (__builtin_cpu_supports("avx2")) builds.push_back(&kKernelsAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    builds.push_back(&kKernelsAvx512);
  }
  const OptimizerConstants constants{.learning_rate = 0.05f, .epsilon = 1e-10f};
  for (const size_t dim : {1, 7, 8, 16, 33}) {
    std::vector<std::vector<float>> results;
    for (const OptimizerKernels* build : builds) {
      Rng rng(dim);
      std::vector<float> row(2 * dim, 0.25f), gradient(dim);
      for (int step = 0; step < 20; ++step) {
        for (float& g : gradient) g = static_cast<float>(rng.Normal());
        float* rows[] = {row.data()};
        build->adagrad(rows, gradient.data(), 1, dim, constants);
        build->sgd(rows, gradient.data(), 1, dim, constants);
      }
      results.push_back(row);
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]) << dim;
  }
#endif
}

TEST(OptimizerTest, NotFiniteIsFoundWhereverItHides) {
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

TEST(OptimizerTest, ImpossibleNumbersAreNamed) {
  EXPECT_THAT(std::string(Optimizer::Make({.name = "sgd", .learning_rate = -1}).status().message()),
              HasSubstr("optimizer sgd: learning_rate is -1"));
}

}  // namespace
}  // namespace rubato

// Rows that are moved by their numbers, all at once, against rows moved one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/params/optimizer.h"
#include "rubato/params/optimizer_builds.h"

namespace rubato {
namespace {

constexpr size_t kRows = 200;
constexpr uint32_t kNone = 1000;  // Numbers from here on are no row's.

class NumberedRowsTest : public testing::TestWithParam<std::string> {
 protected:
  static OptimizerSpec Spec() {
    OptimizerSpec spec;
    spec.name = GetParam();
    spec.learning_rate = 0.05;
    return spec;
  }
  Optimizer optimizer_ = *Optimizer::Make(Spec());
};

// Any rows in any order, some of which are none, for every length: the same bits as one by one,
// and none of any other row's.
TEST_P(NumberedRowsTest, MoveAsOneByOne) {
  ASSERT_TRUE(optimizer_.moves_by_number());
  Rng rng(7);
  for (const size_t dim : {1, 3, 4, 8, 15, 16, 17, 24, 32, 64, 70}) {
    const RowPart whole = RowPart::Whole(dim);
    const size_t stride = dim + optimizer_.row_state_floats(dim) + 2;  // Some more, not ours.
    std::vector<float> rows(kRows * stride, 77.0f);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < dim; ++i) rows[r * stride + i] = static_cast<float>(rng.Normal());
      optimizer_.StartRow(&rows[r * stride], whole, 1);
    }
    std::vector<float> expected = rows;
    for (uint32_t step = 1; step <= 12; ++step) {
      const OptimizerConstants now = optimizer_.At({.number = step, .learning_rate = 0.05});
      std::vector<uint32_t> numbers;
      for (uint32_t r = 0; r < kRows; ++r) {
        if (rng.Chance(0.6)) numbers.push_back(rng.Chance(0.1) ? kNone + r : r);
      }
      for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[rng.Below(i)]);
      numbers.resize(step == 12 ? 3 : numbers.size());  // Fewer than are asked for ahead.
      std::vector<float> gradients(numbers.size() * dim);
      for (float& g : gradients) g = static_cast<float>(rng.Normal() * 0.3);
      optimizer_.UpdateNumbered({.weights = rows.data(),
                                 .state = rows.data() + whole.state_at,
                                 .stride = stride * sizeof(float),
                                 .row_bytes = stride * sizeof(float),
                                 .numbers = numbers.data(),
                                 .numbers_count = numbers.size(),
                                 .numbers_end = kNone,
                                 .gradients = gradients.data()},
                                whole, now);
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] >= kNone) continue;
        optimizer_.UpdateRows({{&expected[numbers[i] * stride], &gradients[i * dim]}}, whole, now);
      }
      ASSERT_EQ(std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)), 0)
          << dim << " columns, step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Names, NumberedRowsTest,
                         testing::Values("sgd", "momentum", "nesterov", "adagrad",
                                         "rowwise_adagrad", "adam", "amsgrad", "adamw", "rmsprop",
                                         "ftrl"));

// Who has steps to catch up with, or must be stamped, is not moved so.
TEST(NumberedRowsRuleTest, OnlyWithoutAPast) {
  OptimizerSpec spec;
  spec.name = "adagrad";
  EXPECT_TRUE(Optimizer::Make(spec)->moves_by_number());
  EXPECT_FALSE(Optimizer::Make(spec, /*stamp_rows=*/true)->moves_by_number());
  spec.weight_decay = 0.1;
  EXPECT_FALSE(Optimizer::Make(spec)->moves_by_number());
  spec = {};
  spec.name = "dense_adam";
  EXPECT_FALSE(Optimizer::Make(spec)->moves_by_number());
  spec.name = "adam";
  EXPECT_TRUE(Optimizer::Make(spec)->moves_by_number());
  spec.beta2 = 0.9999999;  // More updates to correct than are worked out ahead.
  EXPECT_FALSE(Optimizer::Make(spec)->moves_by_number());
}

// The roots of floats with these bits, and every `apart`th from there on.
void CheckRoots(uint64_t begin, uint64_t end, uint64_t apart) {
  constexpr size_t kTogether = 4096;
  std::vector<float> values(kTogether), roots(kTogether), expected(kTogether);
  for (uint64_t bits = begin; bits < end; bits += kTogether * apart) {
    for (size_t i = 0; i < kTogether; ++i) {
      const auto some = static_cast<uint32_t>(std::min(bits + i * apart, end - 1));
      std::memcpy(&values[i], &some, sizeof(some));
      expected[i] = std::sqrt(values[i]);
    }
    for (const OptimizerKernels* build : OptimizerBuilds()) {
      build->roots(values.data(), kTogether, roots.data());
      for (size_t i = 0; i < kTogether; ++i) {
        if (std::isnan(expected[i]) && std::isnan(roots[i])) continue;
        ASSERT_EQ(roots[i], expected[i]) << "of " << values[i];
      }
    }
  }
}

TEST(RootsTest, AreTheNearestFloats) {
  CheckRoots(0x3f800000, 0x40800000, 1);  // From 1 to 4: all.
  CheckRoots(0, uint64_t{1} << 32, 1009);
  CheckRoots(0, 5000, 1);
  CheckRoots(0x00800000 - 2000, 0x00800000 + 2000, 1);
  CheckRoots(0x0c800000 - 2000, 0x0c800000 + 2000, 1);
  CheckRoots(0x7f800000 - 5000, 0x7f800000 + 5000, 1);
}

}  // namespace
}  // namespace rubato

#include "rubato/model/gradient_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Parameters of 10, 2, 30 and 4 floats.
ModelSignature FourParameters() {
  ModelSignature signature;
  for (const int64_t size : {10, 2, 30, 4}) {
    signature.dense.push_back({.size = size, .offset = signature.dense_size});
    signature.dense_size += size;
  }
  return signature;
}

TEST(GradientRangesTest, WholeParametersFromTheBack) {
  const ModelSignature four = FourParameters();
  using R = GradientRange;
  EXPECT_THAT(CutGradient(four, 1), ElementsAre(R{42, 46}, R{12, 42}, R{10, 12}, R{0, 10}));
  EXPECT_THAT(CutGradient(four, 5), ElementsAre(R{12, 46}, R{0, 12}));
  EXPECT_THAT(CutGradient(four, 35), ElementsAre(R{10, 46}, R{0, 10}));
  EXPECT_THAT(CutGradient(four, 46), ElementsAre(R{0, 46}));
  EXPECT_THAT(CutGradient(ModelSignature(), 5), IsEmpty());
}

}  // namespace
}  // namespace rubato

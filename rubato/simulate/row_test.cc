#include "rubato/simulate/row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::ElementsAreArray;

// Whatever comes and goes, the row holds what a vector would, in its order.
TEST(RowTest, IsAVector) {
  Rng rng(1);
  Row<std::string> row;
  std::vector<std::string> vector;
  for (int i = 0; i < 20000; ++i) {
    // Grows, then shrinks; now from anywhere, now from the front as those served first do.
    const bool leaves = rng.Below(10) < (i < 10000 ? 4u : 6u);
    if (!leaves || vector.empty()) {
      row.push_back(std::to_string(i));
      vector.push_back(std::to_string(i));
    } else {
      const size_t at = rng.Below(i % 1000 < 500 ? vector.size() : 1 + vector.size() / 50);
      row.erase(at);
      vector.erase(vector.begin() + static_cast<ptrdiff_t>(at));
    }
    ASSERT_EQ(row.size(), vector.size());
    ASSERT_EQ(row.empty(), vector.empty());
    if (!vector.empty()) {
      const size_t at = rng.Below(vector.size());
      ASSERT_EQ(row[at], vector[at]);
      ASSERT_EQ(row.back(), vector.back());
    }
    if (i % 100 == 0) {
      ASSERT_THAT(row.span(), ElementsAreArray(vector));
    }
  }
  EXPECT_THAT(std::vector<std::string>(row.begin(), row.end()), ElementsAreArray(vector));
}

}  // namespace
}  // namespace rubato

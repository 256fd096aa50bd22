// Where ids fall. How maps move is tested with moves (move_test) and plans (master/rebalance_test).
#include "rubato/params/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace rubato {
namespace {

struct Pattern {
  std::string name;
  std::function<uint64_t(uint64_t)> id;  // The nth.
};

// Ids as jobs have them: counted, multiples of something, a number of a field above them.
std::vector<Pattern> Patterns() {
  std::vector<Pattern> patterns = {
      {"sequential", [](uint64_t n) { return n; }},
      {"downwards from the end", [](uint64_t n) { return ~n; }},
      {"odd", [](uint64_t n) { return 2 * n + 1; }},
      {"multiples of 1000", [](uint64_t n) { return 1000 * n; }},
      {"multiples of 1023", [](uint64_t n) { return 1023 * n; }},
      {"in both halves", [](uint64_t n) { return n << 32 | n; }},
      {"26 fields", [](uint64_t n) { return n % 26 << 56 | n / 26; }},
  };
  for (int shift = 1; shift <= 46; ++shift) {
    patterns.push_back(
        {"shifted by " + std::to_string(shift), [shift](uint64_t n) { return n << shift; }});
    patterns.push_back({"above 2^" + std::to_string(shift + 17),
                        [shift](uint64_t n) { return (uint64_t{1} << (shift + 17)) + n; }});
  }
  return patterns;
}

// As even as chance would have it: no partition is six standard deviations off (of a million counts
// none would be), and all together, by their chi-square, neither.
TEST(PartitionTest, OrdinaryIdsSpreadEvenly) {
  constexpr uint64_t kIds = uint64_t{1} << 18;
  constexpr double kMean = static_cast<double>(kIds) / kPartitions;
  for (const Pattern& pattern : Patterns()) {
    std::vector<int64_t> counts(kPartitions);
    for (uint64_t n = 0; n < kIds; ++n) {
      ++counts[static_cast<size_t>(PartitionOf(PointOf(pattern.id(n))))];
    }
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_GT(static_cast<double>(*least), kMean - 6 * std::sqrt(kMean)) << pattern.name;
    EXPECT_LT(static_cast<double>(*most), kMean + 6 * std::sqrt(kMean)) << pattern.name;
    double chi_square = 0;
    for (const int64_t count : counts) {
      chi_square += std::pow(static_cast<double>(count) - kMean, 2) / kMean;
    }
    const double degrees = kPartitions - 1;
    EXPECT_NEAR(chi_square, degrees, 6 * std::sqrt(2 * degrees)) << pattern.name;
  }
}

// Two servers, as many as most jobs have: each has about half of any thousand ids.
TEST(PartitionTest, AFewIdsAreSharedToo) {
  const PartitionMap map = PartitionMap::Even(2);
  for (const Pattern& pattern : Patterns()) {
    int64_t first = 0;
    for (uint64_t n = 0; n < 1000; ++n) first += map.ServerOf(PointOf(pattern.id(n))) == 0;
    EXPECT_NEAR(static_cast<double>(first), 500, 95) << pattern.name;
  }
}

// A point stands for its id, so whoever wants ids of one partition can have them: mixing is against
// patterns, not against somebody who means harm (docs/design/0003-servers.md).
TEST(PartitionTest, APointGivesItsIdBack) {
  for (const Pattern& pattern : Patterns()) {
    for (uint64_t n = 0; n < 100; ++n) EXPECT_EQ(IdOf(PointOf(pattern.id(n))), pattern.id(n));
  }
}

}  // namespace
}  // namespace rubato

// Sketches against exact answers, over data of many shapes; merging in any split is the same.
#include "rubato/features/sketches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

using testing::ElementsAre;

using Draw = std::function<double(Rng&)>;
const struct {
  const char* name;
  Draw draw;
} kShapes[] = {
    {"uniform", [](Rng& rng) { return rng.Uniform(-50, 50); }},
    {"normal", [](Rng& rng) { return 1e6 * rng.Normal(); }},
    {"log-normal", [](Rng& rng) { return std::exp(3 * rng.Normal()); }},
    {"mostly zero", [](Rng& rng) { return rng.Chance(0.9) ? 0.0 : std::exp(9 * rng.Uniform()); }},
    {"small integers", [](Rng& rng) { return static_cast<double>(rng.Below(90)); }},
    {"tiny", [](Rng& rng) { return 1e-6 * rng.Uniform(); }},
};

TEST(QuantileSketchTest, IsWithinAThousandth) {
  for (const auto& shape : kShapes) {
    Rng rng(1);
    QuantileSketch sketch;
    std::vector<double> exact;
    for (int i = 0; i < 20000; ++i) {
      exact.push_back(shape.draw(rng));
      sketch.Add(exact.back());
    }
    std::sort(exact.begin(), exact.end());
    for (const double q : {0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 1.0}) {
      const size_t rank = static_cast<size_t>(std::max(1.0, std::ceil(q * 20000))) - 1;
      EXPECT_NEAR(sketch.Quantile(q), exact[rank], 0.00101 * std::abs(exact[rank]) + 1e-9)
          << shape.name << " at " << q;
    }
  }
}

TEST(QuantileSketchTest, NoOrderMakesADifference) {
  Rng rng(2);
  QuantileSketch whole, parts[3], merged;
  // Enough for some to have more bits than others.
  for (int i = 0; i < 30000; ++i) {
    const double x = std::exp(5 * rng.Normal()) - 1;
    whole.Add(x);
    parts[i < 25000 ? rng.Below(2) : 2].Add(x);
  }
  for (const int part : {2, 0, 1}) merged.Merge(parts[part]);
  EXPECT_EQ(merged.count(), whole.count());
  for (double q = 0; q <= 1; q += 0.01) EXPECT_EQ(merged.Quantile(q), whole.Quantile(q));
  EXPECT_EQ(merged.Boundaries(20), whole.Boundaries(20));
}

TEST(QuantileSketchTest, BoundariesCutIntoPartsOfLikeWeight) {
  Rng rng(3);
  QuantileSketch sketch;
  std::vector<double> exact;
  for (int i = 0; i < 50000; ++i) {
    exact.push_back(1000 + 500 * rng.Uniform());
    sketch.Add(exact.back());
  }
  const std::vector<double> boundaries = sketch.Boundaries(10);
  ASSERT_EQ(boundaries.size(), 9u);
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    const auto within = std::count_if(exact.begin(), exact.end(), [&](double x) {
      return x >= boundaries[i] && x < boundaries[i + 1];
    });
    EXPECT_NEAR(static_cast<double>(within), 5000, 2000);
  }
}

TEST(QuantileSketchTest, ACommonValueLeavesBinsToTheOthers) {
  QuantileSketch sketch;
  for (int i = 0; i < 9000; ++i) sketch.Add(0);
  for (int i = 0; i < 1000; ++i) sketch.Add(1 + i % 500);
  const std::vector<double> boundaries = sketch.Boundaries(11);
  EXPECT_EQ(boundaries[0], 1) << "zero is alone";
  EXPECT_EQ(boundaries.size(), 10u);
  EXPECT_TRUE(std::is_sorted(boundaries.begin(), boundaries.end()));
}

TEST(QuantileSketchTest, FewValuesGetABinEach) {
  QuantileSketch sketch;
  for (int i = 0; i < 900; ++i) sketch.Add(i % 3 * 7);
  EXPECT_THAT(sketch.Boundaries(30), ElementsAre(7, 14));
  EXPECT_TRUE(QuantileSketch().Boundaries(5).empty());
}

// Numbers that no one expects, as 64-bit ids and the largest double, are not all one.
TEST(QuantileSketchTest, HugeNumbersHaveAMedianOfTheirOwn) {
  for (const double size : {9.2e18, 1e19, 3e30, 1e200, 8e307}) {
    QuantileSketch sketch;
    for (int i = 0; i <= 100; ++i) sketch.Add(size * (0.5 + 0.01 * i));
    EXPECT_NEAR(sketch.Quantile(0.5), size, 0.0125 * size);
    EXPECT_NEAR(sketch.Quantile(0.01), 0.51 * size, 0.01 * size);  // The second of 101.
    sketch.Add(-2 * size);
    EXPECT_NEAR(sketch.Quantile(0), -2 * size, 0.02 * size);
  }
  QuantileSketch most;
  most.Add(std::numeric_limits<double>::max());
  EXPECT_NEAR(most.Quantile(0.5) / std::numeric_limits<double>::max(), 1, 0.01);
}

// Dates, places of a town, numbers of orders, and what is below zero: far apart beside what they
// differ by, none of them is one bin.
TEST(QuantileSketchTest, NarrowRangesAreToldApart) {
  const std::pair<double, double> kRanges[] = {{1.7e9, 86400},   {40.70, 0.05}, {-74.02, 0.08},
                                               {20240101, 1231}, {7e14, 1e6},   {3e18, 1e12}};
  for (const auto& [low, range] : kRanges) {
    Rng rng(7);
    QuantileSketch sketch;
    std::vector<double> exact;
    for (int i = 0; i < 50000; ++i) {
      exact.push_back(low + range * rng.Uniform());
      sketch.Add(exact.back());
    }
    sketch.Add(0);  // As what is missing is sometimes written.
    const std::vector<double> boundaries = sketch.Boundaries(10);
    ASSERT_GE(boundaries.size(), 9u) << low;
    EXPECT_NEAR(sketch.Quantile(0.5), low + range / 2, 0.02 * range);
    EXPECT_GE(sketch.Quantile(0.001), *std::min_element(exact.begin(), exact.end()));
    for (size_t i = 1; i < boundaries.size(); ++i) {
      const auto within = std::count_if(exact.begin(), exact.end(), [&](double x) {
        return x >= boundaries[i - 1] && x < boundaries[i];
      });
      EXPECT_LT(within, 6000) << low << ", bin " << i;
    }
  }
}

// Every value is within the bin that counts it, the least of which is a boundary.
TEST(QuantileSketchTest, BinsHoldWhatTheyCount) {
  for (const double size : {1e-7, 0.3, 5000.0, 1e12}) {
    for (const int many : {1, 100, 30000}) {
      Rng rng(8);
      QuantileSketch sketch;
      std::vector<double> exact;
      for (int i = 0; i < many; ++i) {
        exact.push_back(size * rng.Normal());
        sketch.Add(exact.back());
      }
      std::sort(exact.begin(), exact.end());
      auto next = exact.begin();
      for (const QuantileSketch::Bin& bin : sketch.Bins()) {
        for (int64_t i = 0; i < bin.count; ++i, ++next) {
          ASSERT_TRUE(bin.low <= *next && *next < bin.high) << bin.low << " " << *next;
        }
      }
      EXPECT_EQ(next, exact.end());
    }
  }
}

// However wide and however many, the bins are so many and no more.
TEST(QuantileSketchTest, StaysSmallWhateverComes) {
  Rng rng(6);
  QuantileSketch sketch;
  for (int i = 0; i < 400000; ++i) {
    const double size = std::exp(rng.Uniform(-600, 600));
    sketch.Add(rng.Chance(0.5) ? size : -size);
  }
  EXPECT_LE(sketch.Bins().size(), 65536u + 4096);
  EXPECT_EQ(sketch.count(), 400000);
}

TEST(DistinctSketchTest, IsWithinAFewPercent) {
  for (const int64_t n : {0, 1, 10, 1000, 5000, 10000, 30000, 300000}) {
    DistinctSketch sketch;
    for (int round = 0; round < 2; ++round) {
      for (int64_t i = 0; i < n; ++i) sketch.Add(HashText(absl::StrCat("value ", i), 0));
    }
    EXPECT_NEAR(sketch.Estimate(), static_cast<double>(n), 0.05 * static_cast<double>(n) + 0.5);
  }
}

TEST(DistinctSketchTest, MergingIsTheUnion) {
  DistinctSketch whole, left, right;
  for (uint64_t i = 0; i < 9000; ++i) {
    whole.Add(Mix(i));
    if (i < 6000) left.Add(Mix(i));
    if (i > 3000) right.Add(Mix(i));
  }
  left.Merge(right);
  EXPECT_EQ(left.Estimate(), whole.Estimate());
}

// A few common texts among many that come once.
std::vector<std::string> ZipfTexts(int rows, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::string> texts;
  for (int i = 0; i < rows; ++i) {
    texts.push_back(absl::StrCat(static_cast<int64_t>(std::exp(rng.Exponential(2.5)))));
  }
  return texts;
}

TEST(CommonTextsTest, IsExactWithinItsCapacity) {
  CommonTexts common(10);
  for (const char* text : {"b", "a", "b", "c", "a", "b"}) common.Add(text);
  EXPECT_THAT(common.Items(), ElementsAre(CommonTexts::Item{"b", 3}, CommonTexts::Item{"a", 2},
                                          CommonTexts::Item{"c", 1}));
  EXPECT_EQ(common.error(), 0);
}

TEST(CommonTextsTest, KeepsItsBoundOverAnySplit) {
  constexpr int kRows = 30000, kCapacity = 200;
  const std::vector<std::string> texts = ZipfTexts(kRows, 4);
  std::map<std::string, int64_t> exact;
  CommonTexts whole(kCapacity);
  std::vector<CommonTexts> parts(4, CommonTexts(kCapacity));
  for (int i = 0; i < kRows; ++i) {
    ++exact[texts[i]];
    whole.Add(texts[i]);
    parts[i % 4].Add(texts[i]);
  }
  CommonTexts merged(kCapacity);
  for (const CommonTexts& part : parts) merged.Merge(part);
  for (const CommonTexts* common : {&whole, &merged}) {
    EXPECT_GT(common->error(), 0);
    EXPECT_LE(common->error(), kRows / kCapacity);
    EXPECT_LE(common->size(), 2u * kCapacity);
    std::map<std::string, int64_t> found;
    for (const auto& item : common->Items()) found[item.text] = item.count;
    for (const auto& [text, count] : exact) {
      const int64_t kept = found.contains(text) ? found[text] : 0;
      EXPECT_LE(kept, count) << text;
      EXPECT_GE(kept, count - common->error()) << text;
    }
  }
}

}  // namespace
}  // namespace rubato

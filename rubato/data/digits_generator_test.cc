#include "rubato/data/digits_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace rubato {
namespace {

using ::testing::Each;
using ::testing::Gt;

struct Drawn {
  std::vector<int> digits;
  std::string pixels;
};

Drawn Draw(int n, uint64_t seed, const DigitStyle& style = {}) {
  Rng rng(seed);
  Drawn drawn;
  for (int i = 0; i < n; ++i) drawn.digits.push_back(DrawDigit(style, rng, &drawn.pixels));
  return drawn;
}

TEST(DigitsGeneratorTest, TheSeedDecidesEverything) {
  const Drawn one = Draw(20, 5), same = Draw(20, 5), other = Draw(20, 6);
  EXPECT_EQ(one.pixels.size(), 20u * kDigitSide * kDigitSide);
  EXPECT_EQ(one.pixels, same.pixels);
  EXPECT_EQ(one.digits, same.digits);
  EXPECT_NE(one.pixels, other.pixels);
}

TEST(DigitsGeneratorTest, EveryDigitComesAboutAsOften) {
  std::array<int, 10> count = {};
  for (const int digit : Draw(1000, 7).digits) ++count.at(static_cast<size_t>(digit));
  EXPECT_THAT(count, Each(Gt(60)));
}

// Without noise an image is a drawing: some ink, most of it paper, and nothing of it cut off.
TEST(DigitsGeneratorTest, DigitsLieWithinTheImage) {
  const Drawn drawn = Draw(300, 8, {.noise = 0});
  int touching = 0;
  for (size_t i = 0; i < drawn.digits.size(); ++i) {
    const auto pixel = [&](int64_t y, int64_t x) {
      return static_cast<unsigned char>(
          drawn.pixels[i * kDigitSide * kDigitSide + static_cast<size_t>(y * kDigitSide + x)]);
    };
    int ink = 0;
    bool at_edge = false;
    for (int64_t y = 0; y < kDigitSide; ++y) {
      for (int64_t x = 0; x < kDigitSide; ++x) {
        if (pixel(y, x) < 100) continue;
        ++ink;
        at_edge |= y == 0 || x == 0 || y == kDigitSide - 1 || x == kDigitSide - 1;
      }
    }
    EXPECT_GT(ink, 10);
    EXPECT_LT(ink, 300);
    touching += at_edge;
  }
  EXPECT_LT(touching, 30);  // A wobbling hand may reach the edge now and then.
}

}  // namespace
}  // namespace rubato

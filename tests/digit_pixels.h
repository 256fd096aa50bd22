// What images of tests show: each of ten kinds is a pattern of blocks, an image is its pattern
// under noise.
#ifndef RUBATO_TESTS_DIGIT_PIXELS_H_
#define RUBATO_TESTS_DIGIT_PIXELS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {

constexpr int kDigitPixels = 28 * 28;
constexpr int kPlainContrast = 120;  // Between light and dark blocks: nobody errs.
// So little, under noise of 160, that a good model errs now and then, after 60,000 images or thirty
// times 1,200. It learns to look at the darkest and lightest pixels, which no noise explains, so it
// does better than blocks' means would let it.
constexpr int kFaintContrast = 18;

struct DigitImage {
  int kind = 0;
  std::vector<uint8_t> pixels;
};

inline DigitImage NextDigit(Rng& rng, int contrast) {
  DigitImage image{.kind = static_cast<int>(rng.Below(10)), .pixels = {}};
  for (int i = 0; i < kDigitPixels; ++i) {
    const uint64_t block = static_cast<uint64_t>(i / 28 / 4 * 7 + i % 28 / 4);
    const bool dark = Mix(Mix(99, static_cast<uint64_t>(image.kind)), block) % 2 == 0;
    const int middle = 100 + (dark ? -contrast : contrast) / 2;
    const int noise = static_cast<int>(rng.Below(160)) - 80;
    image.pixels.push_back(static_cast<uint8_t>(std::clamp(middle + noise, 0, 255)));
  }
  return image;
}

}  // namespace rubato

#endif  // RUBATO_TESTS_DIGIT_PIXELS_H_

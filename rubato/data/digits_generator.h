// Handwriting that never was: images of the digits 0 to 9 in MNIST's size, for tests and demos.
//
// A digit is one stroke. Each image bends its corners, slants, turns, scales and shifts the
// whole, draws it with a pen of some width and some ink, and adds noise. So no pixel means much by
// itself: a linear model stays below 75 %, a small convolutional network passes 97 %.
#ifndef RUBATO_DATA_DIGITS_GENERATOR_H_
#define RUBATO_DATA_DIGITS_GENERATOR_H_

#include <cstdint>
#include <string>

#include "rubato/base/rng.h"

namespace rubato {

constexpr int64_t kDigitSide = 28;  // Pixels.

// How far images may differ from the plain digit. Lengths are in pixels.
struct DigitStyle {
  double shift = 3;                          // Of the centre, each way.
  double height_min = 13, height_max = 21;   // Of the digit.
  double narrow_min = 0.75, narrow_max = 1;  // Width by height, of a box that is square at 1.
  double turn = 0.3;                         // Radians, each way.
  double slant = 0.25;                       // Sideways by height, each way.
  double wobble = 0.7;                       // Deviation of a stroke's corners.
  double pen_min = 1.2, pen_max = 3;
  double ink_min = 0.55;  // Of the darkest pixel; at most 1.
  double noise = 0.12;    // Deviation of every pixel, where ink is 1.
};

// Appends the image of a digit, kDigitSide rows of as many bytes, 255 for ink, and returns the
// digit. The same for the same state of `rng`.
int DrawDigit(const DigitStyle& style, Rng& rng, std::string* out);

}  // namespace rubato

#endif  // RUBATO_DATA_DIGITS_GENERATOR_H_

#include "rubato/data/digits_generator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/types/span.h"

namespace rubato {
namespace {

struct Point {
  double x = 0, y = 0;
};
// Ten digits on a square of side 1, x to the right and y downwards, each drawn in one stroke.
constexpr Point kZero[] = {{.50, .02}, {.24, .14}, {.16, .50}, {.24, .86}, {.50, .98},
                           {.76, .86}, {.84, .50}, {.76, .14}, {.50, .02}};
constexpr Point kOne[] = {{.32, .22}, {.55, .02}, {.55, .98}};
constexpr Point kTwo[] = {{.18, .26}, {.30, .07}, {.52, .02}, {.74, .09},
                          {.81, .28}, {.68, .50}, {.18, .97}, {.84, .97}};
constexpr Point kThree[] = {{.20, .12}, {.48, .02}, {.74, .11}, {.76, .33}, {.46, .47},
                            {.78, .60}, {.81, .80}, {.52, .98}, {.17, .87}};
constexpr Point kFour[] = {{.68, .98}, {.68, .02}, {.14, .66}, {.88, .66}};
constexpr Point kFive[] = {{.80, .03}, {.28, .03}, {.23, .45}, {.50, .38},
                           {.77, .50}, {.81, .75}, {.55, .97}, {.18, .87}};
constexpr Point kSix[] = {{.70, .03}, {.38, .22}, {.20, .58}, {.26, .86}, {.50, .98},
                          {.76, .86}, {.78, .64}, {.52, .50}, {.24, .64}};
constexpr Point kSeven[] = {{.16, .04}, {.84, .04}, {.60, .48}, {.42, .98}};
constexpr Point kEight[] = {{.50, .47}, {.25, .36}, {.26, .12}, {.50, .02}, {.74, .12},
                            {.75, .36}, {.50, .47}, {.20, .64}, {.22, .88}, {.50, .98},
                            {.78, .88}, {.80, .64}, {.50, .47}};
constexpr Point kNine[] = {{.76, .36}, {.48, .50}, {.22, .36}, {.24, .14}, {.50, .02},
                           {.74, .12}, {.78, .40}, {.70, .72}, {.52, .98}};
constexpr absl::Span<const Point> kDigits[10] = {kZero, kOne, kTwo,   kThree, kFour,
                                                 kFive, kSix, kSeven, kEight, kNine};

double Distance(double x, double y, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  const double along = ((x - a.x) * dx + (y - a.y) * dy) / std::max(length2, 1e-9);
  const double t = std::clamp(along, 0.0, 1.0);
  return std::hypot(x - a.x - t * dx, y - a.y - t * dy);
}

using Canvas = std::array<double, kDigitSide * kDigitSide>;

// A line with round ends and soft edges; where it crosses another, ink does not add up.
void DrawLine(Point a, Point b, double pen, Canvas& canvas) {
  const double reach = pen / 2 + 1;
  const auto first = [&](double u, double v) {
    return std::max<int64_t>(0, static_cast<int64_t>(std::min(u, v) - reach));
  };
  const auto last = [&](double u, double v) {
    return std::min<int64_t>(kDigitSide - 1, static_cast<int64_t>(std::max(u, v) + reach));
  };
  for (int64_t y = first(a.y, b.y); y <= last(a.y, b.y); ++y) {
    for (int64_t x = first(a.x, b.x); x <= last(a.x, b.x); ++x) {
      const double away = Distance(static_cast<double>(x), static_cast<double>(y), a, b);
      double& ink = canvas[static_cast<size_t>(y * kDigitSide + x)];
      ink = std::max(ink, std::clamp(pen / 2 + 0.5 - away, 0.0, 1.0));
    }
  }
}

}  // namespace

int DrawDigit(const DigitStyle& style, Rng& rng, std::string* out) {
  const int digit = static_cast<int>(rng.Below(10));
  constexpr double kMiddle = (kDigitSide - 1) / 2.0;
  const double height = rng.Uniform(style.height_min, style.height_max);
  const double width = height * rng.Uniform(style.narrow_min, style.narrow_max);
  const double turn = rng.Uniform(-style.turn, style.turn);
  const double slant = rng.Uniform(-style.slant, style.slant);
  const double pen = rng.Uniform(style.pen_min, style.pen_max);
  const double darkest = rng.Uniform(style.ink_min, 1);
  const Point centre = {.x = kMiddle + rng.Uniform(-style.shift, style.shift),
                        .y = kMiddle + rng.Uniform(-style.shift, style.shift)};
  const auto place = [&](Point p) {
    const double y = (p.y - 0.5) * height + style.wobble * rng.Normal();
    const double x = (p.x - 0.5) * width - slant * y + style.wobble * rng.Normal();
    return Point{.x = centre.x + std::cos(turn) * x - std::sin(turn) * y,
                 .y = centre.y + std::sin(turn) * x + std::cos(turn) * y};
  };
  Canvas canvas = {};
  const absl::Span<const Point> stroke = kDigits[digit];
  Point from = place(stroke[0]);
  for (const Point& corner : stroke.subspan(1)) {
    const Point to = place(corner);
    DrawLine(from, to, pen, canvas);
    from = to;
  }
  for (const double ink : canvas) {
    const double value = std::clamp(darkest * ink + style.noise * rng.Normal(), 0.0, 1.0);
    out->push_back(static_cast<char>(static_cast<unsigned char>(255 * value + 0.5)));
  }
  return digit;
}

}  // namespace rubato

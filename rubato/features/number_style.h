// How a column writes its numbers.
#ifndef RUBATO_FEATURES_NUMBER_STYLE_H_
#define RUBATO_FEATURES_NUMBER_STYLE_H_

#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

namespace rubato {

enum class NumberStyle {
  kPlain,        // 1234.5
  kComma,        // 1.234,5
  kAmount,       // $1,234.50, 12%, (5), and what is plain
  kCommaAmount,  // 1.234,50 €, 12,5 %, and what is of kComma
  kTime,         // 2026-11-18 05:09, as seconds since 1970 (times.h)
  kMonthFirst,   // 11/18/2026, and what is of kTime
  kDayFirst,     // 18.11.2026, and what is of kTime
};
constexpr size_t kNumberStyles = 7;

inline bool IsTime(NumberStyle style) { return style >= NumberStyle::kTime; }

// Nothing if it is none of that style, or not finite; NaN for "nan", which is missing, but not as a
// time.
std::optional<double> ToNumber(absl::string_view text, NumberStyle style);

// Whether the text, which is one of kAmount or kCommaAmount, shows that it is no other number: it
// has a sign of money or %, or commas and points as only thousands have them. 1,500 does not.
bool IsSurelyAmount(absl::string_view text);

}  // namespace rubato

#endif  // RUBATO_FEATURES_NUMBER_STYLE_H_

#include "rubato/features/number_style.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "rubato/features/times.h"
#include "rubato/features/transforms.h"

namespace rubato {
namespace {

constexpr absl::string_view kMoney[] = {"$", "€", "£", "¥", "₹"};
constexpr absl::string_view kBlanks[] = {" ", "\u00a0", "\u202f"};  // As 12 € may have them.

// An amount without what stands around it.
struct Bare {
  absl::string_view number;
  bool is_negative = false;
  bool has_sign = false;  // Of money, or %.
};

bool TakeOne(absl::string_view* text, const absl::string_view (&signs)[5]) {
  for (const absl::string_view sign : signs) {
    if (absl::ConsumePrefix(text, sign) || absl::ConsumeSuffix(text, sign)) return true;
  }
  return false;
}

void TakeBlanks(absl::string_view* text) {
  bool found = true;
  while (found) {
    found = false;
    for (const absl::string_view blank : kBlanks) {
      found |= absl::ConsumePrefix(text, blank) || absl::ConsumeSuffix(text, blank);
    }
  }
}

// "-$5", "$-5", "($5)", "5 %". Nothing if what is left does not begin with a digit or a point.
std::optional<Bare> Undress(absl::string_view text) {
  Bare bare = {.number = text};
  absl::string_view& rest = bare.number;
  if (rest.size() > 2 && rest.front() == '(' && rest.back() == ')') {
    rest = rest.substr(1, rest.size() - 2);
    bare.is_negative = true;
  }
  for (int i = 0; i < 2; ++i) {  // The minus comes before the sign of money, or behind it.
    if (!bare.is_negative && absl::ConsumePrefix(&rest, "-")) bare.is_negative = true;
    if (bare.has_sign) break;
    bare.has_sign = absl::ConsumeSuffix(&rest, "%") || TakeOne(&rest, kMoney);
    TakeBlanks(&rest);
  }
  const bool is_bare =
      !rest.empty() &&
      (rest.front() == '.' || absl::ascii_isdigit(static_cast<unsigned char>(rest.front())));
  if (!is_bare) return std::nullopt;
  return bare;
}

// "1,234,567.5", where commas part thousands or are not there. No number of thousands begins with
// 0.
std::optional<double> ToNumberWithThousands(absl::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const absl::string_view whole = text.substr(0, point);
  if (whole.find(',') == absl::string_view::npos) return ToNumber(text);
  if (absl::StrContains(text.substr(point), ",") || !PartThousands(whole, ',') ||
      whole.front() == '0') {
    return std::nullopt;
  }
  return ToNumber(absl::StrReplaceAll(text, {{",", ""}}));
}

std::optional<double> ToAmount(absl::string_view text, bool decimal_comma) {
  const std::optional<double> plain = decimal_comma ? ToNumberWithComma(text) : ToNumber(text);
  if (plain.has_value()) return plain;
  const std::optional<Bare> bare = Undress(text);
  if (!bare.has_value()) return std::nullopt;
  std::optional<double> number =
      decimal_comma ? ToNumberWithComma(bare->number) : ToNumberWithThousands(bare->number);
  if (number.has_value() && bare->is_negative) number = -*number;
  return number;
}

}  // namespace

std::optional<double> ToNumber(absl::string_view text, NumberStyle style) {
  switch (style) {
    case NumberStyle::kPlain:
      return ToNumber(text);
    case NumberStyle::kComma:
      return ToNumberWithComma(text);
    case NumberStyle::kAmount:
      return ToAmount(text, /*decimal_comma=*/false);
    case NumberStyle::kCommaAmount:
      return ToAmount(text, /*decimal_comma=*/true);
    case NumberStyle::kTime:
      return ToTime(text);
    case NumberStyle::kMonthFirst:
      return ToTime(text, DateOrder::kMonthFirst);
    case NumberStyle::kDayFirst:
      return ToTime(text, DateOrder::kDayFirst);
  }
  return std::nullopt;
}

bool IsSurelyAmount(absl::string_view text) {
  const std::optional<Bare> bare = Undress(text);
  if (!bare.has_value()) return false;
  const size_t comma = bare->number.find(',');
  const bool has_more = comma != absl::string_view::npos &&
                        bare->number.find_first_of(",.", comma + 1) != absl::string_view::npos;
  return bare->has_sign || has_more;
}

}  // namespace rubato

#include "rubato/features/times.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/civil_time.h"

namespace rubato {
namespace {

constexpr double kDay = 24 * 60 * 60;

// Takes `least` to `most` digits off the front.
std::optional<int> TakeDigits(absl::string_view* text, size_t least, size_t most) {
  int value = 0;
  size_t digits = 0;
  for (; digits < std::min(most, text->size()); ++digits) {
    const unsigned digit = static_cast<unsigned char>((*text)[digits]) - '0';
    if (digit > 9) break;
    value = 10 * value + static_cast<int>(digit);
  }
  if (digits < least) return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

// Of six letters at least.
bool BeginsWithYear(absl::string_view text) {
  const absl::string_view year = text.substr(0, 4);
  return (text[4] == '-' || text[4] == '/') &&
         std::all_of(year.begin(), year.end(), absl::ascii_isdigit);
}

int YearOf(int two_digits) { return two_digits + (two_digits < 70 ? 2000 : 1900); }

std::optional<double> DayOf(int year, int month, int day) {
  const absl::CivilDay civil(year, month, day);  // The 30th of February is one of March.
  if (civil.month() != month || civil.day() != day) return std::nullopt;
  return kDay * static_cast<double>(civil - absl::CivilDay(1970, 1, 1));
}

// Three numbers with the same sign between them; of the last, how many digits it has.
struct DateParts {
  int first = 0, second = 0, last = 0;
  size_t last_digits = 0;
  char separator = 0;
};

std::optional<DateParts> TakeParts(absl::string_view* text, size_t first_digits) {
  DateParts parts;
  const std::optional<int> first = TakeDigits(text, first_digits == 4 ? 4 : 1, first_digits);
  if (!first.has_value() || text->empty()) return std::nullopt;
  parts.separator = text->front();
  const absl::string_view sign(&parts.separator, 1);
  if (!absl::ConsumePrefix(text, sign)) return std::nullopt;
  const std::optional<int> second = TakeDigits(text, 1, 2);
  if (!second.has_value() || !absl::ConsumePrefix(text, sign)) return std::nullopt;
  const size_t before = text->size();
  const std::optional<int> last = TakeDigits(text, 1, 4);
  if (!last.has_value()) return std::nullopt;
  parts.first = *first;
  parts.second = *second;
  parts.last = *last;
  parts.last_digits = before - text->size();
  return parts;
}

std::optional<double> TakeDay(absl::string_view* text, DateOrder order) {
  const bool year_first = BeginsWithYear(*text);
  const std::optional<DateParts> parts = TakeParts(text, year_first ? 4 : 2);
  if (!parts.has_value()) return std::nullopt;
  if (year_first) {
    if (parts->last_digits > 2) return std::nullopt;
    return DayOf(parts->first, parts->second, parts->last);
  }
  const char sign = parts->separator;
  // 1.2.20 is a version; 1.2.20 5:09 is none.
  const bool may_be_short = sign == '/' || (sign == '.' && !text->empty());
  const bool has_year = parts->last_digits == 4 || (parts->last_digits == 2 && may_be_short);
  if (!has_year || (sign != '/' && sign != '.' && sign != '-')) return std::nullopt;
  const int year = parts->last_digits == 2 ? YearOf(parts->last) : parts->last;
  return order == DateOrder::kMonthFirst ? DayOf(year, parts->first, parts->second)
                                         : DayOf(year, parts->second, parts->first);
}

// " PM", which half of the day an hour of 1 to 12 is in; nothing changes if there is none.
std::optional<int> TakeHalf(absl::string_view* text, int hour) {
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(*text);
  const std::string word = absl::AsciiStrToUpper(rest.substr(0, 2));
  if (word != "AM" && word != "PM") return hour;
  if (hour < 1 || hour > 12) return std::nullopt;
  *text = rest.substr(2);
  return hour % 12 + (word == "PM" ? 12 : 0);
}

// What stands behind minutes, ":14", ":14.25".
std::optional<double> TakeSeconds(absl::string_view* text) {
  if (!absl::ConsumePrefix(text, ":")) return 0;
  const std::optional<int> second = TakeDigits(text, 2, 2);
  if (!second.has_value() || *second > 59) return std::nullopt;
  double seconds = *second;
  if (!absl::ConsumePrefix(text, ".") && !absl::ConsumePrefix(text, ",")) return seconds;
  std::optional<int> digit = TakeDigits(text, 1, 1);
  if (!digit.has_value()) return std::nullopt;
  for (double unit = 0.1; digit.has_value(); unit /= 10, digit = TakeDigits(text, 1, 1)) {
    seconds += unit * *digit;
  }
  return seconds;
}

// "05:09", "05:09:14", "5:09 PM".
std::optional<double> TakeClock(absl::string_view* text) {
  std::optional<int> hour = TakeDigits(text, 1, 2);
  if (!hour.has_value() || *hour > 23 || !absl::ConsumePrefix(text, ":")) return std::nullopt;
  const std::optional<int> minute = TakeDigits(text, 2, 2);
  if (!minute.has_value() || *minute > 59) return std::nullopt;
  const std::optional<double> seconds = TakeSeconds(text);
  if (!seconds.has_value()) return std::nullopt;
  hour = TakeHalf(text, *hour);
  if (!hour.has_value()) return std::nullopt;
  return 3600.0 * *hour + 60.0 * *minute + *seconds;
}

// 20141021170500 as the unit has it.
std::optional<double> OfDigits(double number, TimeUnit unit) {
  if (!(number >= 0 && number < 1e14) || number != std::floor(number)) return std::nullopt;
  auto rest = static_cast<int64_t>(number);
  const auto take = [&rest] {  // The last two.
    const auto two = static_cast<int>(rest % 100);
    rest /= 100;
    return two;
  };
  const int second = unit == TimeUnit::kSecond ? take() : 0;
  const int minute = unit >= TimeUnit::kMinute ? take() : 0;
  const int hour = unit != TimeUnit::kDay ? take() : 0;
  const int day = take(), month = take();
  const bool is_short = unit == TimeUnit::kShortHour;
  const bool has_year = is_short ? rest < 100 : rest >= 1000 && rest < 10000;
  if (!has_year || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  const auto year = static_cast<int>(rest);
  const std::optional<double> days = DayOf(is_short ? YearOf(year) : year, month, day);
  if (!days.has_value()) return std::nullopt;
  return *days + 3600.0 * hour + 60.0 * minute + second;
}

// How far the zone's clocks are ahead of UTC's. All of `text` is the zone.
std::optional<double> ZoneOf(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (text.empty() || text == "Z" || text == "z" || text == "UTC" || text == "GMT") return 0;
  const double sign = text.front() == '-' ? -1 : 1;
  if (text.front() != '+' && text.front() != '-') return std::nullopt;
  text.remove_prefix(1);
  const std::optional<int> hours = TakeDigits(&text, 2, 2);
  absl::ConsumePrefix(&text, ":");
  const std::optional<int> minutes = text.empty() ? 0 : TakeDigits(&text, 2, 2);
  if (!hours.has_value() || !minutes.has_value() || !text.empty()) return std::nullopt;
  if (*hours > 15 || *minutes > 59) return std::nullopt;
  return sign * (3600.0 * *hours + 60.0 * *minutes);
}

}  // namespace

std::optional<double> ToTime(absl::string_view text, DateOrder order) {
  // Most cells of most columns are none.
  if (text.size() < 4) return std::nullopt;
  if (text[1] == ':' || text[2] == ':') {
    const std::optional<double> clock = TakeClock(&text);
    return text.empty() ? clock : std::nullopt;
  }
  if (text.size() < 6) return std::nullopt;
  if (order == DateOrder::kYearFirst && !BeginsWithYear(text)) return std::nullopt;
  const std::optional<double> day = TakeDay(&text, order);
  if (!day.has_value() || text.empty()) return day;
  if (text.front() != ' ' && text.front() != 'T' && text.front() != 't') return std::nullopt;
  text.remove_prefix(1);
  const std::optional<double> clock = TakeClock(&text);
  if (!clock.has_value()) return std::nullopt;
  const std::optional<double> zone = ZoneOf(text);
  if (!zone.has_value()) return std::nullopt;
  return *day + *clock - *zone;
}

std::string TimeText(double seconds) {
  const double days = std::floor(seconds / kDay);
  const int clock = static_cast<int>(seconds - days * kDay);
  const std::string day =
      absl::FormatCivilTime(absl::CivilDay(1970, 1, 1) + static_cast<absl::civil_diff_t>(days));
  if (clock == 0 && days != 0) return day;
  return absl::StrFormat("%s%02d:%02d:%02d", days == 0 ? "" : day + " ", clock / 3600,
                         clock / 60 % 60, clock % 60);
}

const std::vector<std::string>& TimePartNames() {
  static const auto& names = *new std::vector<std::string>{"hour", "weekday", "day", "month"};
  return names;
}

std::optional<TimePart> TimePartNamed(absl::string_view name) {
  const std::vector<std::string>& names = TimePartNames();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<TimePart>(found - names.begin());
}

int64_t CountOf(TimePart part) {
  constexpr int64_t kCounts[] = {24, 7, 31, 12};
  return kCounts[static_cast<size_t>(part)];
}

const std::vector<std::string>& TimeUnitNames() {
  static const auto& names =
      *new std::vector<std::string>{"seconds",  "milliseconds", "microseconds", "yymmddhh",
                                    "yyyymmdd", "yyyymmddhh",   "yyyymmddhhmm", "yyyymmddhhmmss"};
  return names;
}

std::optional<TimeUnit> TimeUnitNamed(absl::string_view name) {
  const std::vector<std::string>& names = TimeUnitNames();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<TimeUnit>(found - names.begin());
}

std::optional<double> ToTime(double number, TimeUnit unit) {
  if (IsOfDigits(unit)) return OfDigits(number, unit);
  constexpr double kSeconds[] = {1, 1e-3, 1e-6};
  const double seconds = kSeconds[static_cast<size_t>(unit)] * number;
  if (!IsInCalendar(seconds)) return std::nullopt;
  return seconds;
}

double YearIn(TimeUnit unit) {
  constexpr double kYear = 366 * kDay;
  constexpr double kYears[] = {kYear, 1e3 * kYear, 1e6 * kYear, 1e6, 1e4, 1e6, 1e8, 1e10};
  return kYears[static_cast<size_t>(unit)];
}

bool IsInCalendar(double seconds) { return std::abs(seconds) < 1e11; }

int64_t PartOf(double seconds, TimePart part) {
  const double days = std::floor(seconds / kDay);
  if (part == TimePart::kHour) return static_cast<int64_t>((seconds - days * kDay) / 3600);
  const absl::CivilDay day = absl::CivilDay(1970, 1, 1) + static_cast<absl::civil_diff_t>(days);
  if (part == TimePart::kWeekday) return static_cast<int64_t>(absl::GetWeekday(day));
  return (part == TimePart::kDay ? day.day() : day.month()) - 1;
}

}  // namespace rubato

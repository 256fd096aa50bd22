// Dates and times of day as a table has them, as a number and as parts of it: the hour, the day of
// the week.
//
//     2026-11-18    2026-11-18 05:09    2026/11/18 05:09:14.5    2026-11-18T05:09:14+01:00
//     11/18/2026    11/18/26 5:09 PM    18.11.2026    18.11.26 05:09      where the order is known
//     05:09         05:09:14            5:09 PM                  of the first day of 1970
//
// Without a zone it is UTC: the clock as it is written. A year of two digits is one of 1970 to
// 2069.
#ifndef RUBATO_FEATURES_TIMES_H_
#define RUBATO_FEATURES_TIMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rubato {

// What comes first in a date that does not begin with the year. One that does is read in any case.
enum class DateOrder { kYearFirst, kMonthFirst, kDayFirst };

// Seconds since 1970 began. Nothing if it is none of the above, or no day of the calendar, as
// 2026-02-30; nor is a bare number: what it counts, nobody knows.
std::optional<double> ToTime(absl::string_view text, DateOrder order = DateOrder::kYearFirst);

// "2026-11-18", or "2026-11-18 05:09:14" if it is not midnight, or "05:09:14" on that first day.
std::string TimeText(double seconds);

enum class TimePart { kHour, kWeekday, kDay, kMonth };
const std::vector<std::string>& TimePartNames();  // As features.yaml has them.
std::optional<TimePart> TimePartNamed(absl::string_view name);
// How many there are of it: 24, 7, 31, 12.
int64_t CountOf(TimePart part);
// Whether it is within some thousands of years; a number may be anything.
bool IsInCalendar(double seconds);
// From 0; Monday is 0. Of one in the calendar.
int64_t PartOf(double seconds, TimePart part);

// What a number says of a time: how many of these went by since 1970 began, or the digits of a date
// one after the other, as 14102117 is five in the afternoon of the 21st of October 2014. What a
// unit of digits leaves out is 0.
enum class TimeUnit {
  kSeconds,
  kMilliseconds,
  kMicroseconds,
  kShortHour,  // yymmddhh, of 1970 to 2069
  kDay,        // yyyymmdd
  kHour,       // yyyymmddhh
  kMinute,     // yyyymmddhhmm
  kSecond,     // yyyymmddhhmmss
};
const std::vector<std::string>& TimeUnitNames();  // As features.yaml has them, in this order.
std::optional<TimeUnit> TimeUnitNamed(absl::string_view name);
inline bool IsOfDigits(TimeUnit unit) { return unit >= TimeUnit::kShortHour; }

// Seconds since 1970 began; nothing if it is not in the calendar, as 14103217.
std::optional<double> ToTime(double number, TimeUnit unit);
// By how much a number grows in a leap year.
double YearIn(TimeUnit unit);

}  // namespace rubato

#endif  // RUBATO_FEATURES_TIMES_H_

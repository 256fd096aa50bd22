// Times against answers of `date -u`, and against each other over a thousand years.
#include "rubato/features/times.h"

#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"

namespace rubato {
namespace {

struct Case {
  const char* text;
  double seconds;
};

TEST(TimesTest, ReadsWhatTablesHave) {
  for (const auto& [text, seconds] : {Case{"1970-01-01", 0},
                                      {"1969-12-31 23:59:59", -1},
                                      {"2026-11-18", 1794960000},
                                      {"2026-11-18 05:09", 1794978540},
                                      {"2026-11-18 05:09:14", 1794978554},
                                      {"2026-11-18 5:09:14", 1794978554},
                                      {"2026-11-18T05:09:14Z", 1794978554},
                                      {"2026-11-18t05:09:14z", 1794978554},
                                      {"2026-11-18 05:09:14 UTC", 1794978554},
                                      {"2026-11-18T05:09:14.25", 1794978554.25},
                                      {"2026-11-18 05:09:14,5", 1794978554.5},
                                      {"2026-11-18T06:09:14+01:00", 1794978554},
                                      {"2026-11-17T23:39:14-0530", 1794978554},
                                      {"2026-11-18 05:09:14+00", 1794978554},
                                      {"2026/11/18", 1794960000},
                                      {"05:09", 18540},
                                      {"5:09:14", 18554},
                                      {"0:00", 0},
                                      {"5:09 PM", 61740},
                                      {"2026/1/8", 1767830400},
                                      {"2024-02-29", 1709164800},
                                      {"0001-01-01", -62135596800},
                                      {"9999-12-31", 253402214400}}) {
    ASSERT_TRUE(ToTime(text).has_value()) << text;
    EXPECT_DOUBLE_EQ(*ToTime(text), seconds) << text;
  }
}

TEST(TimesTest, ReadsTheOrderThatIsSaid) {
  for (const auto& [text, seconds] : {Case{"11/18/2026", 1794960000},
                                      {"11/18/26", 1794960000},
                                      {"11/18/2026 5:09 AM", 1794978540},
                                      {"11/18/2026 5:09:14 pm", 1795021754},
                                      {"11/18/2026 12:00 AM", 1794960000},
                                      {"11/18/2026 12:00PM", 1795003200},
                                      {"1/8/2026", 1767830400},
                                      {"01-08-2026", 1767830400},
                                      {"1/1/70", 0},
                                      {"2026-11-18 05:09", 1794978540}}) {
    ASSERT_TRUE(ToTime(text, DateOrder::kMonthFirst).has_value()) << text;
    EXPECT_DOUBLE_EQ(*ToTime(text, DateOrder::kMonthFirst), seconds) << text;
  }
  for (const char* text : {"18.11.2026", "18/11/2026", "18-11-2026", "18/11/26", "2026/11/18"}) {
    ASSERT_TRUE(ToTime(text, DateOrder::kDayFirst).has_value()) << text;
    EXPECT_EQ(*ToTime(text, DateOrder::kDayFirst), 1794960000) << text;
  }
  // Where a clock follows it is no version.
  EXPECT_EQ(ToTime("18.11.26 5:09", DateOrder::kDayFirst), 1794978540);
  EXPECT_EQ(ToTime("8.1.26T05:09:14", DateOrder::kDayFirst), 1767848954);
  for (const char* text : {"18.11.26", "18.11.26 ", "18.11.26 5", "18-11-26 5:09"}) {
    EXPECT_FALSE(ToTime(text, DateOrder::kDayFirst).has_value()) << text;
  }
  for (const char* text : {"18.11.2026", "13/13/2026", "11/18/226", "11/18", "11/18/2026 13:00 PM",
                           "11/18/2026 0:00 AM", "1.2.20", "11 18 2026", "11/18.2026", "1234.5",
                           "12-34-5678", "/11/2026", "1111/1/1111"}) {
    EXPECT_FALSE(ToTime(text, DateOrder::kMonthFirst).has_value()) << text;
  }
}

TEST(TimesTest, RefusesWhatIsNoTime) {
  for (const char* text : {"",
                           "2026",
                           "20261118",
                           ":",
                           "1:2",
                           "25:00",
                           "5:60",
                           "16:9",
                           "1:2:3",
                           "05:09 Z",
                           "123:00",
                           "1794978554",
                           "2026-11",
                           "2026-13-01",
                           "2026-00-01",
                           "2026-02-30",
                           "2025-02-29",
                           "2026-11-18x",
                           "2026-11/18",
                           "2026-11-18 ",
                           "2026-11-18 24:00",
                           "2026-11-18 05:60",
                           "2026-11-18 05:09:60",
                           "2026-11-18 05",
                           "2026-11-18 05:9",
                           "2026-11-18 05:09:",
                           "2026-11-18 05:09:14.",
                           "2026-11-18 05:09:14+1",
                           "2026-11-18 05:09 CET",
                           "2026-11-18 05:09:14+99:00",
                           "18.11.2026",
                           "11/18/2026",
                           "-026-11-18",
                           "2026--1-18"}) {
    EXPECT_FALSE(ToTime(text).has_value()) << text;
  }
}

// Every day of four centuries, after which the calendar repeats: text, number and parts agree.
TEST(TimesTest, PartsAreThoseOfTheText) {
  absl::CivilDay day(1800, 1, 1);
  double before = *ToTime("1799-12-31");
  int64_t weekday = 1;  // A Tuesday, the day before.
  for (; day < absl::CivilDay(2200, 1, 1); ++day) {
    const int hour = static_cast<int>(day.day() * 7 % 24);
    const std::string text =
        absl::StrFormat("%04d-%02d-%02d %02d:59:59.9", day.year(), day.month(), day.day(), hour);
    const std::optional<double> seconds = ToTime(text);
    ASSERT_TRUE(seconds.has_value()) << text;
    ASSERT_EQ(*ToTime(text.substr(0, 10)), before + 86400) << text;
    before += 86400;
    weekday = (weekday + 1) % 7;
    ASSERT_EQ(PartOf(*seconds, TimePart::kHour), hour) << text;
    ASSERT_EQ(PartOf(*seconds, TimePart::kWeekday), weekday) << text;
    ASSERT_EQ(PartOf(*seconds, TimePart::kDay), day.day() - 1) << text;
    ASSERT_EQ(PartOf(*seconds, TimePart::kMonth), day.month() - 1) << text;
    const bool is_first = day == absl::CivilDay(1970, 1, 1);
    ASSERT_EQ(TimeText(*seconds), is_first ? text.substr(11, 8) : text.substr(0, 19));
    ASSERT_EQ(TimeText(before), is_first ? "00:00:00" : text.substr(0, 10));
    const std::string month_first = absl::StrFormat("%d/%d/%d", day.month(), day.day(), day.year());
    const std::string day_first = absl::StrFormat("%d.%d.%d", day.day(), day.month(), day.year());
    ASSERT_EQ(ToTime(month_first, DateOrder::kMonthFirst), before) << month_first;
    ASSERT_EQ(ToTime(day_first, DateOrder::kDayFirst), before) << day_first;
  }
}

// Digits one after the other: which they are, the unit says.
TEST(TimesTest, NumbersAreTimesInTheirUnit) {
  struct Numbered {
    const char* unit;
    double number;
    const char* text;  // The same, or null if it is none.
  };
  for (const auto& [unit, number, text] :
       {Numbered{"seconds", 1794978554, "2026-11-18 05:09:14"},
        {"milliseconds", 1794978554000, "2026-11-18 05:09:14"},
        {"microseconds", 1794978554e6, "2026-11-18 05:09:14"},
        {"yymmddhh", 14102100, "2014-10-21"},
        {"yymmddhh", 14102117, "2014-10-21 17:00"},
        {"yymmddhh", 1010123, "2001-01-01 23:00"},
        {"yymmddhh", 69123123, "2069-12-31 23:00"},
        {"yymmddhh", 70010100, "1970-01-01"},
        {"yyyymmdd", 20141021, "2014-10-21"},
        {"yyyymmdd", 20240229, "2024-02-29"},
        {"yyyymmddhh", 2014102117, "2014-10-21 17:00"},
        {"yyyymmddhhmm", 201410211705, "2014-10-21 17:05"},
        {"yyyymmddhhmmss", 20141021170509, "2014-10-21 17:05:09"},
        {"seconds", 1e12, nullptr},
        {"yymmddhh", 14102124, nullptr},
        {"yymmddhh", 14103200, nullptr},
        {"yymmddhh", 14130100, nullptr},
        {"yymmddhh", 14102117.5, nullptr},
        {"yymmddhh", 2014102117, nullptr},
        {"yymmddhh", -14102117, nullptr},
        {"yymmddhh", 0, nullptr},
        {"yymmddhh", INFINITY, nullptr},
        {"yymmddhh", NAN, nullptr},
        {"yyyymmdd", 14102117, nullptr},
        {"yyyymmdd", 20250229, nullptr},
        {"yyyymmdd", 141021, nullptr},
        {"yyyymmddhhmm", 201410211760, nullptr},
        {"yyyymmddhhmmss", 20141021170560, nullptr},
        {"yyyymmddhhmmss", 1e300, nullptr}}) {
    const std::optional<TimeUnit> named = TimeUnitNamed(unit);
    ASSERT_TRUE(named.has_value()) << unit;
    const std::optional<double> expected = text == nullptr ? std::nullopt : ToTime(text);
    EXPECT_EQ(ToTime(number, *named), expected) << unit << " " << std::fixed << number;
  }
  EXPECT_FALSE(TimeUnitNamed("hours").has_value());
}

TEST(TimesTest, PartsHaveNames) {
  for (const std::string& name : TimePartNames()) {
    const std::optional<TimePart> part = TimePartNamed(name);
    ASSERT_TRUE(part.has_value()) << name;
    EXPECT_LT(PartOf(-1, *part), CountOf(*part)) << name;  // The last second of 1969.
    EXPECT_EQ(PartOf(-1, *part), *part == TimePart::kWeekday ? 2 : CountOf(*part) - 1) << name;
  }
  EXPECT_FALSE(TimePartNamed("year").has_value());
}

}  // namespace
}  // namespace rubato

// What is proposed for columns that are not as clean as one would like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "absl/time/civil_time.h"
#include "rubato/base/rng.h"
#include "rubato/features/propose_testing.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Numbers with a slip of the pen are numbers: the slip is missing, and is told.
TEST(StrangersTest, AFewAmongNumbersAreMissing) {
  const Proposed income = ProposeFor(1000, [](int i) {
    return i == 3 ? "n.a." : i % 250 == 9 ? "inf" : absl::StrCat(1000.25 + i);
  });
  ASSERT_THAT(income.made, ElementsAre("x normalize", "x discretize"));
  for (const FeatureSpec& f : income.spec.features) EXPECT_TRUE(f.malformed_is_missing) << f.name;
  ASSERT_EQ(income.notes.strange.size(), 1u);
  EXPECT_EQ(income.notes.strange[0].column, "x");
  EXPECT_EQ(income.notes.strange[0].count, 5);
  EXPECT_THAT(income.notes.strange[0].texts, ElementsAre("inf", "n.a."));
  EXPECT_NEAR(income.spec.features[0].mean, 1499.5, 5) << "of the numbers alone";
  EXPECT_EQ(income.spec.features[0].min, 1000.25);
  EXPECT_EQ(income.spec.features[0].max, 1999.25);
}

TEST(StrangersTest, FewValuesHaveABinEachAndStrangersNone) {
  const Proposed stars =
      ProposeFor(1000, [](int i) { return i == 3 ? "-" : absl::StrCat(1 + i % 4); });
  ASSERT_THAT(stars.made, ElementsAre("x normalize", "x discretize"));
  EXPECT_THAT(stars.spec.features[1].boundaries, ElementsAre(2, 3, 4));
}

// A text or two that stand where a number is not known, however often, make no names of the others.
TEST(MarksTest, OfNothingAmongNumbersAreMissing) {
  const auto price = [](int i) {
    return i % 10 == 0 ? "-" : i % 7 == 0 ? "#N/A" : absl::StrCat(i % 500, ".25");
  };
  const Proposed prices = ProposeFor(2000, [&](int i) { return i == 3 ? "12..5" : price(i); });
  ASSERT_THAT(prices.made, ElementsAre("x normalize", "x discretize"));
  for (const FeatureSpec& f : prices.spec.features) {
    EXPECT_THAT(f.missing, ElementsAre("#N/A", "-"));
    EXPECT_TRUE(f.malformed_is_missing) << "the slip";
  }
  EXPECT_THAT(prices.spec.missing, IsEmpty());
  ASSERT_THAT(prices.notes.marked, SizeIs(1));
  EXPECT_EQ(prices.notes.marked[0].texts.at("-"), 200);
  ASSERT_THAT(prices.notes.strange, SizeIs(1));
  EXPECT_THAT(prices.notes.strange[0].texts, ElementsAre("12..5"));
  // MySQL's zero dates.
  const Proposed times = ProposeFor(2000, [](int i) {
    return i % 20 == 0 ? "0000-00-00 00:00:00"
                       : absl::FormatCivilTime(absl::CivilMinute(2026, 1, 1) + 61 * i) + ":00";
  });
  EXPECT_THAT(times.made, ElementsAre("x normalize", "x discretize", "x_hour time_part",
                                      "x_weekday time_part"));
  for (const FeatureSpec& f : times.spec.features) {
    EXPECT_THAT(f.missing, ElementsAre("0000-00-00 00:00:00"));
  }
  const Proposed amounts = ProposeFor(
      2000, [](int i) { return i % 5 == 0 ? "unknown" : absl::StrCat("$", i % 300, ".50"); });
  ASSERT_THAT(amounts.made, ElementsAre("x normalize", "x discretize"));
  EXPECT_EQ(amounts.spec.features[0].style(), NumberStyle::kAmount);
  // Of codes both features, which read one column.
  const auto code = [](int i) { return i % 9 == 0 ? "none" : absl::StrCat(i * i % 701); };
  const Proposed codes = ProposeFor(8000, code);
  ASSERT_THAT(codes.made, SizeIs(3));
  EXPECT_THAT(codes.spec.features[2].missing, ElementsAre("none"));
  EXPECT_THAT(codes.spec.features[2].vocabulary, testing::Not(testing::Contains("none")));
}

// An id is a name in digits, and "guest" is one of them; words are not numbers for a few that are.
TEST(MarksTest, AreNamesAmongNames) {
  const auto user = [](int i) { return i % 9 == 0 ? "guest" : absl::StrCat(i * i % 701); };
  const Proposed users = ProposeFor(8000, user, "user_id");
  ASSERT_THAT(users.made, ElementsAre("user_id merge_rare"));
  EXPECT_THAT(users.spec.features[0].missing, IsEmpty());
  EXPECT_THAT(users.spec.features[0].vocabulary, testing::Contains("guest"));
  EXPECT_THAT(users.notes.marked, IsEmpty());
  for (const int others : {2, 3}) {
    const Proposed sizes = ProposeFor(3000, [&](int i) {
      return i % 3 == 0 ? absl::StrCat("w", i % (others == 2 ? 2 : 7)) : absl::StrCat(i % 90);
    });
    EXPECT_EQ(sizes.made.front(), others == 2 ? "x normalize" : "x merge_rare");
  }
  EXPECT_THAT(ProposeFor(3000, [](int i) { return i % 3 == 0 ? absl::StrCat(i) : "-"; }).made,
              ElementsAre("x merge_rare"))
      << "mostly no numbers";
}

// Data to evaluate on is read as the data that the features were made of.
TEST(MarksTest, AreThoseOfTheOtherData) {
  Analysis train = {.columns = {"x"}}, test = train;
  for (Analysis* analysis : {&train, &test}) {
    analysis->stats.resize(1);
    for (int i = 0; i < 1000; ++i) {
      const std::string cell = i % (analysis == &train ? 10 : 3) == 0 ? "-" : absl::StrCat(i);
      analysis->Add(std::vector<absl::string_view>{cell});
    }
  }
  train.ChooseStyles("");
  test.ReadAs(train);
  EXPECT_EQ(test.stats[0].missing(), 334);
  EXPECT_TRUE(test.stats[0].is_all_numbers());
}

// Namibia is NA. What says "missing" among numbers may be a name among names.
TEST(MissingTextsTest, AreTakenFromNumbersAlone) {
  const auto propose = [](const std::string& age, const std::string& country) {
    Analysis analysis = {.format = "csv", .columns = {"label", "age", "country"}};
    analysis.stats.resize(3);
    for (int i = 0; i < 1000; ++i) {
      const std::string years = i % 10 == 0 ? age : absl::StrCat(18.5 + i % 60);
      const std::string place = i % 4 == 0 ? "NA" : i % 4 == 1 ? "" : country;
      analysis.Add(std::vector<absl::string_view>{i % 3 == 0 ? "1" : "0", years, place});
    }
    Proposed proposed;
    const auto spec = ProposeFeatures(analysis, "label", {}, &proposed.notes);
    EXPECT_TRUE(spec.ok()) << spec.status();
    if (spec.ok()) proposed.spec = *spec;
    return proposed;
  };
  // Also where only one other name is there.
  const Proposed names = propose("?", "ZA");
  EXPECT_THAT(names.spec.missing, ElementsAre("?"));
  ASSERT_THAT(names.spec.features, SizeIs(3));
  EXPECT_THAT(names.spec.features[2].vocabulary, testing::UnorderedElementsAre("NA", "ZA"));
  EXPECT_THAT(names.notes.lost, IsEmpty());
  // One text, both meanings: it is told.
  const Proposed both = propose("NA", "ZA");
  EXPECT_THAT(both.spec.missing, ElementsAre("NA"));
  EXPECT_THAT(both.spec.features[2].vocabulary, ElementsAre("ZA"));
  ASSERT_THAT(both.notes.lost, SizeIs(1));
  EXPECT_EQ(both.notes.lost[0].column, "country");
  EXPECT_EQ(both.notes.lost[0].text, "NA");
  EXPECT_EQ(both.notes.lost[0].count, 250);
}

// As they are written in much of Europe: told, and read as numbers unless they may be something
// else.
TEST(CommasTest, NumbersWithACommaAreTold) {
  const auto told = [](const std::function<std::string(int)>& make) {
    const Proposed proposed = ProposeFor(1000, make);
    if (proposed.notes.commas.empty()) return std::string("no");
    const CommaColumn& commas = proposed.notes.commas[0];
    const bool is_number =
        !proposed.spec.features.empty() && proposed.spec.features[0].decimal_comma;
    EXPECT_EQ(commas.is_decimal, is_number) << commas.text;
    return absl::StrCat(commas.text, commas.is_decimal ? " decimal" : " text");
  };
  EXPECT_EQ(told([](int i) { return absl::StrCat(i % 40, ",5"); }), "0,5 decimal");
  EXPECT_EQ(told([](int i) { return i % 4 == 0 ? "7" : absl::StrCat(i % 40, ",5"); }),
            "1,5 decimal");
  EXPECT_EQ(told([](int i) { return absl::StrCat("1.0", 10 + i % 40, ",25"); }),
            "1.010,25 decimal");
  EXPECT_EQ(told([](int i) { return i == 3 ? "-" : absl::StrCat(i % 7, ",0", i % 11); }),
            "0,00 decimal");
  // May be pairs; a point among them may part thousands.
  EXPECT_EQ(told([](int i) { return absl::StrCat(5 + i % 40, ",", 1 + i % 30); }), "10,6 text");
  EXPECT_EQ(told([](int i) { return i == 3 ? "1.5" : absl::StrCat(i % 40, ",5"); }), "0,5 text");
  EXPECT_EQ(told([](int i) { return absl::StrCat(i % 40, ".5"); }), "no");
  EXPECT_EQ(told([](int i) { return absl::StrCat("Rome", i % 40, ",5"); }), "no");
  EXPECT_EQ(told([](int i) { return absl::StrCat(i % 40, ",5,", i % 3); }), "no");
  EXPECT_EQ(told([](int i) { return i % 2 == 0 ? "7" : absl::StrCat("a", i % 40); }), "no");
}

// Statistics and features are those of the same numbers with a point, whichever part came first.
TEST(CommasTest, ADecimalCommaIsAPoint) {
  const auto cell = [](int i, const char* sign) {
    return i == 7 ? "?" : i == 9 ? "much" : absl::StrCat(i * 37 % 1000 / 100, sign, i % 90 + 10);
  };
  const Proposed points = ProposeFor(1000, [&](int i) { return cell(i, "."); });
  const Proposed commas = ProposeFor(1000, [&](int i) { return cell(i, ","); });
  ASSERT_THAT(commas.made, ElementsAre("x normalize", "x discretize"));
  EXPECT_EQ(commas.spec.features[1].boundaries, points.spec.features[1].boundaries);
  EXPECT_TRUE(commas.spec.features[1].malformed_is_missing);
  ColumnStats whole, parts[2];
  for (int i = 0; i < 1000; ++i) {
    whole.Add(cell(i, ","));
    parts[i / 300 % 2].Add(cell(i, ","));
  }
  parts[1].Merge(parts[0]);
  for (ColumnStats* stats : {&whole, &parts[1]}) {
    ASSERT_EQ(stats->BestStyle(), NumberStyle::kComma);
    stats->ReadAs(NumberStyle::kComma);
    EXPECT_NEAR(stats->mean(), points.spec.features[0].mean, 1e-9);
    EXPECT_NEAR(stats->deviation(), points.spec.features[0].deviation, 1e-9);
    EXPECT_EQ(stats->strangers(), 1);
    EXPECT_EQ(stats->stranger_texts().begin()->first, "much");
    EXPECT_EQ(stats->NumberOf("0,5"), 0.5);
  }
}

// When something was is a number like others, and what of it comes back.
TEST(TimesTest, AreNumbersAndTheirParts) {
  const auto minutes = [](int step) {
    return [step](int i) {
      return i == 3 ? std::string("soon")
                    : absl::FormatCivilTime(absl::CivilMinute(2026, 1, 1, 8, 0) + i * step) + ":00";
    };
  };
  const Proposed day = ProposeFor(600, minutes(1));
  EXPECT_THAT(day.made, ElementsAre("x normalize", "x discretize", "x_hour time_part"));
  EXPECT_EQ(day.spec.features[2].part, "hour");
  for (const FeatureSpec& f : day.spec.features) {
    EXPECT_EQ(f.style(), NumberStyle::kTime) << f.name;
    EXPECT_TRUE(f.malformed_is_missing) << f.name;
  }
  ASSERT_THAT(day.notes.strange, SizeIs(1));
  EXPECT_THAT(day.notes.strange[0].texts, ElementsAre("soon"));
  ASSERT_THAT(day.notes.styled, SizeIs(1));
  EXPECT_EQ(day.notes.styled[0].text, "2026-01-01T08:00:00");
  EXPECT_THAT(
      ProposeFor(600, minutes(7 * 61)).made,
      ElementsAre("x normalize", "x discretize", "x_hour time_part", "x_weekday time_part"));
  // Days alone, over two years: none of them is a name, however often it comes.
  const Proposed days = ProposeFor(
      3000, [](int i) { return absl::FormatCivilTime(absl::CivilDay(2025, 1, 1) + i % 700); });
  EXPECT_THAT(days.made, ElementsAre("x normalize", "x discretize", "x_weekday time_part",
                                     "x_month time_part"));
  EXPECT_THAT(days.notes.quantities, IsEmpty());
}

// A clock alone has hours, and no days.
TEST(TimesTest, ATimeOfDayIsOne) {
  const Proposed clock =
      ProposeFor(1000, [](int i) { return absl::StrFormat("%d:%02d", i * 7 % 24, i * 11 % 60); });
  EXPECT_THAT(clock.made, ElementsAre("x normalize", "x discretize", "x_hour time_part"));
}

// Seconds and milliseconds since 1970, as MovieLens and KuaiRec have them, where a column is called
// so or has no name.
TEST(TimesTest, MayBeNumbers) {
  const auto at = [](int i) { return absl::StrCat(964982703 + int64_t{7919} * i); };
  const Proposed seconds = ProposeFor(3000, at, "timestamp");
  ASSERT_THAT(seconds.made, ElementsAre("timestamp normalize", "timestamp discretize",
                                        "timestamp_hour time_part", "timestamp_weekday time_part"));
  EXPECT_EQ(seconds.spec.features[2].unit, "seconds");
  EXPECT_THAT(seconds.notes.quantities, IsEmpty()) << "nobody takes it for an id";
  const Proposed finer = ProposeFor(
      3000, [&](int i) { return absl::StrCat(at(20 * i), i % 97 == 0 ? "" : "437"); }, "seen_at");
  EXPECT_EQ(finer.made.back(), "seen_at_month time_part") << "of several years";
  EXPECT_EQ(finer.spec.features.back().unit, "milliseconds");
  // Midnights have no hour.
  const auto day = [](int i) { return absl::StrCat(1500076800 + int64_t{86400} * (i % 40)); };
  EXPECT_THAT(ProposeFor(3000, day, "date").made,
              ElementsAre("date normalize", "date discretize", "date_weekday time_part"));
  EXPECT_THAT(ProposeFor(3000, at, "account").made,
              ElementsAre("account normalize", "account discretize"));
  const auto short_time = [](int i) { return absl::StrCat(i * 7919 % 100003); };
  EXPECT_THAT(ProposeFor(3000, short_time, "watch_time").made,
              ElementsAre("watch_time normalize", "watch_time discretize"));
}

TEST(TimesTest, OfNumbersAreKnownByPartsOfTheirNames) {
  const auto is_time = [](const std::string& name) {
    const auto at = [](int i) { return absl::StrCat(964982703 + int64_t{7919} * i); };
    return absl::StrContains(absl::StrJoin(ProposeFor(1000, at, name).made, ","), "time_part");
  };
  for (const std::string name :
       {"time", "timestamp", "TIMESTAMP", "unix_time", "unixtime", "event-time", "eventTime",
        "time_ms", "created_at", "createdAt", "date", "Date 2", "date1", "datetime", "ts",
        "event_ts", "eventTS", "last.updated", "epoch"}) {
    EXPECT_TRUE(is_time(name)) << name;
  }
  for (const std::string name :
       {"candidate", "update", "sentiment", "timer", "dated", "stats", "at_home", "person", "x"}) {
    EXPECT_FALSE(is_time(name)) << name;
  }
}

// Ids of a table without names that look like seconds of 2001 keep their ids: they repeat. Where
// a name says that they are times, they are.
TEST(TimesTest, NumbersThatRepeatAreCodesUnlessTheirNameSaysOtherwise) {
  const auto id = [](int i) {
    return absl::StrCat(1'000'000'007 + int64_t{2'999'957} * (i % 300));
  };
  const auto made = [&](int distinct) {
    Analysis analysis = {.format = "csv", .columns = {"1", "2"}};
    analysis.stats.resize(2);
    for (int i = 0; i < 6000; ++i) {
      const std::string cell = distinct == 300 ? id(i) : absl::StrCat(964982703 + 7919 * i);
      analysis.Add(std::vector<absl::string_view>{i % 7 == 0 ? "1" : "0", cell});
    }
    const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "1");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? spec->features[2].name : "";
  };
  EXPECT_EQ(made(300), "2_value");
  EXPECT_EQ(made(6000), "2_hour");
  EXPECT_EQ(ProposeFor(6000, id, "timestamp").made[2], "timestamp_hour time_part");
}

// The digits of dates, as Avazu's column `hour` has them, where the name or all values say so.
TEST(TimesTest, MayBeTheDigitsOfDates) {
  const auto hour = [](int i) {  // Of ten days.
    return absl::StrFormat("1410%02d%02d", 21 + i / 24 % 10, i % 24);
  };
  const Proposed avazu = ProposeFor(6000, hour, "hour");
  ASSERT_THAT(avazu.made, ElementsAre("hour normalize", "hour discretize", "hour_hour time_part",
                                      "hour_weekday time_part"));
  EXPECT_EQ(avazu.spec.features[2].unit, "yymmddhh");
  EXPECT_THAT(ProposeFor(6000, hour, "3").made[2], "3_hour time_part") << "no name, all are hours";
  EXPECT_THAT(ProposeFor(24, hour, "hour").made,
              ElementsAre("hour normalize", "hour discretize", "hour_hour time_part"));
  const auto day = [](int i) {
    return absl::StrFormat("%d%02d%02d", 2012 + i % 3, 1 + i / 3 % 12, 1 + i / 36 % 28);
  };
  const Proposed days = ProposeFor(3000, day, "dt");
  EXPECT_THAT(days.made, ElementsAre("dt normalize", "dt discretize", "dt_weekday time_part",
                                     "dt_month time_part"));
  EXPECT_EQ(days.spec.features.back().unit, "yyyymmdd");
  // Two digits of 2020 and the year 2001: both are dates until an hour is 0.
  const auto turn = [](int i) { return absl::StrFormat("2001%02d%02d", 1 + i / 24 % 9, i % 24); };
  EXPECT_EQ(ProposeFor(3000, turn, "hour").spec.features[2].unit, "yymmddhh");
  // Where it is not known.
  const auto few = [&](int i) { return i % 100 == 0 ? "0" : hour(i); };
  EXPECT_EQ(ProposeFor(6000, few, "hour").spec.features[2].unit, "yymmddhh");
}

TEST(TimesTest, IdsThatLookLikeDatesStayIds) {
  const auto is_time = [](const std::string& name, const auto& cell) {
    return absl::StrContains(absl::StrJoin(ProposeFor(6000, cell, name).made, ","), "time_part");
  };
  const auto hour = [](int i) { return absl::StrFormat("1410%02d%02d", 21 + i / 24 % 10, i % 24); };
  EXPECT_TRUE(is_time("x", hour));
  EXPECT_FALSE(is_time("order_id", hour)) << "its name says what it is";
  EXPECT_FALSE(is_time("user", hour));
  // In a row, from a number on that is an hour: a day of them is no more than chance.
  const auto in_a_row = [](int i) { return absl::StrCat(14102100 + i % 200); };
  EXPECT_FALSE(is_time("x", in_a_row));
  EXPECT_FALSE(is_time("3", in_a_row));
  EXPECT_FALSE(is_time("hour", in_a_row)) << "most are none";
  EXPECT_FALSE(is_time("x", [](int i) { return absl::StrCat(14102100 + i % 24); })) << "too few";
  // One of the values is none, and nothing else says that the others are.
  EXPECT_FALSE(is_time("x", [&](int i) { return i == 77 ? "14102199" : hour(i); }));
  // An hour of the day is a number as it is.
  EXPECT_FALSE(is_time("hour", [](int i) { return absl::StrCat(i % 24); }));
  EXPECT_FALSE(is_time("date", [](int i) { return absl::StrCat(10102000 + 7 * (i % 999)); }));
}

// A few zeros, where the time is not known, do not make years of a week.
TEST(TimesTest, UnknownOnesMakeNoYears) {
  const auto at = [](int i) {
    return absl::StrCat(i % 100 == 0 ? 0 : 1'790'812'800 - 3 * 86400 + 199 * i);
  };
  EXPECT_THAT(
      ProposeFor(3000, at, "ts").made,
      ElementsAre("ts normalize", "ts discretize", "ts_hour time_part", "ts_weekday time_part"));
}

// The same bins as in its own format, in which counts have been learned from best.
TEST(CriteoTest, IsKnownByItsColumns) {
  const auto transform = [](const std::string& last) {
    Analysis analysis = {.format = "csv", .columns = {"label"}};
    for (int i = 1; i <= 13; ++i) analysis.columns.push_back(absl::StrCat("I", i));
    for (int i = 1; i <= 25; ++i) analysis.columns.push_back(absl::StrCat("C", i));
    analysis.columns.push_back(last);
    analysis.stats.resize(analysis.columns.size());
    for (int row = 0; row < 500; ++row) {
      std::vector<std::string> cells = {row % 3 == 0 ? "1" : "0"};
      for (int i = 1; i <= 13; ++i) cells.push_back(absl::StrCat(row * i % 400));
      for (int i = 1; i <= 26; ++i) cells.push_back(absl::StrCat("c", row * i % 30));
      analysis.Add(std::vector<absl::string_view>(cells.begin(), cells.end()));
    }
    analysis.ChooseStyles("label");
    const absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "label", {}, nullptr);
    return spec->features[0].transform + " " + spec->features[1].transform;
  };
  EXPECT_EQ(transform("C26"), "log criteo");
  EXPECT_EQ(transform("city"), "normalize discretize");
}

// What KuaiRec and its like have: a list as Python writes it.
TEST(BagsTest, MayStandInBrackets) {
  const Proposed tags = ProposeFor(1000, [](int i) {
    return i % 7 == 0   ? "[]"
           : i % 2 == 0 ? absl::StrCat("[", i % 31, "]")
                        : absl::StrCat("[", i % 31, ", ", i % 29, ", ", i % 5, "]");
  });
  ASSERT_THAT(tags.made, ElementsAre("x merge_rare"));
  EXPECT_EQ(tags.spec.features[0].separator, ",");
  EXPECT_TRUE(tags.spec.features[0].brackets);
  EXPECT_THAT(tags.spec.features[0].vocabulary, SizeIs(31));
}

// Brackets around each value belong to it.
TEST(BagsTest, MayHaveValuesInBrackets) {
  const auto genre = [](int i) { return absl::StrCat("[g", i, "]"); };
  const Proposed films = ProposeFor(1000, [&](int i) {
    return i % 3 == 0 ? genre(i % 7) : absl::StrCat(genre(i % 7), "|", genre(i % 5));
  });
  ASSERT_THAT(films.made, ElementsAre("x merge_rare"));
  EXPECT_EQ(films.spec.features[0].separator, "|");
  EXPECT_FALSE(films.spec.features[0].brackets);
  EXPECT_THAT(
      films.spec.features[0].vocabulary,
      testing::UnorderedElementsAre("[g0]", "[g1]", "[g2]", "[g3]", "[g4]", "[g5]", "[g6]"));
}

// With the day or the month first, days beyond the twelfth tell which; else nobody can.
TEST(TimesTest, OtherDatesSayTheirOrder) {
  const auto made = [](absl::string_view format, int days) {
    const Proposed proposed =
        ProposeFor(1000, [&](int i) { return absl::Substitute(format, 10 + i % 3, 1 + i % days); });
    if (!proposed.notes.dates.empty()) return proposed.notes.dates[0].text + " is told";
    for (const FeatureSpec& f : proposed.spec.features) {
      if (f.transform == "time_part") return f.name + " " + f.date;
    }
    return std::string();
  };
  EXPECT_EQ(made("$0/$1/2026", 28), "x_weekday month_first");
  EXPECT_EQ(made("$1/$0/2026", 28), "x_weekday day_first");
  EXPECT_EQ(made("$0/$1/26 5:09 PM", 28), "x_weekday month_first");
  EXPECT_EQ(made("$0/$1/2026", 12), "10/1/2026 is told");
  EXPECT_EQ(made("$1.$0.2026", 12), "x_weekday day_first");
  EXPECT_EQ(made("2026-$0-$1", 28), "x_weekday year_first");
  EXPECT_EQ(made("$0.$1.20", 28), "") << "a version";
  EXPECT_EQ(made("$1.$0.26 5:09", 28), "x_weekday day_first");
  EXPECT_EQ(made("$1.$0.26 5:99", 28), "1.10.26 5:99 is told");
}

TEST(AmountsTest, AreNumbersIfSomeAreSure) {
  const auto made = [](const std::function<std::string(int)>& make, NumberStyle* style) {
    const Proposed proposed = ProposeFor(1000, make);
    *style =
        proposed.spec.features.empty() ? NumberStyle::kPlain : proposed.spec.features[0].style();
    return proposed.notes.styled.empty() ? "" : proposed.notes.styled[0].text;
  };
  NumberStyle style;
  EXPECT_EQ(made([](int i) { return absl::StrCat("$1,", 100 + i % 90, ".50"); }, &style),
            "$1,100.50");
  EXPECT_EQ(style, NumberStyle::kAmount);
  EXPECT_EQ(made([](int i) { return absl::StrCat(i % 90, "%"); }, &style), "0%");
  EXPECT_EQ(style, NumberStyle::kAmount);
  EXPECT_EQ(made([](int i) { return absl::StrCat(i % 90, ",5 €"); }, &style), "0,5 €");
  EXPECT_EQ(style, NumberStyle::kCommaAmount);
  // One that is beyond doubt tells what the others are.
  EXPECT_EQ(made([](int i) { return absl::StrCat(i % 7 == 0 ? "1," : "", 100 + i % 90, ",250"); },
                 &style),
            "105,250");
  EXPECT_EQ(style, NumberStyle::kAmount);
  // Without such a one they are the same, and it is told.
  const auto maybe = [](int i) { return i % 9 == 0 ? "950" : absl::StrCat(1 + i % 90, ",250"); };
  EXPECT_EQ(made(maybe, &style), "2,250");
  EXPECT_EQ(style, NumberStyle::kAmount);
  EXPECT_FALSE(ProposeFor(1000, maybe).notes.styled[0].is_sure);
}

TEST(StrangersTest, ManyOfThemAreWords) {
  const Proposed sizes =
      ProposeFor(1000, [](int i) { return i % 40 == 0 ? "large" : absl::StrCat(i % 20); });
  EXPECT_THAT(sizes.made, ElementsAre("x merge_rare"));
  EXPECT_THAT(sizes.notes.strange, IsEmpty());
  const Proposed clean = ProposeFor(1000, [](int i) { return absl::StrCat(i % 20); });
  EXPECT_FALSE(clean.spec.features[0].malformed_is_missing);
}

// Who was first by the alphabet is told, whoever came first and in whichever part.
TEST(StrangersTest, AreTheSameInAnyOrder) {
  ColumnStats forward, parts[2];
  for (int i = 0; i < 900; ++i) {
    const std::string cell = i % 2 == 0 ? absl::StrCat(i) : absl::StrCat("s", i % 19);
    forward.Add(cell);
    parts[i / 450].Add(cell);
  }
  parts[1].Merge(parts[0]);
  EXPECT_EQ(parts[1].stranger_texts(), forward.stranger_texts());
  EXPECT_EQ(forward.stranger_texts().begin()->first, "s0");
  EXPECT_EQ(forward.stranger_texts().size(), 5u);
}

// Latin-1 has no place in a vocabulary, and is no rare value for that.
TEST(GarbledTest, WordsHaveIdsByTheirHash) {
  const Proposed cities = ProposeFor(600, [](int i) {
    return i % 3 == 0 ? "K\xf6ln" : i % 3 == 1 ? "S\xe3o Paulo" : "Oslo";
  });
  EXPECT_THAT(cities.made, ElementsAre("x hash"));
  ASSERT_EQ(cities.notes.garbled.size(), 1u);
  EXPECT_EQ(cities.notes.garbled[0].column, "x");
  EXPECT_EQ(cities.notes.garbled[0].text, "K\xf6ln");
  EXPECT_TRUE(cities.notes.garbled[0].is_hashed);
}

TEST(GarbledTest, AFewAreTakenForRareOnesAndTold) {
  const Proposed cities = ProposeFor(6000, [](int i) {
    return i % 1000 == 0 ? "K\xf6ln" : i % 2 == 0 ? "S\xc3\xa3o Paulo" : "Oslo";
  });
  EXPECT_THAT(cities.made, ElementsAre("x merge_rare"));
  ASSERT_EQ(cities.notes.garbled.size(), 1u);
  EXPECT_FALSE(cities.notes.garbled[0].is_hashed);
  const Proposed clean = ProposeFor(600, [](int i) { return i % 2 == 0 ? "K\xc3\xb6ln" : "Oslo"; });
  EXPECT_THAT(clean.notes.garbled, IsEmpty());
}

// An income among entries of 1: told, with the worst.
TEST(EntriesTest, ValuesFarFromOneAreTold) {
  const auto notes_for = [](const std::string& largest) {
    Analysis svm = {.format = "libsvm", .columns = {"label", "entries"}};
    svm.stats.resize(2);
    for (int i = 0; i < 50; ++i) {
      const std::string cell = absl::StrCat("7 1:0.", i, " 2:", i == 9 ? largest : "-19");
      svm.Add(std::vector<absl::string_view>{i % 3 == 0 ? "1" : "0", cell});
    }
    ProposalNotes notes;
    EXPECT_TRUE(ProposeFeatures(svm, "label", {}, &notes).ok());
    return notes.unscaled;
  };
  EXPECT_THAT(notes_for("3"), IsEmpty());
  ASSERT_EQ(notes_for("-52000").size(), 1u);
  EXPECT_EQ(notes_for("-52000")[0].entry, "2");
  EXPECT_EQ(notes_for("-52000")[0].value, -52000);
}

// When it happened, and where in the town: small ranges of large numbers have bins like any other.
TEST(NarrowTest, DatesAndPlacesHaveBins) {
  Rng rng(1);
  const Proposed when = ProposeFor(
      30000, [&](int) { return absl::StrCat(1'700'000'000 + rng.Below(172'800)); }, "ts");
  ASSERT_THAT(when.made, ElementsAre("ts normalize", "ts discretize", "ts_hour time_part",
                                     "ts_weekday time_part"));
  EXPECT_THAT(when.spec.features[1].boundaries, SizeIs(testing::Ge(55u)));
  const Proposed where = ProposeFor(
      30000, [&](int) { return absl::StrFormat("%.6f", -74.02 + rng.Uniform(0, 0.08)); }, "lon");
  ASSERT_THAT(where.made, ElementsAre("lon normalize", "lon discretize"));
  EXPECT_THAT(where.spec.features[1].boundaries, SizeIs(testing::Ge(55u)));
}

// Of more numbers than there may be fields some have no bins; of so many names nothing is proposed.
TEST(WideTest, NumbersDoWithoutBinsBeforeThereAreTooManyFields) {
  const auto propose = [](int columns, bool numbers) {
    Analysis analysis = {.format = "csv", .columns = {"label"}};
    for (int i = 0; i < columns; ++i) analysis.columns.push_back(absl::StrCat("c", i));
    analysis.stats.resize(analysis.columns.size());
    for (int row = 0; row < 60; ++row) {
      std::vector<std::string> cells = {row % 3 == 0 ? "1" : "0"};
      for (int i = 0; i < columns; ++i) {
        cells.push_back(absl::StrCat(numbers ? "" : "n", (row + i) % 20, numbers ? ".5" : ""));
      }
      analysis.Add(std::vector<absl::string_view>(cells.begin(), cells.end()));
    }
    absl::StatusOr<FeaturesSpec> spec = ProposeFeatures(analysis, "label");
    EXPECT_TRUE(!spec.ok() || Pipeline::Create(*spec, analysis.columns, {}).ok());
    return spec;
  };
  const absl::StatusOr<FeaturesSpec> numbers = propose(300, true);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_THAT(numbers->features, SizeIs(300 + 255));
  EXPECT_EQ(numbers->features.back().transform, "normalize");
  EXPECT_TRUE(propose(255, false).ok());
  EXPECT_THAT(propose(256, false).status().message(),
              testing::HasSubstr("256 columns of names, more than the 255"));
}

}  // namespace
}  // namespace rubato

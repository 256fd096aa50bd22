// Numbers through a pipeline, however their column writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rubato/data/ids.h"
#include "rubato/features/pipeline.h"
#include "rubato/features/pipeline_testing.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Batch Apply(const FeaturesSpec& spec, const std::vector<std::vector<absl::string_view>>& rows) {
  return ApplyTo({"click", "age"}, spec, rows);
}

std::string WhyNot(const FeaturesSpec& spec) {
  return std::string(Pipeline::Create(spec, {"click", "age"}, {}).status().message());
}

// What is no number with a decimal comma either is malformed, by the same rule.
TEST(StylesTest, NumbersMayHaveADecimalComma) {
  FeaturesSpec spec;
  spec.features = {Feature("number", {"age"}), Feature("discretize", {"age"})};
  spec.features[1].boundaries = {3, 5};
  const auto pipeline = [&] { return Pipeline::Create(spec, {"click", "age"}, {}); };
  EXPECT_FALSE(pipeline()->NewChunk().Add({"1", "4,5"}).ok());
  spec.features[0].decimal_comma = true;
  EXPECT_THAT(WhyNot(spec),
              HasSubstr("a feature above reads column 'age' with `decimal: comma`, this one as "
                        "plain numbers; both read it alike"));
  spec.features[1].decimal_comma = true;
  const Batch batch = Apply(spec, {{"1", "4,5"}, {"0", "4.5"}, {"0", ""}});
  EXPECT_THAT(batch.dense, ElementsAre(4.5, 4.5, 0));
  EXPECT_EQ(batch.ids[0], batch.ids[1]);
  EXPECT_THAT(pipeline()->NewChunk().Add({"1", "4,5,6"}).message(),
              HasSubstr("column 'age', '4,5,6', is not a finite number"));
  for (FeatureSpec& f : spec.features) f.malformed_is_missing = true;
  EXPECT_THAT(Apply(spec, {{"1", "4,5,6"}}).dense, ElementsAre(0));
}

// A time is seconds, and its parts are ids; what is missing has an id of its own in each.
TEST(StylesTest, TimesAndTheirParts) {
  FeaturesSpec spec;
  spec.features = {Feature("number", {"age"}), Feature("time_part", {"age"}),
                   Feature("time_part", {"age"})};
  spec.features[1].part = "hour";
  spec.features[2].name = "weekday";
  EXPECT_THAT(WhyNot(spec), HasSubstr("part: '' is not one of hour, weekday, day, month"));
  spec.features[2].part = "weekday";
  EXPECT_THAT(WhyNot(spec), HasSubstr("reads column 'age' as plain numbers, this one as times"));
  spec.features[0].read = "time";
  const Batch batch = Apply(spec, {{"1", "2026-11-18 05:09:14"},
                                   {"0", "2026-11-25T06:30:00+01:00"},
                                   {"0", "2026-11-26"},
                                   {"0", ""}});
  EXPECT_THAT(batch.dense, ElementsAre(1794978554.f, 1795584600.f, 1795651200.f, 0));
  EXPECT_THAT(batch.ids,
              ElementsAre(FieldIdOfInteger(0, 5), FieldIdOfInteger(1, 2), FieldIdOfInteger(0, 5),
                          FieldIdOfInteger(1, 2), FieldIdOfInteger(0, 0), FieldIdOfInteger(1, 3),
                          FieldIdOfText(0, ""), FieldIdOfText(1, "")));
  const auto pipeline = Pipeline::Create(spec, {"click", "age"}, {});
  EXPECT_EQ(pipeline->NewChunk().Add({"1", "18.11.2026"}).message(),
            "column 'age', '18.11.2026', is no time, as 2026-11-18 or 2026-11-18 05:09:14");
  EXPECT_FALSE(pipeline->NewChunk().Add({"1", "1794978554"}).ok());
  for (FeatureSpec& f : spec.features) f.malformed_is_missing = true;
  EXPECT_EQ(Apply(spec, {{"1", "0000-00-00"}}).ids[0], FieldIdOfText(0, ""));
  for (FeatureSpec& f : spec.features) f.date = "day_first";
  EXPECT_EQ(Apply(spec, {{"1", "18.11.2026 05:00"}}).ids[0], FieldIdOfInteger(0, 5));
  spec.features[1].date = "month_first";
  EXPECT_THAT(WhyNot(spec), HasSubstr("as times with `date: day_first`, this one as times with"));
  spec.features[0].decimal_comma = true;
  EXPECT_THAT(WhyNot(spec), HasSubstr("decimal: a time has no decimal comma"));
  spec.features[0].read = "tine";
  EXPECT_THAT(WhyNot(spec), HasSubstr("is not one of number, amount, time; did you mean 'time'?"));
  spec.features = {Feature("number", {"age"})};
  spec.features[0].date = "day_first";
  EXPECT_THAT(WhyNot(spec), HasSubstr("date: goes with `read: time`"));
}

// What is beyond all that training saw is as far as the farthest of it, and no farther.
TEST(StylesTest, NormalizedNumbersMayHaveBounds) {
  FeaturesSpec spec;
  spec.features = {Feature("normalize", {"age"})};
  FeatureSpec& f = spec.features[0];
  f.mean = 40, f.deviation = 10;
  const std::vector<std::vector<absl::string_view>> rows = {
      {"1", "10"}, {"1", "50"}, {"1", "1e9"}, {"1", ""}};
  EXPECT_THAT(Apply(spec, rows).dense, ElementsAre(-3, 1, 99999996, 0));
  f.min = 20;
  EXPECT_THAT(Apply(spec, rows).dense, ElementsAre(-2, 1, 99999996, 0));
  f.max = 70;
  EXPECT_THAT(Apply(spec, rows).dense, ElementsAre(-2, 1, 3, 0));
  f.max = 10;
  EXPECT_THAT(WhyNot(spec), HasSubstr("min: 20 to max, 10, is no range"));
}

// A number since 1970 is one like others, beside which its parts are ids.
TEST(StylesTest, NumbersMayBeTimes) {
  FeaturesSpec spec;
  spec.features = {Feature("number", {"age"}), Feature("time_part", {"age"}),
                   Feature("time_part", {"age"})};
  spec.features[1].part = "hour";
  spec.features[2].name = "weekday";
  spec.features[2].part = "weekday";
  for (const auto& [unit, zeros] : {std::pair("seconds", ""), std::pair("milliseconds", "000"),
                                    std::pair("microseconds", "000000")}) {
    spec.features[1].unit = spec.features[2].unit = unit;
    const std::string time = absl::StrCat("1794978554", zeros);
    const Batch batch = Apply(spec, {{"1", time}, {"0", ""}, {"0", "-1e30"}});
    EXPECT_THAT(batch.ids,
                ElementsAre(FieldIdOfInteger(0, 5), FieldIdOfInteger(1, 2), FieldIdOfText(0, ""),
                            FieldIdOfText(1, ""), FieldIdOfText(0, ""), FieldIdOfText(1, "")))
        << unit;
    EXPECT_EQ(batch.dense[0], static_cast<float>(std::stod(time)));
  }
  spec.features[1].unit = spec.features[2].unit = "yymmddhh";
  const Batch digits = Apply(spec, {{"1", "14102117"}, {"0", "14102124"}});
  EXPECT_THAT(digits.ids, ElementsAre(FieldIdOfInteger(0, 17), FieldIdOfInteger(1, 1),
                                      FieldIdOfText(0, ""), FieldIdOfText(1, "")));
  spec.features[1].unit = "second";
  EXPECT_THAT(WhyNot(spec), HasSubstr("unit: 'second' is not one of seconds, milliseconds, "
                                      "microseconds, yymmddhh, yyyymmdd, yyyymmddhh, "
                                      "yyyymmddhhmm, yyyymmddhhmmss; did you mean 'seconds'?"));
  spec.features[1].unit = "";
  EXPECT_THAT(WhyNot(spec), HasSubstr("reads column 'age' as plain numbers, this one as times"));
}

TEST(StylesTest, AmountsAreNumbers) {
  FeaturesSpec spec;
  spec.features = {Feature("number", {"age"})};
  spec.features[0].read = "amount";
  EXPECT_THAT(Apply(spec, {{"1", "$1,234.50"}, {"0", "12%"}, {"0", "7"}}).dense,
              ElementsAre(1234.5, 12, 7));
  spec.features[0].decimal_comma = true;
  EXPECT_THAT(Apply(spec, {{"1", "1.234,50 €"}}).dense, ElementsAre(1234.5));
}

}  // namespace
}  // namespace rubato

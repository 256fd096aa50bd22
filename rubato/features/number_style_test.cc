#include "rubato/features/number_style.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

struct Case {
  const char* text;
  double number;
};

TEST(NumberStyleTest, AmountsHaveSignsAndThousands) {
  for (const auto& [text, number] : {Case{"$1,234.50", 1234.5},
                                     {"-$5", -5},
                                     {"$-5", -5},
                                     {"($5.25)", -5.25},
                                     {"(7)", -7},
                                     {"12%", 12},
                                     {"-12.5 %", -12.5},
                                     {"€ 3", 3},
                                     {"3\u00a0€", 3},
                                     {"£.5", 0.5},
                                     {"1,234,567", 1234567},
                                     {"¥1,000", 1000},
                                     {"12", 12},
                                     {"-1e3", -1000},
                                     {"$1e3", 1000}}) {
    EXPECT_EQ(ToNumber(text, NumberStyle::kAmount), number) << text;
  }
  for (const auto& [text, number] :
       {Case{"1.234,50 €", 1234.5}, {"-12,5%", -12.5}, {"3,14", 3.14}, {"€ 7", 7}, {"2.5", 2.5}}) {
    EXPECT_EQ(ToNumber(text, NumberStyle::kCommaAmount), number) << text;
  }
}

TEST(NumberStyleTest, OtherTextsAreNone) {
  for (const char* text :
       {"",      "$",    "%",      "()",   "(-5)",      "--5",    "$$5",      "$5$",
        "5%%",   "1,23", "1,2345", ",123", "12,34,567", "1,234,", "0,500",    "1.5,000",
        "5 USD", "a%",   "$nan",   "inf%", "5 kg",      "$ ",     "1,234.5.6"}) {
    EXPECT_FALSE(ToNumber(text, NumberStyle::kAmount).has_value()) << text;
  }
  EXPECT_FALSE(ToNumber("1,234.50 €", NumberStyle::kCommaAmount).has_value());
  EXPECT_FALSE(ToNumber("12", NumberStyle::kTime).has_value());
  EXPECT_TRUE(std::isnan(*ToNumber("nan", NumberStyle::kAmount)));
}

TEST(NumberStyleTest, SomeAmountsAreSure) {
  for (const char* text : {"$5", "12%", "1,234.5", "1,234,567"}) {
    EXPECT_TRUE(IsSurelyAmount(text)) << text;
  }
  for (const char* text : {"5", "1,500", "3,14", "(5)", "Rome"}) {
    EXPECT_FALSE(IsSurelyAmount(text)) << text;
  }
}

// Whatever is written around a number, it stays the same.
TEST(NumberStyleTest, DressesDoNotChangeANumber) {
  for (int i = 0; i < 5000; ++i) {
    const int whole = i * 7919 % 2000000, cents = i % 100;
    std::string thousands = absl::StrCat(whole % 1000);
    if (whole >= 1000) {
      thousands =
          absl::StrCat(whole / 1000 % 1000, ",", std::string(3 - thousands.size(), '0'), thousands);
    }
    if (whole >= 1000000) {
      const size_t comma = thousands.find(',');
      thousands = absl::StrCat("1,", std::string(3 - comma, '0'), thousands);
    }
    const std::string behind = absl::StrCat(cents < 10 ? "0" : "", cents);
    const double number = std::stod(absl::StrCat(whole, ".", behind));
    const std::string text = absl::StrCat(thousands, ".", behind);
    ASSERT_EQ(ToNumber(absl::StrCat("$", text), NumberStyle::kAmount), number) << text;
    ASSERT_EQ(ToNumber(absl::StrCat("-", text, " %"), NumberStyle::kAmount), -number) << text;
    ASSERT_EQ(ToNumber(absl::StrCat("(", text, " €)"), NumberStyle::kAmount), -number) << text;
  }
}

}  // namespace
}  // namespace rubato

// Every transform against answers worked out elsewhere, edges first.
#include "rubato/features/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rubato/features/fingerprint.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(TransformsTest, ACommaMayStandForThePoint) {
  EXPECT_EQ(ToNumberWithComma("3,14"), 3.14);
  EXPECT_EQ(ToNumberWithComma("-0,5"), -0.5);
  EXPECT_EQ(ToNumberWithComma(",25"), 0.25);
  EXPECT_EQ(ToNumberWithComma("1.234,5"), 1234.5);
  EXPECT_EQ(ToNumberWithComma("-12.345.678,90"), -12345678.9);
  EXPECT_EQ(ToNumberWithComma("1,5e3"), 1500);
  // Without a comma nothing changes: as JSON and databases write them.
  EXPECT_EQ(ToNumberWithComma("17"), 17);
  EXPECT_EQ(ToNumberWithComma("3.14"), 3.14);
  EXPECT_TRUE(std::isnan(ToNumberWithComma("NaN").value()));
  for (const char* bad : {"", ",", "3,", "1,2,3", "1,234.5", "1.23,4", "1234.567,8", ".123,4",
                          "a,5", "1,-5", "1.234.,5", "1..234,5", "nan,5", "1,e5"}) {
    EXPECT_FALSE(ToNumberWithComma(bad).has_value()) << bad;
  }
}

// FarmHash's published values, one for each way it takes by length.
TEST(FingerprintTest, IsFarmHash) {
  const auto repeat = [](int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += "test";
    return text;
  };
  EXPECT_EQ(static_cast<int64_t>(Fingerprint("")), -7286425919675154353);
  EXPECT_EQ(static_cast<int64_t>(Fingerprint("test")), 8581389452482819506);
  EXPECT_EQ(static_cast<int64_t>(Fingerprint("1footrue")), -1541654101129638711);
  EXPECT_EQ(static_cast<int64_t>(Fingerprint("2applefalse")), 2794438866806483259);
  EXPECT_EQ(static_cast<int64_t>(Fingerprint("3true")), -4880158226897771312);
  EXPECT_EQ(static_cast<int64_t>(Fingerprint(repeat(8))), -4196240717365766262);
  EXPECT_EQ(static_cast<int64_t>(Fingerprint(repeat(64))), 3500507768004279527);
}

// Between the published lengths: every length has a value of its own, and no byte is left out.
TEST(FingerprintTest, EveryByteCounts) {
  std::string text;
  for (int size = 1; size <= 200; ++size) {
    text.push_back(static_cast<char>('a' + size % 26));
    const uint64_t whole = Fingerprint(text);
    for (char& c : text) {
      c ^= 1;
      EXPECT_NE(Fingerprint(text), whole) << text;
      c ^= 1;
    }
  }
}

TEST(TransformsTest, NumbersAreReadOrRefused) {
  EXPECT_EQ(ToNumber("0"), 0);
  EXPECT_EQ(ToNumber("-17"), -17);
  EXPECT_EQ(ToNumber("123456789012345678"), 123456789012345678.0);
  EXPECT_EQ(ToNumber("2.5e3"), 2500);
  EXPECT_TRUE(std::isnan(ToNumber("NaN").value()));
  for (const char* bad : {"", "-", "abc", "1.2.3", "inf", "-Infinity", "1e999", "0x"}) {
    EXPECT_FALSE(ToNumber(bad).has_value()) << bad;
  }
}

TEST(TransformsTest, NormalizeRoundsInTheEnd) {
  EXPECT_FLOAT_EQ(Normalize(5, 3, 2), 1);
  EXPECT_FLOAT_EQ(Normalize(-1, 0, 0.5), -2);
  EXPECT_EQ(Normalize(-3e38, 0, 0.1), std::numeric_limits<float>::lowest());
  // A date of 2023 and one a second later, which in 32 bits are the same.
  EXPECT_EQ(Normalize(1'700'000'001, 1'700'000'000, 1), 1);
}

TEST(TransformsTest, SignedLogIsOdd) {
  EXPECT_FLOAT_EQ(SignedLog(std::exp(1.0) - 1), 1);
  EXPECT_FLOAT_EQ(SignedLog(-3), -SignedLog(3));
  EXPECT_EQ(SignedLog(0), 0);
}

TEST(TransformsTest, DiscretizeCountsBoundariesBelow) {
  const std::vector<double> boundaries = {0, 1, 2};
  const auto id = [&](double x) { return Discretize(x, boundaries); };
  EXPECT_EQ(id(-0.5), 0);
  EXPECT_EQ(id(0), 1) << "a boundary belongs to the bucket above it";
  EXPECT_EQ(id(0.99), 1);
  EXPECT_EQ(id(2), 3);
  EXPECT_EQ(id(1e300), 3);
  EXPECT_EQ(id(kNan), 3);
}

TEST(TransformsTest, LogRound) {
  const auto id = [](double x) { return LogRound(x, 2, 16); };
  EXPECT_THAT((std::vector<int64_t>{id(1.2), id(1.6), id(0.2), id(3.1), id(100)}),
              ElementsAre(0, 1, 0, 2, 7));
  EXPECT_EQ(id(0), 0);
  EXPECT_EQ(id(-8), 0);
  EXPECT_EQ(id(kNan), 0);
  EXPECT_EQ(id(1 << 15), 15);
  EXPECT_EQ(id(1 << 16), 0) << "16 is not among 16 buckets";
  EXPECT_EQ(LogRound(std::exp(3.0), 0, 8), 3);
  EXPECT_EQ(LogRound(-1, 2, 16, 5), 5);
}

TEST(TransformsTest, RoundIdentityRoundsHalfToEven) {
  const auto id = [](double x) { return RoundIdentity(x, 5); };
  EXPECT_EQ(id(1.2), 1);
  EXPECT_EQ(id(1.5), 2);
  EXPECT_EQ(id(2.5), 2);
  EXPECT_EQ(id(0.5), 0);
  EXPECT_EQ(id(4.5), 4);
  EXPECT_EQ(id(4.6), 0) << "5 is not among 5 buckets";
  EXPECT_EQ(id(-0.4), 0);
  EXPECT_EQ(id(-1), 0);
  EXPECT_EQ(id(1e18), 0);
  EXPECT_EQ(RoundIdentity(kNan, 5, 3), 3);
}

TEST(TransformsTest, HashBuckets) {
  const auto id = [](absl::string_view text) { return HashBucket(text, 3); };
  EXPECT_THAT((std::vector<int64_t>{id("A"), id("B"), id("C"), id("D"), id("E")}),
              ElementsAre(1, 0, 1, 1, 2));
}

TEST(TransformsTest, VocabularyKnowsPositions) {
  const absl::StatusOr<Vocabulary> words = Vocabulary::Make({"red", "green", ""});
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(words->Find("red", 1), 0);
  EXPECT_EQ(words->Find("green", 4), 1);
  EXPECT_EQ(words->Find("", 1), 2) << "a blank word is a word";
  EXPECT_EQ(words->Find("blue", 1), 3);
  EXPECT_EQ(words->Find("blue", 4), 3 + HashBucket("blue", 4));
  EXPECT_THAT(Vocabulary::Make({"a", "b", "a"}).status().message(),
              HasSubstr("'a' is word 1 and again word 3"));
}

TEST(TransformsTest, CellsOfSeveralValues) {
  const auto parts = [](absl::string_view cell, size_t most, bool brackets = false) {
    std::vector<std::string> parts;
    SplitValues(cell, '|', brackets, [&](absl::string_view part) {
      parts.emplace_back(part);
      return parts.size() != most;
    });
    return parts;
  };
  EXPECT_THAT(parts("a|b|c", 0), ElementsAre("a", "b", "c"));
  EXPECT_THAT(parts(" a ||b|", 0), ElementsAre("a", "b"));
  EXPECT_THAT(parts("a|b|c", 2), ElementsAre("a", "b"));
  EXPECT_THAT(parts("", 0), ElementsAre());
  // As JSON and Python write lists, if somebody says so.
  EXPECT_THAT(parts("[6| 41|6]", 0, true), ElementsAre("6", "41", "6"));
  EXPECT_THAT(parts("[6| 41|6]", 0), ElementsAre("[6", "41", "6]"));
  EXPECT_THAT(parts("['drama'| \"war\"|'|'']", 0, true), ElementsAre("drama", "war", "'"));
  EXPECT_THAT(parts("['drama'| \"war\"]", 0), ElementsAre("['drama'", "\"war\"]"));
  EXPECT_THAT(parts("[]", 0, true), ElementsAre());
  EXPECT_THAT(parts("[a]", 0, true), ElementsAre("a"));
  EXPECT_THAT(parts("[a]|'b'|[c", 0, true), ElementsAre("[a]", "'b'", "[c"));
  EXPECT_THAT(parts("[a]|[b]", 0, true), ElementsAre("[a]", "[b]"));
  EXPECT_THAT(parts("[", 0, true), ElementsAre("["));
  EXPECT_THAT(parts("]", 0, true), ElementsAre("]"));
}

TEST(TransformsTest, WeightsStandBehindTheLastSeparator) {
  const struct {
    const char* cell;
    const char* value;
    float weight;
  } cases[] = {{"action:0.5", "action", 0.5f}, {"action", "action", 1}, {"a:b:2", "a:b", 2},
               {"http://x", "http://x", 1},    {":3", ":3", 1},         {"a:", "a:", 1},
               {"a:nan", "a:nan", 1},          {"a:inf", "a:inf", 1},   {"a:-2e1", "a", -20},
               {"a:1e39", "a:1e39", 1}};
  for (const auto& c : cases) {
    absl::string_view part = c.cell;
    EXPECT_EQ(TakeWeight(&part, ':'), c.weight) << c.cell;
    EXPECT_EQ(part, c.value) << c.cell;
  }
}

TEST(TransformsTest, CrossesKeepTheirOrder) {
  EXPECT_NE(CrossCode(1, 2), CrossCode(2, 1));
  EXPECT_NE(CrossCode(CrossCode(0, 1), 2), CrossCode(CrossCode(0, 12), 0));
}

}  // namespace
}  // namespace rubato

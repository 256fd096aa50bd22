#include "rubato/data/record_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;

// Every record of `text`, blank ones too, read through a window that first shows one byte and
// grows whenever the splitter asks for more.
std::vector<std::string> SplitAll(const std::string& text, RecordRule rule, size_t window) {
  std::vector<std::string> records;
  size_t begin = 0, end = 0;
  while (true) {
    const bool at_end = end == text.size();
    const absl::string_view seen(text.data() + begin, end - begin);
    if (const auto record = FirstRecord(seen, at_end, rule)) {
      records.emplace_back(record->bytes);
      begin += record->size;
    } else if (at_end) {
      return records;
    } else {
      end = std::min(text.size(), end + window);
    }
  }
}

TEST(FirstRecordTest, LinesEndAsTheyMay) {
  EXPECT_THAT(SplitAll("a\nb\r\n\n\"c\nd", RecordRule::kLines, 1),
              ElementsAre("a", "b", "", "\"c", "d"));
  EXPECT_THAT(SplitAll("", RecordRule::kLines, 1), ElementsAre());
  EXPECT_THAT(SplitAll("\n", RecordRule::kLines, 1), ElementsAre(""));
  EXPECT_THAT(SplitAll("last\r", RecordRule::kLines, 1), ElementsAre("last"));
}

TEST(FirstRecordTest, QuotedLineBreaksBelongToTheRecord) {
  EXPECT_THAT(SplitAll("a,\"x\ny\",b\nc\n", RecordRule::kQuoted, 1),
              ElementsAre("a,\"x\ny\",b", "c"));
  EXPECT_THAT(SplitAll("\"a\"\"\n\"\"b\"\r\nc", RecordRule::kQuoted, 1),
              ElementsAre("\"a\"\"\n\"\"b\"", "c"));
  // A quote within a field is a letter like any other.
  EXPECT_THAT(SplitAll("5\" nail,x\n6\",y", RecordRule::kQuoted, 1),
              ElementsAre("5\" nail,x", "6\",y"));
  EXPECT_EQ(FirstRecord("\"x\ny\",b\nc", true, RecordRule::kQuoted)->lines, 2);
}

TEST(FirstRecordTest, OtherDelimitersBeginAFieldAsWell) {
  EXPECT_THAT(SplitAll("a\t\"x\ny\"\nb,\"z\nc", RecordRule::kQuotedTabs, 1),
              ElementsAre("a\t\"x\ny\"", "b,\"z", "c"));
  EXPECT_THAT(SplitAll("a;\"x\ny\"\n", RecordRule::kQuotedSemicolons, 1),
              ElementsAre("a;\"x\ny\""));
  EXPECT_THAT(SplitAll("a|\"x\ny\"\n", RecordRule::kQuotedBars, 1), ElementsAre("a|\"x\ny\""));
}

// As exporters write it that put a blank behind every comma.
TEST(FirstRecordTest, BlanksBeforeAQuoteAreNoPartOfTheField) {
  EXPECT_THAT(SplitAll("a, \"x\ny\" ,b\n \t\"c\nd\"\n", RecordRule::kQuoted, 1),
              ElementsAre("a, \"x\ny\" ,b", " \t\"c\nd\""));
  EXPECT_THAT(SplitAll("a\t \"x\ny\"\n", RecordRule::kQuotedTabs, 1), ElementsAre("a\t \"x\ny\""));
  EXPECT_THAT(SplitAll("\t\t\"x\ny\"\n", RecordRule::kQuotedTabs, 1), ElementsAre("\t\t\"x\ny\""));
  EXPECT_THAT(SplitAll("a, 5 \"x\ny\"\n", RecordRule::kQuoted, 1), ElementsAre("a, 5 \"x", "y\""));
}

// Quotes that are meant as letters swallow no lines: the first is its line's trouble alone.
TEST(FirstRecordTest, StrayQuotesSwallowNoLines) {
  std::string text;
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; ++i) {
    lines.push_back(i == 100 ? "1\t\"shoes\tx" : i == 400 ? "0\t\"boots\"\ty" : "1\tsocks\tz");
    text += lines.back() + "\n";
  }
  EXPECT_EQ(SplitAll(text, RecordRule::kQuotedTabs, 7), lines);
  EXPECT_THAT(SplitAll("\"a\nb\"c,d\n", RecordRule::kQuoted, 1), ElementsAre("\"a", "b\"c,d"));
  // What is before it in its record stays whole.
  EXPECT_THAT(SplitAll("\"a\nb\",\"c\nd\"e\n", RecordRule::kQuoted, 1),
              ElementsAre("\"a\nb\",\"c", "d\"e"));
  // Blanks before the delimiter are no harm, nor is text behind a quote that closes in its line.
  EXPECT_THAT(SplitAll("\"a\nb\" \t,c\n\"x\"y,z\n\"p\nq\" \r\n", RecordRule::kQuoted, 1),
              ElementsAre("\"a\nb\" \t,c", "\"x\"y,z", "\"p\nq\" "));
}

TEST(FirstRecordTest, AQuoteThatIsNeverClosedIsSeen) {
  const auto record = FirstRecord("a,\"b\nc\nd\n", true, RecordRule::kQuoted);
  ASSERT_TRUE(record.has_value());
  EXPECT_TRUE(record->open_quote);
  EXPECT_EQ(record->size, 9u);
  EXPECT_FALSE(FirstRecord("a,\"b\nc\nd\n", false, RecordRule::kQuoted).has_value());
}

// One letter at a time, as the definition goes.
std::vector<std::string> SplitPlainly(const std::string& text, bool quotes) {
  enum class State { kFieldStart, kField, kQuoted, kQuoteInQuoted } state = State::kFieldStart;
  std::vector<std::string> records = {""};
  size_t opened = 0;  // Where the last quote did.
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (state == State::kQuoteInQuoted && std::string("\",\n").find(c) == std::string::npos) {
      const size_t after = text.find_first_not_of(" \t\r", i);
      const bool is_clean = after == std::string::npos || text[after] == ',' || text[after] == '\n';
      const size_t line_end = text.find('\n', opened);
      if (!is_clean && line_end < i) {
        std::string& record = records.back();
        record.resize(record.size() - (i - line_end));
        records.emplace_back();
        state = State::kFieldStart;
        i = line_end;
        continue;
      }
    }
    if (c == '\n' && state != State::kQuoted) {
      records.emplace_back();
      state = State::kFieldStart;
      continue;
    }
    records.back() += c;
    if (state == State::kQuoted) {
      if (c == '"') state = State::kQuoteInQuoted;
    } else if (c == '"' && quotes && state != State::kField) {
      if (state == State::kFieldStart) opened = i;
      state = State::kQuoted;
    } else {
      const bool is_before = state == State::kFieldStart && (c == ' ' || c == '\t');
      state = c == ',' || is_before ? State::kFieldStart : State::kField;
    }
  }
  if (records.back().empty()) records.pop_back();
  for (std::string& record : records) {
    if (!record.empty() && record.back() == '\r') record.pop_back();
  }
  return records;
}

// Any text, through any window, splits as the plain definition says.
TEST(FirstRecordTest, AgreesWithThePlainDefinition) {
  Rng rng(3);
  const std::string alphabet = "ab,\"\"\n\r \t";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t n = rng.Below(30); n > 0; --n) text += alphabet[rng.Below(alphabet.size())];
    for (const RecordRule rule : {RecordRule::kLines, RecordRule::kQuoted}) {
      ASSERT_EQ(SplitAll(text, rule, 1 + rng.Below(7)),
                SplitPlainly(text, rule == RecordRule::kQuoted))
          << testing::PrintToString(text);
    }
  }
}

}  // namespace
}  // namespace rubato

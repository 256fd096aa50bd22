// What people and programs are told of a table.
#include "rubato/cli/analysis_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rubato {
namespace {

using testing::HasSubstr;

// Letters of all languages stand as they are, and wide names leave the columns in line.
TEST(AnalysisTableTest, IsInLineWhateverTheLetters) {
  Analysis analysis = {.columns = {"Größe", "city"}};
  analysis.stats.resize(2);
  for (int i = 0; i < 4; ++i) {
    analysis.Add(
        std::vector<absl::string_view>{i < 3 ? "Köln" : "S\xe3o", i < 2 ? "a\tb" : "東京"});
  }
  const std::string table = AnalysisTable(analysis);
  EXPECT_THAT(table, HasSubstr("\nGröße   text "));
  EXPECT_THAT(table, HasSubstr("\ncity    text "));
  EXPECT_THAT(table, HasSubstr("Köln 75%, S\\xe3o 25%"));
  EXPECT_THAT(table, HasSubstr("a\\tb 50%, 東京 50%"));
}

// A column of times is one of times, not of large numbers.
TEST(AnalysisTableTest, TimesAreToldAsTimes) {
  Analysis analysis = {.columns = {"at", "price"}};
  analysis.stats.resize(2);
  for (int i = 0; i < 10; ++i) {
    analysis.Add(std::vector<absl::string_view>{i < 9 ? "2026-11-18 05:09" : "2026-11-20",
                                                i < 5 ? "$1,250" : "7%"});
  }
  analysis.ChooseStyles("");
  const std::string table = AnalysisTable(analysis);
  EXPECT_THAT(table, HasSubstr("\nat      time "));
  EXPECT_THAT(table, HasSubstr("2026-11-18 05:09:00 .. 2026-11-18 05:09:00 .. 2026-11-20\n"));
  EXPECT_THAT(table, HasSubstr("\nprice   integer "));
  EXPECT_THAT(table, HasSubstr("7 .. 7 .. 1250, mean 628.5,"));
  const nlohmann::ordered_json json = AnalysisJson(analysis);
  EXPECT_EQ(json["columns"][0]["kind"], "time");
  EXPECT_EQ(json["columns"][0]["min"], "2026-11-18 05:09:00");
  EXPECT_THAT(AnalysisHtml(analysis, "t"), HasSubstr("2026-11-18 05:09:00 to 2026-11-20"));
  const ProposalNotes notes = {
      .styled =
          {{.column = "at", .text = "2026-11-18", .style = NumberStyle::kTime},
           {.column = "price", .text = "$5", .style = NumberStyle::kAmount},
           {.column = "size", .text = "1,500", .style = NumberStyle::kAmount, .is_sure = false}},
      .dates = {{.column = "born", .text = "11/12/2026"}}};
  EXPECT_EQ(
      ProposalText(notes),
      "at: times, as '2026-11-18' (read: time)\nprice: amounts, as '$5' (read: amount)\n"
      "warning: size: a comma, as in '1,500', parts thousands (read: amount); where it is a "
      "decimal one, write decimal: comma instead\n"
      "warning: born: dates, as '11/12/2026', are read as names, since the day or the month may "
      "come first: say read: time and date: day_first or month_first\n");
  EXPECT_EQ(ProposalJson({.label = "y"}, notes)["styled"].dump(),
            R"([{"column":"at","text":"2026-11-18","read":"time"},)"
            R"({"column":"price","text":"$5","read":"amount"},)"
            R"({"column":"size","text":"1,500","read":"amount"}])");
}

TEST(ProposalTextTest, NamesStrangersAndWhatIsNoUtf8) {
  ProposalNotes notes = {.strange = {{.column = "age", .count = 7, .texts = {"inf", "n.a."}}},
                         .garbled = {{.column = "city", .text = "K\xf6ln", .is_hashed = true}},
                         .commas = {{.column = "price", .text = "3,140"},
                                    {.column = "rate", .text = "3,14", .is_decimal = true}},
                         .lost = {{.column = "land", .text = "NA", .count = 9}}};
  EXPECT_THAT(
      ProposalText(notes),
      HasSubstr("warning: land: 'NA', in 9 rows, counts as missing, as it does in columns"));
  EXPECT_EQ(ProposalJson({.label = "y"}, notes)["taken_for_missing"].dump(),
            R"([{"column":"land","text":"NA","count":9}])");
  EXPECT_THAT(ProposalText(notes), HasSubstr("warning: price: numbers with a comma, as '3,140'"));
  EXPECT_THAT(ProposalText(notes),
              HasSubstr("\nrate: numbers with a decimal comma, as '3,14' (decimal: comma)\n"));
  EXPECT_THAT(ProposalText(notes),
              HasSubstr("age: of its numbers 7 are none and count as missing (malformed: missing): "
                        "'inf', 'n.a.', ...\n"));
  EXPECT_THAT(ProposalText(notes), HasSubstr("city: is not all UTF-8, as 'K\\xf6ln'; every value"));
  const nlohmann::ordered_json json = ProposalJson({.label = "y"}, notes);
  EXPECT_EQ(json["positive"].dump() + json["negative"].dump(), R"(["1"]["0"])");
  EXPECT_EQ(json["not_numbers"].dump(), R"([{"column":"age","count":7,"texts":["inf","n.a."]}])");
  EXPECT_EQ(json["not_utf8"][0]["text"], "K\\xf6ln");
  EXPECT_EQ(json["with_comma"][0].dump(), R"({"column":"price","text":"3,140","read_as":"names"})");
  EXPECT_EQ(json["with_comma"][1]["read_as"], "numbers");
  EXPECT_THAT(ProposalText(notes), testing::Not(HasSubstr("quantities")));
  notes.quantities = {"age", "gr\xf6\xdf"};
  EXPECT_THAT(ProposalText(notes),
              HasSubstr("integers taken for quantities only: age, gr\\xf6\\xdf; one that"));
  EXPECT_EQ(ProposalJson({.label = "y"}, notes)["quantities"].size(), 2u);
  notes.weights = {
      {"tags", "a:0.5", true, true}, {"secs", "b:900.5", true}, {"verses", "John 3:16", false}};
  EXPECT_THAT(
      ProposalText(notes),
      HasSubstr("tags: values with weights, as 'a:0.5' (weight_separator: \":\", combiner: sum)\n"
                "warning: secs: values with weights, as 'b:900.5' (weight_separator: \":\", "
                "combiner: mean), weigh more than 100 in a row, so that only their ratios count; "
                "with smaller ones their size does too\n"
                "warning: verses: values, as 'John 3:16', are names as they are; where"));
  EXPECT_EQ(ProposalJson({.label = "y"}, notes)["weights"][2]["read_as"], "names");
  notes.marked = {{"price", {{"#N/A", 7}, {"-", 300}}}};
  EXPECT_THAT(
      ProposalText(notes),
      HasSubstr("price: numbers, of which there is none where it is '#N/A' (7) or '-' (300) "
                "(missing)\n"));
  EXPECT_EQ(ProposalJson({.label = "y"}, notes)["missing_among_numbers"].dump(),
            R"([{"column":"price","texts":{"#N/A":7,"-":300}}])");
  notes.numbered = {"a", "b"};
  EXPECT_THAT(ProposalText(notes), HasSubstr("integers taken for ids, since each column's begin "
                                             "where another's end: a, b; one that"));
  EXPECT_EQ(ProposalJson({.label = "y"}, notes)["numbered_through"].size(), 2u);
}

}  // namespace
}  // namespace rubato

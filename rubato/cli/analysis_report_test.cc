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
}

}  // namespace
}  // namespace rubato

// Rows of JSON are the batches that the job's own records make, cell by cell.
#include "rubato/roles/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch_loader/load_trainer.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A model of `format` that hashes every column, so that each text has an id of its own.
Servable ServableOf(const std::string& format) {
  Servable servable;
  servable.job.model = "logistic";
  servable.job.data = {.format = format, .label = "click"};
  servable.schema = format == "tsv" ? "click\tage\ttown\tmember" : "click,age,town,member";
  servable.features.emplace().label = "click";
  for (const char* column : {"age", "town", "member"}) {
    servable.features->features.push_back(
        {.name = column, .transform = "hash", .columns = {column}});
  }
  const auto parser = servable.MakeParser(servable.schema, /*has_labels=*/true);
  EXPECT_TRUE(parser.ok()) << parser.status();
  auto trainer = LoadTrainer(servable.job, (*parser)->shape());
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  servable.trainer = *std::move(trainer);
  return servable;
}

std::vector<uint64_t> IdsOf(const Servable& servable, const std::string& json) {
  const absl::StatusOr<RowReader> reader = RowReader::Make(servable);
  EXPECT_TRUE(reader.ok()) << reader.status();
  const absl::StatusOr<Batch> batch = reader->Read(json);
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? batch->ids : std::vector<uint64_t>();
}

struct Case {
  const char* row;
  const char* record;
};

void ExpectTheSame(const Servable& servable, const std::vector<Case>& cases) {
  for (const auto& [row, record] : cases) {
    EXPECT_EQ(IdsOf(servable, absl::StrCat("{\"rows\": [", row, "]}")),
              IdsOf(servable, absl::StrCat("{\"records\": [\"", record, "\"]}")))
        << row;
  }
}

TEST(RowReaderTest, ARowIsTheRecordWithItsCells) {
  ExpectTheSame(
      ServableOf("csv"),
      {{R"({"age": 33, "town": "Oslo", "member": "t"})", "0,33,Oslo,t"},
       {R"({"member": null, "age": 33.0, "town": "a,\"b\""})", R"(0,33.0,\"a,\"\"b\"\"\",)"},
       {R"({"click": 1, "age": -1.5e-7, "town": "007"})", "1,-1.5e-07,007,"},
       {R"({"town": "x y", "click": true})", "0,,x y,"},
       {R"({})", "0,,,"}});
}

// In libfm columns go by place: what is left out keeps its own, and is missing as anywhere.
TEST(RowReaderTest, WhatIsLeftOutOfLibfmIsMissing) {
  const Servable libfm = ServableOf("libfm"), csv = ServableOf("csv");
  for (const char* row : {R"({"rows": [{"age": 33, "member": 7}]})", R"({"rows": [{}]})"}) {
    EXPECT_EQ(IdsOf(libfm, row), IdsOf(csv, row)) << row;
  }
}

// Blanks around a text mean nothing on any way, nor around a column's name.
TEST(RowReaderTest, BlanksAroundATextMeanNothing) {
  for (const char* format : {"csv", "tsv", "sql"}) {
    const Servable servable = ServableOf(format);
    const std::string tab = format == std::string("tsv") ? "\\t" : ",";
    const auto of = [&](const char* text) { return absl::StrCat("0", tab, tab, text, tab); };
    const std::string padded = of(R"(\" a\")"), behind = of(" a "), plain = of("a");
    ExpectTheSame(servable, {{R"({"town": "a"})", padded.c_str()},
                             {R"({" town": " a"})", behind.c_str()},
                             {R"({"town": "a      "})", plain.c_str()}});
  }
}

// PostgreSQL's booleans come as 1 and 0, SQLite has no others: a row must not be a stranger.
TEST(RowReaderTest, TrueIsWhatTheDatabaseMeansByIt) {
  ExpectTheSame(ServableOf("sql"), {{R"({"member": true})", "0,,,1"},
                                    {R"({"member": false})", "0,,,0"},
                                    {R"({"member": "true"})", "0,,,true"}});
}

// Files have words for yes and no, and true must be one that the model has seen.
TEST(RowReaderTest, TrueIsTheWordOfTheVocabulary) {
  Servable servable = ServableOf("csv");
  FeatureSpec& member = servable.features->features[2];
  member.transform = "merge_rare";
  for (const auto& [words, yes, no] :
       {std::tuple(std::vector<std::string>{"FALSE", "TRUE"}, "TRUE", "FALSE"),
        std::tuple(std::vector<std::string>{"True", "False", "NA"}, "True", "False"),
        std::tuple(std::vector<std::string>{"no", "yes"}, "yes", "no"),
        std::tuple(std::vector<std::string>{"1.0", "0.0"}, "1.0", "0.0")}) {
    member.vocabulary = words;
    const std::string first = absl::StrCat("0,,,", yes), second = absl::StrCat("0,,,", no);
    ExpectTheSame(servable, {{R"({"member": true})", first.c_str()},
                             {R"({"member": false})", second.c_str()}});
  }
  const auto why = [&](const char* json) {
    return std::string(RowReader::Make(servable)->Read(json).status().message());
  };
  member.vocabulary = {"gold", "silver"};
  EXPECT_THAT(why(R"({"rows": [{"member": true}]})"),
              HasSubstr("rows[0]: column 'member': true is spelt in no way that"));
  member = {.name = "member", .transform = "number", .columns = {"member"}};
  member.malformed_is_missing = true;
  EXPECT_THAT(why(R"({"rows": [{"member": true}]})"), HasSubstr("where a number is wanted"));
}

// Where a number is wanted it may come as one or as text, and is malformed by the same rule.
TEST(RowReaderTest, ANumberMayBeAText) {
  Servable servable = ServableOf("csv");
  FeatureSpec& age = servable.features->features[0];
  age = {.name = "age", .transform = "number", .columns = {"age"}};
  const auto read = [&](const char* json) { return RowReader::Make(servable)->Read(json); };
  EXPECT_THAT(read(R"({"rows": [{"age": 2.5}, {"age": "2.5"}, {"age": "nan"}, {}]})")->dense,
              testing::ElementsAre(2.5, 2.5, 0, 0));
  EXPECT_THAT(std::string(read(R"({"rows": [{}, {"age": "2,5"}]})").status().message()),
              HasSubstr("rows[1]: column 'age', '2,5', is not a finite number"));
  // With a decimal comma JSON's numbers keep their point.
  age.decimal_comma = true;
  EXPECT_THAT(read(R"({"rows": [{"age": 2.5}, {"age": "2,5"}, {"age": 1.234}]})")->dense,
              testing::ElementsAre(2.5, 2.5, 1.234f));
  age.malformed_is_missing = true;
  EXPECT_THAT(read(R"({"rows": [{"age": "old"}]})")->dense, testing::ElementsAre(0));
  EXPECT_EQ(read(R"({"rows": []})")->rows, 0);
}

// As a text, as the number that the text is, and within a list as within a cell.
TEST(RowReaderTest, WhatMeansNothingDoesInJsonToo) {
  Servable servable = ServableOf("csv");
  servable.features->missing = {"?", "-1"};
  servable.features->features[0].transform = "number";
  servable.features->features[0].otherwise = 40;
  servable.features->features[1].separator = "|";
  const auto parser = servable.MakeParser(servable.schema, /*has_labels=*/true);
  servable.trainer = *LoadTrainer(servable.job, (*parser)->shape());
  const auto read = [&](const std::string& json) { return *RowReader::Make(servable)->Read(json); };
  for (const char* age : {"null", "-1", "-1.0", R"("-1.0")", R"("?")"}) {
    EXPECT_THAT(read(absl::StrCat("{\"rows\": [{\"age\": ", age, "}]}")).dense,
                testing::ElementsAre(40))
        << age;
  }
  const Batch list = read(R"({"rows": [{"town": ["?", "Oslo", "-1", null]}]})");
  EXPECT_EQ(list.bag_ids, read(R"({"records": ["0,,Oslo|?,"]})").bag_ids);
  EXPECT_EQ(list.bag_ids.size(), 1u);
}

// Several values of a cell may come as a list, with the same result; one value may not.
TEST(RowReaderTest, AListIsTheCellWithItsSeparators) {
  Servable servable = ServableOf("csv");
  FeatureSpec& town = servable.features->features[1];
  town.separator = "|";
  town.weight_separator = ":";
  const auto read = [&](const std::string& json) { return RowReader::Make(servable)->Read(json); };
  const auto parser = servable.MakeParser(servable.schema, /*has_labels=*/true);
  servable.trainer = *LoadTrainer(servable.job, (*parser)->shape());
  for (const auto& [row, record] :
       {Case{R"(["Oslo", "Rome"])", "0,,Oslo|Rome,"},
        {R"(["Oslo:0.5", 17, null, " a b ", ""])", "0,,Oslo:0.5|17|a b,"},
        {R"(["a,\"b"])", R"(0,,\"a,\"\"b\",)"},
        {R"(["Oslo"])", "0,,Oslo,"},
        {"[]", "0,,,"}}) {
    const auto listed = read(absl::StrCat("{\"rows\": [{\"town\": ", row, "}]}"));
    const auto written = read(absl::StrCat("{\"records\": [\"", record, "\"]}"));
    ASSERT_TRUE(listed.ok() && written.ok()) << listed.status() << written.status();
    EXPECT_EQ(listed->bag_ids, written->bag_ids) << row;
    EXPECT_EQ(listed->bag_weights, written->bag_weights) << row;
    EXPECT_EQ(listed->ids, written->ids) << row;
  }
  const auto why = [&](const char* json) { return std::string(read(json).status().message()); };
  EXPECT_EQ(why(R"({"rows": [{}, {"member": ["a"]}]})"),
            "rows[1]: column 'member': is a list, and no feature with a separator reads this "
            "column; send one value");
  EXPECT_EQ(why(R"({"rows": [{"town": ["a", "b|c"]}]})"),
            "rows[0]: column 'town': value 1, 'b|c', holds '|', which stands between values");
  EXPECT_EQ(why(R"({"rows": [{"town": ["a", ["b"]]}]})"),
            "rows[0]: column 'town': value 1: is neither text nor a number");
}

// Where columns go by place, a record may come without its label, as files to predict may.
TEST(RowReaderTest, ARecordMayLackItsLabel) {
  Servable servable = ServableOf("csv");
  servable.job.data.label = "2";
  servable.job.data.header = false;
  servable.schema = "1,2,3,4";
  servable.features->label = "2";
  for (size_t i = 0; i < 3; ++i)
    servable.features->features[i].columns = {i == 0 ? "1" : i == 1 ? "3" : "4"};
  EXPECT_EQ(IdsOf(servable, R"({"records": ["33,Oslo,t", "33,1,Oslo,t"]})"),
            IdsOf(servable, R"({"records": ["33,0,Oslo,t", "33,0,Oslo,t"]})"));
  EXPECT_THAT(
      std::string(RowReader::Make(servable)->Read(R"({"records": ["33,t"]})").status().message()),
      HasSubstr("has 2 columns, not 4"));
}

TEST(RowReaderTest, SaysWhichRowIsWrong) {
  const Servable servable = ServableOf("csv");
  const absl::StatusOr<RowReader> reader = RowReader::Make(servable);
  const auto why = [&](const char* json) {
    return std::string(reader->Read(json).status().message());
  };
  EXPECT_EQ(why(R"({"rows": [{}, {"twon": "Oslo"}]})"),
            "rows[1]: no column 'twon'; did you mean 'town'?");
  EXPECT_THAT(why(R"({"rows": [{"age": {}}]})"), HasSubstr("neither text nor a number"));
  EXPECT_THAT(why(R"({"rows": [{"town": "a"}, {"age": {}}]})"),
              HasSubstr("rows[1]: column 'age': is neither text nor a number"));
  EXPECT_EQ(why(R"({"rows": {"age": 1}})"), "\"rows\" is no list");
  EXPECT_THAT(why(R"({"rows": [{"age": NaN}]})"),
              AllOf(HasSubstr("the body is not JSON: at byte "), HasSubstr("NaN}]}"),
                    HasSubstr("null is missing")));
  EXPECT_THAT(why(R"({"rows": [{"age": 1e999}]})"), HasSubstr("too large for 64 bits"));
  EXPECT_THAT(why(""), HasSubstr("the body is not JSON: at byte 0"));
  std::string many = R"({"rows": [{})";
  for (size_t i = 0; i < RowReader::kRowsMax; ++i) many += ",{}";
  EXPECT_THAT(why((many + "]}").c_str()), HasSubstr("10001 rows in one request, more than 10000"));
  EXPECT_THAT(why(R"({"records": ["1,2"], "rows": []})"), HasSubstr("both \"rows\" and"));
  EXPECT_THAT(why(R"({"records": ["1,2"]})"), HasSubstr("records[0]: has 2 columns, not 4"));
}

}  // namespace
}  // namespace rubato

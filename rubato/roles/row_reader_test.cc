// Rows of JSON are the batches that the job's own records make, cell by cell.
#include "rubato/roles/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch_loader/load_trainer.h"

namespace rubato {
namespace {

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
       {R"({"town": "x y", "member": true})", "0,,x y,true"},
       {R"({})", "0,,,"}});
}

// A text keeps its blanks on every way: in quotes they are part of a cell, without they are not.
TEST(RowReaderTest, BlanksAroundATextCount) {
  for (const char* format : {"csv", "tsv", "sql"}) {
    const Servable servable = ServableOf(format);
    const std::string tab = format == std::string("tsv") ? "\\t" : ",";
    const auto of = [&](const char* text) { return absl::StrCat("0", tab, tab, text, tab); };
    const std::string padded = of(R"(\" a\")"), behind = of(R"(\"a \")"), plain = of("a");
    ExpectTheSame(servable, {{R"({"town": " a"})", padded.c_str()},
                             {R"({"town": "a "})", behind.c_str()},
                             {R"({"town": "a"})", plain.c_str()}});
    EXPECT_NE(IdsOf(servable, R"({"rows": [{"town": " a"}]})"),
              IdsOf(servable, R"({"rows": [{"town": "a"}]})"))
        << format;
  }
}

// PostgreSQL's booleans come as 1 and 0, SQLite has no others: a row must not be a stranger.
TEST(RowReaderTest, TrueIsWhatTheDatabaseMeansByIt) {
  ExpectTheSame(ServableOf("sql"), {{R"({"member": true})", "0,,,1"},
                                    {R"({"member": false})", "0,,,0"},
                                    {R"({"member": "true"})", "0,,,true"}});
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
  EXPECT_THAT(why(R"({"records": ["1,2"]})"), HasSubstr("records[0]: has 2 columns, not 4"));
}

}  // namespace
}  // namespace rubato

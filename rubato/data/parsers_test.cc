#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/base/rng.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/data/delimited_parser.h"
#include "rubato/data/formats.h"
#include "rubato/data/ids.h"
#include "rubato/data/idx.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A criteo row from its parts, missing ones empty.
std::string CriteoRow(const std::string& label, std::vector<std::string> fields) {
  fields.resize(kCriteoIds);
  return absl::StrCat(label, "\t", absl::StrJoin(fields, "\t"));
}

TEST(CriteoParserTest, ReadsARow) {
  const CriteoParser parser;
  std::vector<std::string> fields(kCriteoIds);
  fields[0] = "0";
  fields[1] = "-1";
  fields[2] = "5";
  fields[3] = "123456";
  fields[13] = "68fd1e64";
  fields[38] = "x";
  Batch batch;
  ASSERT_TRUE(parser.Parse(CriteoRow("1", fields), &batch).ok());
  ASSERT_TRUE(parser.Parse(CriteoRow("0", {}), &batch).ok());
  EXPECT_EQ(batch.rows, 2);
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  ASSERT_EQ(batch.dense.size(), 2u * kCriteoIntegers);
  ASSERT_EQ(batch.ids.size(), 2u * kCriteoIds);
  EXPECT_EQ(batch.dense[0], 0);
  EXPECT_FLOAT_EQ(batch.dense[1], -std::log(2.0f));
  EXPECT_FLOAT_EQ(batch.dense[2], std::log(6.0f));
  EXPECT_FLOAT_EQ(batch.dense[3], std::log(123457.0f));
  EXPECT_EQ(batch.ids[0], FieldIdOfInteger(0, 0));
  EXPECT_EQ(batch.ids[1], FieldIdOfInteger(1, -1));
  EXPECT_EQ(batch.ids[2], FieldIdOfInteger(2, 2));    // ln(5)^2 = 2.59
  EXPECT_EQ(batch.ids[3], FieldIdOfInteger(3, 137));  // ln(123456)^2 = 137.4
  EXPECT_EQ(batch.ids[4], FieldIdOfText(4, ""));
  EXPECT_EQ(batch.ids[13], FieldIdOfText(13, "68fd1e64"));
  EXPECT_EQ(batch.ids[38], FieldIdOfText(38, "x"));
  EXPECT_EQ(batch.ids[39], FieldIdOfText(0, ""));  // Missing is not zero.
  for (int i = 0; i < kCriteoIds; ++i) EXPECT_EQ(batch.ids[i] >> 56, i + 1u);
}

TEST(CriteoParserTest, TheSameTextInTwoFieldsIsTwoIds) {
  EXPECT_NE(FieldIdOfText(0, "a"), FieldIdOfText(1, "a"));
  EXPECT_EQ(CriteoParser().shape().ids[13], "C1");
  EXPECT_EQ(CriteoParser().shape().dense.size(), 13u);
}

TEST(CriteoParserTest, SaysWhatIsWrongAndLeavesTheBatch) {
  const CriteoParser parser;
  Batch batch;
  ASSERT_TRUE(parser.Parse(CriteoRow("1", {"7"}), &batch).ok());
  const Batch before = batch;
  const std::pair<std::string, std::string> cases[] = {
      {"", "has 1 columns, not the 40 of criteo"},
      {"1\t2", "has 2 columns, not the 40 of criteo"},
      {CriteoRow("1", {}) + "\t", "has 41 columns, not the 40 of criteo"},
      {CriteoRow("2", {}), "column 1, '2', is not a label, 0 or 1"},
      {CriteoRow("", {}), "column 1, '', is not a label, 0 or 1"},
      {CriteoRow("1", {"", "abc"}), "column 3, 'abc', is not an integer"},
      {CriteoRow("1", {"-"}), "column 2, '-', is not an integer"},
      {CriteoRow("1", {"12345678901234567890"}),
       "column 2, '12345678901234567890', is not an integer"},
      {CriteoRow("1", {std::string(50, 'z')}),
       absl::StrCat("column 2, '", std::string(40, 'z'), "...', is not an integer")},
      {CriteoRow("1", {"\x01"}), "column 2, '\\x01', is not an integer"},
  };
  for (const auto& [row, message] : cases) {
    EXPECT_EQ(parser.Parse(row, &batch), absl::InvalidArgumentError(message));
    EXPECT_EQ(batch.rows, before.rows);
    EXPECT_EQ(batch.labels, before.labels);
    EXPECT_EQ(batch.dense, before.dense);
    EXPECT_EQ(batch.ids, before.ids);
  }
}

// Without labels a row is the same, whether it has some or not.
TEST(CriteoParserTest, LabelsMayBeIgnoredOrAbsent) {
  std::string cells = "7";
  for (int i = 2; i <= 39; ++i) absl::StrAppend(&cells, "\t", i);
  const DataSpec criteo;
  Batch labelled, ignored, absent;
  ASSERT_TRUE(CriteoParser().Parse("1\t" + cells, &labelled).ok());
  const auto of = [&](absl::string_view schema) {
    return *MakeParserLike({criteo, ""}, {criteo, schema}, /*has_labels=*/false);
  };
  ASSERT_TRUE(of("")->Parse("?\t" + cells, &ignored).ok());
  ASSERT_TRUE(of(SchemaOf(criteo, cells))->Parse(cells, &absent).ok());
  for (const Batch* batch : {&ignored, &absent}) {
    EXPECT_EQ(batch->ids, labelled.ids);
    EXPECT_EQ(batch->dense, labelled.dense);
  }
  EXPECT_THAT(of(SchemaOf(criteo, cells))->Parse("1\t" + cells, &absent).message(),
              HasSubstr("has 40 columns, not the 39 of criteo without the label"));
  EXPECT_THAT(CriteoParser().Parse(cells, &labelled).message(), HasSubstr("a label, 0 or 1"));
}

TEST(CriteoParserTest, BinsGrowSlowly) {
  const std::pair<int64_t, int64_t> cases[] = {{-3, -3}, {0, 0},     {2, 2},     {3, 1},
                                               {10, 5},  {1023, 48}, {1024, 48}, {1000000, 190}};
  for (const auto& [value, bin] : cases) EXPECT_EQ(CriteoBin(value), bin) << value;
}

std::unique_ptr<RecordParser> Parser(const DataSpec& data, absl::string_view header) {
  auto parser = MakeParser(data, SchemaOf(data, header));
  EXPECT_TRUE(parser.ok()) << parser.status();
  return *std::move(parser);
}

TEST(DelimitedParserTest, PicksColumnsByName) {
  const DataSpec data = {
      .format = "csv", .label = "y", .numeric = {"age"}, .categorical = {"city"}};
  const auto parser = Parser(data, "city,unused,\"age\",y");
  Batch batch;
  ASSERT_TRUE(parser->Parse("\"Ulm, \"\"old\"\"\",zzz, 3.5 ,1", &batch).ok());
  ASSERT_TRUE(parser->Parse(",,,0", &batch).ok());
  EXPECT_THAT(parser->shape().dense, ElementsAre("age"));
  EXPECT_THAT(parser->shape().ids, ElementsAre("city"));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  EXPECT_THAT(batch.dense, ElementsAre(3.5f, 0));
  EXPECT_THAT(batch.ids, ElementsAre(FieldIdOfText(0, "Ulm, \"old\""), FieldIdOfText(0, "")));
}

TEST(DelimitedParserTest, WithoutListsAllButTheFirstAreCategories) {
  const auto parser = Parser({.format = "tsv"}, "y\ta\tb");
  EXPECT_THAT(parser->shape().ids, ElementsAre("a", "b"));
  Batch batch;
  ASSERT_TRUE(parser->Parse("1\tp\tq", &batch).ok());
  EXPECT_THAT(batch.ids, ElementsAre(FieldIdOfText(0, "p"), FieldIdOfText(1, "q")));
}

TEST(DelimitedParserTest, WithoutAHeaderColumnsAreNumbered) {
  const auto parser = Parser({.format = "csv", .numeric = {"3"}, .header = false}, "1,x,2.5");
  EXPECT_THAT(parser->shape().dense, ElementsAre("3"));
}

TEST(DelimitedParserTest, UnknownColumnsComeWithASuggestion) {
  const std::pair<DataSpec, std::string> cases[] = {
      {{.format = "csv", .numeric = {"aeg"}},
       "data.numeric: the data has no column 'aeg'; did you mean 'age'?"},
      {{.format = "csv", .label = "zzz"}, "data.label: the data has no column 'zzz'"},
      {{.format = "csv", .label = "b"}, "data.label: the data has more than one column 'b'"},
      {{.format = "csv", .categorical = {"y"}}, "data.categorical: column 'y' is used twice"},
  };
  for (const auto& [data, message] : cases) {
    EXPECT_EQ(MakeParser(data, "y,age,b,b").status(), absl::InvalidArgumentError(message));
  }
}

TEST(DelimitedParserTest, SaysWhatIsWrongAndLeavesTheBatch) {
  const auto parser = Parser({.format = "csv", .numeric = {"a"}, .categorical = {"c"}}, "y,c,a");
  const std::pair<std::string, std::string> cases[] = {
      {"1,x", "has 2 columns, not 3"},
      {"1,x,2,3", "has 4 columns, not 3"},
      {"1,\"x,2\"",
       "has 2 columns, not 3; a cell that begins with a quote goes on to the next that is not "
       "doubled"},
      {"1,x,abc", "column 'a', 'abc', is not a finite number"},
      {"1,x,nan", "column 'a', 'nan', is not a finite number"},
      {"1,x,1e60", "column 'a', '1e60', is not a finite number"},
      {",x,1", "column 'y', '', is not a finite number"},
  };
  Batch batch;
  for (const auto& [row, message] : cases) {
    EXPECT_EQ(parser->Parse(row, &batch), absl::InvalidArgumentError(message));
    EXPECT_TRUE(batch.rows == 0 && batch.labels.empty() && batch.dense.empty() &&
                batch.ids.empty());
  }
}

TEST(DelimitedParserTest, TooManyFieldsAreRefused) {
  std::string header = "y";
  for (int i = 0; i < 256; ++i) absl::StrAppend(&header, ",c", i);
  EXPECT_EQ(MakeParser({.format = "csv"}, header).status(),
            absl::InvalidArgumentError("data.categorical: 256 columns, more than 255"));
}

// What a record becomes with a model that was trained on other files.
Batch BatchLike(const KnownData& trained, const KnownData& known, absl::string_view record) {
  Batch batch;
  const auto parser = MakeParserLike(trained, known, /*has_labels=*/true);
  EXPECT_TRUE(parser.ok()) << parser.status();
  if (!parser.ok()) return batch;
  EXPECT_TRUE((*parser)->Parse(record, &batch).ok());
  return batch;
}

// A column's place in the files says nothing: the same cells are the same batch.
TEST(ParserLikeTest, ColumnsGoByName) {
  const DataSpec all = {.format = "csv"}, tsv = {.format = "tsv"};
  const DataSpec picked = {
      .format = "csv", .label = "y", .numeric = {"a", "b"}, .categorical = {"c", "d"}};
  const Batch want = BatchLike({all, "y,c,d"}, {all, "y,c,d"}, "1,p,q");
  EXPECT_THAT(want.ids, ElementsAre(FieldIdOfText(0, "p"), FieldIdOfText(1, "q")));
  for (const Batch& same : {BatchLike({all, "y,c,d"}, {all, "y,d,c"}, "1,q,p"),
                            BatchLike({all, "y,c,d"}, {tsv, "d\tc\ty"}, "q\tp\t1")}) {
    EXPECT_EQ(same.ids, want.ids);
    EXPECT_EQ(same.labels, want.labels);
  }
  const Batch numbers =
      BatchLike({picked, "y,a,b,c,d"}, {picked, "d,more,c,b,a,y"}, "q,zzz,p,2,1,0");
  EXPECT_EQ(numbers.ids, want.ids);
  EXPECT_THAT(numbers.dense, ElementsAre(1, 2));
  EXPECT_THAT(numbers.labels, ElementsAre(0));
  const DataSpec ffm = {.format = "libffm"};
  EXPECT_EQ(BatchLike({ffm, "label,0,1,2"}, {ffm, "label,2,0"}, "1 2:7:1 0:5:1").ids,
            BatchLike({ffm, "label,0,1,2"}, {ffm, "label,0,1,2"}, "1 0:5:1 2:7:1").ids);
  EXPECT_EQ(BatchLike({ffm, "label,0,1,2"}, {ffm, "label,2,9,0"}, "1 2:7:1 9:3:1 0:5:1").ids,
            BatchLike({ffm, "label,0,1,2"}, {ffm, "label,0,1,2"}, "1 0:5:1 2:7:1").ids);
}

TEST(ParserLikeTest, OtherColumnsAreNamed) {
  const DataSpec all = {.format = "csv"}, fm = {.format = "libfm"};
  const auto why = [&](const KnownData& trained, const KnownData& known) {
    return std::string(MakeParserLike(trained, known, true).status().message());
  };
  EXPECT_EQ(why({all, "y,c,d"}, {all, "y,c,e"}),
            "the data's columns of categories are 'c', 'e', and the model was trained with "
            "'c', 'd'");
  EXPECT_THAT(why({all, "y,c,d"}, {all, "z,c,d"}), HasSubstr("data.label: the data has no column"));
  EXPECT_THAT(why({fm, "label,1,2"}, {fm, "label,1,2,3"}),
              HasSubstr("the data has 4 columns, and the training data had 3"));
  const DataSpec ffm = {.format = "libffm"};
  EXPECT_EQ(why({ffm, "label,0,1,2"}, {ffm, "label,site,ad"}),
            "the data's fields are site, ad, and none of them is one of the training data, 0, 1, "
            "2");
}

// Without a header a column is its place, and a label that is not there would move all the others.
TEST(ParserLikeTest, AMissingLabelMovesNoColumn) {
  const DataSpec all = {.format = "csv", .header = false}, tsv = {.format = "tsv", .header = false};
  const DataSpec second = {.format = "csv", .label = "2", .header = false};
  const DataSpec wrapped = {.format = "recordio"};
  const auto unlabelled = [&](const KnownData& trained, const KnownData& known,
                              const char* record) {
    Batch batch;
    const auto parser = MakeParserLike(trained, known, /*has_labels=*/false);
    EXPECT_TRUE(parser.ok()) << parser.status();
    EXPECT_TRUE(!parser.ok() || (*parser)->Parse(record, &batch).ok());
    return batch.ids;
  };
  const std::vector<uint64_t> want = {FieldIdOfText(0, "p"), FieldIdOfText(1, "q")};
  EXPECT_EQ(unlabelled({all, "1,2,3"}, {all, "1,2,3"}, "1,p,q"), want);
  EXPECT_EQ(unlabelled({all, "1,2,3"}, {all, "1,2"}, "p,q"), want);
  EXPECT_EQ(unlabelled({all, "1,2,3"}, {tsv, "1\t2"}, "p\tq"), want);
  EXPECT_EQ(unlabelled({wrapped, "csv: 1,2,3"}, {all, "1,2"}, "p,q"), want);
  EXPECT_EQ(unlabelled({second, "1,2,3"}, {second, "1,2"}, "p,q"), want);
  const auto why = [&](const char* schema, bool has_labels) {
    return std::string(
        MakeParserLike({all, "1,2,3"}, {all, schema}, has_labels).status().message());
  };
  EXPECT_EQ(
      why("1,2", true),
      "the data has 2 columns, and the training data had 3; is it the label that is missing?");
  for (const char* schema : {"1", "1,2,3,4"}) {
    EXPECT_THAT(why(schema, false), HasSubstr("columns, and the training data had 3; without a"));
  }
}

// With a header it may be gone as well.
TEST(ParserLikeTest, AHeaderMayLackTheLabel) {
  const DataSpec all = {.format = "csv"};
  Batch batch;
  const auto parser = MakeParserLike({all, "y,c,d"}, {all, "d,c"}, /*has_labels=*/false);
  ASSERT_TRUE(parser.ok()) << parser.status();
  ASSERT_TRUE((*parser)->Parse("q,p", &batch).ok());
  EXPECT_THAT(batch.ids, ElementsAre(FieldIdOfText(0, "p"), FieldIdOfText(1, "q")));
}

// Who is asked for a score has no label to give.
TEST(ParserLikeTest, WithoutLabelsTheirCellsAreNotLookedAt) {
  const DataSpec all = {.format = "csv"};
  const auto parser = MakeParserLike({all, "y,c"}, {all, "y,c"}, /*has_labels=*/false);
  ASSERT_TRUE(parser.ok()) << parser.status();
  Batch batch;
  EXPECT_TRUE((*parser)->Parse(",p", &batch).ok());
  EXPECT_TRUE((*parser)->Parse("?,p", &batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(0, 0));
}

TEST(IdxTest, HeaderAndRecord) {
  const std::string images("\0\0\x08\x03\0\0\0\x05\0\0\0\x02\0\0\0\x03", 16);
  const absl::StatusOr<IdxHeader> header = ParseIdxHeader(images);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->items, 5);
  EXPECT_EQ(header->item_bytes, 6);
  EXPECT_EQ(header->bytes, 16);
  EXPECT_THAT(header->shape, ElementsAre(2, 3));
  EXPECT_EQ(FormatIdxHeader({5, 2, 3}), images);
  EXPECT_FALSE(ParseIdxHeader(images.substr(0, 15)).ok());
  EXPECT_FALSE(ParseIdxHeader("1,2,3,4,5").ok());
  EXPECT_FALSE(MakeParser({.format = "idx"}, "no number").ok());
}

TEST(IdxTest, PixelsAreBetweenZeroAndOne) {
  const auto parser = MakeParser({.format = "idx"}, "3");
  ASSERT_TRUE(parser.ok()) << parser.status();
  Batch batch;
  ASSERT_TRUE((*parser)->Parse(std::string("\x00\xff\x33\x07", 4), &batch).ok());
  EXPECT_THAT(batch.dense, ElementsAre(0, 1, 0.2f));
  EXPECT_THAT((*MakeParser({.format = "idx"}, "2x3"))->shape().dense_shape, ElementsAre(2, 3));
  EXPECT_THAT(batch.labels, ElementsAre(7));
  EXPECT_EQ((*parser)->Parse("ab", &batch),
            absl::InvalidArgumentError("has 2 bytes, not 3 pixels and a label"));
}

// Whatever the bytes, a parser answers, and a refusal leaves nothing behind.
TEST(ParsersTest, RandomBytesNeverCrash) {
  Rng rng(5);
  const auto csv = Parser({.format = "csv", .numeric = {"a"}, .categorical = {"c"}}, "y,c,a");
  const CriteoParser criteo;
  const IdxParser idx({7});
  const std::vector<const RecordParser*> parsers = {csv.get(), &criteo, &idx};
  const std::string alphabet = "01\t\t\t\t-9,\"\n\r x\xff" + std::string(1, '\0');
  int64_t accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    std::string record;
    for (uint64_t n = rng.Below(90); n > 0; --n) record += alphabet[rng.Below(alphabet.size())];
    // An exact-size copy, so that a sanitizer sees every byte too far.
    const std::vector<char> exact(record.begin(), record.end());
    for (const RecordParser* parser : parsers) {
      Batch batch;
      const absl::Status status = parser->Parse({exact.data(), exact.size()}, &batch);
      const size_t rows = status.ok() ? 1 : 0;
      accepted += status.ok();
      ASSERT_EQ(batch.labels.size(), rows);
      ASSERT_EQ(batch.dense.size(), rows * parser->shape().dense.size());
      ASSERT_EQ(batch.ids.size(), rows * parser->shape().ids.size());
    }
    (void)ParseIdxHeader({exact.data(), exact.size()});
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace rubato

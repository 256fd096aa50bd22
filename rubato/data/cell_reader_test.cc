// Records of every format as cells, and files recognised by how they begin.
#include "rubato/data/cell_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/data/criteo_generator.h"
#include "rubato/data/entries_parser.h"
#include "rubato/data/formats.h"
#include "rubato/data/ids.h"
#include "rubato/data/sniff.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DataSpec Format(const std::string& format) { return {.format = format}; }

CellReader ReaderOf(const DataSpec& data, absl::string_view first) {
  absl::StatusOr<CellReader> reader = CellReader::Make(data, SchemaOf(data, first));
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

TEST(CellReaderTest, QuotesHoldCommasAndLineBreaks) {
  const CellReader reader = ReaderOf(Format("csv"), "a,b,\"c, d\"");
  EXPECT_THAT(reader.columns(), ElementsAre("a", "b", "c, d"));
  Cells cells;
  ASSERT_TRUE(reader.Read("1,\"x\"\"y\ny\", z ", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("1", "x\"y\ny", "z"));
  EXPECT_THAT(reader.Read("1,2", &cells).message(), HasSubstr("has 2 columns, not 3"));
}

TEST(CellReaderTest, CriteoHasNoQuotes) {
  const CellReader reader = ReaderOf(Format("criteo"), "");
  EXPECT_EQ(reader.columns().size(), 40u);
  std::string row = "1";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&row, "\t", i % 2 == 0 ? "" : "\"v ");
  Cells cells;
  ASSERT_TRUE(reader.Read(row, &cells).ok());
  EXPECT_EQ(cells.views[1], "\"v");
  EXPECT_EQ(cells.views[2], "");
}

// As Criteo publishes its test data: the first record says that no row has a label.
TEST(CellReaderTest, CriteoMayLackItsLabels) {
  std::string row = "7";
  for (int i = 1; i < 39; ++i) absl::StrAppend(&row, "\t", i);
  const CellReader reader = ReaderOf(Format("criteo"), row);
  EXPECT_EQ(reader.columns().size(), 39u);
  EXPECT_EQ(reader.columns()[0], "I1");
  Cells cells;
  ASSERT_TRUE(reader.Read(row, &cells).ok());
  EXPECT_EQ(cells.views[0], "7");
  EXPECT_THAT(reader.Read("1\t" + row, &cells).message(), HasSubstr("has 40 columns, not 39"));
  EXPECT_EQ(SchemaOf(Format("criteo"), "1\t" + row), "");
}

// Rows to predict: the first word is an entry, and must not be taken for a label.
TEST(CellReaderTest, EntriesMayLackTheirLabel) {
  Cells cells;
  const CellReader libfm = ReaderOf(Format("libfm"), "5:1 70:1");
  EXPECT_THAT(libfm.columns(), ElementsAre("label", "1", "2"));
  ASSERT_TRUE(libfm.Read("6:1 71:1", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("", "6", "71"));
  const CellReader libsvm = ReaderOf(Format("libsvm"), "5:1");
  ASSERT_TRUE(libsvm.Read("3:1 9:2", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("", "3 9:2"));
  const CellReader libffm = ReaderOf(Format("libffm"), "0:5:1 2:70:1");
  EXPECT_THAT(libffm.columns(), ElementsAre("label", "0", "2"));
  ASSERT_TRUE(libffm.Read("2:8:1 0:3:1", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("", "3", "8"));
}

// Blanks are dropped once, whatever a record comes from.
TEST(CellReaderTest, NoCellHasBlanksAroundIt) {
  Cells cells;
  const CellReader reader = ReaderOf(Format("csv"), "a,\" b\",c ");
  EXPECT_THAT(reader.columns(), ElementsAre("a", "b", "c"));
  ASSERT_TRUE(reader.Read("\" Oslo \", x y ,\"\t\"", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("Oslo", "x y", ""));
  // Behind a blank a quote is one, too, and so are the delimiters and doubled quotes within.
  EXPECT_THAT(ReaderOf(Format("csv"), "a, \"b\" ,\t\"c\"").columns(), ElementsAre("a", "b", "c"));
  ASSERT_TRUE(reader.Read("1, \"Rome, \"\"Lazio\"\"\" , \t\"\"", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("1", "Rome, \"Lazio\"", ""));
  // Behind a quote that closes they are within, if something follows.
  ASSERT_TRUE(reader.Read("\"nike\" shoes ,\"nike\"shoes,\"nike\" ", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("nike shoes", "nikeshoes", "nike"));
  const CellReader tabs = ReaderOf(Format("tsv"), "a\t \"b\"\tc");
  EXPECT_THAT(tabs.columns(), ElementsAre("a", "b", "c"));
  ASSERT_TRUE(tabs.Read("\t\t \"x\ty\" ", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("", "", "x\ty"));
}

TEST(CellReaderTest, EntriesByPositionTogetherOrByField) {
  Cells cells;
  const CellReader libfm = ReaderOf(Format("libfm"), "-1 5:1 70:1");
  EXPECT_THAT(libfm.columns(), ElementsAre("label", "1", "2"));
  ASSERT_TRUE(libfm.Read("1 6:1  71:0.5 ", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("1", "6", "71:0.5"));
  EXPECT_THAT(libfm.Read("1 6:1", &cells).message(), HasSubstr("has 2 columns, not 3"));
  EXPECT_THAT(libfm.Read("1 6 7:1", &cells).message(), HasSubstr("'6' is no entry"));

  const CellReader libsvm = ReaderOf(Format("libsvm"), "1 5:1");
  EXPECT_THAT(libsvm.columns(), ElementsAre("label", "entries"));
  ASSERT_TRUE(libsvm.Read("0 3:1 9:2 11:1.0", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("0", "3 9:2 11"));

  const CellReader libffm = ReaderOf(Format("libffm"), "1 0:5:1 2:70:1 2:71:1");
  EXPECT_THAT(libffm.columns(), ElementsAre("label", "0", "2"));
  ASSERT_TRUE(libffm.Read("0 2:8:1 0:3:1 2:9:0.5", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("0", "3", "8 9:0.5"));
  ASSERT_TRUE(libffm.Read("0 2:8:1", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("0", "", "8"));
  // Nothing was learned of a field that only this row has; what is no entry is a mistake.
  ASSERT_TRUE(libffm.Read("0 7:8:1 2:8:1", &cells).ok());
  EXPECT_THAT(cells.views, ElementsAre("0", "", "8"));
  EXPECT_THAT(libffm.Read("0 2:8:1 7", &cells).message(), HasSubstr("'7' is no entry"));
}

// Rows of libffm have the fields that they have; a data set has all of them.
TEST(CellReaderTest, FieldsAreTheUnionOfAllRecords) {
  FieldsSeen fields;
  for (const char* record : {"1 0:5:1 2:70:1", "0 2:8:1", "1:3:1 0:3:1", "0 7 x:1:1"}) {
    fields.See(record);
  }
  EXPECT_EQ(*fields.Schema(), "label,0,2,1,x");
  // None of them is dropped in silence, as `rubato convert` reads all.
  for (int i = 0; i < 1000; ++i) fields.See(absl::StrCat("1 f", i, ":1:1"));
  EXPECT_THAT(std::string(fields.Schema().status().message()),
              HasSubstr("the rows have more than 1000 different fields"));
}

TEST(EntriesParserTest, EveryPositionIsAField) {
  const auto parser = MakeParser(Format("libfm"), "label,1,2");
  ASSERT_TRUE(parser.ok()) << parser.status();
  Batch batch;
  ASSERT_TRUE((*parser)->Parse("-1 5:1 70:1", &batch).ok());
  ASSERT_TRUE((*parser)->Parse("1 5:1 5:1", &batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  EXPECT_THAT(batch.ids, ElementsAre(FieldIdOfText(0, "5"), FieldIdOfText(1, "70"),
                                     FieldIdOfText(0, "5"), FieldIdOfText(1, "5")));
  EXPECT_THAT((*parser)->Parse("yes 5:1 70:1", &batch).message(), HasSubstr("not a label"));
  EXPECT_THAT((*parser)->Parse("5:1 70:1", &batch).message(), HasSubstr("has no label"));
  EXPECT_EQ(batch.rows, 2);
  const auto unlabelled = MakeParser(Format("libfm"), "label,1,2", /*has_labels=*/false);
  ASSERT_TRUE(unlabelled.ok()) << unlabelled.status();
  Batch same;
  ASSERT_TRUE((*unlabelled)->Parse("5:1 70:1", &same).ok());
  ASSERT_TRUE((*unlabelled)->Parse("? 5:1 5:1", &same).ok());
  EXPECT_EQ(same.ids, batch.ids);
}

// Quotes mean in tsv what they mean in csv; one left open is told.
TEST(CellReaderTest, TsvHasTheQuotesOfCsv) {
  const auto reader = CellReader::Make(Format("tsv"), "a\tb\tc");
  ASSERT_TRUE(reader.ok()) << reader.status();
  Cells cells;
  ASSERT_TRUE(reader->Read("\"x\ty\"\t\"12\"\" disk\"\t5\"", &cells).ok());
  EXPECT_EQ(cells.views[0], "x\ty");
  EXPECT_EQ(cells.views[1], "12\" disk");
  EXPECT_EQ(cells.views[2], "5\"") << "a quote within a cell is a letter";
  for (const char* record : {"\"x\ty\tz", "x\ty\t\"z"}) {
    EXPECT_THAT(std::string(reader->Read(record, &cells).message()),
                HasSubstr("a quote that opens is never closed at the end of a cell; a cell that"))
        << record;
  }
}

// Whatever is no table of text says what to do with it.
TEST(SniffTest, OtherFilesAreNamed) {
  const auto why = [](absl::string_view text) {
    return std::string(SniffFormat(text).status().message());
  };
  EXPECT_THAT(why(absl::string_view("PAR1\x15\0\n1,2\n", 11)),
              HasSubstr("is Parquet, which is not"));
  EXPECT_THAT(why("PK\x03\x04\n1,2\n"), HasSubstr("is a zip archive or a spreadsheet"));
  EXPECT_THAT(why("SQLite format 3"), HasSubstr("name it as sqlite://PATH?table=NAME"));
  EXPECT_THAT(why("{\"a\": 1, \"y\": 0}\n{\"a\": 1, \"y\": 0}\n"), HasSubstr("is JSON, which is"));
  EXPECT_THAT(why("[{\"a\": 1}]\n"), HasSubstr("is JSON, which is not read"));
  EXPECT_TRUE(SniffFormat("{a},[b]\n1,2\n3,4\n").ok()) << "a header of any names";
}

std::string Sniffed(absl::string_view text, const std::string& label = "") {
  const absl::StatusOr<DataSpec> data = SniffFormat(text, {.label = label});
  return data.ok() ? FormatName(*data) : std::string(data.status().message());
}

TEST(SniffTest, KnowsAFileByItsBeginning) {
  EXPECT_EQ(Sniffed("y,age,city\n1,20,rome\n0,30,oslo\n"), "csv with header");
  EXPECT_EQ(Sniffed("1,20,rome\n0,30,oslo\n"), "csv");
  EXPECT_EQ(Sniffed("kind,city\ngood,rome\nbad,oslo\n"), "csv with header");
  EXPECT_EQ(Sniffed("good,rome\nbad,oslo\ngood,oslo\n"), "csv");
  EXPECT_EQ(Sniffed("a,b\n1,\"x\ny, z\"\n2,w\n"), "csv with header");
  EXPECT_EQ(Sniffed("y\tage\n1\t20\n"), "tsv with header");
  EXPECT_EQ(Sniffed("1\t20, or so\n0\t30, or so\n"), "tsv");
  EXPECT_EQ(Sniffed("1 3:1 5:1\n0 4:1 7:1\n"), "libfm");
  EXPECT_EQ(Sniffed("1 3:1 5:1\n0 4:1\n"), "libsvm");
  EXPECT_EQ(Sniffed("1 0:3:1 1:5:1\n"), "libffm");
  EXPECT_THAT(Sniffed("\n\n"), HasSubstr("holds no rows"));
  EXPECT_THAT(Sniffed("a b c\nd e\n"), HasSubstr("neither tabs nor commas"));
  std::string criteo;
  Rng rng(1);
  const CriteoGenerator generator({.cardinality_max = 1000});
  for (int i = 0; i < 20; ++i) generator.AppendRow(rng, &criteo);
  EXPECT_EQ(Sniffed(criteo), "criteo");
  // A bad row or two make no other file of it, but what is no row stands in no first line.
  const std::string few = criteo;
  while (std::count(criteo.begin(), criteo.end(), '\n') < 200) generator.AppendRow(rng, &criteo);
  const std::string bad = "x" + few.substr(1, few.find('\n'));
  EXPECT_EQ(Sniffed(criteo + bad), "criteo");
  EXPECT_EQ(Sniffed(criteo + bad + bad), "criteo");
  EXPECT_EQ(Sniffed(criteo + bad + bad + bad), "tsv");
  EXPECT_NE(Sniffed(bad + criteo), "criteo");
  EXPECT_NE(Sniffed(few + bad), "criteo");
}

// A row of zeros is a label alone.
TEST(SniffTest, RowsOfEntriesMayHaveNone) {
  EXPECT_EQ(Sniffed("-1\n1 3:1 5:1\n0 4:1 7:1\n"), "libsvm");
  EXPECT_EQ(Sniffed("1 3:1 5:1\n0 4:1 7:1\n-1\n"), "libsvm");
  EXPECT_EQ(Sniffed("0\n1 0:3:1 1:5:1\n1 0:3:1\n"), "libffm");
  EXPECT_THAT(Sniffed("0\n1\n1 3:1\n"), HasSubstr("neither tabs nor commas")) << "mostly bare";
}

TEST(SniffTest, WhatEntriesAreReadWithoutIsNamed) {
  EXPECT_THAT(Sniffed("# made by hand: 7\n1 3:1 5:1\n0 4:1 7:1\n"),
              HasSubstr("line 1 has a comment, which is not read; cut comments off"));
  EXPECT_THAT(Sniffed("1 3:1 5:1\n0 4:1 7:1 # odd\n"), HasSubstr("line 2 has a comment"));
  EXPECT_THAT(Sniffed("1 qid:1 3:1\n0 qid:1 4:1\n"), HasSubstr("line 1 has a qid"));
  EXPECT_EQ(Sniffed("1 3:1 5:1\n\n0 4:1 x\n1 3:1 7:1\n"),
            "line 3 is no row of libsvm, libfm or libffm, as most others are");
  EXPECT_EQ(Sniffed("y,a\n1,#7\n0,#8\n"), "csv with header");
}

// One name above numbers is enough: columns may be called 1 and 2, as those of libfm are.
TEST(SniffTest, AHeaderMayHaveNumbersAmongItsNames) {
  EXPECT_EQ(Sniffed("label,1,2\n1,12,340\n0,7,341\n"), "csv with header");
  EXPECT_EQ(Sniffed("y,2019,town\n1,,rome\n0,3,oslo\n"), "csv with header");
  EXPECT_THAT(Sniffed("label,1,1\n1,12,340\n"), HasSubstr("has the name '1' twice"));
  for (const char* missing : {"?", "NA", "", "\\N"}) {
    EXPECT_EQ(Sniffed(absl::StrCat(missing, ",5,2\n1,12,340\n0,7,341\n")), "csv") << missing;
  }
}

// A survey: the name of one column is an answer in another. In its own it may be one as well, and
// whoever names the label says that it is none.
TEST(SniffTest, AHeaderMayHaveValuesAmongItsNames) {
  EXPECT_EQ(Sniffed("sex,other,bought\nm,yes,no\nother,no,yes\n"), "csv with header");
  const std::string twice = "shop,town,bought\nweb,rome,no\nshop,oslo,yes\n";
  EXPECT_EQ(Sniffed(twice), "csv");
  EXPECT_EQ(Sniffed(twice, "bought"), "csv with header");
  EXPECT_EQ(Sniffed(twice, "bougth"), "csv");
  EXPECT_EQ(Sniffed("shop,town,\nweb,rome,no\n", "shop"),
            "line 1, the header, has no name for column 3; give it one");
  EXPECT_EQ(Sniffed("2,yes,1\n1,no,3\n", "2"), "csv") << "the second column";
}

// Dates and amounts are as good as numbers: no header has them.
TEST(SniffTest, NumbersMayHaveSigns) {
  for (const char* number : {"2026-01-10", "$5", "12,34", "5%", "18.11.26 05:09", "-3"}) {
    const std::string row = absl::StrCat("web\t", number, "\tno\n");
    EXPECT_EQ(Sniffed("web\tprice\tbought\n" + row + row), "tsv with header") << number;
    EXPECT_EQ(Sniffed(row + "shop\t7\tyes\n"), "tsv") << number;
    EXPECT_EQ(Sniffed(row + "shop\t" + number + "\tyes\n"), "tsv") << number;
  }
}

TEST(SniffTest, AByteOrderMarkIsNoPartOfTheFirstCell) {
  EXPECT_EQ(Sniffed("\xef\xbb\xbf\"a\nb\",y\nx,1\nz,0\n"), "csv with header");
  EXPECT_EQ(Sniffed("\xef\xbb\xbf"
                    "1 3:1 5:1\n0 4:1 7:1\n"),
            "libfm");
}

// As MovieLens comes: nobody guesses what is meant, but how to mend it is said.
TEST(SniffTest, NamesASeparatorThatItDoesNotRead) {
  EXPECT_THAT(Sniffed("1::1193::5::978300760\n1::661::3::978302109\n"),
              testing::HasSubstr("'::' does: write tabs instead, as by sed 's/::/\\t/g'"));
  EXPECT_EQ(Sniffed("one\ntwo\n"),
            "has one column, as 'one'; besides a label at least one to learn from is needed");
}

TEST(SniffTest, SemicolonsAndBarsCutWhereNothingElseDoes) {
  EXPECT_EQ(Sniffed("y;town;price\n1;rome;48,21\n0;oslo;7\n"), "ssv with header");
  EXPECT_EQ(Sniffed("a;b\n1;\"x; y,\nz\"\n2;w\n"), "ssv with header");
  EXPECT_EQ(Sniffed("1|20|rome\n0|30|oslo\n"), "psv");
  EXPECT_EQ(Sniffed("1,drama|war|love\n0,war|love|art\n"), "csv") << "lists in a cell";
}

TEST(SniffTest, TheFirstLineThatDiffersIsNamed) {
  EXPECT_EQ(Sniffed("a,b,c\n1,2,3\n4,5\n6,7,8\n9,1,2\n"),
            "cut at commas, line 3 has 2 columns, and most others have 3");
  // One in a hundred is a bad row, wherever it is: counted by whoever reads the table.
  const auto table = [](int rows, int bad) {
    std::string text = "a,b,y\n";
    for (int i = 1; i < rows; ++i) text += i == bad ? "1,2,3,4\n" : "1,x,0\n";
    return text;
  };
  EXPECT_EQ(Sniffed(table(200, 50)), "csv with header");
  EXPECT_EQ(Sniffed(table(99, 50)), "cut at commas, line 51 has 4 columns, and most others have 3");
  EXPECT_EQ(Sniffed("# a comment\n1\t2\n4\t5\n6\t7\n"),
            "cut at tabs, line 1 has 1 columns, and most others have 2");
}

// As a spreadsheet writes it.
TEST(SniffTest, TsvHasQuotedLineBreaksAndTabs) {
  const char* text = "y\tnote\n1\t\"two\nlines\"\n0\t\"a\tb\"\n";
  EXPECT_EQ(Sniffed(text), "tsv with header");
}

TEST(SniffTest, OtherEncodingsAreNamed) {
  const std::string utf8 = "y,a\n1,2\n0,3\n";
  std::string utf16 = "\xff\xfe", big = "\xfe\xff", bare;
  for (const char c : utf8) {
    utf16 += std::string({c, '\0'});
    big += std::string({'\0', c});
    bare += std::string({c, '\0'});
  }
  for (const std::string& text : {utf16, big, bare}) {
    EXPECT_THAT(Sniffed(text), HasSubstr("is UTF-16, not UTF-8; make it so, as by iconv"));
  }
  EXPECT_THAT(Sniffed("y,a\r1,2\r0,3\r"), HasSubstr("lines end in CR alone"));
  EXPECT_EQ(Sniffed("y,a\r\n1,2\r\n"), "csv with header");
}

// The index that pandas writes: it has a name to be asked for by, and nobody else reads it.
TEST(SniffTest, AColumnWithoutANameCountsTheRows) {
  EXPECT_EQ(Sniffed(",y,city\n0,1,rome\n1,0,oslo\n"), "csv with header");
  EXPECT_EQ(Sniffed(",kind,city\n0,good,rome\n1,bad,oslo\n"), "csv with header");
  EXPECT_EQ(Sniffed("y,,city\n1,2,rome\n0,3,oslo\n"),
            "line 1, the header, has no name for column 2; give it one");
  EXPECT_THAT(ReaderOf(Format("csv"), ",y,city").columns(), ElementsAre("unnamed", "y", "city"));
  DataSpec data = Format("csv");
  data.label = "y";
  EXPECT_THAT((*MakeParser(data, ",y,city"))->shape().ids, ElementsAre("city"));
}

// Numbers below say that the first line is a header: its faults are told, not taken for data.
TEST(SniffTest, NamesWhatIsWrongWithAHeader) {
  EXPECT_EQ(Sniffed("y,city,city\n1,rome,oslo\n0,oslo,rome\n"),
            "line 1, the header, has the name 'city' twice; give each column a name of its own");
  EXPECT_EQ(Sniffed("good,rome,rome\nbad,oslo,rome\n"), "csv") << "it may be data";
  EXPECT_EQ(Sniffed("1,,rome\n0,3,oslo\n"), "csv");
}

}  // namespace
}  // namespace rubato

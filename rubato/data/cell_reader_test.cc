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

TEST(CellReaderTest, CriteoCellsAreTakenAsTheyAre) {
  const CellReader reader = ReaderOf(Format("criteo"), "");
  EXPECT_EQ(reader.columns().size(), 40u);
  std::string row = "1";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&row, "\t", i % 2 == 0 ? "" : "\"v ");
  Cells cells;
  ASSERT_TRUE(reader.Read(row, &cells).ok());
  EXPECT_EQ(cells.views[1], "\"v ");
  EXPECT_EQ(cells.views[2], "");
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
  EXPECT_THAT(libffm.Read("0 7:8:1", &cells).message(), HasSubstr("'7:8:1' is no entry"));
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
  EXPECT_EQ(batch.rows, 2);
}

// Quotes mean in tsv what they mean in csv, but for line ends; one left open is told.
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
                HasSubstr("a quote that opens is never closed; a cell that begins with"))
        << record;
  }
}

std::string Sniffed(absl::string_view text) {
  const absl::StatusOr<DataSpec> data = SniffFormat(text);
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
  EXPECT_THAT(Sniffed("1;2\n3;4\n"), testing::HasSubstr("';' does"));
  EXPECT_EQ(Sniffed("one\ntwo\n"),
            "neither tabs nor commas cut its lines into the same number of columns");
  // Quotes may hold separators and ends of lines, so that sed would spoil it.
  const std::string quoted = Sniffed("a;b\n1;\"x; y,\nz\"\n2;w\n");
  EXPECT_THAT(quoted, HasSubstr("';' does: write commas instead, as by python3 -c"));
  EXPECT_THAT(quoted, HasSubstr("delimiter=\";\""));
}

// Numbers below say that the first line is a header: its faults are told, not taken for data.
TEST(SniffTest, NamesWhatIsWrongWithAHeader) {
  EXPECT_EQ(Sniffed("y,city,city\n1,rome,oslo\n0,oslo,rome\n"),
            "line 1, the header, has the name 'city' twice; give each column a name of its own");
  EXPECT_EQ(Sniffed(",y,city\n0,1,rome\n1,0,oslo\n"),
            "line 1, the header, has no name for column 1; give it one");
  EXPECT_EQ(Sniffed("good,rome,rome\nbad,oslo,rome\n"), "csv") << "it may be data";
  EXPECT_EQ(Sniffed("1,,rome\n0,3,oslo\n"), "csv");
}

}  // namespace
}  // namespace rubato

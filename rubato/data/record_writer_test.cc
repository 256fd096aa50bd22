#include "rubato/data/record_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rubato/data/cell_reader.h"

namespace rubato {
namespace {

using Row = std::vector<std::string>;

struct Case {
  const char* format;
  Row columns;
  Row cells;
  const char* record;
};

class RecordWriterTest : public testing::TestWithParam<Case> {};

// What is written is what it should be, and reads back as the same cells.
TEST_P(RecordWriterTest, WritesWhatCellReaderReads) {
  const Case& c = GetParam();
  const DataSpec data = {.format = c.format};
  const auto writer = RecordWriter::Make(data, c.columns);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::string record;
  const std::vector<absl::string_view> cells(c.cells.begin(), c.cells.end());
  ASSERT_TRUE(writer->Write(cells, &record).ok());
  EXPECT_EQ(record, c.record);
  std::string schema;
  for (const std::string& name : c.columns) schema += (schema.empty() ? "" : ",") + name;
  std::replace(schema.begin(), schema.end(), ',',
               data.format == "tsv"   ? '\t'
               : data.format == "ssv" ? ';'
               : data.format == "psv" ? '|'
                                      : ',');
  const auto reader = CellReader::Make(data, schema);
  ASSERT_TRUE(reader.ok());
  Cells read;
  ASSERT_TRUE(reader->Read(record, &read).ok());
  EXPECT_EQ(Row(read.views.begin(), read.views.end()), c.cells);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, RecordWriterTest,
    testing::Values(
        Case{"csv", {"a", "b", "c"}, {"1", "x,\"y\"", ""}, "1,\"x,\"\"y\"\"\","},
        Case{"csv", {"a", "b"}, {"two\nlines", "z"}, "\"two\nlines\",z"},
        Case{"tsv", {"a", "b"}, {"x\ty", "1,5"}, "\"x\ty\"\t1,5"},
        Case{"tsv", {"a", "b", "c"}, {"x", "two\nlines", "a b"}, "x\t\"two\nlines\"\ta b"},
        Case{"ssv", {"a", "b"}, {"1,5", "x;y"}, "1,5;\"x;y\""},
        Case{"psv", {"a", "b"}, {"1;5", "x|y"}, "1;5|\"x|y\""},
        Case{"libfm", {"label", "1", "2"}, {"1", "12", "340:0.5"}, "1 12:1 340:0.5"},
        Case{"libsvm", {"label", "entries"}, {"0", "12 340:0.5"}, "0 12:1 340:0.5"},
        Case{"libffm", {"label", "0", "3"}, {"1", "12", "7 8:2"}, "1 0:12:1 3:7:1 3:8:2"}));

// LIBSVM wants indices to rise, each once.
TEST(RecordWriterTest, EntriesOfLibsvmAreInOrder) {
  const auto written = [](std::vector<absl::string_view> cells) {
    const auto writer = RecordWriter::Make({.format = "libsvm"}, {"label", "a", "b", "c"});
    std::string record;
    EXPECT_TRUE(writer->Write(cells, &record).ok());
    return record;
  };
  EXPECT_EQ(written({"-1", "325172", "817869:0.50", "9"}), "-1 9:1 325172:1 817869:0.50");
  EXPECT_EQ(written({"1", "7:0.5", "3", "7 7:2"}), "1 3:1 7:3.5") << "sums, where hashes meet";
  EXPECT_EQ(written({"1", "", "", ""}), "1");
  EXPECT_EQ(written({"1", "rome", "7", "3"}), "1 rome:1 7:1 3:1") << "not an index";
}

TEST(RecordWriterTest, NamesTheColumnThatCannotBeWritten) {
  const auto writer = RecordWriter::Make({.format = "libsvm"}, {"label", "town"});
  const absl::string_view cells[] = {"1", "two\nlines"};
  std::string record;
  EXPECT_THAT(std::string(writer->Write(cells, &record).message()), testing::HasSubstr("town"));
  EXPECT_FALSE(RecordWriter::Make({.format = "criteo"}, {"a"}).ok());
  EXPECT_FALSE(RecordWriter::Make({.format = "idx"}, {"a"}).ok());
}

}  // namespace
}  // namespace rubato

#include "rubato/roles/convert_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/sql/database.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConvertDataTest : public testing::Test {
 protected:
  // Converts and returns what was written, or the error's text.
  std::string Convert(const std::string& text, DataSpec from, ConvertOptions options) {
    const std::string in = folder_.File("in");
    std::ofstream(in, std::ios::binary) << text;
    return ConvertFile(in, std::move(from), std::move(options));
  }
  std::string ConvertFile(const std::string& in, DataSpec from, ConvertOptions options) {
    from.train = {in};
    options.from = std::move(from);
    if (options.out.empty()) options.out = folder_.File("out");
    const ConvertProgress quiet = [](int64_t, int64_t) { return absl::OkStatus(); };
    const auto converted = ConvertData(options, folder_.File("index"), quiet, quiet);
    std::filesystem::remove(folder_.File("index"));
    if (!converted.ok()) return std::string(converted.status().message());
    const std::string bytes = ReadWholeFile(options.out).value_or("");
    EXPECT_EQ(converted->bytes, static_cast<int64_t>(bytes.size()));
    format_ = converted->format;
    list_ = converted->list_column + ": " + converted->list_text;
    return bytes;
  }

  TestFolder folder_;
  std::string format_;  // Of the last conversion's records, and
  std::string list_;    // the first cell that looked like a list.
};

constexpr char kTable[] = "town,age,rich\n\"Rome, Italy\",70,1\nOslo,,0\n\"a \"\"b\"\"\n\",5,1\n";

// Through recordio and back, every byte that counts is there.
TEST_F(ConvertDataTest, ThroughRecordioAndBack) {
  const std::string criteo =
      "1\t5\t" + std::string(37, '\t') + "68fd1e64\n" + "0" + std::string(39, '\t') + "\n";
  for (const auto& [format, text] : {std::pair<std::string, std::string>{"csv", kTable},
                                     {"tsv", "a\tb\n1\tx y\n0\t\n"},
                                     {"criteo", criteo},
                                     {"libfm", "1 5:1 7:0.5\n0 6:1 8:1\n"},
                                     {"libsvm", "1 5:1\n0 6:1 8:1\n"},
                                     {"libffm", "1 0:5:1 1:7:0.5\n0 0:6:1 1:8:1\n"}}) {
    const std::string records = folder_.File(format + ".rec");
    Convert(text, {.format = format}, {.to = "recordio", .out = records});
    EXPECT_EQ(ConvertFile(records, {.format = "recordio"}, {.to = format}), text) << format;
  }
  EXPECT_EQ(
      ConvertFile(folder_.File("csv.rec"), {.format = "recordio"}, {.to = "csv", .header = false}),
      std::string(kTable).substr(14));
}

TEST_F(ConvertDataTest, TablesAreQuotedAsTheNewFormatNeeds) {
  EXPECT_EQ(Convert("a,b\n\"x\ty\",\"1,5\"\n", {.format = "csv"}, {.to = "tsv"}),
            "a\tb\n\"x\ty\"\t1,5\n");
  EXPECT_EQ(Convert("1\t2\n", {.format = "tsv", .header = false}, {.to = "csv"}), "1,2\n1,2\n");
  // Blanks and line ends around a cell mean nothing; those within it stay, in quotes.
  EXPECT_EQ(Convert(kTable, {.format = "csv"}, {.to = "tsv"}),
            "town\tage\trich\nRome, Italy\t70\t1\nOslo\t\t0\n\"a \"\"b\"\"\"\t5\t1\n");
  EXPECT_EQ(Convert("a,b\n\"x\ny\",1\n", {.format = "csv"}, {.to = "tsv"}), "a\tb\n\"x\ny\"\t1\n");
}

// A text is an index behind those of numbers, the same for the same text of a column.
TEST_F(ConvertDataTest, CellsBecomeEntries) {
  const std::string table = "town,age,rich\nRome,70,1\nOslo,,0\nRome,5,1\n";
  const ConvertOptions options = {.to = "libsvm", .label = "rich", .numeric = {"age"}};
  std::vector<std::string> lines =
      absl::StrSplit(Convert(table, {.format = "csv"}, options), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  ASSERT_THAT(lines[0], testing::MatchesRegex("1 2:70 [0-9]+:1")) << "in order, as LIBSVM has it";
  const std::string rome = lines[0].substr(std::string("1 2:70 ").size());
  EXPECT_GE(std::stol(rome), 3);
  EXPECT_EQ(lines[2], "1 2:5 " + rome);
  EXPECT_THAT(lines[1], testing::MatchesRegex("0 [0-9]+:1"));  // No number, no entry.

  const std::string fields = Convert(table, {.format = "csv"}, {.to = "libffm", .label = "rich"});
  for (const absl::string_view line : absl::StrSplit(fields, '\n', absl::SkipEmpty())) {
    EXPECT_THAT(std::string(line), testing::MatchesRegex("[01] 0:[0-9]+:1 1:[0-9]+:1"));
  }
  // The same text of two columns is two things.
  lines = absl::StrSplit(Convert("y,a,b\n1,x,x\n", {.format = "csv"}, {.to = "libfm"}), ' ');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[1] + "\n", lines[2]);
  EXPECT_EQ(Convert("1 5:1 7:0.5\n", {.format = "libfm"}, {.to = "libffm"}), "1 0:5:1 1:7:0.5\n");
  EXPECT_EQ(Convert("1 0:5:1 4:7:0.5 4:8:1\n", {.format = "libffm"}, {.to = "libsvm"}),
            "1 5:1 7:0.5 8:1\n");
  EXPECT_EQ(Convert("1 0:5:1 4:7:0.5 4:8:1\n", {.format = "libffm"}, {.to = "csv"}),
            "label,0,4\n1,5,7:0.5 8\n");
}

// A label among entries is a number: words are refused, or told apart as the user says.
TEST_F(ConvertDataTest, WordsAreNoLabelsOfEntries) {
  const DataSpec csv = {.format = "csv"};
  const std::string table = "town,bought\nRome,yes\nOslo,no\n";
  for (const char* to : {"libsvm", "libffm", "libfm"}) {
    EXPECT_THAT(Convert(table, csv, {.to = to, .label = "bought"}),
                HasSubstr("in:2: column 'bought', 'yes', is not a number, as a label of"));
    std::vector<std::string> lines =
        absl::StrSplit(Convert(table, csv, {.to = to, .label = "bought", .positive = {"yes"}}),
                       '\n', absl::SkipEmpty());
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[0], testing::StartsWith("1 "));
    EXPECT_THAT(lines[1], testing::StartsWith("0 "));
    EXPECT_THAT(Convert(table, csv, {.to = to, .label = "bought", .positive = {"Yes"}}),
                HasSubstr("--positive: column 'bought' never is 'Yes'"));
  }
}

// Entries that went through a table, and lists, are several indices, not one text.
TEST_F(ConvertDataTest, CellsOfSeveralValuesAreSplit) {
  const DataSpec csv = {.format = "csv"};
  const std::string entries = "-1 9:1 12:1 18:0.5\n1 3:1\n";
  const std::string table = Convert(entries, {.format = "libsvm"}, {.to = "csv"});
  EXPECT_EQ(Convert(table, csv, {.to = "libsvm"}), entries);
  EXPECT_THAT(Convert("label,entries\n1,9 x:1\n", csv, {.to = "libsvm"}),
              HasSubstr("in:2: column 'entries', 'x:1', is no entry"));
  const std::string tags = "label,tags\n1,a|b\n0,b\n1,\n0,a||b\n1,|\n";
  std::vector<std::string> lines =
      absl::StrSplit(Convert(tags, csv, {.to = "libffm", .separator = "|"}), '\n');
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[0], testing::MatchesRegex("1 0:[0-9]+:1 0:[0-9]+:1"));
  EXPECT_THAT(lines[0], testing::EndsWith(lines[1].substr(1))) << "b is b, wherever it is";
  EXPECT_THAT(lines[2], testing::MatchesRegex("1 0:[0-9]+:1"));
  EXPECT_EQ(lines[3].substr(1), lines[0].substr(1)) << "between two separators there is nothing";
  EXPECT_EQ(lines[4], lines[2]);
  EXPECT_EQ(list_, ": ");
  Convert(tags, csv, {.to = "libffm"});
  EXPECT_EQ(list_, "tags: a|b") << "without a separator it is told";
  EXPECT_THAT(Convert(tags, csv, {.to = "libffm", .separator = "||"}), HasSubstr("one letter"));
  EXPECT_THAT(Convert(tags, csv, {.to = "libfm", .separator = "|"}), HasSubstr("cannot stand"));
}

// Rows of a database are records of csv, also within recordio.
TEST_F(ConvertDataTest, ATableOfADatabaseIsOneOfCsv) {
  const std::string path = folder_.File("t.db"), uri = "sqlite://" + path + "?table=t";
  {
    const auto database = OpenSqlite(path, /*create=*/true);
    ASSERT_TRUE(database.ok()) << database.status();
    for (const char* sql : {"CREATE TABLE t (town TEXT, rich INTEGER)",
                            "INSERT INTO t VALUES ('Rome, Italy', 1), (NULL, 0)"}) {
      ASSERT_TRUE((*database)->Query(sql).ok());
    }
  }
  const std::string table = "town,rich\n\"Rome, Italy\",1\n,0\n";
  EXPECT_EQ(ConvertFile(uri, {.format = "sql"}, {.to = "csv"}), table);
  EXPECT_EQ(format_, "csv");
  const std::string records = folder_.File("t.rec");
  ConvertFile(uri, {.format = "sql"}, {.to = "recordio", .out = records});
  EXPECT_EQ(ConvertFile(records, {.format = "recordio"}, {.to = "csv"}), table);
}

TEST_F(ConvertDataTest, MistakesAreNamed) {
  const DataSpec csv = {.format = "csv"};
  EXPECT_THAT(Convert(kTable, csv, {.to = "cvs"}), HasSubstr("did you mean 'csv'"));
  EXPECT_THAT(Convert(kTable, csv, {.to = "libsvm", .label = "ritch"}),
              HasSubstr("--label: the data has no column 'ritch'; did you mean 'rich'?"));
  EXPECT_THAT(Convert(kTable, csv, {.to = "libsvm", .label = "rich", .numeric = {"town"}}),
              HasSubstr("in:2: column 'town', 'Rome, Italy', is not a number"));
  EXPECT_THAT(Convert(kTable, csv, {.to = "criteo"}), HasSubstr("criteo has 40 columns, not 3"));
  EXPECT_THAT(Convert("a,b\n1,2\n3\n", csv, {.to = "tsv"}), HasSubstr("in:3: has 1 columns"));
  EXPECT_THAT(Convert(kTable, csv, {.to = "recordio", .gzip = true}), HasSubstr("by place"));
  EXPECT_THAT(Convert("1 5:1 7:1\n0 6:1\n", {.format = "libsvm"}, {.to = "libfm"}),
              HasSubstr("cannot stand in a record of libfm"));
  EXPECT_FALSE(PathExists(folder_.File("out")));
}

// Stopped in the middle: an error, and no file, under any name.
TEST_F(ConvertDataTest, AStopLeavesNoHalfFile) {
  std::string text = "a,b\n";
  for (int i = 0; i < 5000; ++i) text += "1,x\n";
  for (const std::string to : {"recordio", "tsv"}) {
    const TestFolder folder;
    const std::string in = folder.File("in");
    std::ofstream(in) << text;
    const auto converted = ConvertData(
        {.from = {.train = {in}, .format = "csv"}, .to = to, .out = folder.File("out")},
        folder.File("index"), [](int64_t, int64_t) { return absl::OkStatus(); },
        [](int64_t done, int64_t) {
          return done >= 2048 ? absl::CancelledError("stop") : absl::OkStatus();
        });
    EXPECT_TRUE(absl::IsCancelled(converted.status()));
    EXPECT_THAT(ListDirectory(folder.path()).value(), ElementsAre("in", "index"));
  }
}

}  // namespace
}  // namespace rubato

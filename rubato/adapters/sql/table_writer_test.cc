#include "rubato/adapters/sql/table_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

class TableWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/table_writer_test.db";
    std::filesystem::remove(path_);
  }
  absl::StatusOr<std::unique_ptr<TableWriter>> Open(const std::string& work,
                                                    std::vector<std::string> numbers = {"score"},
                                                    bool replace = false) {
    return TableWriter::Open({.uri = absl::StrCat("sqlite://", path_, "?table=scores"),
                              .work = work,
                              .numbers = std::move(numbers),
                              .replace = replace,
                              .patience = absl::ZeroDuration()});
  }
  // Rows up to `end`, of which nothing is committed yet.
  void Fill(TableWriter& writer, int64_t end) {
    while (writer.records() < end) {
      const std::string id = absl::StrCat("it's ", writer.records());
      const std::optional<float> score = static_cast<float>(writer.records()) / 4;
      ASSERT_TRUE(writer.Append(id, {score}).ok());
    }
  }
  void Write(const std::string& work, int64_t rows) {
    const auto writer = Open(work);
    ASSERT_TRUE(writer.ok()) << writer.status();
    Fill(**writer, rows);
    ASSERT_TRUE((*writer)->Keep().ok());
  }
  // What went wrong.
  std::string Replace(const std::string& work, int64_t rows) {
    const auto writer = Open(work, {"score"}, /*replace=*/true);
    if (!writer.ok()) return std::string(writer.status().message());
    Fill(**writer, rows);
    return std::string((*writer)->Finish().message());
  }
  std::string Ask(const std::string& sql) {
    const auto database = OpenSqlite(path_);
    if (!database.ok()) return std::string(database.status().message());
    const auto rows = (*database)->Query(sql);
    if (!rows.ok()) return std::string(rows.status().message());
    std::string text;
    for (const auto& row : rows->rows) {
      for (const auto& cell : row) absl::StrAppend(&text, cell.value_or("NULL"), " ");
    }
    return text;
  }

  std::string path_;
};

// Neither a NUL nor Latin-1 in one id keeps the scores of all others from their table.
TEST_F(TableWriterTest, IdsOfAnyBytesAreWritten) {
  const auto writer = Open("model");
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const std::string& id :
       {std::string("a\0b", 3), std::string("K\xf6ln"), std::string("K\xc3\xb6ln"),
        std::string("\xe2\x82\xac\xf0\x9f\x99\x82"), std::string("\xed\xa0\x80"),
        std::string("\xc0\xaf"), std::string("\xe2\x82"), std::string("C:\\x")}) {
    ASSERT_TRUE((*writer)->Append(id, {0.5f}).ok());
  }
  const absl::Status kept = (*writer)->Keep();
  ASSERT_TRUE(kept.ok()) << kept;
  EXPECT_EQ(Ask("SELECT id FROM scores ORDER BY record"),
            "a\\x00b K\\xf6ln K\xc3\xb6ln \xe2\x82\xac\xf0\x9f\x99\x82 \\xed\\xa0\\x80 \\xc0\\xaf "
            "\\xe2\\x82 C:\\x ");
}

TEST_F(TableWriterTest, EveryRowOnceThroughDeaths) {
  int64_t kept = 0;
  for (const int64_t end : {0, 100, 100, 17000}) {
    const auto writer = Open("w");
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_EQ((*writer)->records(), kept);
    Fill(**writer, end);
    ASSERT_TRUE((*writer)->Keep().ok());
    Fill(**writer, end + 50);  // Dies before these are kept.
    kept = end;
  }
  EXPECT_EQ(Ask("SELECT count(*), count(DISTINCT record), min(record), max(record) FROM scores"),
            "17000 17000 0 16999 ");
  EXPECT_EQ(Ask("SELECT id, score FROM scores WHERE record = 7"), "it's 7 1.75 ");
  EXPECT_EQ(Ask("SELECT name, work, records FROM rubato_predictions"), "scores w 17000 ");
}

TEST_F(TableWriterTest, OtherWorkReplacesScoresIfForced) {
  Fill(**Open("a"), 10);  // Nothing kept.
  Write("a", 10);
  EXPECT_EQ((*Open("a"))->records(), 10);
  EXPECT_THAT(Open("b").status().message(),
              HasSubstr("table scores holds 10 scores of another model or of other data; --force"));
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "10 ");
  EXPECT_EQ(Replace("b", 12), "");
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "12 ");
  EXPECT_EQ((*Open("b"))->records(), 12);
  Ask("DROP TABLE scores");
  EXPECT_EQ((*Open("b"))->records(), 0);
  EXPECT_EQ((*Open("c"))->records(), 0);  // There is nothing to lose.
  Write("c", 10);
  // Ours: it may get other columns.
  const auto classes = Open("d", {"score_0", "score_1"}, /*replace=*/true);
  ASSERT_TRUE((*classes)->Append("x", {0.25f, 0.75f}).ok());
  EXPECT_EQ(Ask("SELECT name FROM pragma_table_info('scores')"), "record id score ");
  ASSERT_TRUE((*classes)->Finish().ok());
  EXPECT_EQ(Ask("SELECT name FROM pragma_table_info('scores')"), "record id score_0 score_1 ");
  EXPECT_EQ(Ask("SELECT * FROM scores"), "0 x 0.25 0.75 ");
}

// Until the last new row is there nothing of the old ones is lost, whoever dies and how often.
TEST_F(TableWriterTest, OldRowsStayUntilAllNewOnesAreThere) {
  Write("old", 10);
  Ask("CREATE VIEW best AS SELECT id FROM scores WHERE score >= 2.5");
  for (const int64_t end : {0, 5, 17000}) {
    // The first was told to replace, which is enough for all.
    const auto writer = Open("new", {"score"}, /*replace=*/end == 0);
    ASSERT_TRUE(writer.ok()) << writer.status();
    Fill(**writer, end);
    ASSERT_TRUE((*writer)->Keep().ok());
    EXPECT_EQ(Ask("SELECT count(*), max(score) FROM scores"), "10 2.25 ");
    EXPECT_EQ(Ask("SELECT count(*) FROM best"), "0 ");
  }
  EXPECT_EQ((*Open("old"))->records(), 10);
  EXPECT_THAT(Open("another").status().message(), HasSubstr("--force replaces them"));
  const auto writer = Open("new");
  EXPECT_EQ((*writer)->records(), 17000);
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Ask("SELECT count(*), count(DISTINCT record), max(record) FROM scores"),
            "17000 17000 16999 ");
  EXPECT_EQ(Ask("SELECT count(*) FROM best"), "16990 ");  // Stays, as who may read the table does.
  EXPECT_EQ(Ask("SELECT * FROM rubato_predictions"), "scores new 17000 ");
  EXPECT_EQ(Ask("SELECT name FROM sqlite_schema WHERE name LIKE 'rubato_new%'"), "");
  EXPECT_EQ((*Open("new"))->records(), 17000);
}

// What a third has begun and not finished gives way, and stands in nobody's rows.
TEST_F(TableWriterTest, AReplacementThatWasGivenUpLeavesNothing) {
  Write("old", 10);
  {
    const auto given_up = Open("given up", {"score_0", "score_1"}, /*replace=*/true);
    ASSERT_TRUE((*given_up)->Append("x", {0.25f, 0.75f}).ok());
    ASSERT_TRUE((*given_up)->Keep().ok());
  }
  EXPECT_EQ(Replace("new", 3), "");
  EXPECT_EQ(Ask("SELECT id FROM scores"), "it's 0 it's 1 it's 2 ");
  EXPECT_EQ(Ask("SELECT name FROM rubato_predictions"), "scores ");
}

// Rows that somebody adds meanwhile are not a prediction's.
TEST_F(TableWriterTest, WhatCameMeanwhileIsNotReplaced) {
  Write("old", 10);
  const auto writer = Open("new", {"score"}, /*replace=*/true);
  Fill(**writer, 5);
  Ask("INSERT INTO scores VALUES (10, 'mine', 0.5)");
  EXPECT_THAT((*writer)->Finish().message(), HasSubstr("has changed it; nothing was added"));
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "11 ");
  Ask("DELETE FROM scores WHERE id = 'mine'");
  // Or another prediction, which was faster.
  const auto late = Open("late", {"score"}, /*replace=*/true);
  Fill(**late, 5);
  ASSERT_TRUE((*late)->Keep().ok());
  Ask("UPDATE rubato_predictions SET work = 'fast' WHERE name = 'scores'");
  EXPECT_THAT((*late)->Finish().message(), HasSubstr("nothing was added"));
  EXPECT_EQ(Ask("SELECT work FROM rubato_predictions WHERE name = 'scores'"), "fast ");
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "10 ");
}

TEST_F(TableWriterTest, OfTwoAtOnceOneIsRefused) {
  const auto a = Open("w"), b = Open("w");
  Fill(**a, 10);
  Fill(**b, 20);
  ASSERT_TRUE((*a)->Keep().ok());
  EXPECT_THAT((*b)->Keep().message(), HasSubstr("another process writes there"));
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "10 ");
}

// What somebody else keeps there stays.
TEST_F(TableWriterTest, ForeignTablesAreLeftAlone) {
  ASSERT_TRUE(Open("w").ok());
  Ask("DELETE FROM rubato_predictions");
  Ask("INSERT INTO scores VALUES (5, 'mine', 0.5)");
  EXPECT_THAT(Open("w").status().message(), HasSubstr("holds 1 rows that no prediction wrote"));
  Ask("DROP TABLE scores");
  Ask("CREATE TABLE scores (a INTEGER)");
  EXPECT_THAT(Open("w").status().message(), HasSubstr("has the columns a, not record, id, score"));
  EXPECT_EQ(Ask("SELECT id FROM scores"), absl::StrCat(path_, ": no such column: id"));
}

// Nor is a table in the place of one that a prediction wrote, or with more or less in it, whatever
// is said about replacing.
TEST_F(TableWriterTest, WhatBecameOfATableIsLeftAlone) {
  const auto why = [&] {
    return std::string(Open("w", {"score"}, /*replace=*/true).status().message());
  };
  Write("w", 10);
  Ask("INSERT INTO scores VALUES (10, 'mine', 0.5)");
  EXPECT_THAT(why(), HasSubstr("holds 11 rows, of which a prediction wrote 10"));
  Ask("DELETE FROM scores WHERE record IN (3, 4)");
  EXPECT_THAT(why(), HasSubstr("holds 9 rows, of which a prediction wrote 10"));
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "9 ");
  Ask("DROP TABLE scores");
  Ask("CREATE TABLE scores (customer TEXT, note TEXT)");
  EXPECT_THAT(why(), HasSubstr("has the columns customer, note, not record, id, score"));
  for (int i = 0; i < 10; ++i) Ask("INSERT INTO scores VALUES ('a', 'b')");
  EXPECT_THAT(why(), HasSubstr("holds 10 rows that no prediction wrote"));
  EXPECT_EQ(Ask("SELECT count(*) FROM scores WHERE note = 'b'"), "10 ");
  // A column added to scores is somebody's work, too.
  Ask("DROP TABLE scores");
  Write("w", 10);
  Ask("ALTER TABLE scores ADD COLUMN note TEXT");
  EXPECT_THAT(why(), HasSubstr("holds 10 rows that no prediction wrote"));
  EXPECT_EQ(Ask("SELECT count(*) FROM scores"), "10 ");
}

TEST_F(TableWriterTest, NoScoreIsNull) {
  const auto writer = Open("w");
  ASSERT_TRUE((*writer)->Append("bad", {std::nullopt}).ok());
  ASSERT_TRUE((*writer)->Append("nan", {std::nanf("")}).ok());
  ASSERT_TRUE((*writer)->Append("inf", {-std::numeric_limits<float>::infinity()}).ok());
  const absl::Status kept = (*writer)->Keep();
  ASSERT_TRUE(kept.ok()) << kept;
  EXPECT_EQ(Ask("SELECT id, score FROM scores"), "bad NULL nan NULL inf NULL ");
}

}  // namespace
}  // namespace rubato

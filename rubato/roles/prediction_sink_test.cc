// A line a record, whatever its id holds, and however often the writer dies.
#include "rubato/roles/prediction_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/sql/database.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

class PredictionSinkTest : public testing::Test {
 protected:
  std::unique_ptr<PredictionSink> Open(const std::string& work, size_t width = 1,
                                       bool replace = false) {
    auto sink = OpenPredictions({.out = out_, .work = work, .width = width, .replace = replace});
    EXPECT_TRUE(sink.ok()) << sink.status();
    return *std::move(sink);
  }
  static void Append(PredictionSink& sink, const std::string& id, float score) {
    EXPECT_TRUE(sink.Append({.ids = {id}, .is_good = {true}, .scores = {score}}).ok());
  }
  std::string Written() const { return ReadWholeFile(out_).value_or("nothing"); }

  const TestFolder folder_;
  const std::string out_ = folder_.File("scores.tsv");
};

// Ids with tabs and line breaks stay on their line, and a row that cannot be read keeps its own.
TEST_F(PredictionSinkTest, ALineForEveryRecord) {
  const auto sink = Open("w");
  ASSERT_TRUE(sink->Append({.ids = {"a\tb", "c\r\nd", "bad", "\\n"},
                            .is_good = {true, true, false, true},
                            .scores = {0.5f, 0.25f, 1}})
                  .ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Written(), "a\\tb\t0.5\nc\\r\\nd\t0.25\nbad\tnan\n\\\\n\t1\n");
}

TEST_F(PredictionSinkTest, ClassesHaveAScoreEach) {
  const auto sink = Open("w", 2);
  ASSERT_TRUE(
      sink->Append(
              {.ids = {"a", "b"}, .is_good = {false, true}, .scores = {0.5f, 0.125f}, .width = 2})
          .ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Written(), "a\tnan\tnan\nb\t0.5\t0.125\n");
}

// What was kept stays; what came after it, torn or whole, is written again.
TEST_F(PredictionSinkTest, GoesOnFromWhatWasKept) {
  {
    const auto sink = Open("w");
    Append(*sink, "a", 0.5f);
    ASSERT_TRUE(sink->Keep().ok());
    Append(*sink, "b", 0.5f);  // Dies before this is kept.
  }
  std::ofstream(out_ + ".partial", std::ios::app) << "torn";
  {
    const auto sink = Open("w");
    EXPECT_EQ(sink->records(), 1);
    EXPECT_EQ(Written(), "nothing");
    Append(*sink, "b", 0.25f);
    ASSERT_TRUE(sink->Finish().ok());
  }
  EXPECT_EQ(Written(), "a\t0.5\nb\t0.25\n");
  EXPECT_FALSE(std::filesystem::exists(out_ + ".partial.state"));
}

// A bit of what says how many lines count: none do, rather than some that are not there.
TEST_F(PredictionSinkTest, ADamagedCountIsNotBelieved) {
  const std::string state = out_ + ".partial.state";
  const auto keep_two = [&] {
    const auto sink = Open("w");
    if (sink->records() == 0) {
      Append(*sink, "a", 0.5f);
      Append(*sink, "b", 0.25f);
    }
    EXPECT_TRUE(sink->Keep().ok());
  };
  keep_two();
  const std::string sound = *ReadWholeFile(state);
  for (size_t i = 0; i < 9 * sound.size(); i += 5) {  // Some of the bits, and of the cuts.
    std::string damaged = sound;
    if (i % 9 == 8) {
      damaged.resize(i / 9);
    } else {
      damaged[i / 9] = static_cast<char>(damaged[i / 9] ^ (1 << i % 9));
    }
    keep_two();
    ASSERT_TRUE(WriteFileAtomically(state, damaged, Durability::kProcess).ok());
    EXPECT_EQ(Open("w")->records(), 0) << damaged;
  }
  // As an earlier build wrote it.
  keep_two();
  const std::string early = R"({"work":"w","records":2,"bytes":13})";
  ASSERT_TRUE(WriteFileAtomically(state, early, Durability::kProcess).ok());
  EXPECT_EQ(Open("w")->records(), 2);
}

// Other data or another model: its lines must not be mixed with those that are there.
TEST_F(PredictionSinkTest, OtherWorkBeginsAnew) {
  {
    const auto sink = Open("w");
    Append(*sink, "a", 0.5f);
    ASSERT_TRUE(sink->Keep().ok());
  }
  const auto sink = Open("another");
  EXPECT_EQ(sink->records(), 0);
  EXPECT_THAT(std::string(OpenPredictions({.out = out_, .work = "another"}).status().message()),
              HasSubstr("another process is writing there"));
  Append(*sink, "x", 1);
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Written(), "x\t1\n");
}

// What is there may be somebody's table: it is replaced by who was told to, and by nobody else.
TEST_F(PredictionSinkTest, AFileThatIsThereStaysUnlessForced) {
  std::ofstream(out_) << "mine\n";
  EXPECT_THAT(std::string(OpenPredictions({.out = out_, .work = "w"}).status().message()),
              HasSubstr("scores.tsv is there; --force replaces it"));
  EXPECT_EQ(Written(), "mine\n");
  EXPECT_FALSE(std::filesystem::exists(out_ + ".partial"));
  {
    const auto sink = Open("w", 1, /*replace=*/true);
    Append(*sink, "a", 0.5f);
    ASSERT_TRUE(sink->Keep().ok());
  }
  // Told once is enough for the same work, not for another.
  EXPECT_FALSE(OpenPredictions({.out = out_, .work = "another"}).ok());
  const auto sink = Open("w");
  EXPECT_EQ(sink->records(), 1);
  EXPECT_EQ(Written(), "mine\n");
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Written(), "a\t0.5\n");
}

// A table that holds another's scores holds them until all of these are there.
TEST_F(PredictionSinkTest, ATableIsReplacedInTheEnd) {
  const std::string uri = absl::StrCat("sqlite://", folder_.File("scores.db"), "?table=scores");
  const auto ids = [&] {
    std::string text;
    const auto database = OpenSqlite(folder_.File("scores.db"));
    if (!database.ok()) return text;
    const auto rows = (*database)->Query("SELECT id FROM scores ORDER BY record");
    if (!rows.ok()) return std::string(rows.status().message());
    for (const auto& row : rows->rows) text += row[0].value_or("NULL");
    return text;
  };
  for (const std::string work : {"a", "b"}) {
    const auto sink = OpenPredictions({.out = uri, .work = work, .replace = true});
    ASSERT_TRUE(sink.ok()) << sink.status();
    Append(**sink, work, 0.5f);
    ASSERT_TRUE((*sink)->Keep().ok());
    EXPECT_EQ(ids(), work == "a" ? "a" : "aa");
    Append(**sink, work, 0.5f);
    ASSERT_TRUE((*sink)->Finish().ok());
    EXPECT_EQ(ids(), work + work);
  }
  EXPECT_EQ((*OpenPredictions({.out = uri, .work = "b"}))->records(), 2);
}

TEST_F(PredictionSinkTest, ADatabaseWithoutItsSlashesIsNoFile) {
  for (const char* out : {"sqlite:x.db?table=s", "postgresql:/h/db?table=s", "postgres:db"}) {
    EXPECT_THAT(std::string(OpenPredictions({.out = out, .work = "w"}).status().message()),
                HasSubstr("a database is written with two slashes"));
    EXPECT_FALSE(std::filesystem::exists(absl::StrCat(out, ".partial")));
  }
}

}  // namespace
}  // namespace rubato

// One pass by several threads: the same as one row after the other, plain or gzip, one file or two.
#include "rubato/roles/analyze_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/gzip_writer.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

using testing::HasSubstr;

absl::Status NoProgress(int64_t, int64_t) { return absl::OkStatus(); }

// Enough rows for every thread to have several blocks, with line breaks in quotes.
std::string Rows(int rows, uint64_t seed) {
  Rng rng(seed);
  std::string text;
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, rng.Below(2), ",", 1000 * rng.Uniform(), ",\"line\n", rng.Below(50),
                    "\",", rng.Next(), "\n");
  }
  return text;
}

TEST(AnalyzeDataTest, ThreadsAndFilesMakeNoDifference) {
  const TestFolder folder;
  const std::string header = "y,x,quoted,key\n", a = Rows(20000, 1), b = Rows(15000, 2);
  const auto write = [&](const char* name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder.File(name), text, Durability::kProcess).ok());
  };
  write("all.csv", header + a + b);
  write("1.csv.gz", GzipBytes(header + a));
  write("2.csv.gz", GzipBytes(header + b));
  const DataSpec data = {.format = "csv"};
  const auto whole = AnalyzeData(data, {folder.File("all.csv")}, NoProgress);
  const auto again = AnalyzeData(data, {folder.File("all.csv")}, NoProgress);
  const auto parts = AnalyzeData(data, {folder.File("*.csv.gz")}, NoProgress);
  ASSERT_TRUE(whole.ok() && again.ok() && parts.ok()) << whole.status() << parts.status();
  EXPECT_EQ(whole->rows, 35000);
  EXPECT_EQ(parts->rows, 35000);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(whole->stats[i].common().Items(), again->stats[i].common().Items());
    EXPECT_EQ(whole->stats[i].distinct(), parts->stats[i].distinct());
    EXPECT_EQ(whole->stats[i].min(), parts->stats[i].min());
    EXPECT_EQ(whole->stats[i].quantiles().Boundaries(9), parts->stats[i].quantiles().Boundaries(9));
    EXPECT_NEAR(whole->stats[i].mean(), parts->stats[i].mean(),
                1e-9 * std::abs(parts->stats[i].mean()));
  }
  EXPECT_EQ(whole->stats[2].distinct(), 50);
  EXPECT_NEAR(static_cast<double>(whole->stats[3].distinct()), 35000, 1800);
}

TEST(AnalyzeDataTest, BadRowsAreCountedAndNamed) {
  const TestFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder.File(name), text, Durability::kProcess).ok());
  };
  write("some.csv", "y,x\n1,2\n1,2,3\n0,4\n");
  write("none.csv", "y,x\n1\n");
  const DataSpec data = {.format = "csv"};
  const auto some = AnalyzeData(data, {folder.File("some.csv")}, NoProgress);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->rows, 2);
  EXPECT_EQ(some->bad_rows, 1);
  EXPECT_EQ(some->first_bad, folder.File("some.csv") + ":3: has 3 columns, not 2");
  EXPECT_THAT(AnalyzeData(data, {folder.File("none.csv")}, NoProgress).status().message(),
              HasSubstr("no row can be read; the first: " + folder.File("none.csv") +
                        ":2: has 1 columns, not 2"));
  EXPECT_FALSE(AnalyzeData(data, {folder.File("nowhere.csv")}, NoProgress).ok());
}

// Whoever reads it: several threads take the blocks, and lines and records need not keep step.
TEST(AnalyzeDataTest, TheFirstBadRowIsFound) {
  const TestFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder.File(name), text, Durability::kProcess).ok());
  };
  const std::string row = "1,\"two\nlines, " + std::string(1000, 'x') + "\"\n";
  std::string rows = "y,x\n";
  for (int i = 0; i < 2000; ++i) rows += i == 900 || i == 1300 || i == 1999 ? "1,2,3\n" : row;
  write("1.csv", "y,x\n1,2\n");
  write("2.csv", rows);
  write("3.csv", "y,x\n1\n");
  const auto found = AnalyzeData({.format = "csv"}, {folder.File("*.csv")}, NoProgress);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->bad_rows, 4);
  EXPECT_EQ(found->first_bad, folder.File("2.csv") + ":1802: has 3 columns, not 2");
  EXPECT_EQ(found->first_bad_at, 901);
}

TEST(AnalyzeDataTest, FieldsOfLibffmAreThoseOfAllRows) {
  const TestFolder folder;
  const std::string path = folder.File("short.ffm");
  ASSERT_TRUE(
      WriteFileAtomically(path, "1 0:5:1\n0 0:6:1 1:7:1\n1 1:8:1\n", Durability::kProcess).ok());
  const auto analysis = AnalyzeData({.format = "libffm"}, {path}, NoProgress);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->rows, 3);
  EXPECT_EQ(analysis->bad_rows, 0);
  EXPECT_EQ(analysis->columns, (std::vector<std::string>{"label", "0", "1"}));
}

TEST(AnalyzeDataTest, CanBeStopped) {
  const TestFolder folder;
  ASSERT_TRUE(
      WriteFileAtomically(folder.File("a.csv"), "y,x,q,k\n" + Rows(40000, 1), Durability::kProcess)
          .ok());
  const auto stopped = AnalyzeData({.format = "csv"}, {folder.File("a.csv")},
                                   [](int64_t, int64_t) { return absl::CancelledError("stop"); });
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace rubato

// How data is read with a model that was trained on other data.
#include "rubato/cli/recognise.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace rubato {
namespace {

// The format of a file `name` for a model trained as `format` from `train`.
std::string FormatFor(const std::string& format, const std::string& train, const std::string& name,
                      const std::string& flag = "") {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << "a b\n";
  const absl::StatusOr<DataSpec> data =
      RecogniseForModel({.train = {train}, .format = format}, {path}, flag);
  std::filesystem::remove(path);
  return data.ok() ? data->format : data.status().ToString();
}

TEST(RecogniseForModelTest, ANameCountsWhereTheTrainingDatasDid) {
  EXPECT_EQ(FormatFor("csv", "train.csv", "new.csv"), "csv");
  EXPECT_EQ(FormatFor("csv", "train.csv.gz", "new.tsv"), "tsv");
  EXPECT_EQ(FormatFor("tsv", "train.tsv", "new.csv"), "csv");
  EXPECT_EQ(FormatFor("recordio", "train.rec", "new.csv"), "csv");
  EXPECT_EQ(FormatFor("sql", "sqlite:///a.db?table=t", "new.csv"), "csv");
  EXPECT_EQ(FormatFor("csv", "train.csv", "new.txt"), "csv") << "a name that says nothing";
  EXPECT_EQ(FormatFor("csv", "train.tsv", "new.tsv"), "csv") << "called so in training too";
  EXPECT_EQ(FormatFor("criteo", "train.txt", "new.tsv"), "criteo") << "its columns have no names";
  EXPECT_EQ(FormatFor("libfm", "train.libfm", "new.csv"), "libfm");
  EXPECT_EQ(FormatFor("libfm", "train.libfm", "new.csv", "csv"), "csv") << "whoever says so knows";
}

TEST(RecogniseForModelTest, ADatabaseIsOne) {
  const absl::StatusOr<DataSpec> data =
      RecogniseForModel({.train = {"train.csv"}, .format = "csv"}, {"sqlite:///a.db?table=t"}, "");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->format, "sql");
}

std::string Recognised(const std::string& name, const std::string& text,
                       const std::string& format = "") {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  const absl::StatusOr<DataSpec> data = RecogniseData({path}, {}, {.format = format});
  std::filesystem::remove(path);
  if (!data.ok()) return std::string(data.status().message());
  return data->format + (format.empty() || !data->header ? "" : " with header");
}

// Numbers with commas in a cell make more columns of commas than there are of tabs.
TEST(RecogniseDataTest, ANameDecidesBetweenSeparatorsThatBothCut) {
  const std::string tabs = "1\tu6\t0.72,0.48,0.09,0.3,0.5\n0\tu48\t0.06,0.52,0.36,0.7,0.8\n";
  EXPECT_EQ(Recognised("a.tsv", tabs), "tsv");
  EXPECT_EQ(Recognised("a.txt", tabs), "csv") << "a name that says nothing";
  EXPECT_EQ(Recognised("a.ssv", "1;85,9354;5,7196\n0;78,8088;45,4743\n"), "ssv");
  EXPECT_EQ(Recognised("a.csv", "1\t20, or so\n0\t30, or so\n"), "tsv") << "any table is called so";
  EXPECT_EQ(Recognised("a.tsv", "1,20,rome\n0,30,oslo\n"), "csv") << "no tabs";
  std::string many;
  for (int i = 0; i < 200; ++i) many += i == 50 ? "1\tbad\n" : "1\tu6\t0.72,0.48,0.09,0.3,0.5\n";
  EXPECT_EQ(Recognised("a.tsv", many), "tsv") << "but for one in a hundred";
}

TEST(RecogniseDataTest, WhoeverSaysTheFormatKnows) {
  const std::string rows = "1;85,9354;5,7196\n0;78,8088;45,4743\n";
  EXPECT_EQ(Recognised("a.csv", rows), "csv");
  EXPECT_EQ(Recognised("a.csv", rows, "ssv"), "ssv");
  EXPECT_EQ(Recognised("a.csv", "y;a;b\n" + rows, "ssv"), "ssv with header");
  EXPECT_EQ(Recognised("a.txt", "1 3:1 5:1\n0 4:1 7:1\n", "libsvm").substr(0, 6), "libsvm");
  const std::string path = testing::TempDir() + "/a.csv";
  EXPECT_EQ(Recognised("a.csv", rows, "tsv"),
            path + ": is no tsv: tabs cut most of its lines nowhere");
  EXPECT_EQ(Recognised("a.csv", "made by hand\n" + rows, "ssv"),
            path + ": cut at semicolons, line 1 has 1 columns, and most others have 3");
  EXPECT_EQ(RecogniseData({"sqlite:///a.db?table=t"}, {}, {.format = "csv"}).status().message(),
            "--format: goes with files, and --data is a database");
}

// Rows with equally many entries may be either; the name knows.
TEST(RecogniseDataTest, ANameDecidesBetweenFormatsThatLookAlike) {
  const std::string even = "1 3:1 5:1\n0 4:1 7:1\n", uneven = "1 3:1 5:1\n0 4:1\n";
  EXPECT_EQ(Recognised("a.txt", even), "libfm");
  EXPECT_EQ(Recognised("a.svm", even), "libsvm");
  EXPECT_EQ(Recognised("a.libsvm", even), "libsvm");
  EXPECT_EQ(Recognised("a.libfm", even), "libfm");
  EXPECT_EQ(Recognised("a.libfm", uneven), "libsvm") << "libfm could not be read";
}

TEST(RecogniseDataTest, ADatabaseWithoutItsSlashesIsNoFile) {
  const std::string why(RecogniseData({"sqlite:x.db?table=s"}, {}).status().message());
  EXPECT_EQ(why,
            "'sqlite:x.db?table=s': a database is written with two slashes, "
            "sqlite://x.db?table=s (a file of that name: ./sqlite:x.db?table=s)");
  EXPECT_FALSE(RecogniseForModel({.format = "csv"}, {"postgresql:/db?table=s"}, "csv").ok());
}

}  // namespace
}  // namespace rubato

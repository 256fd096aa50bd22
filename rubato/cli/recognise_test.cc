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

std::string Recognised(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  const absl::StatusOr<DataSpec> data = RecogniseData({path}, {});
  std::filesystem::remove(path);
  return data.ok() ? data->format : data.status().ToString();
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

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/match.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/idx_source.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/cli/commands.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What one command line answered.
struct Answer {
  int code = 0;
  std::string out, err;
};

Answer RunRubato(std::vector<std::string> arguments) {
  std::ostringstream out, err;
  Cli cli({.out = out, .err = err});
  AddGenerate(cli);
  std::vector<const char*> argv = {"rubato"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const int code = cli.Main(static_cast<int>(argv.size()), argv.data());
  return {code, out.str(), err.str()};
}

// Every record of the files, as the reader sees them.
std::vector<std::string> ReadAll(const TestFolder& folder, const DataSpec& data,
                                 const std::vector<std::string>& files) {
  const auto no_progress = [](int64_t, int64_t) { return absl::OkStatus(); };
  const std::string index = folder.File("index");
  RUBATO_CHECK_OK(BuildIndex(data, files, index, no_progress).status());
  const OpenedData opened = *OpenData(data, index);
  std::vector<std::string> records;
  Batch batch;
  RUBATO_CHECK_OK(
      opened.source->Read(0, opened.source->records(), [&](int64_t, absl::string_view record) {
        records.emplace_back(record);
        return opened.parser->Parse(record, &batch);
      }));
  return records;
}

std::vector<std::string> ReadAll(const TestFolder& folder, const std::string& pattern) {
  return ReadAll(folder, DataSpec(), {folder.File(pattern)});
}

TEST(GenerateCriteoTest, WritesFilesAndTheTruth) {
  const TestFolder folder;
  const Answer answer = RunRubato({"generate", "criteo", "--rows", "3000", "--validation-rows",
                                   "2000", "--out", folder.File("deep/data"), "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(*ListDirectory(folder.File("deep/data")),
              ElementsAre("train.tsv", "truth.json", "valid.tsv"));
  EXPECT_THAT(answer.err, HasSubstr("best reachable AUC 0."));
  const auto truth = nlohmann::json::parse(*ReadWholeFile(folder.File("deep/data/truth.json")));
  EXPECT_NEAR(truth["best_auc"].get<double>(), 0.8, 0.04);
  EXPECT_NEAR(truth["positive_rate"].get<double>(), 0.25, 0.05);
  EXPECT_GT(truth["best_logloss"].get<double>(), 0.3);
  EXPECT_EQ(truth["rows"], 3000);
  EXPECT_EQ(truth["seed"], 7);
  EXPECT_EQ(truth["cardinalities"]["C1"], 1460);
  EXPECT_EQ(nlohmann::json::parse(answer.out)["files"].size(), 2u);
  EXPECT_EQ(ReadAll(folder, "deep/data/train.tsv").size(), 3000u);
}

// However they are packed, the rows of a seed are the same.
TEST(GenerateCriteoTest, FilesAndGzipDoNotChangeTheRows) {
  const TestFolder folder;
  const std::vector<std::string> base = {"generate",          "criteo", "--rows", "1001",
                                         "--validation-rows", "10",     "--seed", "3"};
  std::vector<std::string> plain = base, spread = base;
  plain.insert(plain.end(), {"--out", folder.File("plain")});
  spread.insert(spread.end(), {"--out", folder.File("spread"), "--files", "4", "--gzip"});
  ASSERT_EQ(RunRubato(plain).code, 0);
  ASSERT_EQ(RunRubato(spread).code, 0);
  EXPECT_EQ(ReadAll(folder, "plain/train.tsv"), ReadAll(folder, "spread/train-*.tsv.gz"));
  EXPECT_EQ(ReadAll(folder, "plain/valid.tsv"), ReadAll(folder, "spread/valid.tsv.gz"));
  EXPECT_EQ(ListDirectory(folder.File("spread"))->size(), 6u);
}

TEST(GenerateCriteoTest, BadUsageExitsWithTwo) {
  const std::vector<std::vector<std::string>> cases = {
      {"generate"},
      {"generate", "nothing"},
      {"generate", "criteo", "--rows", "0", "--out", "/nowhere/at/all"},
      {"generate", "criteo", "--rows", "many"},
      {"generate", "criteo", "--rows", "5", "--files", "6"},
      {"generate", "criteo", "--validation-rows", "0"}};
  for (const std::vector<std::string>& arguments : cases) {
    const Answer answer = RunRubato(arguments);
    EXPECT_EQ(answer.code, kExitBadInput) << answer.err;
    EXPECT_FALSE(answer.err.empty());
  }
}

TEST(GenerateCriteoTest, AFolderThatCannotBeMadeIsNamed) {
  const Answer answer = RunRubato({"generate", "criteo", "--rows", "5", "--out", "/proc/data"});
  EXPECT_NE(answer.code, 0);
  EXPECT_THAT(answer.err, HasSubstr("/proc/data: cannot make folder"));
}

// ---- digits ------------------------------------------------------------------------------------

// Every image of a part with its label behind it, as a job would read them.
std::vector<std::string> ReadImages(const TestFolder& folder, const std::string& data_folder,
                                    const std::string& part) {
  return ReadAll(folder, {.format = "idx"}, *FindIdxFiles({data_folder}, part));
}

TEST(GenerateDigitsTest, WritesTheFilesOfMnist) {
  const TestFolder folder;
  const std::string plain = folder.File("plain"), packed = folder.File("packed");
  const std::vector<std::string> base = {"generate",          "digits", "--rows", "30",
                                         "--validation-rows", "20",     "--seed", "3"};
  std::vector<std::string> to_plain = base, to_packed = base;
  to_plain.insert(to_plain.end(), {"--out", plain, "--json"});
  to_packed.insert(to_packed.end(), {"--out", packed, "--gzip"});
  const Answer answer = RunRubato(to_plain);
  ASSERT_EQ(answer.code, 0) << answer.err;
  ASSERT_EQ(RunRubato(to_packed).code, 0);
  EXPECT_THAT(*ListDirectory(plain),
              ElementsAre("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
                          "train-images-idx3-ubyte", "train-labels-idx1-ubyte"));
  EXPECT_EQ(ReadWholeFile(plain + "/train-images-idx3-ubyte")->size(), 16u + 30 * 28 * 28);
  const auto written = nlohmann::json::parse(answer.out);
  EXPECT_EQ(written["files"].size(), 4u);
  EXPECT_EQ(written["validation_rows"], 20);
  const std::vector<std::string> train = ReadImages(folder, plain, "train");
  const std::vector<std::string> held_out = ReadImages(folder, plain, "t10k");
  EXPECT_EQ(train.size(), 30u);
  EXPECT_EQ(held_out.size(), 20u);
  EXPECT_NE(train[0], held_out[0]);
  EXPECT_EQ(ReadImages(folder, packed, "train"), train);
  EXPECT_EQ(ReadImages(folder, packed, "t10k"), held_out);
}

TEST(GenerateDigitsTest, BadUsageExitsWithTwo) {
  const std::vector<std::vector<std::string>> cases = {
      {"generate", "digits", "--rows", "0"},
      {"generate", "digits", "--rows", "5000000000"},
      {"generate", "digits", "--validation-rows", "0"},
      {"generate", "digits", "--noise", "2"},
      {"generate", "digits", "--noise", "nan"},
      {"generate", "digits", "--size", "32"}};
  for (const std::vector<std::string>& arguments : cases) {
    const Answer answer = RunRubato(arguments);
    EXPECT_EQ(answer.code, kExitBadInput) << answer.err;
    EXPECT_FALSE(answer.err.empty());
  }
}

}  // namespace
}  // namespace rubato

// rubato convert, and training from what it makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "absl/strings/match.h"
#include "tests/job_runner.h"
#include "tests/people.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// The same records in another file give the same model, to the last digit.
TEST(ConvertTest, TrainingFromRecordioIsTrainingFromTheTable) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(4000, 0));
  folder.Write("test.csv", PeopleCsv(1000, 4000));
  for (const std::string name : {"people", "test"}) {
    const CommandResult result = RunRubato(
        {"convert", "--data", name + ".csv", "--out", name + ".rec", "--json"}, folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["to"], "recordio");
    EXPECT_EQ(json::parse(result.out)["records"], name == "people" ? 4000 : 1000);
  }
  json metrics[2];
  for (const int binary : {0, 1}) {
    const std::string suffix = binary ? ".rec" : ".csv", out = binary ? "b" : "a";
    const CommandResult init =
        RunRubato({"init", "--data", "people" + suffix, "--validation", "test" + suffix, "--label",
                   "income", "--model", "logistic", "--out", out},
                  folder.path());
    ASSERT_EQ(init.exit_code, 0) << init.err;
    const CommandResult train = RunRubato(
        {"train", out + "/job.yaml", "--job-dir", out + "/job", "--set", "epochs=2", "--json"},
        folder.path());
    ASSERT_EQ(train.exit_code, 0) << train.err;
    metrics[binary] = json::parse(train.out)["metrics"];
  }
  EXPECT_EQ(metrics[0], metrics[1]);
  EXPECT_EQ(ReadText(folder.path() + "/a/features.yaml"),
            ReadText(folder.path() + "/b/features.yaml"));
  const CommandResult evaluated = RunRubato({"evaluate", "b/job", "--json"}, folder.path());
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_NEAR(json::parse(evaluated.out)["metrics"]["auc"].get<double>(),
              metrics[1]["auc"].get<double>(), 1e-9);
}

TEST(ConvertTest, MistakesAreToldWithTwo) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(100, 0));
  const auto convert = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"convert", "--data", "people.csv"});
    const CommandResult result = RunRubato(words, folder.path());
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(convert({"--out", "people.bin"}), HasSubstr("--to: people.bin does not say"));
  EXPECT_THAT(convert({"--out", "x", "--to", "recordoi"}), HasSubstr("did you mean 'recordio'?"));
  EXPECT_THAT(convert({"--out", "people.csv"}), HasSubstr("--force"));
  EXPECT_THAT(convert({"--out", "no/where.rec"}), HasSubstr("no/where.rec"));
  EXPECT_THAT(convert({"--out", "x.tsv", "--buckets", "0"}), HasSubstr("--buckets"));
  EXPECT_THAT(RunRubato({"convert", "--data", "none.csv", "--out", "x.rec"}, folder.path()).err,
              HasSubstr("none.csv"));
  EXPECT_THAT(convert({"--out", "b.csv.zst"}), HasSubstr(".zst is not written; .gz is"));
}

// Ctrl-C, and then a kill, in the middle of writing: neither leaves a file of that name.
TEST(ConvertTest, AStoppedOneLeavesNoFile) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(1000000, 0));
  const auto is_writing = [&] {
    for (const auto& file : fs::directory_iterator(folder.path())) {
      const std::string name = file.path().filename();
      if (absl::StrContains(name, "out.tsv") && file.file_size() > 0) return true;
    }
    return false;
  };
  for (const int signal : {SIGINT, SIGKILL}) {
    RunningCommand convert({"convert", "--data", "people.csv", "--out", "out.tsv"}, folder.path());
    ASSERT_TRUE(Eventually([&] { return is_writing() || !convert.running(); })) << convert.err();
    const int code = convert.End(signal);
    if (code == 0) continue;  // It was done before the blow fell.
    EXPECT_EQ(code, signal == SIGINT ? 130 : 128 + SIGKILL) << convert.err();
    EXPECT_FALSE(fs::exists(folder.path() + "/out.tsv"));
    EXPECT_EQ(is_writing(), signal == SIGKILL) << "Ctrl-C sweeps up; a kill cannot";
  }
}

}  // namespace
}  // namespace rubato

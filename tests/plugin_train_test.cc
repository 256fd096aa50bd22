// A user's own model from a plug-in, with its own data format, trained by real processes.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

TEST(PluginTrainTest, TheExampleLearnsOnServers) {
  ScratchFolder folder;
  Rng rng(1);
  std::string records;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t user = rng.Below(50);
    const uint64_t item = rng.Below(40);
    absl::StrAppend(&records, (user * 7 + item * 3) % 10 < 4 ? 1 : 0, " u", user, " ",
                    rng.Chance(0.5) ? "de" : "fr", " i", item, "\n");
  }
  folder.Write("records.txt", records);
  // The format only cuts lines; the model's own parser reads them.
  const std::string job = folder.Write(
      "job.yaml", absl::StrCat("name: towers\nmodel: ", RUBATO_PLUGIN,
                               "\ndata: {train: records.txt, validation: records.txt}\n"
                               "epochs: 3\nbatch_size: 128\noptimizer: {learning_rate: 0.05}\n"
                               "servers: 2\nworkers: {max: 2}\n"
                               "tables: {named: {items: {capacity: 30, optimizer.name: adam}}}\n"));
  TrainingJob training(folder.path(), {job});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], 60000);
  EXPECT_EQ(training.Summary()["records_repeated"], 0);
  EXPECT_GT(training.Summary()["metrics"]["auc"].get<double>(), 0.7);
  // Two tables, each by its own rules.
  const CommandResult asked = RunRubato({"params", training.job_dir(), "--json"}, folder.path());
  const auto tables = nlohmann::json::parse(asked.out)["tables"];
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0]["name"], "users");
  EXPECT_EQ(tables[0]["rows"], 52);
  EXPECT_EQ(tables[0]["optimizer"], "adagrad");
  EXPECT_EQ(tables[1]["name"], "items");
  EXPECT_EQ(tables[1]["rows"], 30);
  EXPECT_EQ(tables[1]["optimizer"], "adam");
  EXPECT_EQ(tables[1]["learning_rate"], 0.01);
}

}  // namespace
}  // namespace rubato

// `rubato params` on a real job: while it trains, and after its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

TEST(ParamsTest, ShowsWhatServersHoldWhileItTrainsAndAfterwards) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 40000, "servers: 2\nworkers: {max: 2}\nepochs: 400\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_TRUE(training.ReachStep(30));

  const CommandResult live =
      RunRubato({"params", training.job_dir(), "--json", "--top", "3"}, folder.path());
  ASSERT_EQ(live.exit_code, 0) << live.err;
  const auto report = nlohmann::json::parse(live.out);
  EXPECT_TRUE(report["live"]);
  ASSERT_EQ(report["servers"].size(), 2u);
  int64_t partitions = 0, steps = 0;
  for (const auto& server : report["servers"]) {
    partitions += server["partitions"].get<int64_t>();
    steps = std::max(steps, server["steps"].get<int64_t>());
    EXPECT_GT(server["rows"].get<int64_t>(), 100);
    EXPECT_GE(server["staleness_max"].get<double>(), server["staleness_mean"].get<double>());
    EXPECT_LT(server["staleness_max"].get<int64_t>(), server["steps"].get<int64_t>());
    EXPECT_GE(server["clients"].get<int64_t>(), 2);
  }
  EXPECT_EQ(partitions, 1024);
  EXPECT_GE(steps, 30);
  int64_t rows = 0;
  for (const auto& table : report["tables"]) {
    rows += table["rows"].get<int64_t>();
    EXPECT_EQ(table["rows_admitted"], table["rows"]);
  }
  EXPECT_GT(rows, 1000);
  EXPECT_EQ(report["hottest"].size(), 3u);
  EXPECT_GT(report["hottest"][0]["share"].get<double>(), 0);
  const CommandResult table = RunRubato({"params", training.job_dir()}, folder.path());
  EXPECT_THAT(table.out, testing::AllOf(HasSubstr("staleness"), HasSubstr("hottest ids")));

  kill(training.pid(), SIGINT);
  training.Wait();
  const CommandResult over = RunRubato({"params", training.job_dir(), "--json"}, folder.path());
  ASSERT_EQ(over.exit_code, 0) << over.err;
  const auto last = nlohmann::json::parse(over.out);
  EXPECT_FALSE(last["live"]);
  EXPECT_GE(last["checkpoint"].get<int64_t>(), 1);
  EXPECT_EQ(last["servers"].size(), 2u);
  int64_t rows_last = 0;
  for (const auto& t : last["tables"]) {
    rows_last += t["rows"].get<int64_t>();
    EXPECT_EQ(t["rows_admitted"], t["rows"]);  // The checkpoint tells.
  }
  EXPECT_GE(rows_last, rows);
  const CommandResult watch = RunRubato({"params", training.job_dir(), "--watch"}, folder.path());
  EXPECT_NE(watch.exit_code, 0);
  EXPECT_THAT(watch.err, HasSubstr("nothing to watch"));
}

// What the job file says of a table by its name is what its servers do, whatever it says of all.
TEST(ParamsTest, ATableGoesByItsOwnRules) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 4000,
                     "servers: 2\nepochs: 2\ntables:\n  admit_count: 2\n  named:\n"
                     "    fm: {capacity: 3000, ttl_steps: 25, optimizer: {name: adam, "
                     "learning_rate: 0.002}}\n");
  TrainingJob training(folder.path(), {job, "--set", "tables.named.fm.capacity=1000"});
  ASSERT_EQ(training.Wait().exit_code, 0);
  const CommandResult asked = RunRubato({"params", training.job_dir(), "--json"}, folder.path());
  ASSERT_EQ(asked.exit_code, 0) << asked.err;
  const auto table = nlohmann::json::parse(asked.out)["tables"][0];
  EXPECT_EQ(table["optimizer"], "adam");
  EXPECT_EQ(table["learning_rate"], 0.002);
  EXPECT_EQ(table["admit_count"], 2);
  EXPECT_EQ(table["ttl_steps"], 25);
  EXPECT_EQ(table["capacity"], 1000);
  EXPECT_EQ(table["rows"], 1000);
  EXPECT_GT(table["rows_evicted"], 1000);
  EXPECT_GT(table["rows_refused"], 1000);
  const CommandResult shown = RunRubato({"params", training.job_dir()}, folder.path());
  EXPECT_THAT(shown.out, HasSubstr("0.002  admit_count 2, ttl_steps 25, capacity 1000\n"));
}

// Which tables there are is known once the model is tried; the file knows where they were named.
TEST(ParamsTest, ATableThatTheModelDoesNotHaveIsNamedWithItsLine) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 1000, "tables:\n  named:\n    fn: {capacity: 9}\n");
  TrainingJob training(folder.path(), {job});
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("job.yaml:8: tables.named.fn: deepfm has no table of this name; "
                        "it has 'fm'; did you mean 'fm'?"));
  EXPECT_EQ(ReadText(training.job_dir() + "/job.yaml"), "");
  TrainingJob other(folder.path(), {job, "--set", "tables.named={w: {capacity: 9}}"});
  EXPECT_THAT(other.Wait().err,
              HasSubstr("--set tables.named={w: {capacity: 9}}: tables.named.w: deepfm has no"));
}

// A server that hangs is named, and nobody takes the rest for all.
TEST(ParamsTest, ASilentServerIsNamedAndTheSumsSaySo) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 40000, "servers: 2\nworkers: {max: 1}\nepochs: 400\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_TRUE(training.ReachStep(10));
  pid_t pid = 0;
  for (const auto& server : training.Alive("server")) {
    if (server.id == 0) pid = server.pid;
  }
  ASSERT_GT(pid, 0);
  kill(pid, SIGSTOP);
  const CommandResult json = RunRubato({"params", training.job_dir(), "--json"}, folder.path());
  kill(pid, SIGCONT);
  EXPECT_EQ(json.exit_code, 1);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_TRUE(report["partial"]);
  ASSERT_EQ(report["silent"].size(), 1u) << json.out;
  EXPECT_EQ(report["silent"][0]["server"], 0);
  EXPECT_EQ(report["servers"].size(), 1u);
}

TEST(ParamsTest, SaysWhatIsWrong) {
  ScratchFolder folder;
  const CommandResult nothing = RunRubato({"params", "nowhere"}, folder.path());
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nowhere"));
  for (const char* servers : {"0", "x", "1025"}) {
    const CommandResult scale =
        RunRubato({"scale", "nowhere", "--servers", servers}, folder.path());
    EXPECT_EQ(scale.exit_code, 2);
    EXPECT_THAT(scale.err, HasSubstr("--servers"));
    EXPECT_LT(scale.err.size(), 300u) << scale.err;
  }
  const std::string job = WriteCriteoJob(folder, 1000, "");
  const CommandResult address =
      RunRubato({"train", job, "--set", "params.metrics=here"}, folder.path());
  EXPECT_EQ(address.exit_code, 2);
  EXPECT_THAT(address.err, HasSubstr("params.metrics: here is no address: write host:port"));
}

}  // namespace
}  // namespace rubato

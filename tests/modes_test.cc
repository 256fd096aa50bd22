// mode: sync and hybrid with real processes: what they give does not depend on who died.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/job_runner.h"
#include "tests/server_state.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr char kSync[] = "mode: sync\nrounds: {gradients: 2}\nservers: 2\nepochs: 5\n";

std::map<std::string, std::string> Undisturbed() {
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteCriteoJob(folder, 20000, absl::StrCat(kSync, "workers: {max: 1}\n"))});
  EXPECT_EQ(training.Wait().exit_code, 0);
  return ServerState(training.job_dir());
}

// Three workers, of whom two die, as do a server and the master; the weights are those of one
// worker that nobody disturbed, to the bit.
TEST(ModesTest, SyncGivesTheSameBitsWhoeverDies) {
  const auto expected = Undisturbed();
  ASSERT_GT(expected.size(), 10000u);
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteCriteoJob(folder, 20000, absl::StrCat(kSync, "workers: {max: 3}\n"))});
  int64_t step = 60;
  for (const char* role : {"worker", "server", "master", "worker"}) {
    ASSERT_TRUE(training.ReachStep(step)) << role;
    const auto victims = training.Alive(role);
    ASSERT_FALSE(victims.empty());
    ASSERT_EQ(kill(victims.front().pid, SIGKILL), 0);
    step += 80;
  }
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], 100000);
  EXPECT_EQ(summary["workers"]["lost"], 2);
  EXPECT_TRUE(ServerState(training.job_dir()) == expected);
}

// A third server comes and goes in the midst of rounds, and takes what is staged along.
TEST(ModesTest, SyncGivesTheSameBitsWhileServersComeAndGo) {
  const auto expected = Undisturbed();
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteCriteoJob(folder, 20000, absl::StrCat(kSync, "workers: {max: 2}\n"))});
  ASSERT_TRUE(training.ReachStep(40));
  for (const char* servers : {"3", "2"}) {
    const CommandResult scaled = RunRubato({"scale", "job", "--servers", servers}, folder.path());
    ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
  }
  EXPECT_EQ(training.Events("servers_scaled").size(), 2u);
  ASSERT_TRUE(training.running()) << "too short to tell";
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(ServerState(training.job_dir()) == expected);
}

TEST(ModesTest, HybridLearns) {
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteCriteoJob(folder, 20000,
                                       "mode: hybrid\nrounds: {gradients: 2, tolerance: 1}\n"
                                       "servers: 2\nworkers: {max: 3}\nepochs: 2\n")});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], 40000);
  EXPECT_GT(training.Summary()["metrics"]["auc"], 0.74);
}

TEST(ModesTest, WhatDoesNotFitIsRefused) {
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(folder, 1000, "mode: async\n");
  const struct {
    std::vector<std::string> set;
    std::string error;
  } kCases[] = {
      {{"mode=synch"}, "mode: 'synch' is not one of async, sync, hybrid; did you mean 'sync'?"},
      {{"rounds.gradients=2"}, "rounds: mode: async has none; choose mode: sync or hybrid"},
      {{"mode=sync", "rounds.tolerance=-1"}, "rounds.tolerance: -1 is less than 0"},
      {{"mode=sync", "batches_per_task=4"}, "batches_per_task: 4 with mode: sync"},
      {{"mode=sync", "strategy=allreduce"}, "mode: sync does nothing with strategy: allreduce"},
  };
  for (const auto& c : kCases) {
    std::vector<std::string> arguments = {"train", job};
    for (const std::string& set : c.set) arguments.insert(arguments.end(), {"--set", set});
    const CommandResult result = RunRubato(arguments, folder.path());
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(c.error));
  }
}

}  // namespace
}  // namespace rubato

// mode: sync and hybrid with real processes: what they give does not depend on who died.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
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
  int64_t step = 30;  // Of about 400: whoever looks may be late.
  for (const char* role : {"worker", "server", "master", "worker"}) {
    ASSERT_TRUE(training.ReachStep(step)) << role << ": " << training.Wait().err;
    const auto victims = training.Alive(role);
    ASSERT_FALSE(victims.empty());
    ASSERT_EQ(kill(victims.front().pid, SIGKILL), 0);
    step += 40;
  }
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], 100000);
  EXPECT_EQ(summary["workers"]["lost"], 2);
  EXPECT_TRUE(ServerState(training.job_dir()) == expected);
}

// A round is as many gradients as the job began with, however many workers it goes on with.
TEST(ModesTest, GoesOnWithMoreWorkersThanItWasMadeFor) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 20000, "mode: sync\nepochs: 5\nworkers: {max: 2}\n");
  {
    TrainingJob training(folder.path(), {job});
    ASSERT_TRUE(training.ReachStep(30));
    kill(training.pid(), SIGINT);
    const CommandResult stopped = training.Wait();
    ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  }
  TrainingJob training(folder.path(), {"--resume", folder.path() + "/job", "--workers", "3"});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], 100000);
}

// The folder of the third checkpoint hangs for one server, as a network's may: the file that it
// opens is one at which it waits for a reader. The others are not kept waiting by that, and its
// next life finds the folder well.
TEST(ModesTest, ACheckpointFolderThatHangsStopsNobody) {
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteCriteoJob(folder, 20000,
                                       absl::StrCat(kSync,
                                                    "workers: {max: 2}\n"
                                                    "checkpoint: {every_steps: 60}\n"))});
  ASSERT_TRUE(training.ReachStep(1));
  const std::string version = training.job_dir() + "/checkpoints/3";
  ASSERT_TRUE(std::filesystem::create_directories(version));
  const std::string file = version + "/server-0.ckpt.tmp";
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  ASSERT_TRUE(training.ReachStep(250));
  const auto failed = training.Events("checkpoint_failed");
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0]["version"], 3);
  EXPECT_THAT(failed[0]["cause"].get<std::string>(), HasSubstr("server-0 has not cut yet"));
  ASSERT_EQ(unlink(file.c_str()), 0);
  const auto servers = training.Alive("server");
  ASSERT_EQ(servers.size(), 2U);
  ASSERT_EQ(kill(servers[0].pid, SIGKILL), 0);
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], 100000);
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

// Of one worker with nothing in flight rows move in one order, so hybrid too has bits to compare:
// rounds of three; servers
// and the master die in their midst, and a third server comes and goes.
TEST(ModesTest, HybridLosesNothingInTheMidstOfRounds) {
  const std::string keys =
      "mode: hybrid\nrounds: {gradients: 3}\nmax_inflight: 0\nservers: 2\nepochs: 6\n"
      "workers: {max: 1}\n";
  std::map<std::string, std::string> states[2];
  for (const bool struck : {false, true}) {
    ScratchFolder folder;
    TrainingJob training(folder.path(), {WriteCriteoJob(folder, 20000, keys)});
    int64_t step = 30;
    for (const char* role : {"server", "master", "server"}) {
      if (!struck) break;
      ASSERT_TRUE(training.ReachStep(step)) << role << ": " << training.Wait().err;
      ASSERT_EQ(kill(training.Alive(role).front().pid, SIGKILL), 0);
      step += 40;
    }
    for (const char* servers : {"3", "2"}) {
      if (!struck) break;
      const CommandResult scaled = RunRubato({"scale", "job", "--servers", servers}, folder.path());
      ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
    }
    const CommandResult result = training.Wait();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(training.Summary()["records_committed"], 120000);
    states[struck] = ServerState(training.job_dir());
  }
  ASSERT_GT(states[0].size(), 10000u);
  EXPECT_TRUE(states[0] == states[1]);
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

// What `rubato params` says of each server; empty unless all of them answer.
std::vector<nlohmann::json> LookAtServers(const TrainingJob& training, const std::string& folder) {
  const CommandResult shown = RunRubato({"params", training.job_dir(), "--json"}, folder);
  if (shown.exit_code != 0) return {};
  return nlohmann::json::parse(shown.out)["servers"];
}

int64_t Sum(const std::vector<nlohmann::json>& servers, const char* name) {
  int64_t sum = 0;
  for (const auto& server : servers) sum += server[name].get<int64_t>();
  return sum;
}

// A worker that stands still for less than its lease has weights of long ago in hand: what it makes
// of them is refused and computed again, and every record counts once.
TEST(ModesTest, AsyncComputesAgainWhatIsTooFarBehind) {
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteCriteoJob(folder, 20000,
                                       "servers: 2\nworkers: {max: 2}\nepochs: 12\n"
                                       "params: {staleness_max: 6}\nelastic: {lease: 2m}\n")});
  ASSERT_TRUE(training.ReachStep(20));
  int64_t refused = 0;
  for (int strike = 0; strike < 3 && refused == 0 && training.running(); ++strike) {
    ASSERT_TRUE(Eventually([&] { return training.Alive("worker").size() == 2; }));
    const pid_t victim = training.Alive("worker").front().pid;
    kill(victim, SIGSTOP);
    const nlohmann::json shown = training.Show();
    const bool went_on =
        shown.is_object() && training.ReachStep(shown["steps"].get<int64_t>() + 40);
    kill(victim, SIGCONT);
    ASSERT_TRUE(went_on);
    Eventually(
        [&] {
          refused = Sum(LookAtServers(training, folder.path()), "stale");
          return refused > 0 || !training.running();
        },
        absl::Seconds(20));
  }
  EXPECT_GT(refused, 0);
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_committed"], 240000);
  EXPECT_EQ(training.Summary()["workers"]["lost"], 0);
  EXPECT_TRUE(training.Events("worker_evicted").empty());
}

// A server that `rubato scale` has added knows how far behind a push is, as the first one does.
TEST(ModesTest, ServersThatCameLaterKnowHowFarBehindAPushIs) {
  ScratchFolder folder;
  TrainingJob training(
      folder.path(),
      {WriteCriteoJob(folder, 20000,
                      "workers: {max: 2}\nepochs: 4000\nparams: {staleness: scale}\n")});
  ASSERT_TRUE(training.ReachStep(20));
  const CommandResult scaled = RunRubato({"scale", "job", "--servers", "3"}, folder.path());
  ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
  EXPECT_TRUE(Eventually([&] {
    const auto servers = LookAtServers(training, folder.path());
    return servers.size() == 3 && std::all_of(servers.begin(), servers.end(), [](const auto& s) {
             return s["staleness_mean"].template get<double>() > 0;
           });
  }));
  kill(training.pid(), SIGINT);
  training.Wait();
}

// Whoever finds it first, a server has counted it.
TEST(ModesTest, WhatIsNotFiniteIsCountedWhereOneLooks) {
  ScratchFolder folder;
  TrainingJob training(
      folder.path(),
      {WriteCriteoJob(folder, 20000,
                      "epochs: 4000\noptimizer: {name: sgd, learning_rate: 1e30}\n"
                      "elastic: {not_finite_max: 1000000, task_failures_max: 1000000}\n")});
  EXPECT_TRUE(
      Eventually([&] { return Sum(LookAtServers(training, folder.path()), "not_finite") > 0; }));
  kill(training.pid(), SIGINT);
  training.Wait();
}

// What a server gets is a part of a gradient that was clipped as a whole: all weights on all
// servers together move by no more than learning_rate x clip_norm in a step.
TEST(ModesTest, AStepIsClippedAsAWhole) {
  const auto after_a_step = [](double rate) {
    ScratchFolder folder;
    TrainingJob training(
        folder.path(),
        {WriteCriteoJob(folder, 1000,
                        absl::StrCat("mode: sync\nservers: 3\nmax_steps: 1\noptimizer: {name: sgd, "
                                     "learning_rate: ",
                                     rate, ", clip_norm: 0.001}\n"))});
    EXPECT_EQ(training.Wait().exit_code, 0);
    std::map<std::string, std::vector<float>> weights;
    for (const auto& [name, bytes] : ServerState(training.job_dir())) {
      weights[name].resize(bytes.size() / sizeof(float));
      std::memcpy(weights[name].data(), bytes.data(), bytes.size());
    }
    return weights;
  };
  const auto before = after_a_step(1e-12), after = after_a_step(1);
  ASSERT_GT(before.size(), 1000u);
  double squares = 0;
  for (const auto& [name, weights] : before) {
    ASSERT_EQ(after.at(name).size(), weights.size()) << name;
    for (size_t i = 0; i < weights.size(); ++i) {
      squares += std::pow(after.at(name)[i] - weights[i], 2);
    }
  }
  EXPECT_NEAR(std::sqrt(squares), 0.001, 1e-5);
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

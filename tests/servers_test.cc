// Parameter servers that come, go and die while their partitions move, as real processes. One
// worker with nothing in flight is repeatable to the bit, so what the servers hold in the end is
// compared, row by row with all state, with a run in which nothing happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/base/rng.h"
#include "tests/job_runner.h"
#include "tests/server_state.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kJob[] =
    "servers: 2\nworkers: {max: 1}\nmax_inflight: 0\nepochs: 4000\nbatches_per_task: 1\n"
    "shuffle: {tasks: false}\n";

class ServersTest : public testing::Test {
 protected:
  void Start(const std::string& extra = "", std::vector<std::string> more = {}) {
    job_ = WriteCriteoJob(folder_, 20000, absl::StrCat(kJob, mode_, extra));
    more.insert(more.begin(), job_);
    training_.emplace(folder_.path(), more);
    ASSERT_TRUE(training_->ReachStep(20));
  }
  CommandResult Scale(int64_t servers) {
    return RunRubato({"scale", training_->job_dir(), "--servers", absl::StrCat(servers), "--json"},
                     folder_.path());
  }
  void ExpectProgress() {
    const nlohmann::json shown = training_->Show();
    ASSERT_TRUE(shown.is_object());
    ASSERT_TRUE(training_->ReachStep(shown["steps"].get<int64_t>() + 20));
  }
  // Until every copy is level with its log.
  void WaitForCopies() {
    ASSERT_TRUE(Eventually([&] {
      const CommandResult shown =
          RunRubato({"params", training_->job_dir(), "--json"}, folder_.path());
      if (shown.exit_code != 0) return false;
      const auto servers = nlohmann::json::parse(shown.out)["servers"];
      return servers.size() == training_->Alive("server").size() &&
             std::all_of(servers.begin(), servers.end(),
                         [](const auto& server) { return server["follower"] >= 0; });
    }));
  }
  // One failure at a time: one server goes with all its files.
  void LoseAServerWithItsDisk(Rng& rng, int64_t death) {
    ASSERT_NO_FATAL_FAILURE(WaitForCopies());
    auto victims = training_->Alive("server");
    // The third is at times on its way out, and would not come back.
    std::erase_if(victims, [](const auto& server) { return server.id > 1; });
    ASSERT_FALSE(victims.empty());
    const auto& victim = victims[rng.Below(victims.size())];
    const size_t joined = training_->Events("server_joined").size();
    // The folder goes at once, and before the process, whose next life might use it else.
    std::filesystem::rename(absl::StrCat(training_->job_dir(), "/servers/", victim.id),
                            absl::StrCat(folder_.path(), "/lost-", death));
    kill(victim.pid, SIGKILL);
    ASSERT_TRUE(Eventually([&] { return training_->Events("server_joined").size() > joined; }));
  }
  // Several at once. None of them begins anew before the last is gone.
  void LoseTogether(const std::vector<int64_t>& ids) {
    auto victims = training_->Alive("server");
    std::erase_if(victims, [&](const auto& server) {
      return std::find(ids.begin(), ids.end(), server.id) == ids.end();
    });
    ASSERT_EQ(victims.size(), ids.size());
    for (const auto& victim : victims) kill(victim.pid, SIGSTOP);
    for (const auto& victim : victims) {
      std::filesystem::rename(absl::StrCat(training_->job_dir(), "/servers/", victim.id),
                              absl::StrCat(folder_.path(), "/lost-", victim.id));
    }
    for (const auto& victim : victims) kill(victim.pid, SIGKILL);
  }
  // As processes.json has it.
  std::string StateOf(const std::string& role, int64_t id) const {
    const auto document = nlohmann::json::parse(ReadText(training_->job_dir() + "/processes.json"),
                                                nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded()) return "";
    for (const auto& process : document["processes"]) {
      if (process["role"] == role && process["id"] == id) return process["state"];
    }
    return "";
  }
  // A byte of each segment of the push log changes on disk, and the server dies.
  void DamageALogAndItsServer() {
    const auto servers = training_->Alive("server");
    ASSERT_FALSE(servers.empty());
    const auto& victim = servers.front();
    const size_t joined = training_->Events("server_joined").size();
    const std::string folder = absl::StrCat(training_->job_dir(), "/servers/", victim.id);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string path = entry.path().string();
      std::error_code gone;  // A checkpoint may make it needless at any time.
      const auto size = entry.file_size(gone);
      if (gone || !entry.is_regular_file(gone) || size < 4096) continue;
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(2000);
      const char was = static_cast<char>(file.get());
      file.seekp(2000);
      file.put(static_cast<char>(was ^ 0x10));
    }
    kill(victim.pid, SIGKILL);
    ASSERT_TRUE(Eventually([&] { return training_->Events("server_joined").size() > joined; }));
  }
  // How often a server began without its log and got it back.
  int64_t LogsFetched() const {
    int64_t times = 0;
    for (const int64_t server : {0, 1, 2}) {
      const std::string log =
          ReadText(absl::StrCat(training_->job_dir(), "/logs/server-", server, ".log"));
      const std::vector<std::string> parts = absl::StrSplit(log, "came back from a copy");
      times += static_cast<int64_t>(parts.size()) - 1;
    }
    return times;
  }
  // Ends the job with a checkpoint, and runs as many steps of it without disturbance.
  void ExpectAsIfNothingHadHappened() {
    kill(training_->pid(), SIGINT);
    training_->Wait();
    const nlohmann::json summary = training_->Summary();
    ASSERT_EQ(summary["state"], "stopped") << summary;
    ASSERT_EQ(summary["records_repeated"], 0);
    const auto disturbed = ServerState(training_->job_dir());
    ScratchFolder calm_folder;
    const std::string job = WriteCriteoJob(
        calm_folder, 20000,
        absl::StrCat(kJob, mode_, "max_steps: ", summary["steps"].get<int64_t>(), "\n"));
    TrainingJob calm(calm_folder.path(), {job});
    ASSERT_EQ(calm.Wait().exit_code, 0);
    ASSERT_EQ(calm.Summary()["steps"], summary["steps"]);
    const auto undisturbed = ServerState(calm.job_dir());
    ASSERT_GT(undisturbed.size(), 1000u);
    int64_t differ = 0;
    std::string first;
    for (const auto& [name, state] : undisturbed) {
      const auto it = disturbed.find(name);
      if (it != disturbed.end() && it->second == state) continue;
      if (++differ == 1) first = name;
    }
    EXPECT_EQ(differ, 0) << "of " << undisturbed.size() << " and " << disturbed.size()
                         << " pieces, the first " << first << "; " << summary["steps"] << " steps";
    EXPECT_EQ(disturbed.size(), undisturbed.size());
  }

  ScratchFolder folder_;
  std::string mode_;  // Of the job, as it says.
  std::string job_;
  std::optional<TrainingJob> training_;
};

// What the others rest on: how a run is ended, and how long it is, changes nothing before its end.
TEST_F(ServersTest, ACalmRunIsRepeatable) {
  Start();
  ExpectAsIfNothingHadHappened();
}

TEST_F(ServersTest, TwoBecomeThreeBecomeTwoWhileTrainingGoesOn) {
  Start();
  const auto workers = training_->Alive("worker");
  for (const int64_t servers : {3, 2}) {
    const CommandResult scaled = Scale(servers);
    ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
    const auto answer = nlohmann::json::parse(scaled.out);
    EXPECT_EQ(answer["servers_target"], servers);
    EXPECT_GT(answer["servers_scaled"]["seconds"], 0);
    EXPECT_GE(answer["servers_scaled"]["partitions"], 341);
    // What it cost: records a second before, and in the slowest second of the change.
    EXPECT_GT(answer["servers_scaled"]["records_per_second_before"], 0);
    // What it is, is in master/slowest_second_test.
    EXPECT_NE(answer["servers_scaled"]["records_per_second_lowest"],
              answer["servers_scaled"]["records_per_second_before"]);
    EXPECT_TRUE(Eventually(
        [&] { return training_->Alive("server").size() == static_cast<size_t>(servers); }));
    ExpectProgress();
  }
  EXPECT_EQ(training_->Alive("worker").front().pid, workers.front().pid);
  // The third went as it was told: nobody calls it lost.
  EXPECT_EQ(training_->Show()["servers"]["lost"], 0);
  EXPECT_TRUE(Eventually([&] { return StateOf("server", 2) == "exit code 0"; }))
      << StateOf("server", 2);
  EXPECT_EQ(training_->Events("servers_scaled").size(), 2u);
  ExpectAsIfNothingHadHappened();
  const nlohmann::json last = training_->Summary()["servers_scaled"];
  EXPECT_EQ(last["to"], 2);
  EXPECT_GT(last["seconds"], 0);
  EXPECT_GT(last["records_per_second_before"], 0);
}

// No steps ask for a checkpoint, but a log that passes its limit does: what a server that dies has
// to replay is the rest.
TEST_F(ServersTest, ALongLogIsCut) {
  Start("checkpoint: {log_bytes: 1048576}\n");
  const auto cuts = [&] { return training_->Events("checkpoint_complete"); };
  ASSERT_TRUE(Eventually([&] { return cuts().size() >= 2; }));
  EXPECT_THAT(cuts().front().dump(), HasSubstr("passes checkpoint.log_bytes"));
  const nlohmann::json shown = training_->Show();
  ASSERT_TRUE(shown.is_object());
  const auto alive = training_->Alive("server");
  ASSERT_FALSE(alive.empty());
  const auto victim = alive.front();
  const size_t joined = training_->Events("server_joined").size();
  kill(victim.pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return training_->Events("server_joined").size() > joined; }));
  ExpectProgress();
  const std::string log =
      ReadText(absl::StrCat(training_->job_dir(), "/logs/server-", victim.id, ".log"));
  int64_t replayed = 0;  // Every step was a push of its own.
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t at = line.find(" pushes were replayed");
    if (at != absl::string_view::npos) (void)absl::SimpleAtoi(line.substr(0, at), &replayed);
  }
  EXPECT_LT(replayed, shown["steps"].get<int64_t>()) << log;
  ExpectAsIfNothingHadHappened();
}

// Twenty deaths of servers, and some of the master, most of them in the midst of moves.
TEST_F(ServersTest, WhoeverDiesDuringMovesNothingIsLostOrDoubled) {
  Start("checkpoint: {every_steps: 20, full_every: 4}\n");
  Rng rng(7);
  int64_t servers = 2, kills = 0;
  while (kills < 20) {
    servers = servers == 2 ? 3 : 2;
    Command scale({"scale", training_->job_dir(), "--servers", absl::StrCat(servers)},
                  folder_.path(), absl::StrCat("scale-", kills));
    const size_t done = training_->Events("servers_scaled").size();
    while (training_->Events("servers_scaled").size() == done) {
      ASSERT_TRUE(training_->running());
      const size_t moved = training_->Events("partitions_moved").size();
      const bool master = kills < 20 && rng.Chance(0.2);
      const auto victims = training_->Alive(master ? "master" : "server");
      if (victims.empty()) continue;
      if (kills < 20) {
        kill(victims[rng.Below(victims.size())].pid, SIGKILL);
        kills += !master;
      }
      // The next when something has moved: never two at once, and always progress in between.
      ASSERT_TRUE(Eventually([&] {
        return training_->Events("partitions_moved").size() > moved ||
               training_->Events("servers_scaled").size() > done;
      }));
    }
    const CommandResult result = scale.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    ExpectProgress();
  }
  ExpectAsIfNothingHadHappened();
}

// With params.replicas a server may lose its folder with its life: what it acknowledged is on the
// disk of another. Some of the deaths are in the midst of moves, and those of three servers.
TEST_F(ServersTest, ADiskMayGoWithItsServer) {
  Start("params: {replicas: 1}\ncheckpoint: {every_steps: 60}\n");
  Rng rng(3);
  for (int64_t death = 0; death < 8; ++death) {
    if (death == 3 || death == 6) {
      Command scale({"scale", training_->job_dir(), "--servers", death == 3 ? "3" : "2"},
                    folder_.path(), absl::StrCat("scale-", death));
      LoseAServerWithItsDisk(rng, death);
      const CommandResult result = scale.Wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
    } else {
      LoseAServerWithItsDisk(rng, death);
    }
    ExpectProgress();
  }
  EXPECT_EQ(LogsFetched(), 8);
  // A log that is damaged is as good as none. A checkpoint may just have made it needless: again.
  for (int attempt = 0; attempt < 12 && LogsFetched() == 8; ++attempt) {
    ASSERT_NO_FATAL_FAILURE(WaitForCopies());
    ASSERT_NO_FATAL_FAILURE(DamageALogAndItsServer());
  }
  EXPECT_EQ(LogsFetched(), 9);
  ExpectProgress();
  const CommandResult one = Scale(1);
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("params.replicas: 1"));
  ExpectAsIfNothingHadHappened();
}

// Two disks at once that did not keep each other's logs: both are on those that are left. Each of
// the two says that it has nothing before it has its own log again, or they would wait for each
// other.
TEST_F(ServersTest, TwoDisksThatKeptOthersLogsMayGoTogether) {
  Start("params: {replicas: 1}\n", {"--set", "servers=4"});
  ASSERT_NO_FATAL_FAILURE(WaitForCopies());
  const size_t joined = training_->Events("server_joined").size();
  ASSERT_NO_FATAL_FAILURE(LoseTogether({0, 2}));
  ASSERT_TRUE(Eventually([&] {
    return training_->Events("server_joined").size() >= joined + 2 || !training_->running();
  }));
  EXPECT_EQ(LogsFetched(), 2);
  EXPECT_EQ(training_->Events("damage_found").size(), 2U);
  EXPECT_TRUE(training_->Events("records_taken_back").empty());
  ASSERT_NO_FATAL_FAILURE(ExpectProgress());
  ExpectAsIfNothingHadHappened();
}

// Two that kept each other's log are one too many. The servers say so, and the job fails, rather
// than go on without what it acknowledged.
TEST_F(ServersTest, TwoDisksAtOnceAreOneTooMany) {
  Start("params: {replicas: 1}\n");
  ASSERT_NO_FATAL_FAILURE(WaitForCopies());
  ASSERT_NO_FATAL_FAILURE(LoseTogether({0, 1}));
  const CommandResult result = training_->Wait();
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const nlohmann::json summary = training_->Summary();
  EXPECT_EQ(summary["state"], "failed") << summary;
  EXPECT_THAT(summary["error"].get<std::string>(),
              AllOf(HasSubstr("came back without 512 of its partitions"),
                    HasSubstr("the server that kept the copy of its push log has none either")));
}

// What is staged until its round is said to be whole is in the copy too. One gradient a round: a
// job that is stopped ends with a whole one, as a calm one of so many steps does.
class ModeOfServersTest : public ServersTest, public testing::WithParamInterface<const char*> {};

TEST_P(ModeOfServersTest, ADiskMayGoInTheMidstOfRounds) {
  mode_ = absl::StrCat("mode: ", GetParam(), "\nrounds: {gradients: 1}\n");
  Start("params: {replicas: 1}\ncheckpoint: {every_steps: 40}\n");
  Rng rng(5);
  for (int64_t death = 0; death < 3; ++death) {
    LoseAServerWithItsDisk(rng, death);
    ExpectProgress();
  }
  EXPECT_EQ(LogsFetched(), 3);
  ExpectAsIfNothingHadHappened();
}

INSTANTIATE_TEST_SUITE_P(Modes, ModeOfServersTest, testing::Values("sync", "hybrid"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_F(ServersTest, WhatCannotBeIsRefused) {
  Start();
  const CommandResult many = Scale(1025);
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_THAT(many.err, HasSubstr("1 to 1024"));
  EXPECT_EQ(Scale(0).exit_code, 2);
  const CommandResult neither = RunRubato({"scale", training_->job_dir()}, folder_.path());
  EXPECT_EQ(neither.exit_code, 2);
  EXPECT_THAT(neither.err, HasSubstr("--workers N, --servers N"));
}

// Asked for as many as there are, nothing changes, and nothing is said to have changed: not the
// change before, either.
TEST_F(ServersTest, AsManyAsThereAreIsNoChange) {
  Start();
  for (const int64_t servers : {2, 1}) {
    if (servers == 1) {
      ASSERT_EQ(Scale(servers).exit_code, 0);
    }
    const CommandResult again = Scale(servers);
    EXPECT_EQ(again.exit_code, 0) << again.err;
    const auto answer = nlohmann::json::parse(again.out);
    EXPECT_EQ(answer["servers_target"], servers);
    EXPECT_FALSE(answer.contains("servers_scaled")) << again.out;
    const CommandResult said = RunRubato(
        {"scale", training_->job_dir(), "--servers", absl::StrCat(servers)}, folder_.path());
    EXPECT_THAT(said.err, HasSubstr(servers == 2 ? "the job has 2 servers already"
                                                 : "the job has 1 server already"));
  }
}

}  // namespace
}  // namespace rubato

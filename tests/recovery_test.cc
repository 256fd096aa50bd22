// One death at a time, and what must follow from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/job_runner.h"
#include "tests/server_state.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr char kLongJob[] = "servers: 2\nworkers: {max: 2}\nepochs: 400\n";

int64_t Steps(const TrainingJob& training) {
  const nlohmann::json shown = training.Show();
  return shown.is_object() ? shown["steps"].get<int64_t>() : -1;
}

class RecoveryTest : public testing::Test {
 protected:
  void Start(const std::string& extra = "") {
    training_.emplace(folder_.path(), std::vector<std::string>{WriteCriteoJob(
                                          folder_, 50000, absl::StrCat(kLongJob, extra))});
    ASSERT_TRUE(Eventually([&] { return training_->Events("worker_joined").size() == 2; }));
    ASSERT_TRUE(training_->ReachStep(30));
  }
  // The processes but `role`, which must all survive.
  std::set<pid_t> Others(const std::string& role) {
    std::set<pid_t> pids;
    for (const auto& process : training_->Alive()) {
      if (process.role != role) pids.insert(process.pid);
    }
    return pids;
  }
  void KillOneAndExpectProgress(const std::string& role) {
    const auto victims = training_->Alive(role);
    ASSERT_FALSE(victims.empty());
    const std::set<pid_t> others = Others(role);
    kill(victims.front().pid, SIGKILL);
    ASSERT_TRUE(Eventually([&] {
      const auto now = training_->Alive(role);
      return now.size() == victims.size() && now.back().pid != victims.front().pid &&
             now.front().pid != victims.front().pid;
    })) << "no new "
        << role;
    const int64_t steps = Steps(*training_);
    EXPECT_TRUE(training_->ReachStep(steps + 50));
    EXPECT_EQ(Others(role), others);  // Nobody else was restarted.
  }

  ScratchFolder folder_;
  std::optional<TrainingJob> training_;
};

TEST_F(RecoveryTest, AWorkerDies) {
  Start();
  const auto victim = training_->Alive("worker").front();
  KillOneAndExpectProgress("worker");
  // What it had under way, which may be nothing if it was between two tasks (losses_test counts).
  EXPECT_LE(training_->Show()["records_recomputed"], 3 * 256);
  EXPECT_EQ(training_->Events("worker_launched").back()["cause"],
            absl::StrCat("replaces worker-", victim.id));
}

TEST_F(RecoveryTest, AServerDies) {
  Start();
  KillOneAndExpectProgress("server");
}

TEST_F(RecoveryTest, TheMasterDies) {
  Start();
  KillOneAndExpectProgress("master");
  EXPECT_EQ(training_->Show()["master_restarts"], 1);
}

// A frozen worker loses its tasks; when it wakes up its late pushes are refused and it goes away.
TEST_F(RecoveryTest, AFrozenWorkerIsFenced) {
  Start("elastic: {lease: 500ms}\n");
  const auto victim = training_->Alive("worker").front();
  kill(victim.pid, SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return !training_->Events("worker_evicted").empty(); }));
  EXPECT_TRUE(training_->ReachStep(Steps(*training_) + 30));  // The others never waited for it.
  kill(victim.pid, SIGCONT);
  ASSERT_TRUE(Eventually([&] {
    for (const auto& process : training_->Alive("worker")) {
      if (process.pid == victim.pid) return false;
    }
    return true;
  }));
  const std::string log = absl::StrCat(training_->job_dir(), "/logs/worker-", victim.id, ".log");
  EXPECT_THAT(ReadText(log), HasSubstr("fenced"));
}

// On SIGTERM a worker finishes its batch, hands its lease back and leaves; nothing is redone.
TEST_F(RecoveryTest, SigtermLeavesNothingToRedo) {
  Start();
  const auto victim = training_->Alive("worker").front();
  kill(victim.pid, SIGTERM);
  ASSERT_TRUE(Eventually([&] {
    return training_->Alive("worker").back().pid != victim.pid &&
           training_->Alive("worker").front().pid != victim.pid;
  }));
  EXPECT_TRUE(training_->ReachStep(Steps(*training_) + 50));
  EXPECT_EQ(training_->Show()["records_recomputed"], 0);
}

// One worker, nothing in flight: the same job twice gives the same weights to the last bit. (Of one
// that is taken for dead in the middle of a push another computes the rest, from newer weights.)
TEST(DeterminismTest, OneWorkerIsRepeatable) {
  std::map<std::string, std::string> states[2];
  for (auto& state : states) {
    ScratchFolder folder;
    const std::string job = WriteCriteoJob(
        folder, 20000,
        "servers: 2\nworkers: {max: 1}\nmax_inflight: 0\nepochs: 2\nelastic: {lease: 60s}\n");
    TrainingJob training(folder.path(), {job});
    ASSERT_EQ(training.Wait().exit_code, 0);
    state = ServerState(training.job_dir());
    ASSERT_GT(state.size(), 1000u);
  }
  EXPECT_TRUE(states[0] == states[1]);
}

}  // namespace
}  // namespace rubato

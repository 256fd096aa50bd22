// Real chaos: SIGKILL and SIGSTOP at random moments, and the ledger proves every record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/rng.h"
#include "tests/frozen.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

constexpr char kJob[] =
    "servers: 2\n"
    "workers: {min: 1, max: 3}\n"
    "epochs: 3\n"
    "optimizer: {learning_rate: 0.003}\n"
    "checkpoint: {every_steps: 300}\n"
    "elastic: {lease: 1s}\n";
constexpr int64_t kRows = 400000;

struct Strikes {
  int kills = 0;
  int freezes = 0;
};

// Kills whatever is alive, at random, `kills` times, and freezes a worker now and then, which wakes
// up later.
Strikes Strike(TrainingJob& training, Rng& rng, int kills) {
  Strikes done;
  Frozen frozen;
  std::deque<absl::Time> masters;  // When one was killed, the last few.
  absl::Time next = absl::Now();
  while (done.kills < kills && training.running()) {
    Eventually([&] { return absl::Now() >= next || !training.running(); });
    // So often that fast machines are not done first.
    next = absl::Now() + absl::Milliseconds(50 + rng.Below(250));
    frozen.Thaw(absl::Now());
    const std::vector<TrainingJob::Process> alive = training.Alive();
    if (alive.size() < 2) continue;  // A master that never sees anybody is given up.
    const TrainingJob::Process& victim = alive[rng.Below(alive.size())];
    if (victim.role == "worker" && rng.Chance(0.2)) {
      frozen.Freeze(victim.pid, absl::Milliseconds(500 + rng.Below(2500)));
      ++done.freezes;
      continue;
    }
    if (victim.role == "master") {
      // One that dies nine times in five seconds is given up, as it should be.
      if (masters.size() == 5 && absl::Now() - masters.front() < absl::Seconds(5)) continue;
      masters.push_back(absl::Now());
      if (masters.size() > 5) masters.pop_front();
    }
    kill(victim.pid, SIGKILL);
    ++done.kills;
  }
  return done;
}

nlohmann::json RunJob(const std::string& extra, int kills, uint64_t seed) {
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(folder, kRows, absl::StrCat(kJob, extra));
  TrainingJob training(folder.path(), {job});
  Rng rng(seed);
  EXPECT_TRUE(training.ReachStep(1));
  const Strikes struck = Strike(training, rng, kills);
  EXPECT_EQ(struck.kills, kills) << "the job ended before the chaos did";
  EXPECT_EQ(struck.freezes > 0, kills > 0);
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err.substr(result.err.size() - 2000);
  return training.Summary();
}

// Thirty kills over workers, servers and the master, and workers frozen for a while: every record
// of every epoch is committed exactly once, and the model is as good as those of undisturbed runs,
// within their own spread.
TEST(ChaosTest, EveryRecordOnceAndTheModelAsGood) {
  std::vector<double> calm, struck;
  for (int seed = 1; seed <= 3; ++seed) {
    const std::string extra = absl::StrCat("seed: ", seed, "\n");
    const nlohmann::json quiet = RunJob(extra, 0, 0);
    calm.push_back(quiet["metrics"]["auc"]);
    const nlohmann::json summary = RunJob(extra, 30, static_cast<uint64_t>(seed));
    EXPECT_EQ(summary["state"], "done");
    EXPECT_EQ(summary["records_expected"], 3 * kRows);
    EXPECT_EQ(summary["records_committed"], 3 * kRows);
    EXPECT_EQ(summary["records_repeated"], 0);
    EXPECT_GT(summary["workers"]["lost"].get<int>() + summary["servers"]["lost"].get<int>() +
                  summary["master_restarts"].get<int>(),
              20);
    struck.push_back(summary["metrics"]["auc"]);
    std::printf("seed %d: auc undisturbed %.4f, struck %.4f, %d records computed again\n", seed,
                calm.back(), struck.back(), summary["records_recomputed"].get<int>());
  }
  const auto [low, high] = std::minmax_element(calm.begin(), calm.end());
  // Three runs tell little of the spread; single seeds were seen 0.004 apart undisturbed.
  const double spread = std::max(*high - *low, 0.005);
  for (double auc : struck) {
    EXPECT_GT(auc, *low - spread);
    EXPECT_LT(auc, *high + spread);
  }
}

}  // namespace
}  // namespace rubato

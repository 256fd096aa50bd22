// Real chaos for strategy: allreduce: SIGKILL, SIGSTOP and changes of the number of workers at
// random moments of one run; every record is trained once, and the digits are learned as well as by
// a run that was left alone. RUBATO_STRIKES=200 for the long one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/base/rng.h"
#include "tests/digits.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

int Strikes() {
  int strikes = 25;
  if (const char* wanted = std::getenv("RUBATO_STRIKES")) {
    EXPECT_TRUE(absl::SimpleAtoi(wanted, &strikes));
  }
  return strikes;
}

std::string Job(int epochs) {
  return absl::StrCat("workers: {min: 1, max: 4, start: 3}\nepochs: ", epochs,
                      "\ncheckpoint: {every_steps: 200}\nelastic: {lease: 1s}\n");
}

struct Struck {
  int kills = 0, freezes = 0, scalings = 0;
  int all() const { return kills + freezes + scalings; }
};

// One at a time, each when somebody holds the weights again: a group may lose all members but one.
Struck Strike(TrainingJob& training, Rng& rng, int strikes) {
  Struck done;
  std::vector<std::pair<absl::Time, pid_t>> frozen;
  const auto thaw = [&](absl::Time now) {
    std::erase_if(frozen, [&](const auto& entry) {
      return entry.first <= now && kill(entry.second, SIGCONT) <= 0;
    });
  };
  absl::Time next = absl::Now();
  while (done.all() < strikes && training.running()) {
    Eventually([&] { return absl::Now() >= next || !training.running(); });
    next = absl::Now() + absl::Milliseconds(100 + rng.Below(500));
    thaw(absl::Now());
    const std::vector<TrainingJob::Process> alive = training.Alive();
    if (alive.empty()) continue;
    const TrainingJob::Process& victim = alive[rng.Below(alive.size())];
    const double what = rng.Uniform();
    if (what < 0.2) {
      RunRubato({"scale", training.job_dir(), "--workers", absl::StrCat(1 + rng.Below(4))}, ".");
      ++done.scalings;
    } else if (what < 0.4 && victim.role == "worker") {
      kill(victim.pid, SIGSTOP);
      frozen.emplace_back(absl::Now() + absl::Milliseconds(300 + rng.Below(2500)), victim.pid);
      ++done.freezes;
    } else {
      kill(victim.pid, SIGKILL);
      ++done.kills;
    }
  }
  thaw(absl::InfiniteFuture());
  return done;
}

TEST(AllreduceChaosTest, EveryRecordOnceAndAsGoodAsUndisturbed) {
  const int strikes = Strikes();
  ScratchFolder folder;
  // Long enough to outlast them; then it is told to stop, and a short rest is trained in peace.
  TrainingJob training(folder.path(), {WriteDigitsJob(folder, 1500, Job(strikes * 8))});
  ASSERT_TRUE(training.ReachStep(10));
  Rng rng(7);
  const Struck done = Strike(training, rng, strikes);
  EXPECT_EQ(done.all(), strikes);
  RunRubato({"scale", training.job_dir(), "--workers", "2"}, ".");
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["records_repeated"], 0);
  EXPECT_GT(summary["metrics"]["accuracy"].get<double>(), 0.95);
  // Each loss is told once, with its cause.
  for (const auto& failure : training.Events("failure")) {
    EXPECT_FALSE(failure["cause"].get<std::string>().empty());
  }
  std::printf("%d kills, %d freezes, %d scalings; %d workers lost, %d generations\n", done.kills,
              done.freezes, done.scalings, summary["workers"]["lost"].get<int>(),
              static_cast<int>(training.Events("group_founded").size()));
}

}  // namespace
}  // namespace rubato

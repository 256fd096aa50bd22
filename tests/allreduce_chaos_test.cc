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
#include "tests/frozen.h"
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
                      "\ncheckpoint: {every_steps: 200}\nelastic: {lease: 2s}\n");
}

struct Struck {
  int kills = 0, freezes = 0, scalings = 0;
  int all() const { return kills + freezes + scalings; }
};

// One at a time, whenever two workers or more have joined: a process takes a while to start, and
// whoever strikes faster than that sees nothing but starts.
Struck Strike(TrainingJob& training, Rng& rng, int strikes) {
  Struck done;
  Frozen frozen;
  std::vector<TrainingJob::Process> joined;
  while (done.all() < strikes && training.running()) {
    const absl::Time next = absl::Now() + absl::Milliseconds(100 + rng.Below(500));
    Eventually([&] {
      frozen.Thaw(absl::Now());
      joined = training.Alive("worker");
      std::erase_if(joined, [](const auto& process) { return process.state != "running"; });
      return (absl::Now() >= next && joined.size() >= 2) || !training.running();
    });
    if (joined.empty()) continue;
    const TrainingJob::Process& victim = joined[rng.Below(joined.size())];
    const double what = rng.Uniform();
    const std::vector<TrainingJob::Process> master = training.Alive("master");
    if (what < 0.1 && !master.empty()) {
      kill(master.front().pid, SIGKILL);
      ++done.kills;
    } else if (what < 0.3) {
      RunRubato({"scale", training.job_dir(), "--workers", absl::StrCat(2 + rng.Below(3))}, ".");
      ++done.scalings;
    } else if (what < 0.5) {
      frozen.Freeze(victim.pid, absl::Milliseconds(300 + rng.Below(2500)));
      ++done.freezes;
    } else {
      kill(victim.pid, SIGKILL);
      ++done.kills;
    }
  }
  return done;
}

TEST(AllreduceChaosTest, EveryRecordOnceAndAsGoodAsUndisturbed) {
  const int strikes = Strikes();
  ScratchFolder folder;
  // Long enough to outlast them; then it is told to stop, and a short rest is trained in peace.
  TrainingJob training(folder.path(), {WriteDigitsJob(folder, 1500, Job(strikes * 5))});
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

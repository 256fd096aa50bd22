// Real chaos for strategy: allreduce: SIGKILL, SIGSTOP and changes of the number of workers at
// random moments of one run; every record is trained once, every failure is told once, and the
// digits are learned as well as by runs that are left alone. RUBATO_STRIKES=200 for the long one,
// of the size of MNIST.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
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

int FromEnvironment(const char* name, int otherwise) {
  int value = otherwise;
  if (const char* text = std::getenv(name)) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << name;
  }
  return value;
}

// So much training that the strikes are over before it is.
struct Work {
  int64_t images = 0;
  int epochs = 0;
};
Work WorkFor(int strikes) {
  Work work = {.images = 1500, .epochs = strikes * 4};
  if (strikes >= 100) work = {.images = 60000, .epochs = strikes / 10};
  work.epochs = FromEnvironment("RUBATO_EPOCHS", work.epochs);
  return work;
}

std::string Job(const Work& work, absl::string_view workers) {
  return absl::StrCat("workers: ", workers, "\nepochs: ", work.epochs,
                      "\ncheckpoint: {every_steps: 200}\nelastic: {lease: 2s}\n");
}

// The accuracy of a run that nobody disturbs. One worker computes what any number does.
double CalmAccuracy(const Work& work, int seed) {
  ScratchFolder folder;
  TrainingJob training(folder.path(), {WriteDigitsJob(folder, work.images, Job(work, "{max: 1}")),
                                       "--set", absl::StrCat("seed=", seed)});
  EXPECT_EQ(training.Wait().exit_code, 0);
  return training.Summary()["metrics"]["accuracy"].get<double>();
}

// Whoever was lost, and not in the wake of an earlier failure, has one record with its cause.
void ExpectOneRecordForEachLoss(const TrainingJob& training) {
  std::map<int64_t, int> records;
  for (const auto& failure : training.Events("failure")) {
    const std::string cause = failure["cause"].get<std::string>();
    EXPECT_FALSE(cause.empty());
    const bool lives = cause.find("though its process lives") != std::string::npos;
    if (!lives) ++records[failure["worker"].get<int64_t>()];
  }
  std::set<int64_t> lost;
  for (const auto& event : training.Events("worker_lost")) {
    if (!event.contains("collateral_of")) lost.insert(event["worker"].get<int64_t>());
  }
  for (const int64_t worker : lost) EXPECT_EQ(records[worker], 1) << "worker-" << worker;
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
  const int strikes = FromEnvironment("RUBATO_STRIKES", 25);
  const Work work = WorkFor(strikes);
  ScratchFolder folder;
  TrainingJob training(folder.path(), {WriteDigitsJob(folder, work.images,
                                                      Job(work, "{min: 1, max: 4, start: 3}"))});
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
  ExpectOneRecordForEachLoss(training);

  // As good as those left alone: no worse than the worst of them by more than they differ, or than
  // one image of 300.
  const double accuracy = summary["metrics"]["accuracy"].get<double>();
  const std::vector<double> calm = {CalmAccuracy(work, 7), CalmAccuracy(work, 8)};
  const auto [worst, best] = std::minmax_element(calm.begin(), calm.end());
  EXPECT_GT(*worst, 0.9);
  EXPECT_GE(accuracy, *worst - std::max(*best - *worst, 1.01 / 300));
  std::printf(
      "%d kills, %d freezes, %d scalings; %d workers lost, %d generations; accuracy %.4f, left "
      "alone "
      "%.4f and %.4f\n",
      done.kills, done.freezes, done.scalings, summary["workers"]["lost"].get<int>(),
      static_cast<int>(training.Events("group_founded").size()), accuracy, calm[0], calm[1]);
}

}  // namespace
}  // namespace rubato

// Real chaos for strategy: allreduce: SIGKILL, SIGSTOP and changes of the number of workers at 200
// random moments of one run over as many images as MNIST has; every record is trained once, every
// failure is told once, and faint digits are learned as well as by runs that are left alone.
// RUBATO_STRIKES, RUBATO_IMAGES and RUBATO_EPOCHS make it shorter or longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
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

constexpr int64_t kStepRecords = 32;

// What is trained: a source whose pace the test sets, so that the run neither ends before the
// strikes nor outlasts them by much.
struct Work {
  int64_t images = FromEnvironment("RUBATO_IMAGES", 60000);
  int epochs = FromEnvironment("RUBATO_EPOCHS", 1);
  int64_t steps() const { return (images + kStepRecords - 1) / kStepRecords * epochs; }
};

std::string WriteJob(const ScratchFolder& folder, const Work& work, absl::string_view workers) {
  const std::string rest = absl::StrCat("workers: ", workers, "\nepochs: ", work.epochs,
                                        "\ncheckpoint: {every_steps: 50}\nelastic: {lease: 2s}\n");
  return WritePacedDigitsJob(folder, work.images, rest, kFaintContrast);
}

// Runs that nobody disturbs, in the time that the one under strikes spends waiting. One worker
// computes what any number does.
class CalmRuns {
 public:
  CalmRuns(const Work& work, const std::vector<int>& seeds) {
    for (const int seed : seeds) {
      folders_.push_back(std::make_unique<ScratchFolder>());
      const std::string job = WriteJob(*folders_.back(), work, "{max: 1}");
      runs_.push_back(std::make_unique<TrainingJob>(
          folders_.back()->path(),
          std::vector<std::string>{job, "--set", absl::StrCat("seed=", seed)}));
    }
  }
  std::vector<double> Accuracies() {
    std::vector<double> accuracies;
    for (const auto& run : runs_) {
      const CommandResult result = run->Wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
      accuracies.push_back(run->Summary()["metrics"]["accuracy"].get<double>());
    }
    return accuracies;
  }

 private:
  std::vector<std::unique_ptr<ScratchFolder>> folders_;
  std::vector<std::unique_ptr<TrainingJob>> runs_;
};

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

// The run a test strikes, and how far it lets it go meanwhile.
class Victim {
 public:
  Victim(const Work& work, absl::string_view workers)
      : work_(work), job_(WriteJob(folder_, work, workers)) {
    SetPace(0);
    training_.emplace(folder_.path(), std::vector<std::string>{job_});
  }

  TrainingJob& training() { return *training_; }
  // The share of the strikes that is done: training that is ahead of it is held back. It is looked
  // at now and then, for that takes a process; so the last tenth is left for the time between.
  void KeepTo(double share) {
    if (absl::Now() < look_again_) return;
    look_again_ = absl::Now() + absl::Seconds(1);
    const nlohmann::json shown = training_->Show();
    if (!shown.is_object()) return;
    const double steps = 0.9 * share * static_cast<double>(work_.steps());
    SetPace(shown["steps"].get<double>() > steps ? 1 : 0);
  }
  void LetGo() { std::filesystem::remove(folder_.path() + "/pace"); }

 private:
  // In microseconds a record: a step of one worker takes a quarter of a second, or a thirtieth.
  void SetPace(int held) {
    if (held != held_) folder_.Write("pace", held ? "8000" : "1000");
    held_ = held;
  }

  const Work work_;
  ScratchFolder folder_;
  const std::string job_;
  int held_ = -1;
  absl::Time look_again_ = absl::InfinitePast();
  std::optional<TrainingJob> training_;
};

void StrikeOnce(TrainingJob& training, const TrainingJob::Process& worker, Rng& rng, Frozen& frozen,
                Struck& done) {
  // A worker that is killed costs the better part of a second to load libtorch again, and a frozen
  // one its time; two at once would leave nobody to go on.
  const double what = rng.Uniform();
  const std::vector<TrainingJob::Process> master = training.Alive("master");
  if (what < 0.1 && !master.empty()) {
    kill(master.front().pid, SIGKILL);
    ++done.kills;
  } else if (what < 0.4 || (what < 0.7 && frozen.any())) {
    RunRubato({"scale", training.job_dir(), "--workers", absl::StrCat(2 + rng.Below(3))},
              training.job_dir());
    ++done.scalings;
  } else if (what < 0.7) {
    frozen.Freeze(worker.pid, absl::Milliseconds(300 + rng.Below(2500)));
    ++done.freezes;
  } else {
    kill(worker.pid, SIGKILL);
    ++done.kills;
  }
}

// One at a time, whenever two workers or more have joined: a process takes a while to start, and
// whoever strikes faster than that sees nothing but starts.
Struck Strike(Victim& victim, Rng& rng, int strikes) {
  TrainingJob& training = victim.training();
  Struck done;
  Frozen frozen;
  std::vector<TrainingJob::Process> joined;
  while (done.all() < strikes && training.running()) {
    const absl::Time next = absl::Now() + absl::Milliseconds(20 + rng.Below(200));
    Eventually([&] {
      frozen.Thaw(absl::Now());
      victim.KeepTo(static_cast<double>(done.all()) / strikes);
      joined = training.Alive("worker");
      std::erase_if(joined, [](const auto& process) { return process.state != "running"; });
      return (absl::Now() >= next && joined.size() >= 2) || !training.running();
    });
    if (!joined.empty()) {
      StrikeOnce(training, joined[rng.Below(joined.size())], rng, frozen, done);
    }
  }
  return done;
}

// As good as those left alone: no worse than the worst of them by more than they differ, or than
// two images of 600. (Of four runs that are alike the one in question is the worst in every fourth
// case: the three others tell only roughly how much such runs differ.)
void ExpectAsGood(double accuracy, const std::vector<double>& calm) {
  const auto [worst, best] = std::minmax_element(calm.begin(), calm.end());
  EXPECT_GT(*worst, 0.8) << "guessing gets 0.1";
  EXPECT_LT(*best, 0.99) << "where nobody errs, nobody can err more";
  EXPECT_GE(accuracy, *worst - std::max(*best - *worst, 2.01 / 600));
}

TEST(AllreduceChaosTest, EveryRecordOnceAndAsGoodAsUndisturbed) {
  const int strikes = FromEnvironment("RUBATO_STRIKES", 200);
  const Work work;
  const absl::Time began = absl::Now();
  Victim victim(work, "{min: 1, max: 4, start: 3}");
  TrainingJob& training = victim.training();
  ASSERT_TRUE(training.ReachStep(10));
  CalmRuns alone(work, {7, 8, 9});
  Rng rng(7);
  const Struck done = Strike(victim, rng, strikes);
  EXPECT_EQ(done.all(), strikes);
  victim.LetGo();
  const absl::Time struck = absl::Now();
  RunRubato({"scale", training.job_dir(), "--workers", "2"}, training.job_dir());
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const absl::Time ended = absl::Now();
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["records_expected"], work.images * work.epochs);
  EXPECT_EQ(summary["records_repeated"], 0);
  ExpectOneRecordForEachLoss(training);
  const double accuracy = summary["metrics"]["accuracy"].get<double>();
  const std::vector<double> calm = alone.Accuracies();
  ExpectAsGood(accuracy, calm);
  std::printf(
      "%d kills, %d freezes, %d scalings; %d workers lost, %d generations; accuracy %.4f, left "
      "alone %.4f, %.4f and %.4f; struck for %.0f s, then %.0f s to the end\n",
      done.kills, done.freezes, done.scalings, summary["workers"]["lost"].get<int>(),
      static_cast<int>(training.Events("group_founded").size()), accuracy, calm[0], calm[1],
      calm[2], absl::ToDoubleSeconds(struck - began), absl::ToDoubleSeconds(ended - struck));
}

}  // namespace
}  // namespace rubato

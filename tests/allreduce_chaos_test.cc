// Real chaos for strategy: allreduce: SIGKILL, SIGSTOP and changes of the number of workers at 200
// random moments of one run over as many images as MNIST has; every record is trained once, every
// failure is told once, and faint digits are learned as well as by runs that are left alone.
// RUBATO_STRIKES, RUBATO_IMAGES and RUBATO_EPOCHS make it shorter or longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
constexpr int64_t kCheckpointSteps = 50;
constexpr int kWorkers = 3;  // To begin with.
constexpr int kSeed = 7;

// What is trained: a source whose pace the test sets, so that the run neither ends before the
// strikes nor outlasts them by much.
struct Work {
  int64_t images = FromEnvironment("RUBATO_IMAGES", 60000);
  int epochs = FromEnvironment("RUBATO_EPOCHS", 1);
  int64_t steps() const { return (images + kStepRecords - 1) / kStepRecords * epochs; }
};

std::string WriteJob(const ScratchFolder& folder, const Work& work, absl::string_view workers) {
  const std::string rest =
      absl::StrCat("workers: ", workers, "\nepochs: ", work.epochs,
                   "\ncheckpoint: {every_steps: ", kCheckpointSteps, "}\nelastic: {lease: 2s}\n");
  return WritePacedDigitsJob(folder, work.images, rest, kFaintContrast);
}

// Runs that nobody disturbs, in the time that the one under strikes spends waiting: the same one,
// and others that begin and read otherwise. One worker computes what any number does.
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

// Whoever was lost or evicted, and not in the wake of an earlier failure, has one record with its
// cause; and there is no record of anybody else but of those who stood still for a while.
void ExpectOneRecordForEachLoss(const TrainingJob& training) {
  std::set<int64_t> gone, first;
  for (const char* kind : {"worker_lost", "worker_crashed", "worker_evicted"}) {
    for (const auto& event : training.Events(kind)) {
      const int64_t worker = event["worker"].get<int64_t>();
      gone.insert(worker);
      if (!event.contains("collateral_of")) first.insert(worker);
    }
  }
  std::map<int64_t, int> records;
  for (const auto& failure : training.Events("failure")) {
    const std::string cause = failure["cause"].get<std::string>();
    EXPECT_FALSE(cause.empty());
    if (cause.find("though its process lives") != std::string::npos) continue;
    const int64_t worker = failure["worker"].get<int64_t>();
    ++records[worker];
    // A frozen one may wake up after the group has put it out, and before its master does.
    const bool frozen = failure.value("noticed_how", "") == "lease";
    EXPECT_TRUE(frozen || gone.contains(worker)) << failure.dump();
  }
  for (const int64_t worker : first) EXPECT_EQ(records[worker], 1) << "worker-" << worker;
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
    training_.emplace(folder_.path(),
                      std::vector<std::string>{job_, "--set", absl::StrCat("seed=", kSeed)});
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

// What was done to the run; only what happened counts.
class Striker {
 public:
  Striker(TrainingJob& training, Rng& rng, int workers)
      : training_(training), rng_(rng), workers_(workers) {}

  void StrikeOnce(const TrainingJob::Process& worker) {
    // A worker that is killed costs the better part of a second to load libtorch again, and a
    // frozen one its time; two at once would leave nobody to go on.
    const double what = rng_.Uniform();
    const std::vector<TrainingJob::Process> master = training_.Alive("master");
    if (what < 0.1 && !master.empty()) {
      done_.kills += kill(master.front().pid, SIGKILL) == 0;
    } else if (what < 0.4 || (what < 0.7 && frozen_.any())) {
      Scale();
    } else if (what < 0.7) {
      done_.freezes += frozen_.Freeze(worker.pid, absl::Milliseconds(300 + rng_.Below(2500)));
    } else {
      done_.kills += kill(worker.pid, SIGKILL) == 0;
    }
  }
  void Thaw() { frozen_.Thaw(absl::Now()); }
  const Struck& done() const { return done_; }

 private:
  // To 2, 3 or 4 workers: another number than before.
  void Scale() {
    int workers = 2 + static_cast<int>(rng_.Below(2));
    if (workers >= workers_) ++workers;
    const CommandResult scaled = RunRubato(
        {"scale", training_.job_dir(), "--workers", absl::StrCat(workers)}, training_.job_dir());
    if (scaled.exit_code != 0) return;  // No master answered for long: it was struck before.
    workers_ = workers;
    ++done_.scalings;
  }

  TrainingJob& training_;
  Rng& rng_;
  int workers_;  // That the job is asked to have.
  Struck done_;
  Frozen frozen_;
};

// One at a time, whenever two workers or more have joined: a process takes a while to start, and
// whoever strikes faster than that sees nothing but starts.
Struck Strike(Victim& victim, Rng& rng, int strikes) {
  TrainingJob& training = victim.training();
  Striker striker(training, rng, kWorkers);
  std::vector<TrainingJob::Process> joined;
  while (striker.done().all() < strikes && training.running()) {
    const absl::Time next = absl::Now() + absl::Milliseconds(20 + rng.Below(200));
    Eventually([&] {
      striker.Thaw();
      victim.KeepTo(static_cast<double>(striker.done().all()) / strikes);
      joined = training.Alive("worker");
      std::erase_if(joined, [](const auto& process) { return process.state != "running"; });
      return (absl::Now() >= next && joined.size() >= 2) || !training.running();
    });
    if (!joined.empty()) striker.StrikeOnce(joined[rng.Below(joined.size())]);
  }
  return striker.done();
}

// As good as those left alone: within their spread, give or take chance. All are scored on the same
// kImages images, of which a model that gets the share p right gets p kImages give or take sqrt(p
// (1
// - p) kImages); four alike of which one is struck have that one last, or first, in every second
// case, so to ask for no less than the worst and no more than the best would be to ask for luck.
void ExpectAsGood(double accuracy, const std::vector<double>& calm) {
  constexpr double kImages = 600;
  const auto chance = [](double share) { return std::sqrt(share * (1 - share) / kImages); };
  const auto [worst, best] = std::minmax_element(calm.begin(), calm.end());
  EXPECT_GT(*worst, 0.8) << "guessing gets 0.1";
  EXPECT_LT(*best, 0.99) << "where nobody errs, nobody can err more";
  EXPECT_GE(accuracy, *worst - chance(*worst));
  EXPECT_LE(accuracy, *best + chance(*best)) << "records that count twice train more";
}

// Strikes cost what they must and not much more, by what runs came to: 27 to 38 of 200 left nobody
// who had the state, for each hits one of two to four, and of those some only copy; and what went
// with them, with the steps that others were in, was 7 to 15 % of all records.
void ExpectLittleWasted(const TrainingJob& training, const Struck& done, const Work& work) {
  const std::vector<nlohmann::json> founded = training.Events("group_founded");
  EXPECT_LE(static_cast<int>(founded.size()), 2 + done.all() / 4);
  EXPECT_LE(training.Summary()["records_recomputed"].get<int64_t>(), work.images * work.epochs / 4);
  // None goes back further than to the newest checkpoint, which is soon followed by another.
  for (const auto& generation : founded) {
    const std::string cause = generation.value("cause", "");
    int64_t again = 0;
    const size_t at = cause.find("; ");
    if (at == std::string::npos) continue;
    ASSERT_TRUE(absl::SimpleAtoi(cause.substr(at + 2, cause.find(" records") - at - 2), &again))
        << cause;
    EXPECT_LE(again, 2 * kCheckpointSteps * kStepRecords) << generation.dump();
  }
}

TEST(AllreduceChaosTest, EveryRecordOnceAndAsGoodAsUndisturbed) {
  const int strikes = FromEnvironment("RUBATO_STRIKES", 200);
  const Work work;
  const absl::Time began = absl::Now();
  Victim victim(work, absl::StrCat("{min: 1, max: 4, start: ", kWorkers, "}"));
  TrainingJob& training = victim.training();
  ASSERT_TRUE(training.ReachStep(10));
  CalmRuns alone(work, {kSeed, kSeed + 1, kSeed + 2});
  Rng rng(kSeed);
  const Struck done = Strike(victim, rng, strikes);
  EXPECT_EQ(done.all(), strikes);
  victim.LetGo();
  const absl::Time struck = absl::Now();
  const CommandResult scaled =
      RunRubato({"scale", training.job_dir(), "--workers", "2"}, training.job_dir());
  EXPECT_EQ(scaled.exit_code, 0) << scaled.err;
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const absl::Time ended = absl::Now();
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["records_expected"], work.images * work.epochs);
  EXPECT_EQ(summary["records_repeated"], 0);
  ExpectOneRecordForEachLoss(training);
  ExpectLittleWasted(training, done, work);
  EXPECT_EQ(HistoryFaults({training.job_dir()}), "");
  const double accuracy = summary["metrics"]["accuracy"].get<double>();
  const std::vector<double> calm = alone.Accuracies();
  ExpectAsGood(accuracy, calm);
  std::printf(
      "%d kills, %d freezes, %d scalings; %d workers lost, %d generations, %d records computed "
      "again; accuracy %.4f, left alone %.4f, %.4f and %.4f; struck for %.0f s, then %.0f s to the "
      "end\n",
      done.kills, done.freezes, done.scalings, summary["workers"]["lost"].get<int>(),
      static_cast<int>(training.Events("group_founded").size()),
      summary["records_recomputed"].get<int>(), accuracy, calm[0], calm[1], calm[2],
      absl::ToDoubleSeconds(struck - began), absl::ToDoubleSeconds(ended - struck));
}

}  // namespace
}  // namespace rubato

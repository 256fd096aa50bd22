// strategy: allreduce from the outside: a group that trains, grows, shrinks, is struck, is stopped
// and goes on, with every record in the weights once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/digits.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::set<pid_t> Pids(const std::vector<TrainingJob::Process>& processes) {
  std::set<pid_t> pids;
  for (const auto& process : processes) pids.insert(process.pid);
  return pids;
}

int64_t Steps(const TrainingJob& training) {
  const nlohmann::json shown = training.Show();
  return shown.is_object() ? shown["steps"].get<int64_t>() : -1;
}

void ExpectEveryRecordOnce(const nlohmann::json& summary) {
  EXPECT_EQ(summary["state"], "done");
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["records_repeated"], 0);
  double sum = 0;
  for (const auto& [name, part] : summary["goodput"].items()) sum += part.get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
}

void Scale(const TrainingJob& training, int workers) {
  const CommandResult scaled = RunRubato(
      {"scale", training.job_dir(), "--workers", absl::StrCat(workers)}, training.job_dir());
  EXPECT_EQ(scaled.exit_code, 0) << scaled.err;
}

// Three workers, two epochs: the digits are learned, and the job tells the whole story.
TEST(AllreduceTest, TrainsAndTellsTheWholeStory) {
  ScratchFolder folder;
  const std::string job =
      WriteDigitsJob(folder, 1500, "workers: {max: 3}\nepochs: 3\nevaluate: {every_steps: 40}\n");
  TrainingJob training(folder.path(), {job, "--json"});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  ExpectEveryRecordOnce(summary);
  EXPECT_EQ(summary["strategy"], "allreduce");
  EXPECT_EQ(summary["records_expected"], 3 * 1500);
  EXPECT_EQ(summary["steps"], 3 * 47);
  EXPECT_GT(summary["metrics"]["accuracy"].get<double>(), 0.9);
  EXPECT_EQ(summary["servers"]["started"], 0);
  EXPECT_EQ(summary["workers"]["started"], 3);
  // Evaluated on frozen weights: at exactly these steps, on every record.
  std::vector<int64_t> steps;
  for (const auto& evaluation : summary["evaluations"]) {
    steps.push_back(evaluation["step"].get<int64_t>());
    EXPECT_EQ(evaluation["records"], 300);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{40, 80, 120, 141}));
  EXPECT_TRUE(std::filesystem::exists(training.job_dir() + "/checkpoints/1/manifest.json"));
}

// The recipe of click models: where there is no more gain the rate falls, training ends at the
// second stall in a row, and the best version is the job's model.
TEST(AllreduceTest, LowersTheRateAndKeepsTheBest) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(
      folder, 640,
      "workers: {max: 2}\nepochs: 300\n"
      "evaluate: {every_steps: 20, lower_rate: 0.1, stop_after_stalls: 2, keep_best: true, "
      "metric: accuracy}\ncheckpoint: {keep: 1}\n");
  TrainingJob training(folder.path(), {job, "--json"});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  ExpectEveryRecordOnce(summary);
  EXPECT_LT(summary["steps"].get<int64_t>(), 300 * 20);
  double best = 0;
  for (const auto& evaluation : summary["evaluations"]) {
    best = std::max(best, evaluation["metrics"]["accuracy"].get<double>());
  }
  EXPECT_EQ(summary["metrics"]["accuracy"].get<double>(), best);
  // What was kept is what was evaluated, though training went on after it.
  const CommandResult again = RunRubato({"evaluate", training.job_dir(), "--json"}, folder.path());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NEAR(nlohmann::json::parse(again.out)["metrics"]["loss"].get<double>(),
              summary["metrics"]["loss"].get<double>(), 1e-6);
}

class AllreduceRecoveryTest : public testing::Test {
 protected:
  void Start(const std::string& extra) {
    training_.emplace(folder_.path(), std::vector<std::string>{WriteDigitsJob(
                                          folder_, 1500, absl::StrCat("epochs: 4000\n", extra))});
  }
  // Until all of them hold the weights.
  bool Joined(size_t workers) {
    return Eventually([&] { return training_->Events("worker_holds").size() >= workers; });
  }

  ScratchFolder folder_;
  std::optional<TrainingJob> training_;
};

// What the page says that the master's log names.
std::string Metrics(const TrainingJob& training) {
  const std::string log = ReadText(training.job_dir() + "/logs/master.log");
  const size_t at = log.find("http://");
  if (at == std::string::npos) return log;
  const std::string page = training.job_dir() + "/metrics.txt";
  const std::string command =
      absl::StrCat("curl -sf ", log.substr(at, log.find('\n', at) - at), " >", page);
  return std::system(command.c_str()) == 0 ? ReadText(page) : command;
}

// A worker dies: the others keep their processes and their steps, and one more joins them.
TEST_F(AllreduceRecoveryTest, AWorkerDies) {
  Start("workers: {max: 3}\nmetrics: 127.0.0.1:0\n");
  ASSERT_TRUE(Joined(3));
  const auto victims = training_->Alive("worker");
  ASSERT_EQ(victims.size(), 3u);
  std::set<pid_t> others = Pids(training_->Alive());
  others.erase(victims[0].pid);  // The oldest: whoever led must be followed.
  const int64_t before = Steps(*training_);
  kill(victims[0].pid, SIGKILL);
  ASSERT_TRUE(Joined(4));
  EXPECT_TRUE(training_->ReachStep(before + 50));
  EXPECT_THAT(Pids(training_->Alive()), IsSupersetOf(others));
  EXPECT_EQ(training_->Events("group_founded").size(), 1u);  // Nothing was lost.
  // One record, whole, however many sockets of the others broke.
  const auto failures = training_->Events("failure");
  ASSERT_EQ(failures.size(), 1u) << failures.back().dump();
  EXPECT_EQ(failures[0]["worker"], victims[0].id);
  EXPECT_EQ(failures[0]["pid"], victims[0].pid);
  EXPECT_THAT(failures[0]["cause"].get<std::string>(), HasSubstr("killed by signal 9"));
  EXPECT_FALSE(failures[0].contains("collateral_of"));
  EXPECT_FALSE(failures[0].contains("state")) << "it held the model";
  double all_ms = 0;  // From its last sign of life to the others' next step.
  for (const char* phase : {"detect_ms", "agree_ms", "reconnect_ms", "redo_ms"}) {
    ASSERT_TRUE(failures[0].contains(phase)) << failures[0].dump();
    all_ms += failures[0][phase].get<double>();
  }
  EXPECT_LT(all_ms, 2000) << failures[0].dump();
  EXPECT_THAT(Metrics(*training_), HasSubstr("rubato_job_workers_lost_total{job=\"digits\"} 1\n"));
}

// A frozen worker costs the others its lease at most; awake again, it is no longer one of them.
TEST_F(AllreduceRecoveryTest, AFrozenWorkerIsLeftBehind) {
  Start("workers: {max: 2}\nelastic: {lease: 2s}\n");
  ASSERT_TRUE(Joined(2));
  const auto victim = training_->Alive("worker").front();
  kill(victim.pid, SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return !training_->Events("worker_evicted").empty(); }));
  EXPECT_TRUE(training_->ReachStep(Steps(*training_) + 30));
  kill(victim.pid, SIGCONT);
  ASSERT_TRUE(Eventually([&] { return !Pids(training_->Alive("worker")).contains(victim.pid); }));
  const std::string log = absl::StrCat(training_->job_dir(), "/logs/worker-", victim.id, ".log");
  EXPECT_THAT(ReadText(log), HasSubstr("fenced"));
  EXPECT_EQ(training_->Events("group_founded").size(), 1u);
  // Its record tells one silence.
  ASSERT_TRUE(Eventually([&] { return !training_->Events("failure").empty(); }));
  const nlohmann::json failure = training_->Events("failure").front();
  ASSERT_TRUE(failure.contains("detect_ms")) << failure.dump();
  EXPECT_LE(failure["detect_ms"].get<double>(), 2000) << "the lease";
  const absl::Duration silence =
      absl::Trunc(absl::Milliseconds(failure["detect_ms"].get<double>()), absl::Milliseconds(1));
  EXPECT_EQ(failure["cause"],
            absl::StrCat("worker-", victim.id, ": silent for ", absl::FormatDuration(silence)));
  // Those who waited for it say so.
  EXPECT_TRUE(Eventually([&] {
    const nlohmann::json shown = training_->Show();
    return shown.is_object() && shown["goodput"]["detect"].get<double>() > 0;
  }));
  EXPECT_EQ(training_->Events("worker_evicted")[0]["view"], failure["view"]);
  EXPECT_EQ(training_->Events("worker_evicted")[0]["cause"],
            "silent for longer than elastic.lease, 2s");
  // Its exit, fenced, is no second failure.
  ASSERT_TRUE(Eventually([&] { return !training_->Events("worker_fenced").empty(); }));
  EXPECT_EQ(training_->Events("worker_fenced")[0]["collateral_of"], failure["cause"]);
  EXPECT_EQ(training_->Events("failure").size(), 1u);
}

// A machine that stood still for some leases: the silence of all is no proof that what they hold is
// lost, and they go on with it.
TEST_F(AllreduceRecoveryTest, AllAreFrozenAndGoOn) {
  Start("workers: {max: 2}\nelastic: {lease: 1s}\n");
  ASSERT_TRUE(Joined(2));
  ASSERT_TRUE(training_->ReachStep(20));
  const auto workers = training_->Alive("worker");
  for (const auto& worker : workers) kill(worker.pid, SIGSTOP);
  absl::SleepFor(absl::Seconds(3));
  for (const auto& worker : workers) kill(worker.pid, SIGCONT);
  EXPECT_TRUE(training_->ReachStep(Steps(*training_) + 30));
  EXPECT_EQ(training_->Events("group_founded").size(), 1u);
}

// The workers need no master to go on, for as long as nobody starts another; that one hears where
// they are. One of them may even sleep meanwhile, for longer than gossip has patience: there is
// nobody who could issue a view without it, or give the old one back.
TEST_F(AllreduceRecoveryTest, TheMasterDies) {
  folder_.Write("read", "");
  training_.emplace(folder_.path(), std::vector<std::string>{WritePacedDigitsJob(
                                        folder_, 1500, "epochs: 4000\nworkers: {max: 2}\n")});
  ASSERT_TRUE(Joined(2));
  const std::set<pid_t> workers = Pids(training_->Alive("worker"));
  const auto reads = [&] {
    const std::string lines = ReadText(folder_.path() + "/read");
    return std::count(lines.begin(), lines.end(), '\n');
  };
  kill(training_->pid(), SIGSTOP);
  kill(training_->Alive("master").front().pid, SIGKILL);
  kill(*workers.begin(), SIGSTOP);
  absl::SleepFor(absl::Seconds(2));
  kill(*workers.begin(), SIGCONT);
  // Each reads its part of a step once it has the step before.
  constexpr int kSteps = 50;
  const auto before = reads();
  EXPECT_TRUE(Eventually([&] { return reads() > before + 2 * kSteps; }));
  EXPECT_TRUE(training_->Events("master_restarted").empty());
  kill(training_->pid(), SIGCONT);
  ASSERT_TRUE(Eventually([&] { return !training_->Events("master_restarted").empty(); }));
  const int64_t known = training_->Events("master_restarted").front()["steps"].get<int64_t>();
  EXPECT_TRUE(training_->ReachStep(known + kSteps));
  EXPECT_EQ(Pids(training_->Alive("worker")), workers);
  EXPECT_EQ(training_->Events("group_founded").size(), 1u);
}

// All at once: what is left is the last checkpoint, and training goes on from there.
TEST_F(AllreduceRecoveryTest, EveryoneDies) {
  Start("workers: {max: 2}\ncheckpoint: {every_steps: 50}\n");
  ASSERT_TRUE(Joined(2));
  ASSERT_TRUE(Eventually([&] { return !training_->Events("checkpoint_complete").empty(); }));
  const absl::Time struck = absl::Now();
  for (const auto& worker : training_->Alive("worker")) kill(worker.pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return training_->Events("group_founded").size() == 2; }));
  EXPECT_GE(training_->Events("group_founded").back()["step"].get<int64_t>(), 50);
  // Each is told once the next generation trains, with all that came between.
  ASSERT_TRUE(Eventually([&] { return training_->Events("failure").size() == 2; }));
  const absl::Duration since = absl::Now() - struck;
  for (const auto& failure : training_->Events("failure")) {
    EXPECT_THAT(failure["cause"].get<std::string>(), HasSubstr("killed by signal 9"));
    ASSERT_TRUE(failure.contains("redo_ms")) << failure.dump();
    EXPECT_EQ(failure["generation"], 2);
    const double heard = failure["detect_ms"].get<double>();
    const double rest = failure["agree_ms"].get<double>() + failure["reconnect_ms"].get<double>() +
                        failure["redo_ms"].get<double>();
    EXPECT_GE(heard, 0);
    // A process had to start, read the checkpoint and train a step; then the record was written.
    EXPECT_GT(rest, 0);
    EXPECT_LE(rest, absl::ToDoubleMilliseconds(since));
  }
  EXPECT_TRUE(training_->ReachStep(Steps(*training_) + 30));
}

// Growing and shrinking: whoever stays keeps its process, and nothing is computed twice.
TEST_F(AllreduceRecoveryTest, ScalesWithoutRestartingAnyone) {
  Start("workers: {min: 1, max: 3, start: 1}\n");
  ASSERT_TRUE(Joined(1));
  ASSERT_TRUE(training_->ReachStep(10));
  const std::set<pid_t> before = Pids(training_->Alive());
  Scale(*training_, 3);
  ASSERT_TRUE(Joined(3));
  EXPECT_THAT(Pids(training_->Alive()), IsSupersetOf(before));
  Scale(*training_, 1);
  ASSERT_TRUE(Eventually([&] { return training_->Alive("worker").size() == 1; }));
  EXPECT_EQ(Pids(training_->Alive()), before);
  EXPECT_TRUE(training_->ReachStep(Steps(*training_) + 20));
}

// Notice of an eviction: whoever gets SIGTERM hands its microbatches back and leaves at the end of
// a step. Nobody computes anything twice, and nothing has failed.
TEST(AllreduceTest, SigtermCostsNobodyAStep) {
  ScratchFolder folder;
  folder.Write("pace", "20000");  // Two thirds of a second a step for one, so that orders arrive.
  TrainingJob training(folder.path(),
                       {WritePacedDigitsJob(folder, 640,
                                            "workers: {max: 3}\nepochs: 20\n"
                                            "elastic: {lease: 15s}\n")});  // Busy is not lost.
  ASSERT_TRUE(
      Eventually([&] { return training.Events("worker_holds").size() >= 3; }, absl::Seconds(150)));
  ASSERT_TRUE(training.ReachStep(Steps(training) + 3));
  const auto workers = training.Alive("worker");
  ASSERT_EQ(workers.size(), 3u);
  const nlohmann::json before = training.Show();
  ASSERT_TRUE(before.is_object());
  kill(workers[0].pid, SIGTERM);  // The oldest: whoever led must be followed.
  ASSERT_TRUE(Eventually([&] { return !training.Events("worker_left").empty(); }));
  EXPECT_EQ(training.Events("worker_left")[0]["worker"], workers[0].id);
  EXPECT_THAT(training.Events("worker_left")[0]["cause"].get<std::string>(),
              HasSubstr("exit code 0"));
  ASSERT_TRUE(training.ReachStep(Steps(training) + 3));
  const nlohmann::json after = training.Show();
  ASSERT_TRUE(after.is_object());
  EXPECT_EQ(after["records_recomputed"], before["records_recomputed"]);
  for (const auto& worker : {workers[1], workers[2]}) {
    EXPECT_TRUE(Pids(training.Alive("worker")).contains(worker.pid));
  }
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ExpectEveryRecordOnce(training.Summary());
  EXPECT_EQ(training.Summary()["workers"]["lost"], 0);
  EXPECT_TRUE(training.Events("failure").empty()) << training.Events("failure")[0].dump();
  EXPECT_EQ(training.Events("group_founded").size(), 1u);
}

// One that is launched when training is about to end may find it over before it has registered, has
// been let in or has the model: it goes home as told, and fails nothing.
TEST(AllreduceTest, WhoComesTooLateIsSentHome) {
  ScratchFolder folder;
  folder.Write("pace", "60000");  // Minutes for one alone.
  TrainingJob training(folder.path(), {WritePacedDigitsJob(folder, 320,
                                                           "workers: {min: 1, max: 2, start: 1}\n"
                                                           "epochs: 10\n")});
  ASSERT_TRUE(training.ReachStep(2));
  Scale(training, 2);
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Events("worker_launched").size(), 2u);
  ExpectEveryRecordOnce(training.Summary());
  EXPECT_EQ(training.Summary()["workers"]["lost"], 0);
  EXPECT_TRUE(training.Events("failure").empty()) << training.Events("failure")[0].dump();
}

// Ctrl-C saves where all are; --resume goes on there with another number of workers, to the end.
TEST(AllreduceTest, StopsAndGoesOnWithAnotherNumber) {
  ScratchFolder folder;
  folder.Write("pace", "5000");  // It must not be over before the signal is there.
  const std::string job =
      WritePacedDigitsJob(folder, 1500, "workers: {min: 1, max: 3, start: 2}\nepochs: 12\n");
  int64_t stopped_at = 0;
  {
    TrainingJob training(folder.path(), {job});
    ASSERT_TRUE(training.ReachStep(30));
    kill(training.pid(), SIGINT);
    const CommandResult stopped = training.Wait();
    EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
    EXPECT_EQ(training.Summary()["state"], "stopped");
    stopped_at = training.Summary()["steps"].get<int64_t>();
    EXPECT_GE(stopped_at, 30);
  }
  TrainingJob training(folder.path(), {"--resume", folder.path() + "/job"});
  Eventually([&] { return !training.running() || training.Events("worker_holds").size() > 2; });
  EXPECT_EQ(training.Events("group_founded").back()["step"], stopped_at);
  Scale(training, 3);
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ExpectEveryRecordOnce(training.Summary());
}

// Ctrl-C twice ends all at once; what is told of the job is what its journal has, not what was
// heard of it a while ago, and it goes on.
TEST(AllreduceTest, EndsAtOnceAndTellsHowFarItGot) {
  ScratchFolder folder;
  folder.Write("pace", "20000");
  const std::string job = WritePacedDigitsJob(
      folder, 320, "workers: {max: 2}\nepochs: 15\ncheckpoint: {every_steps: 10}\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_TRUE(Eventually([&] { return !training.Events("checkpoint_complete").empty(); }));
  kill(training.pid(), SIGINT);
  ASSERT_TRUE(Eventually([&] { return !training.Events("stopping").empty(); }));
  kill(training.pid(), SIGINT);
  EXPECT_EQ(training.Wait().exit_code, 130);
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["state"], "stopped");
  // One may be complete in the moment between the master's last word and its end.
  const auto last = training.Events("checkpoint_complete").back();
  const std::string checkpoint = std::filesystem::path(summary["checkpoint"]).filename();
  EXPECT_GE(std::stoll(checkpoint) + 1, last["version"].get<int64_t>());
  EXPECT_GE(summary["steps"].get<int64_t>() + 10, last["step"].get<int64_t>());
  std::filesystem::remove(folder.path() + "/pace");
  TrainingJob again(folder.path(), {"--resume", folder.path() + "/job"});
  const CommandResult result = again.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ExpectEveryRecordOnce(again.Summary());
}

// Everything a job can be asked for, on the models that have it: gradients summed bucket by bucket
// while backward goes on, narrower on the wire.
struct Variety {
  std::string name;
  std::vector<std::string> keys;
};
class AllreduceVarietyTest : public testing::TestWithParam<Variety> {};

TEST_P(AllreduceVarietyTest, LearnsAndCountsEveryRecordOnce) {
  ScratchFolder folder;
  std::vector<std::string> words = {WriteDigitsJob(folder, 800, "workers: {max: 2}\nepochs: 3\n"),
                                    "--json"};
  for (const std::string& key : GetParam().keys) words.insert(words.end(), {"--set", key});
  TrainingJob training(folder.path(), words);
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  ExpectEveryRecordOnce(summary);
  EXPECT_GT(summary["metrics"]["accuracy"].get<double>(), 0.5) << "guessing gets 0.1";
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, AllreduceVarietyTest,
    testing::Values(
        Variety{"Bf16", {"allreduce.wire=bf16"}},
        Variety{"Fp16InBuckets", {"allreduce.wire=fp16", "allreduce.bucket_bytes=20000"}},
        Variety{"ResNetInBuckets",
                {"model=resnet", "model_options.width=8", "allreduce.bucket_bytes=10000"}},
        Variety{"Transformer",
                {"model=transformer", "optimizer.name=adam", "optimizer.learning_rate=0.002"}}),
    [](const auto& info) { return info.param.name; });

// Batches that grow with the workers: two take fewer steps for the same records.
class AllreduceBatchTest : public testing::TestWithParam<std::string> {};

TEST_P(AllreduceBatchTest, GrowsWithTheWorkers) {
  ScratchFolder folder;
  folder.Write("pace", "2000");
  const std::string job = WritePacedDigitsJob(folder, 800, "workers: {max: 2}\nepochs: 6\n");
  TrainingJob training(folder.path(), {job, "--set", "allreduce.batch_rule=" + GetParam(), "--set",
                                       "allreduce.batch_warmup=800", "--json"});
  EXPECT_TRUE(Eventually([&] { return training.Events("worker_holds").size() == 2; }));
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  ExpectEveryRecordOnce(summary);
  EXPECT_GT(summary["metrics"]["accuracy"].get<double>(), 0.5) << "guessing gets 0.1";
  EXPECT_LT(summary["steps"], 6 * 25) << "as one worker alone";
}

INSTANTIATE_TEST_SUITE_P(Rules, AllreduceBatchTest, testing::Values("linear", "sqrt"),
                         [](const auto& info) { return info.param; });

// The bytes of a finished job's last checkpoint.
std::string CheckpointOf(const TrainingJob& training) {
  const std::string folder = training.Summary()["checkpoint"].get<std::string>();
  const auto manifest = nlohmann::json::parse(ReadText(folder + "/manifest.json"));
  return ReadText(absl::StrCat(folder, "/", manifest["file"].get<std::string>()));
}

// How a gradient travels is no matter of what it is.
TEST(AllreduceTest, InBucketsOrInOnePieceTheSameBits) {
  const auto train = [](const std::string& bucket_bytes) {
    ScratchFolder folder;
    const std::string job = WriteDigitsJob(folder, 320, "workers: {max: 1}\n");
    TrainingJob training(folder.path(), {job, "--set", "allreduce.bucket_bytes=" + bucket_bytes});
    EXPECT_EQ(training.Wait().exit_code, 0);
    return CheckpointOf(training);
  };
  const std::string whole = train("0");
  ASSERT_GT(whole.size(), 100000u);
  EXPECT_TRUE(train("10000") == whole);
}

// The bytes of the last checkpoint of a job of 600 steps whose number of workers goes through
// `counts`: held back until it has, for a process takes a while to start. With `death` one of them
// is killed in the end, and another takes its place.
std::string LastCheckpoint(const std::vector<int>& counts, bool death = false) {
  ScratchFolder folder;
  folder.Write("pace", "4000");
  const std::string job =
      WritePacedDigitsJob(folder, 320,
                          absl::StrCat("workers: {min: 1, max: 8, start: ", counts[0],
                                       "}\nepochs: 60\n"
                                       "allreduce: {deterministic: true, microbatches: 8}\n"));
  TrainingJob training(folder.path(), {job});
  size_t joined = static_cast<size_t>(counts[0]);
  size_t now = joined;
  for (size_t i = 0; i <= counts.size(); ++i) {
    EXPECT_TRUE(Eventually([&] { return training.Events("worker_holds").size() >= joined; }));
    EXPECT_TRUE(Eventually([&] { return training.Alive("worker").size() == now; }));
    EXPECT_TRUE(training.ReachStep(Steps(training) + 10));
    if (i + 1 >= counts.size()) break;
    now = static_cast<size_t>(counts[i + 1]);
    if (counts[i + 1] > counts[i]) joined += static_cast<size_t>(counts[i + 1] - counts[i]);
    Scale(training, counts[i + 1]);
  }
  if (death) {
    kill(training.Alive("worker").front().pid, SIGKILL);
    EXPECT_TRUE(Eventually([&] { return training.Events("worker_holds").size() > joined; }));
  }
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ExpectEveryRecordOnce(training.Summary());
  EXPECT_EQ(training.Summary()["workers"]["lost"], death ? 1 : 0);
  return CheckpointOf(training);
}

TEST(AllreduceDeterminismTest, EveryHistoryOfWorkersGivesTheSameBytes) {
  const std::string four = LastCheckpoint({4});
  ASSERT_GT(four.size(), 100000u);
  EXPECT_TRUE(LastCheckpoint({1, 8, 3, 5}) == four);
  EXPECT_TRUE(LastCheckpoint({2}, /*death=*/true) == four);
}

// A step whose gradient is no number counts for nobody; tried a few times, it ends the job.
TEST(AllreduceTest, DivergingTrainingFailsAndSaysSo) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "workers: {max: 2}\n");
  TrainingJob training(folder.path(), {job, "--set", "optimizer.learning_rate=1e30"});
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(training.Summary()["error"].get<std::string>(), HasSubstr("failed 3 times"));
}

// What such a step took is not useful work, though nobody died: it is told as `redo`.
TEST(AllreduceTest, TimeOfFailedStepsIsRedo) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "workers: {max: 2}\n");
  const auto redo = [&](const char* rate) {
    ScratchFolder run;
    TrainingJob training(run.path(), {job, "--set", absl::StrCat("optimizer.learning_rate=", rate),
                                      "--set", "elastic.task_failures_max=20"});
    training.Wait();
    EXPECT_EQ(training.Summary()["workers"]["lost"], 0);
    return training.Summary()["goodput"]["redo"].get<double>();
  };
  EXPECT_GT(redo("1e30"), 0);
  EXPECT_EQ(redo("0.05"), 0);
}

// A model that keeps rows by id belongs to servers, and says so before anything starts.
TEST(AllreduceTest, RefusesTables) {
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(folder, 1000, "strategy: allreduce\n");
  const CommandResult result = RunRubato({"train", job}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("choose strategy: ps"));
}

}  // namespace
}  // namespace rubato

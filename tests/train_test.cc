// `rubato train` from the outside: a job that runs, grows, shrinks, is stopped and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::set<pid_t> Pids(const std::vector<TrainingJob::Process>& processes) {
  std::set<pid_t> pids;
  for (const auto& process : processes) pids.insert(process.pid);
  return pids;
}

void ExpectEveryRecordOnce(const nlohmann::json& summary) {
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["records_repeated"], 0);
  double sum = 0;
  for (const auto& [name, part] : summary["goodput"].items()) sum += part.get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
}

// Everything that happened has its cause beside it.
void ExpectCauses(const TrainingJob& training) {
  std::ifstream file(training.job_dir() + "/events.jsonl");
  int events = 0;
  for (std::string line; std::getline(file, line); ++events) {
    EXPECT_FALSE(nlohmann::json::parse(line).value("cause", "").empty()) << line;
  }
  EXPECT_GT(events, 5);
}

// Two servers, two workers, one epoch: every record once, an AUC near the best, all in one JSON
// object, and a job directory that holds what DESIGN promises.
TEST(TrainTest, TrainsAndTellsTheWholeStory) {
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(folder, 40000, "servers: 2\nworkers: {max: 2}\n");
  TrainingJob training(folder.path(), {job, "--json"});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary, training.Summary());
  EXPECT_EQ(summary["state"], "done");
  EXPECT_EQ(summary["records_expected"], 40000);
  EXPECT_EQ(summary["steps"], (40000 + 255) / 256);
  ExpectEveryRecordOnce(summary);
  // A fifth of what lies between a coin and the best possible may still be missing after 157 steps.
  EXPECT_GT(summary["metrics"]["auc"].get<double>(), 0.5 + 0.8 * (BestAuc(folder) - 0.5));
  EXPECT_LT(summary["metrics"]["auc"].get<double>(), BestAuc(folder) + 0.01);
  EXPECT_GT(summary["metrics"]["logloss"].get<double>(), 0.3);
  EXPECT_GT(summary["rows"].get<int64_t>(), 1000);
  for (const char* name : {"job.yaml", "journal", "events.jsonl", "processes.json", "summary.json",
                           "logs/master.log", "logs/worker-1.log", "checkpoints/1/manifest.json"}) {
    EXPECT_TRUE(std::filesystem::exists(training.job_dir() + "/" + name)) << name;
  }
  EXPECT_FALSE(std::filesystem::is_empty(training.job_dir() + "/metrics"));
  const auto processes = nlohmann::json::parse(ReadText(training.job_dir() + "/processes.json"));
  for (const auto& process : processes["processes"]) {  // A server that is down has none.
    EXPECT_EQ(process["address"].get<std::string>().empty(), process["role"] == "server")
        << process;
  }
  EXPECT_THAT(result.err, HasSubstr("40,000 committed of 40,000"));
  ExpectCauses(training);
}

// Half as many bytes between workers and servers cost next to nothing of the model.
TEST(TrainTest, HalvesOnTheWireTrainAsWell) {
  std::map<std::string, double> auc;
  for (const std::string wire : {"fp32", "bf16", "fp16"}) {
    ScratchFolder folder;
    const std::string job = WriteCriteoJob(folder, 40000, "servers: 2\nworkers: {max: 2}\n");
    TrainingJob training(folder.path(), {job, "--set", "params.wire=" + wire});
    const CommandResult result = training.Wait();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    ExpectEveryRecordOnce(training.Summary());
    auc[wire] = training.Summary()["metrics"]["auc"].get<double>();
  }
  EXPECT_NEAR(auc["bf16"], auc["fp32"], 0.01);
  EXPECT_NEAR(auc["fp16"], auc["fp32"], 0.01);
}

// Growing and shrinking while it trains: those who stay keep their process ids.
TEST(TrainTest, ScalesWithoutRestartingAnyone) {
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(
      folder, 100000, "servers: 1\nworkers: {min: 1, max: 3, start: 1}\nepochs: 400\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_TRUE(training.ReachStep(20));
  const std::set<pid_t> before = Pids(training.Alive());

  EXPECT_EQ(RunRubato({"scale", training.job_dir(), "--workers", "3"}, folder.path()).exit_code, 0);
  ASSERT_TRUE(Eventually([&] { return training.Alive("worker").size() == 3; }));
  EXPECT_THAT(Pids(training.Alive()), IsSupersetOf(before));

  EXPECT_EQ(RunRubato({"scale", training.job_dir(), "--workers", "1"}, folder.path()).exit_code, 0);
  ASSERT_TRUE(Eventually([&] { return training.Alive("worker").size() == 1; }));
  EXPECT_EQ(Pids(training.Alive()), before);

  // Outside of min and max the answer is no, with the reason.
  const CommandResult refused =
      RunRubato({"scale", training.job_dir(), "--workers", "4"}, folder.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("workers.max"));
}

#if defined(__x86_64__)
// Matrices are multiplied by what the processor can do, from before OpenBLAS looks around.
TEST(TrainTest, WorkersAreToldTheKernelsToUse) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP();
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(folder, 40000, "epochs: 400\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_TRUE(training.ReachStep(1));
  for (const TrainingJob::Process& worker : training.Alive("worker")) {
    EXPECT_THAT(ReadText(absl::StrCat("/proc/", worker.pid, "/environ")),
                HasSubstr("OPENBLAS_CORETYPE="));
  }
}
#endif

// Files are sorted by whatever they come from, at worst by what is to be learnt: `cat yes no`. By
// rounds, so that the same comes of it however busy the machine is.
TEST(TrainTest, ASortedFileTrainsAsWell) {
  ScratchFolder folder;
  WriteCriteoJob(folder, 40000, "");
  const std::string job =
      folder.Write("sorted.yaml",
                   "model: deepfm\ndata: {train: train.tsv, validation: valid.tsv}\n"
                   "workers: {min: 1, max: 2}\nepochs: 2\nmode: sync\n");
  std::vector<std::string> lines =
      absl::StrSplit(ReadText(folder.path() + "/train.tsv"), '\n', absl::SkipEmpty());
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a[0] < b[0]; });
  folder.Write("train.tsv", absl::StrJoin(lines, "\n") + "\n");
  const auto loss = [&](const char* setting) {
    TrainingJob training(folder.path(), {job, "--set", setting});
    const CommandResult done = training.Wait();
    EXPECT_EQ(done.exit_code, 0) << done.err;
    ExpectEveryRecordOnce(training.Summary());
    const double logloss = training.Summary()["metrics"]["logloss"].get<double>();
    std::filesystem::remove_all(training.job_dir());
    return logloss;
  };
  EXPECT_LT(loss("shuffle.spread=true"), loss("shuffle.spread=false") - 0.03);
}

// Ctrl-C ends the job with a checkpoint; --resume goes on from there and counts nothing twice. That
// all may read its secret since, as after a copy of the folder, is no matter: nothing leaves here.
TEST(TrainTest, CtrlCAndResume) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 60000, "servers: 2\nworkers: {max: 2}\nepochs: 8\n");
  TrainingJob first(folder.path(), {job});
  ASSERT_TRUE(first.ReachStep(30));
  kill(first.pid(), SIGINT);
  const CommandResult stopped = first.Wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("rubato train --resume"));
  EXPECT_EQ(first.Summary()["state"], "stopped");
  EXPECT_FALSE(first.Summary()["checkpoint"].is_null());
  EXPECT_LT(first.Summary()["records_committed"], 480000);
  std::filesystem::permissions(first.job_dir() + "/group.secret",
                               std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);

  const absl::Time resumed = absl::Now();
  TrainingJob second(folder.path(), {"--resume", first.job_dir()});
  nlohmann::json shown;  // Of this run: its time, and its speed.
  ASSERT_TRUE(Eventually([&] {
    shown = second.Show();
    return shown.is_object() && shown["state"] != "stopped";
  }));
  EXPECT_LE(shown["seconds"].get<double>(), absl::ToDoubleSeconds(absl::Now() - resumed));
  // If all were killed now, nobody would be told that the job was stopped.
  EXPECT_FALSE(std::filesystem::exists(first.job_dir() + "/summary.json"));
  const CommandResult done = second.Wait();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(second.Summary()["records_expected"], 480000);
  ExpectEveryRecordOnce(second.Summary());
  ExpectCauses(second);
}

// The supervisor itself dies with SIGKILL: its children go with it, and --resume goes on.
TEST(TrainTest, SurvivesItsSupervisor) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 60000, "servers: 2\nworkers: {max: 2}\nepochs: 15\n");
  TrainingJob first(folder.path(), {job});
  ASSERT_TRUE(first.ReachStep(10));
  kill(first.pid(), SIGKILL);
  first.Wait();
  ASSERT_TRUE(Eventually([&] { return first.Alive().empty(); }));
  // More workers than the job had at most: there may be room for them now.
  TrainingJob second(folder.path(), {"--resume", first.job_dir(), "--workers", "3"});
  const CommandResult done = second.Wait();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  ExpectEveryRecordOnce(second.Summary());
  EXPECT_THAT(ReadText(first.job_dir() + "/job.yaml"), HasSubstr("max: 3"));
}

// max_steps is exact, whatever the number of workers.
TEST(TrainTest, MaxStepsIsExact) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 20000, "servers: 2\nworkers: {max: 3}\nepochs: 5\nmax_steps: 101\n");
  TrainingJob training(folder.path(), {job});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["steps"], 101);
  ExpectEveryRecordOnce(training.Summary());
}

// Evaluations along the way, and one at the end over the final weights.
TEST(TrainTest, EvaluatesAlongTheWay) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 30000, "servers: 1\nevaluate: {every_steps: 40}\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_EQ(training.Wait().exit_code, 0);
  const auto evaluations = training.Summary()["evaluations"];
  ASSERT_GE(evaluations.size(), 3u);
  EXPECT_EQ(evaluations.back()["step"], training.Summary()["steps"]);
  EXPECT_GT(evaluations.back()["metrics"]["auc"], evaluations.front()["metrics"]["auc"]);
}

// Images in idx files: a bright square whose place is the digit, on a noisy ground.
void WriteDigits(const ScratchFolder& folder, const std::string& name, int count) {
  const auto number = [](int n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16),
                       static_cast<char>(n >> 8), static_cast<char>(n)};
  };
  std::string images = std::string("\0\0\x08\x03", 4) + number(count) + number(28) + number(28);
  std::string labels = std::string("\0\0\x08\x01", 4) + number(count);
  uint32_t noise = static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) {
    const int digit = i % 10;
    const int top = 2 + 13 * (digit / 5), left = 1 + 5 * (digit % 5);
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        noise = noise * 1664525 + 1013904223;
        const bool bright = y >= top && y < top + 10 && x >= left && x < left + 6;
        images.push_back(static_cast<char>((bright ? 150 : 0) + (noise >> 24) % 100));
      }
    }
    labels.push_back(static_cast<char>(digit));
  }
  folder.Write(name + "-images", images);
  folder.Write(name + "-labels", labels);
}

// Another format, another kind of model: no tables at all, ten classes, and two of everything.
TEST(TrainTest, TrainsOnImages) {
  ScratchFolder folder;
  WriteDigits(folder, "train", 1200);
  WriteDigits(folder, "valid", 200);
  const std::string job = folder.Write(
      "job.yaml",
      "name: digits\nmodel: mnist_cnn\n"
      "data: {train: [train-images, train-labels], validation: [valid-images, valid-labels], "
      "format: idx}\n"
      "batch_size: 20\nepochs: 3\nservers: 2\nworkers: {max: 2}\n"
      "optimizer: {name: adagrad, learning_rate: 0.01}\n");
  TrainingJob training(folder.path(), {job});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["records_expected"], 3600);
  ExpectEveryRecordOnce(training.Summary());
  EXPECT_GT(training.Summary()["metrics"]["accuracy"].get<double>(), 0.9);
}

// The second checkpoint holds what changed since the first, of which exactly that much stays.
TEST(TrainTest, ADeltaIsAsGoodAsAFullCheckpointWhileItsBaseIsSound) {
  ScratchFolder folder;
  const std::string job = WriteCriteoJob(
      folder, 40000,
      "servers: 2\nworkers: {max: 1}\nmax_steps: 60\ncheckpoint: {every_steps: 50, keep: 1}\n");
  TrainingJob training(folder.path(), {job, "--json"});
  ASSERT_EQ(training.Wait().exit_code, 0);
  const std::string checkpoints = training.job_dir() + "/checkpoints";
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoints)) {
    if (!entry.is_directory()) {
      files.insert(std::filesystem::relative(entry.path(), checkpoints).string());
    }
  }
  EXPECT_THAT(files, ElementsAre("1/server-0.ckpt", "1/server-1.ckpt", "2/manifest.json",
                                 "2/server-0.ckpt", "2/server-1.ckpt"));
  const auto rubato = [&](std::vector<std::string> words) {
    return Command(std::move(words), folder.path(), "read").Wait();
  };
  const CommandResult params = rubato({"params", training.job_dir(), "--json"});
  EXPECT_EQ(params.exit_code, 0) << params.err;
  const CommandResult exported = rubato({"export", training.job_dir(), "--out", "model"});
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  const std::string base = checkpoints + "/1/server-1.ckpt";
  std::filesystem::resize_file(base, std::filesystem::file_size(base) / 2);
  const CommandResult refused = rubato({"export", training.job_dir(), "--out", "other"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("checkpoint 2 builds on checkpoint 1: "));
  EXPECT_THAT(refused.err, HasSubstr("1/server-1.ckpt"));
}

}  // namespace
}  // namespace rubato

// What a user gets wrong, and what the world does wrong: a clear word, the right exit code, and
// nothing lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/job_runner.h"
#include "tests/server_state.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A small csv job; `row` is the last row of the training data.
std::string WriteCsvJob(const ScratchFolder& folder, const std::string& row,
                        const std::string& extra) {
  std::string csv = "click,price,site\n";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&csv, i % 2, ",", i % 7, ",site", i % 5, "\n");
  folder.Write("train.csv", csv + row);
  return folder.Write("job.yaml",
                      absl::StrCat("name: small\nmodel: logistic\nbatch_size: 32\n"
                                   "data: {train: train.csv, format: csv, label: click, "
                                   "numeric: [price], categorical: [site]",
                                   extra));
}

CommandResult Train(const ScratchFolder& folder, const std::string& job) {
  return RunRubato({"train", job, "--job-dir", folder.path() + "/job"}, folder.path());
}

struct BadJob {
  const char* name;
  const char* text;
  std::vector<std::string> words;
};

class BadJobFileTest : public testing::TestWithParam<BadJob> {};

TEST_P(BadJobFileTest, IsExplainedWithTwo) {
  ScratchFolder folder;
  folder.Write("train.tsv", "");
  const std::string job = folder.Write("job.yaml", GetParam().text);
  const CommandResult result = Train(folder, job);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  for (const std::string& word : GetParam().words) EXPECT_THAT(result.err, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, BadJobFileTest,
    testing::Values(
        BadJob{"Misspelt",
               "model: deepfm\ndata: {train: x.tsv}\noptimzer: {name: sgd}\n",
               {"job.yaml:3", "optimzer", "did you mean", "optimizer"}},
        BadJob{"WrongType",
               "model: deepfm\ndata: {train: x.tsv}\nbatch_size: many\n",
               {"job.yaml:3", "batch_size", "many"}},
        BadJob{"MissingFile",
               "model: deepfm\ndata: {train: nowhere.tsv}\n",
               {"nowhere.tsv", "data.train"}},
        BadJob{"EmptyFile", "model: deepfm\ndata: {train: train.tsv}\n", {"train.tsv", "empty"}},
        BadJob{"NoYaml", "model: [deepfm\n", {"job.yaml"}},
        BadJob{"BadOptimizer",
               "model: deepfm\ndata: {train: x}\noptimizer: {name: sdg}\n",
               {"optimizer.name", "sdg", "sgd"}}),
    [](const auto& info) { return info.param.name; });

TEST(BadUsageTest, UnknownFlagsAndCommandsExitWithTwo) {
  ScratchFolder folder;
  const CommandResult misspelt = RunRubato({"trian"}, folder.path());
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean 'train'"));
  const CommandResult flag = RunRubato({"train", "job.yaml", "--jsn"}, folder.path());
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.err, AllOf(HasSubstr("'--jsn'"), HasSubstr("did you mean '--json'")));
  EXPECT_EQ(RunRubato({"train"}, folder.path()).exit_code, 2);
  const CommandResult missing = RunRubato({"train", "nowhere.yaml"}, folder.path());
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("nowhere.yaml"));
  const CommandResult json = RunRubato({"train", "nowhere.yaml", "--json"}, folder.path());
  EXPECT_EQ(nlohmann::json::parse(json.out)["exit_code"], 2);
  EXPECT_EQ(RunRubato({"scale", "nowhere", "--workers", "2"}, folder.path()).exit_code, 2);
  EXPECT_EQ(RunRubato({"train", "--resume", "nowhere"}, folder.path()).exit_code, 2);
}

// A job that is refused leaves nothing behind: mended, it may have the same directory.
TEST(BadUsageTest, ARefusedJobLeavesNothingBehind) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  const std::string dir = folder.path() + "/job";
  const CommandResult refused =
      RunRubato({"train", job, "--set", "data.train=[no.csv]", "--job-dir", dir}, folder.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, Not(HasSubstr("job directory:")));
  EXPECT_FALSE(std::filesystem::exists(dir));
  const CommandResult trained = Train(folder, job);
  EXPECT_EQ(trained.exit_code, 0);
  EXPECT_THAT(trained.err, HasSubstr(absl::StrCat("job directory: ", dir)));
  // And a job that is done is not gone on with, nor touched.
  const std::string before = ReadText(dir + "/processes.json");
  const CommandResult again = RunRubato({"train", "--resume", dir}, folder.path());
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("done already"));
  EXPECT_EQ(ReadText(dir + "/processes.json"), before);
}

// A folder that holds something else is not a job directory, and stays as it is.
TEST(BadUsageTest, AFolderInUseIsNotTouched) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  std::filesystem::create_directory(folder.path() + "/mine");
  folder.Write("mine/thesis.txt", "years of work\n");
  const CommandResult result = RunRubato(
      {"train", job, "--set", "data.train=[no.csv]", "--job-dir", folder.path() + "/mine"},
      folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("not empty"));
  EXPECT_EQ(ReadText(folder.path() + "/mine/thesis.txt"), "years of work\n");
}

// Where `rubato init` wrote its files a job file is, and no job.
TEST(BadUsageTest, AFolderWithAJobFileIsNoJob) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  const CommandResult train = RunRubato({"train", job, "--job-dir", folder.path()}, folder.path());
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.err, AllOf(HasSubstr("is not empty; choose another --job-dir"),
                               Not(HasSubstr("--resume"))));
  const CommandResult resume = RunRubato({"train", "--resume", folder.path()}, folder.path());
  EXPECT_EQ(resume.exit_code, 2);
  EXPECT_THAT(resume.err, AllOf(HasSubstr("not a job directory"),
                                HasSubstr(absl::StrCat("rubato train ", job))));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/lock"));
}

TEST(BadModelTest, UnknownModelIsNamedBeforeAnythingStarts) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  const CommandResult result = RunRubato(
      {"train", job, "--set", "model=depfm", "--job-dir", folder.path() + "/job"}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("depfm"), HasSubstr("deepfm")));
}

// What would silently do nothing without servers is refused before anything starts.
TEST(BadModelTest, WhatNeedsServersIsRefusedWithoutThem) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  const std::vector<std::string> allreduce = {"train",     job,
                                              "--set",     "strategy=allreduce",
                                              "--set",     "model=deepfm",
                                              "--set",     "model_options.buckets=9",
                                              "--job-dir", folder.path() + "/job"};
  for (const char* option :
       {"model_options.l2=0.01", "model_options.wide_ftrl=0.1", "model_options.batch_norm=true",
        "evaluate.every=9s", "max_inflight=0", "allreduce.quorum=any"}) {
    std::vector<std::string> command = allreduce;
    command.insert(command.end(), {"--set", option});
    const CommandResult result = RunRubato(command, folder.path());
    EXPECT_EQ(result.exit_code, 2) << option << "\n" << result.err;
    const std::string key = std::string(option).substr(0, std::string(option).find('='));
    EXPECT_THAT(result.err, HasSubstr(key)) << option;
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/job")) << option;
  }
}

// More workers than a step has parts is allowed, and said before anything starts.
TEST(BadModelTest, WorkersThatWouldIdleAreNamed) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  const CommandResult result =
      RunRubato({"train", job, "--set", "strategy=allreduce", "--set", "workers.max=8", "--set",
                 "allreduce.microbatches=4", "--set", "model=depfm"},
                folder.path());
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: workers.max is 8, but a step has 4 parts"));
  EXPECT_THAT(result.err, HasSubstr("set allreduce.microbatches: 8 or more, or workers.max: 4"));
}

TEST(BadModelTest, OneRowIsNoBatchToNormalizeBy) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", "}\n");
  const CommandResult result =
      RunRubato({"train", job, "--set", "model=wide_deep", "--set", "model_options.batch_norm=true",
                 "--set", "batch_size=1", "--job-dir", folder.path() + "/job"},
                folder.path());
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("model_options.batch_norm: batch_size: 1"));
}

TEST(BadColumnsTest, ValidationMustHaveTheColumnsOfTraining) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "", ", validation: valid.csv}\n");
  folder.Write("valid.csv", "click,site,prize\n1,site1,3\n");
  const CommandResult result = Train(folder, job);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("data.validation"),
                                HasSubstr("no column 'price'; did you mean 'prize'?")));
}

// A malformed row fails the job by default, naming file and line; nothing is dropped silently.
TEST(BadRowTest, FailsTheJobAndNamesTheLine) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "1,cheap,site1\n", "}\nworkers: {max: 2}\n");
  const CommandResult result = Train(folder, job);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("train.csv:302"), HasSubstr("cheap"),
                                HasSubstr("data.bad_rows: skip")));
  // Whoever resumes reads the row again, and a file with the row mended is another one.
  EXPECT_THAT(result.err, HasSubstr("rubato train " + job + " --set data.bad_rows=skip\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("--resume")));
}

// A label no logistic model can mean, which once trained to an AUC of one half in silence.
TEST(BadRowTest, ALabelBeyondTheModelIsABadRow) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "2,1,site1\n", "}\nworkers: {max: 1}\n");
  const CommandResult result = Train(folder, job);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("train.csv:302: the label is 2"), HasSubstr("0 or 1")));
}

// However often it is read, in epochs and evaluations, a bad row counts once, and is named.
TEST(BadRowTest, IsSkippedAndCountedOnceWhereAsked) {
  ScratchFolder folder;
  const std::string job = WriteCsvJob(folder, "1,cheap,site1\n0,1\n",
                                      ", validation: valid.csv, bad_rows: skip, bad_rows_max: 3}\n"
                                      "workers: {max: 2}\nepochs: 3\nevaluate: {every_steps: 8}\n");
  folder.Write("valid.csv", "click,price,site\n1,3,site1\n0,dear,site2\n0,2,site2\n");
  TrainingJob training(folder.path(), {job});
  const CommandResult result = training.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(training.Summary()["bad_rows"], 3);
  EXPECT_EQ(training.Summary()["records_committed"], 3 * 302);
  EXPECT_GE(training.Summary()["evaluations"].size(), 2u);
  std::set<std::string> named;
  for (const auto& event : training.Events("row_skipped")) {
    named.insert(
        event["cause"].get<std::string>().substr(0, event["cause"].get<std::string>().find(": ")));
  }
  EXPECT_THAT(named, ElementsAre(HasSubstr("train.csv:302"), HasSubstr("train.csv:303"),
                                 HasSubstr("valid.csv:3")));
  const std::string logs = ReadText(training.job_dir() + "/logs/worker-0.log") +
                           ReadText(training.job_dir() + "/logs/worker-1.log");
  EXPECT_THAT(logs, AllOf(HasSubstr("train.csv:302"), HasSubstr("valid.csv:3")));

  // The limit is one of training and evaluation: of rows to predict each has its answer.
  folder.Write("new.csv", "click,price,site\n1,3,site1\n0,a,s\n0,b,s\n0,c,s\n0,d,s\n");
  const CommandResult predicted = RunRubato(
      {"predict", training.job_dir(), "--data", "new.csv", "--out", "new.tsv"}, folder.path());
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_THAT(predicted.err, AllOf(HasSubstr("warning: 4 rows could not be read and have the "),
                                   HasSubstr("new.csv:3")));
  const CommandResult evaluated =
      RunRubato({"evaluate", training.job_dir(), "--data", "new.csv"}, folder.path());
  EXPECT_EQ(evaluated.exit_code, 2) << evaluated.out;
  EXPECT_THAT(evaluated.err,
              AllOf(HasSubstr("4 rows could not be read, more than "),
                    HasSubstr("of the job, 3; the first: "), HasSubstr("new.csv:3")));
}

// What init proposes for a file of Criteo's with a slip in a label trains on the other rows.
TEST(BadRowTest, InitForgivesALabelInAHundred) {
  ScratchFolder folder;
  ASSERT_EQ(RunRubato({"generate", "criteo", "--rows", "3000", "--seed", "1", "--out", "."},
                      folder.path())
                .exit_code,
            0);
  std::string rows = ReadText(folder.path() + "/train.tsv");
  const size_t at = rows.find('\n', rows.size() / 2) + 1;
  rows.insert(at, "x");
  folder.Write("slip.tsv", rows);
  const CommandResult init = RunRubato({"init", "--data", "slip.tsv"}, folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(init.err, HasSubstr(absl::StrCat(
                            "warning: --data: the label 'label' is neither 0 nor 1 in 1 row, as 'x",
                            rows.substr(at + 1, 1), "'; data.bad_rows: skip leaves such out\n")));
  TrainingJob training(folder.path(), {"job.yaml", "--set", "epochs=1"});
  const CommandResult trained = training.Wait();
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(training.Summary()["bad_rows"], 1);
  // Of a label that has its name there is no doubt which column it is.
  folder.Write("three.csv", "label,a\n0,1\n1,2\nx,3\n0,1\n");
  const CommandResult three = RunRubato({"init", "--data", "three.csv", "--force"}, folder.path());
  EXPECT_EQ(three.exit_code, 2);
  EXPECT_THAT(three.err, AllOf(HasSubstr("has 3 different values"), Not(HasSubstr("names no"))));
}

TEST(BadRowTest, TooManySkippedFailTheJob) {
  ScratchFolder folder;
  const std::string job =
      WriteCsvJob(folder, "1,a,b\n1,a,b\n1,a,b\n", ", bad_rows: skip, bad_rows_max: 2}\n");
  const CommandResult result = Train(folder, job);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("bad_rows_max"), HasSubstr("train.csv:30")));
  EXPECT_THAT(result.err, HasSubstr("rubato train " + job + " --set data.bad_rows_max=30\n"));
}

// A learning rate that explodes: the job ends, and says which value was not finite.
TEST(NanTest, EndsTheJobWithTheReason) {
  ScratchFolder folder;
  const std::string job =
      WriteCsvJob(folder, "", "}\noptimizer: {name: sgd, learning_rate: 1e30}\nepochs: 3\n");
  const CommandResult result = RunRubato(
      {"train", job, "--set", "model=deepfm", "--job-dir", folder.path() + "/job"}, folder.path());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the loss is nan"), HasSubstr("learning_rate")));
}

// A job directory with a finished or damaged job in it.
class DamagedJobTest : public testing::Test {
 protected:
  // Stops a job halfway, so that it has a journal, logs and a checkpoint.
  void SetUp() override {
    const std::string job =
        WriteCriteoJob(folder_, 50000, "servers: 1\nworkers: {max: 1}\nepochs: 400\n");
    TrainingJob training(folder_.path(), {job});
    ASSERT_TRUE(training.ReachStep(20));
    kill(training.pid(), SIGINT);
    ASSERT_EQ(training.Wait().exit_code, 130);
    dir_ = training.job_dir();
  }
  void Flip(const std::string& path, double where) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file) << path;
    const auto at =
        static_cast<std::streamoff>(where * static_cast<double>(std::filesystem::file_size(path)));
    file.seekg(at);
    const char c = static_cast<char>(file.get() ^ 0x40);
    file.seekp(at);
    file.put(c);
  }
  CommandResult Resume() { return RunRubato({"train", "--resume", dir_}, folder_.path()); }

  ScratchFolder folder_;
  std::string dir_;
};

TEST_F(DamagedJobTest, ADamagedJournalIsNamed) {
  Flip(dir_ + "/journal", 0.5);
  const CommandResult result = Resume();
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("journal"), HasSubstr("byte")));
}

TEST_F(DamagedJobTest, ATornJournalTailIsForgiven) {
  std::filesystem::resize_file(dir_ + "/journal",
                               std::filesystem::file_size(dir_ + "/journal") - 3);
  TrainingJob training(folder_.path(), {"--resume", dir_});
  EXPECT_TRUE(training.ReachStep(30));
}

TEST_F(DamagedJobTest, ADamagedCheckpointIsNamed) {
  Flip(dir_ + "/checkpoints/1/server-0.ckpt", 0.7);
  const CommandResult result = Resume();
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("checkpoints/1/server-0.ckpt: damaged at byte"),
                                Not(HasSubstr("times in a row"))));  // Once is enough.
}

TEST_F(DamagedJobTest, ATruncatedCheckpointIsNamed) {
  const std::string path = dir_ + "/checkpoints/1/server-0.ckpt";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const CommandResult result = Resume();
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("server-0.ckpt"));
}

// One damaged file of two checkpoints: the older one and the log since it give everything back.
TEST(DamagedCheckpointTest, TheOneBeforeItServes) {
  ScratchFolder folder;
  // One worker with nothing in flight is repeatable to the bit.
  constexpr char kJob[] =
      "servers: 1\nworkers: {max: 1}\nmax_inflight: 0\nepochs: 400\nbatches_per_task: 1\n"
      "shuffle: {tasks: false}\n";
  const std::string job =
      WriteCriteoJob(folder, 50000, absl::StrCat(kJob, "checkpoint: {every_steps: 10, keep: 2}\n"));
  int64_t newest = 0;
  {
    TrainingJob training(folder.path(), {job});
    ASSERT_TRUE(Eventually([&] { return training.Events("checkpoint_complete").size() >= 3; }));
    kill(training.pid(), SIGINT);
    ASSERT_EQ(training.Wait().exit_code, 130);
    newest = training.Events("checkpoint_complete").back()["version"];
  }
  const std::string path =
      absl::StrCat(folder.path(), "/job/checkpoints/", newest, "/server-0.ckpt");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  TrainingJob resumed(folder.path(), {"--resume", folder.path() + "/job"});
  EXPECT_TRUE(Eventually([&] {
    return resumed.Events("checkpoint_complete").back()["version"] > newest || !resumed.running();
  }));
  EXPECT_TRUE(resumed.running()) << ReadText(folder.path() + "/train.err");
  // What it did without is named, to whoever looks wherever.
  const auto events = resumed.Events("damage_found");
  ASSERT_EQ(events.size(), 1U);
  const std::string cause = events[0]["cause"];
  EXPECT_THAT(cause, HasSubstr(path + ": "));
  EXPECT_THAT(ReadText(folder.path() + "/job/logs/server-0.log"), HasSubstr(cause));
  EXPECT_TRUE(resumed.Events("records_taken_back").empty());
  kill(resumed.pid(), SIGINT);
  EXPECT_THAT(resumed.Wait().err, HasSubstr(cause));
  const nlohmann::json summary = resumed.Summary();
  EXPECT_EQ(summary["records_repeated"], 0) << summary;
  // And nothing was lost by it: all is as in a run that nobody disturbed.
  ScratchFolder calm_folder;
  TrainingJob calm(
      calm_folder.path(),
      {WriteCriteoJob(calm_folder, 50000,
                      absl::StrCat(kJob, "max_steps: ", summary["steps"].get<int64_t>(), "\n"))});
  ASSERT_EQ(calm.Wait().exit_code, 0);
  EXPECT_EQ(calm.Summary()["records_committed"], summary["records_committed"]);
  EXPECT_TRUE(ServerState(calm.job_dir()) == ServerState(folder.path() + "/job"));
}

TEST_F(DamagedJobTest, AnotherVersionsJournalIsRefused) {
  const std::string path = dir_ + "/journal";
  std::string bytes = ReadText(path);
  const size_t at = bytes.find("0.1.0");
  ASSERT_NE(at, std::string::npos);
  // The header carries its own checksum, so a changed version shows as damage or as a mismatch.
  bytes.replace(at, 5, "9.9.9");
  std::ofstream(path, std::ios::binary) << bytes;
  const CommandResult result = Resume();
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("journal"));
}

TEST_F(DamagedJobTest, ChangedDataIsNoticed) {
  std::ofstream(folder_.path() + "/train.tsv", std::ios::app) << "0\n";
  const CommandResult result = Resume();
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("train.tsv"), HasSubstr("changed")));
}

TEST_F(DamagedJobTest, ResumeTakesTheJobAsItWas) {
  const CommandResult result =
      RunRubato({"train", "--resume", dir_, "--set", "epochs=1"}, folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--set"));
}

TEST_F(DamagedJobTest, TheDirectoryIsNotTakenForANewJob) {
  const CommandResult result = Train(folder_, folder_.path() + "/job.yaml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--resume"));
}

// A disk that fills up: a limit on file size stands in for it, since a test cannot fill a disk.
TEST(DiskFullTest, EndsWithTheReasonAndLosesNothing) {
  ScratchFolder folder;
  const std::string job =
      WriteCriteoJob(folder, 100000, "servers: 1\nworkers: {max: 1}\nepochs: 5\n");
  const CommandResult full = RunWithFileLimit(
      20 << 20, {"train", job, "--job-dir", folder.path() + "/job"}, folder.path());
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.err, AllOf(HasSubstr("File too large"), HasSubstr("rubato train --resume")));
  TrainingJob second(folder.path(), {"--resume", folder.path() + "/job"});
  const CommandResult done = second.Wait();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(second.Summary()["records_committed"], 500000);
  EXPECT_EQ(second.Summary()["records_repeated"], 0);
}

// An export is no job: there is nothing to resume, and half of one is in the way.
TEST(DiskFullTest, OfAnExportLeavesNothingBehind) {
  ScratchFolder folder;
  ASSERT_EQ(Train(folder, WriteCsvJob(folder, "", "}\n")).exit_code, 0);
  const CommandResult full =
      RunWithFileLimit(512, {"export", "job", "--out", "model"}, folder.path());
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.err, AllOf(HasSubstr("make room first"), Not(HasSubstr("--resume"))));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/model.partial"));
}

// The roles started by hand: where they cannot listen, they say so before anything begins.
class ListenTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Train(folder_, WriteCsvJob(folder_, "", "}\nworkers: {max: 1}\n")).exit_code, 0);
  }
  CommandResult Run(const std::string& role, const std::string& listen) {
    std::vector<std::string> words = {role, "--job-dir", folder_.path() + "/job", "--listen",
                                      listen};
    if (role == "server") words.insert(words.end(), {"--master", "unix:/nowhere", "--id", "0"});
    return RunRubato(words, folder_.path());
  }
  ScratchFolder folder_;
};

TEST_F(ListenTest, AUnixSocketInUse) {
  const int taken = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  const std::string path = folder_.path() + "/s";
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  for (const char* role : {"server", "master"}) {
    const CommandResult result = Run(role, "unix:" + path);
    EXPECT_EQ(result.exit_code, 1) << role << result.err;
    EXPECT_THAT(result.err, HasSubstr("in use"));
  }
  close(taken);
}

TEST_F(ListenTest, APortInUse) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  for (const char* role : {"server", "master"}) {
    const CommandResult result = Run(role, port);
    EXPECT_EQ(result.exit_code, 1) << role << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(port), HasSubstr("in use by another process"),
                                  Not(HasSubstr("grpc")), Not(HasSubstr(".cc:"))));
  }
  close(taken);
}

TEST_F(ListenTest, APortThatOthersReach) {
  const std::string nowhere = folder_.path() + "/nowhere";
  const std::string here = "unix:" + folder_.path() + "/x";
  for (const std::string& address : {std::string("0.0.0.0:0"), std::string("127.0.0.1:0"), here}) {
    const CommandResult result =
        RunRubato({"master", "--job-dir", nowhere, "--listen", address}, folder_.path());
    EXPECT_EQ(result.exit_code, 2);
    const bool open = address[0] == '0';
    const std::string warning = absl::StrCat("--listen ", address, ": whoever reaches this port");
    EXPECT_EQ(result.err.find(warning) != std::string::npos, open) << result.err;
  }
}

// What leaves the machine needs a secret, and one that is.
TEST_F(ListenTest, AServerThatOthersReachHasASecret) {
  namespace fs = std::filesystem;
  fs::permissions(folder_.path() + "/job/group.secret", fs::perms::group_read,
                  fs::perm_options::add);
  const CommandResult result = Run("server", "10.0.0.7:0");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("group.secret"), HasSubstr("chmod 600")));
}

// Workers dial what a server announces, and that is where it listens.
TEST_F(ListenTest, AServerThatListensEverywhereIsReachedNowhere) {
  for (const std::string address : {"0.0.0.0:0", "[::]:4000", "0:0"}) {
    const CommandResult result = Run("server", address);
    EXPECT_EQ(result.exit_code, 2) << address;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("--listen"), HasSubstr(address), HasSubstr("cannot reach a server"),
                      HasSubstr("name the address of this machine that they know")));
  }
}

TEST_F(ListenTest, AnAddressThatIsNone) {
  for (const char* role : {"server", "master"}) {
    const CommandResult port = Run(role, "127.0.0.1:99999");
    EXPECT_EQ(port.exit_code, 2) << role;
    EXPECT_THAT(port.err, AllOf(HasSubstr("--listen"), HasSubstr("127.0.0.1:99999")));
  }
  const CommandResult folder = Run("master", "unix:/no/such/place/m");
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_THAT(folder.err, HasSubstr("there is no folder /no/such/place"));
  const CommandResult worker = RunRubato(
      {"worker", "--job-dir", folder_.path() + "/job", "--master", "here"}, folder_.path());
  EXPECT_EQ(worker.exit_code, 2);
  EXPECT_THAT(worker.err, AllOf(HasSubstr("--master"), HasSubstr("'here' is no address")));
  // One that is right is waited for, and named at once.
  EXPECT_THAT(ReadText(folder_.path() + "/job/logs/worker-0.log"),
              HasSubstr("waiting for the master at unix:/"));
}

}  // namespace
}  // namespace rubato

// strategy: allreduce on a disk that is full or has lost something: nobody dies of it, what was
// saved before serves, and what cannot be mended is said once, clearly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/digits.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void ExpectEveryRecordOnce(const nlohmann::json& summary) {
  EXPECT_EQ(summary["state"], "done");
  EXPECT_EQ(summary["records_committed"], summary["records_expected"]);
  EXPECT_EQ(summary["records_repeated"], 0);
  EXPECT_GT(summary["throughput_records_per_second"].get<double>(), 0);
}

// No checkpoint of the model fits: all is trained in the same processes, then the job says that it
// could not keep the result. With room again it is trained anew.
TEST(AllreduceDiskTest, AFullDiskKillsNobody) {
  ScratchFolder folder;
  const std::string job =
      WriteDigitsJob(folder, 640, "workers: {max: 2}\nepochs: 4\ncheckpoint: {every_steps: 10}\n");
  const std::string directory = folder.path() + "/job";
  const CommandResult full =
      RunWithFileLimit(100 << 10, {"train", job, "--job-dir", directory}, folder.path());
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.err, AllOf(HasSubstr("could not be written"), HasSubstr("File too large"),
                              HasSubstr("checkpoint failed"), HasSubstr("rubato train --resume")));
  const auto summary = nlohmann::json::parse(ReadText(directory + "/summary.json"));
  EXPECT_EQ(summary["state"], "failed");
  EXPECT_THAT(summary["error"].get<std::string>(), HasSubstr("File too large"));
  EXPECT_EQ(summary["steps"], 80);
  EXPECT_EQ(summary["workers"]["started"], 2);
  EXPECT_EQ(summary["workers"]["lost"], 0);

  TrainingJob again(folder.path(), {"--resume", directory});
  const CommandResult done = again.Wait();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  ExpectEveryRecordOnce(again.Summary());
}

// A checkpoint that cannot be written for a while is there in the end.
TEST(AllreduceDiskTest, RoomAgain) {
  ScratchFolder folder;
  TrainingJob training(folder.path(),
                       {WriteDigitsJob(folder, 1500,
                                       "workers: {max: 2}\nepochs: 4000\n"
                                       "checkpoint: {every_steps: 50, keep: 100}\n")});
  const std::string fourth = training.job_dir() + "/checkpoints/4";
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(training.job_dir() + "/journal"); }));
  std::ofstream(fourth) << "in the way of a folder";
  ASSERT_TRUE(Eventually([&] { return !training.Events("checkpoint_failed").empty(); }));
  EXPECT_THAT(training.Events("checkpoint_complete"), SizeIs(3));
  const auto workers = training.Alive("worker");
  std::filesystem::remove(fourth);
  ASSERT_TRUE(Eventually([&] { return training.Events("checkpoint_complete").size() >= 4; }));
  EXPECT_EQ(training.Alive("worker").size(), workers.size());
  EXPECT_THAT(training.Events("worker_crashed"), IsEmpty());
  EXPECT_THAT(training.Events("group_founded"), SizeIs(1));
}

}  // namespace
}  // namespace rubato

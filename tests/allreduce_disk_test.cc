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

// A job that was stopped, with three checkpoints; each can be torn, and made whole again.
class TornCheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("pace", "2000");
    const std::string job = WritePacedDigitsJob(folder_, 640,
                                                "workers: {max: 2}\nepochs: 20\n"
                                                "checkpoint: {every_steps: 20, keep: 3}\n");
    TrainingJob training(folder_.path(), {job});
    ASSERT_TRUE(Eventually([&] { return training.Events("checkpoint_complete").size() >= 3; }));
    kill(training.pid(), SIGINT);
    ASSERT_EQ(training.Wait().exit_code, 130);
    const auto complete = training.Events("checkpoint_complete");
    for (size_t i = complete.size() - 3; i < complete.size(); ++i) {
      const std::string folder =
          absl::StrCat(training.job_dir(), "/checkpoints/", complete[i]["version"].get<int64_t>());
      const auto manifest = nlohmann::json::parse(ReadText(folder + "/manifest.json"));
      steps_.push_back(manifest["step"]);
      files_.push_back(absl::StrCat(folder, "/", manifest["file"].get<std::string>()));
    }
    std::filesystem::remove(folder_.path() + "/pace");
  }
  void Tear(size_t i) {
    std::filesystem::resize_file(files_[i], std::filesystem::file_size(files_[i]) / 2);
  }
  void FlipABit(size_t i) {
    std::string bytes = ReadText(files_[i]);
    bytes[bytes.size() / 2] ^= 4;
    std::ofstream(files_[i], std::ios::binary) << bytes;
  }

  ScratchFolder folder_;
  std::vector<int64_t> steps_;  // From old to new.
  std::vector<std::string> files_;
};

TEST_F(TornCheckpointTest, TheNewestSoundOneServes) {
  const std::string oldest = ReadText(files_[0]);
  Tear(0);
  FlipABit(1);
  Tear(2);
  {
    TrainingJob none(folder_.path(), {"--resume", folder_.path() + "/job"});
    const CommandResult result = none.Wait();
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(files_[0]), HasSubstr("no other checkpoint is kept")));
    EXPECT_THAT(none.Events("worker_crashed"), IsEmpty());
  }
  std::ofstream(files_[0], std::ios::binary) << oldest;
  TrainingJob resumed(folder_.path(), {"--resume", folder_.path() + "/job"});
  const CommandResult result = resumed.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ExpectEveryRecordOnce(resumed.Summary());
  EXPECT_EQ(resumed.Events("group_founded").back()["step"], steps_[0]);
  const auto damaged = resumed.Events("checkpoint_damaged");
  ASSERT_THAT(damaged, SizeIs(2));
  EXPECT_THAT(damaged[0]["cause"].get<std::string>(), HasSubstr(files_[2]));
  EXPECT_THAT(damaged[1]["cause"].get<std::string>(),
              AllOf(HasSubstr(files_[1]), HasSubstr("its checksum does not hold")));
  EXPECT_GE(resumed.Summary()["records_recomputed"].get<int64_t>(), 32 * (steps_[2] - steps_[0]));
}

// On a bad sector, say: what a folder in its place answers to whoever reads is no less an error.
TEST_F(TornCheckpointTest, OneThatCannotBeReadIsPassedOver) {
  std::filesystem::remove(files_[2]);
  std::filesystem::create_directory(files_[2]);
  TrainingJob resumed(folder_.path(), {"--resume", folder_.path() + "/job"});
  const CommandResult result = resumed.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ExpectEveryRecordOnce(resumed.Summary());
  EXPECT_THAT(resumed.Events("worker_crashed"), IsEmpty());
  EXPECT_EQ(resumed.Events("group_founded").back()["step"], steps_[1]);
}

}  // namespace
}  // namespace rubato

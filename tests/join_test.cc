// Workers without a master: `rubato worker --job FILE`, and `--join` for whoever comes later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/digits.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(150);  // A busy machine takes a while to start one.

// A worker started by hand, with a job directory of its own.
class Worker {
 public:
  Worker(const ScratchFolder& folder, const std::string& name, const std::string& job,
         const std::string& join = "")
      : directory_(absl::StrCat(folder.path(), "/", name)),
        command_(Words(job, directory_, join), folder.path(), name) {}
  // With all of its words.
  Worker(const ScratchFolder& folder, const std::string& name,
         const std::vector<std::string>& words)
      : directory_(absl::StrCat(folder.path(), "/", name)), command_(words, folder.path(), name) {}
  // Goes on from the checkpoint in `directory`.
  Worker(const ScratchFolder& folder, const std::string& directory)
      : directory_(directory),
        command_({"worker", "--resume", directory}, folder.path(), "resumed") {}

  // Where others find it; empty until it listens.
  std::string Address() const {
    for (absl::string_view line : absl::StrSplit(command_.err(), '\n')) {
      if (absl::ConsumePrefix(&line, "listening on ")) return std::string(line);
    }
    return "";
  }
  // Whether it has been in a view of so many workers who all hold the model.
  bool Trained(int workers) const {
    return command_.err().find(absl::StrCat(": ", workers, " workers, ", workers, " with the ")) !=
           std::string::npos;
  }
  std::string Checkpoint() const { return ReadText(directory_ + "/checkpoints/1/worker-0.ckpt"); }
  const std::string& directory() const { return directory_; }
  bool Said(const std::string& words) const {
    return command_.err().find(words) != std::string::npos;
  }
  Command& command() { return command_; }

 private:
  static std::vector<std::string> Words(const std::string& job, const std::string& directory,
                                        const std::string& join) {
    std::vector<std::string> words = {"worker", "--job", job, "--job-dir", directory};
    if (!join.empty()) words.insert(words.end(), {"--join", join});
    return words;
  }

  const std::string directory_;
  Command command_;
};

// One founds the group, one joins, one joins late, and then the founder is killed: the two others
// are a majority and train to the end, every record once, to the same weights.
TEST(JoinTest, NobodyIsNeededNotEvenTheFounder) {
  ScratchFolder folder;
  // Held back until all have come: a process takes a while to start.
  folder.Write("pace", "8000");
  const std::string job = WritePacedDigitsJob(folder, 1500, "epochs: 20\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); }, kLong))
      << founder.command().err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(Eventually([&] { return second.Trained(2); }, kLong)) << second.command().err();
  // Through the second: whoever is in the group can let one in.
  Worker third(folder, "third", job, second.Address());
  ASSERT_TRUE(Eventually([&] { return third.Trained(3) && second.Trained(3); }, kLong))
      << third.command().err();
  kill(founder.command().pid(), SIGKILL);
  std::filesystem::remove(folder.path() + "/pace");

  const CommandResult of_second = second.command().Wait();
  const CommandResult of_third = third.command().Wait();
  EXPECT_EQ(of_second.exit_code, 0) << of_second.err;
  EXPECT_EQ(of_third.exit_code, 0) << of_third.err;
  EXPECT_THAT(of_second.out, StartsWith("trained 940 steps, 30000 records; weights "));
  EXPECT_THAT(of_second.out, HasSubstr("accuracy"));
  EXPECT_EQ(of_second.out, of_third.out);
  EXPECT_EQ(founder.command().Wait().out, "") << "it should not have lived to see the end";
  EXPECT_GT(second.Checkpoint().size(), 100000u);
  EXPECT_TRUE(second.Checkpoint() == third.Checkpoint());
}

// The oldest of two dies: half without the oldest is no majority, so the other says what it waits
// for, and keeps what it has when it is stopped. From there a group goes on, with whoever joins it,
// and the model is as good to use as one that a master looked after.
TEST(JoinTest, AGroupThatLostItsMajorityGoesOnFromACheckpoint) {
  ScratchFolder folder;
  const std::string job =
      WriteDigitsJob(folder, 1500, "epochs: 4000\ncheckpoint: {every_steps: 100, keep: 50}\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); }, kLong))
      << founder.command().err();
  ASSERT_TRUE(Eventually(
      [&] {  // Written beside training, by the first of the group.
        return !ReadText(founder.directory() + "/checkpoints/1/manifest.json").empty();
      },
      kLong))
      << founder.command().err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(Eventually([&] { return second.Trained(2) && founder.Trained(2); }, kLong))
      << second.command().err();
  kill(founder.command().pid(), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return second.Said("waiting after step "); }, kLong))
      << second.command().err();
  EXPECT_TRUE(second.Said("allreduce.quorum is majority"));
  kill(second.command().pid(), SIGINT);
  const CommandResult stopped = second.command().Wait();
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_THAT(stopped.err, HasSubstr(absl::StrCat("with a checkpoint; go on with: rubato worker "
                                                  "--resume ",
                                                  second.directory())));

  Worker resumed(folder, second.directory());
  ASSERT_TRUE(Eventually([&] { return !resumed.Address().empty(); }, kLong))
      << resumed.command().err();
  EXPECT_TRUE(resumed.Said("going on after step "));
  Worker third(folder, "third", job, resumed.Address());
  ASSERT_TRUE(Eventually([&] { return third.Trained(2) && resumed.Trained(2); }, kLong))
      << third.command().err();
  kill(third.command().pid(), SIGTERM);
  EXPECT_EQ(third.command().Wait().exit_code, 130);
  kill(resumed.command().pid(), SIGINT);
  EXPECT_EQ(resumed.command().Wait().exit_code, 130);
  const CommandResult evaluated = RunRubato({"evaluate", second.directory()}, folder.path());
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
}

// Two who train together, for much longer than a test lasts.
class LeaveTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string job = WriteDigitsJob(folder_, 1500, "epochs: 4000\n");
    founder_.emplace(folder_, "founder", job);
    ASSERT_TRUE(Eventually([&] { return !founder_->Address().empty(); }, kLong))
        << founder_->command().err();
    second_.emplace(folder_, "second", job, founder_->Address());
    ASSERT_TRUE(Eventually([&] { return second_->Trained(2); }, kLong)) << second_->command().err();
  }

  ScratchFolder folder_;
  std::optional<Worker> founder_, second_;
};

// Who is stopped while others train takes nothing with it, and says that they go on.
TEST_F(LeaveTest, WhoLeavesIsNotMissed) {
  kill(founder_->command().pid(), SIGTERM);
  const CommandResult left = founder_->command().Wait();
  EXPECT_EQ(left.exit_code, 130);
  // Who finds no time to leave within five seconds keeps a checkpoint; the other, without the
  // oldest, is then no majority.
  EXPECT_THAT(left.err, AnyOf(HasSubstr("the others go on"), HasSubstr("with a checkpoint")));
  if (left.err.find("the others go on") != std::string::npos) {
    EXPECT_TRUE(Eventually([&] { return second_->Said(": 1 workers, 1 with the model"); }, kLong));
  }
  kill(second_->command().pid(), SIGINT);
  EXPECT_THAT(second_->command().Wait().err, HasSubstr("with a checkpoint"));
}

// When all are stopped at once, one of them keeps the model for all.
TEST_F(LeaveTest, WhoLeaveTogetherKeepACheckpoint) {
  kill(founder_->command().pid(), SIGTERM);
  kill(second_->command().pid(), SIGTERM);
  const CommandResult first = founder_->command().Wait(), other = second_->command().Wait();
  EXPECT_EQ(first.exit_code, 130);
  EXPECT_EQ(other.exit_code, 130);
  EXPECT_THAT(first.err + other.err, HasSubstr("with a checkpoint"));
}

// Another job, or the same with another number in it, is not let in, and says why.
TEST(JoinTest, WhoTrainsSomethingElseIsTold) {
  ScratchFolder folder, elsewhere;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 4000\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); })) << founder.command().err();
  const std::string other = WriteDigitsJob(elsewhere, 320, "epochs: 9\nseed: 8\n");
  Worker stranger(elsewhere, "stranger", other, founder.Address());
  const CommandResult result = stranger.command().Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr(absl::StrCat("the group at ", founder.Address(),
                                     " trains something else: epochs is 9 here and 4000 there; "
                                     "seed is 8 here and 7 there")));
  EXPECT_FALSE(founder.Trained(2));
  EXPECT_FALSE(std::filesystem::exists(stranger.directory())) << "nothing is left behind";
  kill(founder.command().pid(), SIGKILL);
}

// Where a group has a secret, who does not know it finds nobody; who does is one of them.
TEST(JoinTest, WhoDoesNotKnowTheSecretFindsNobody) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 4000\n");
  const std::string secret = folder.Write("secret", "between us\n");
  const std::string guess = folder.Write("guess", "between me\n");
  const auto words = [&](const std::string& name, const std::string& file) {
    return std::vector<std::string>{
        "worker", "--job", job, "--job-dir", folder.path() + "/" + name, "--secret-file", file};
  };
  const CommandResult open = RunRubato(words("open", secret), folder.path());
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(open.err, HasSubstr("--secret-file: "));
  EXPECT_THAT(open.err, HasSubstr("chmod 600"));
  for (const std::string& file : {secret, guess}) {
    std::filesystem::permissions(file, std::filesystem::perms(0600));
  }
  Worker founder(folder, "founder", words("founder", secret));
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); }, kLong))
      << founder.command().err();
  const auto join = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--join", founder.Address()});
    return words;
  };
  Worker stranger(folder, "stranger", join(words("stranger", guess)));
  Worker ignorant(folder, "ignorant", job, founder.Address());
  Worker friendly(folder, "friend", join(words("friend", secret)));
  EXPECT_TRUE(Eventually([&] { return friendly.Trained(2); }, kLong)) << friendly.command().err();
  const std::string nobody = "nobody answers at " + founder.Address();
  EXPECT_TRUE(Eventually([&] { return stranger.Said(nobody) && ignorant.Said(nobody); }, kLong))
      << stranger.command().err() << ignorant.command().err();
  EXPECT_FALSE(founder.Trained(3));
}

// A port that somebody else has: nothing is left behind, and nothing of theirs is touched.
TEST(JoinTest, APortThatIsTakenLeavesNothingBehind) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 4000\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); }, kLong))
      << founder.command().err();
  const std::string directory = folder.path() + "/second";
  const CommandResult result =
      RunRubato({"worker", "--job", job, "--job-dir", directory, "--listen", founder.Address()},
                folder.path());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr(founder.Address()));
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_TRUE(std::filesystem::exists(founder.directory() + "/job.yaml"));
}

// A full disk: training goes on to its end, which then says that nothing of it could be kept.
TEST(JoinTest, AFullDiskIsNoReasonToStop) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 3\ncheckpoint: {every_steps: 8}\n");
  const CommandResult full =
      RunWithFileLimit(100 << 10, {"worker", "--job", job, "--job-dir", "made"}, folder.path());
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.out, StartsWith("trained 30 steps, 960 records; weights "));
  EXPECT_THAT(full.err, HasSubstr("checkpoint 1/worker-0.ckpt: "));
  EXPECT_THAT(full.err, HasSubstr("checkpoint 2/worker-0.ckpt: "));
  EXPECT_THAT(full.err, HasSubstr("the last checkpoint could not be written"));
  EXPECT_THAT(full.err, HasSubstr("File too large"));
}

// A torn checkpoint is passed over for the one before it.
TEST(JoinTest, GoesOnFromTheNewestSoundCheckpoint) {
  ScratchFolder folder;
  const std::string job =
      WriteDigitsJob(folder, 640, "epochs: 3\ncheckpoint: {every_steps: 15, keep: 9}\n");
  const std::vector<std::string> words = {"worker", "--job", job, "--job-dir", "made"};
  ASSERT_EQ(RunRubato(words, folder.path()).exit_code, 0);
  const auto file = [&](int64_t version) {
    return absl::StrCat(folder.path(), "/made/checkpoints/", version, "/worker-0.ckpt");
  };
  // One may have been under way when the last was written: then there is none of its number.
  const auto versions = [&] {
    std::vector<int64_t> found;
    for (int64_t version = 1; version < 20; ++version) {
      if (std::filesystem::exists(file(version))) found.push_back(version);
    }
    return found;
  };
  const std::vector<int64_t> first = versions();
  ASSERT_GE(first.size(), 3u);
  const int64_t newest = first.back(), sound = first[first.size() - 3];
  std::filesystem::resize_file(file(newest), 1000);
  std::filesystem::remove(file(first[first.size() - 2]));
  const CommandResult resumed = RunRubato({"worker", "--resume", "made"}, folder.path());
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, StartsWith("trained 60 steps, 1920 records; weights "));
  EXPECT_THAT(resumed.err, HasSubstr(absl::StrCat("passed over: made/checkpoints/", newest, "/")));
  EXPECT_THAT(resumed.err, HasSubstr(absl::StrCat("from checkpoint ", sound, "\n")));
  for (const int64_t version : versions()) std::filesystem::resize_file(file(version), 9);
  const CommandResult none = RunRubato({"worker", "--resume", "made"}, folder.path());
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no checkpoint can be read"));
}

// The features are part of what is trained: the same file elsewhere will do, another will not.
TEST(JoinTest, WhoMakesOtherFeaturesIsTold) {
  const auto write = [](const ScratchFolder& folder, int buckets) {
    std::string rows = "label,city,age\n";
    for (int i = 0; i < 400; ++i) absl::StrAppend(&rows, i % 2, ",c", i % 7, ",", i % 90, "\n");
    folder.Write("train.csv", rows);
    folder.Write("features.yaml",
                 absl::StrCat("label: label\nfeatures:\n  - {column: age, transform: log}\n"
                              "  - {column: city, transform: hash, buckets: ",
                              buckets, "}\n"));
    return folder.Write("job.yaml",
                        "name: people\nmodel: logistic\nstrategy: allreduce\nepochs: 100000\n"
                        "data: {train: train.csv, format: csv}\nbatch_size: 32\n"
                        "features: features.yaml\nmodel_options: {buckets: 64}\n");
  };
  ScratchFolder folder, alike, elsewhere;
  Worker founder(folder, "founder", write(folder, 50));
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); })) << founder.command().err();
  Worker second(alike, "second", write(alike, 50), founder.Address());
  ASSERT_TRUE(Eventually([&] { return second.Trained(2); })) << second.command().err();
  Worker stranger(elsewhere, "stranger", write(elsewhere, 60), founder.Address());
  const CommandResult result = stranger.command().Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("trains something else: features is hash "));
  EXPECT_THAT(result.err, HasSubstr("is buckets: 60 here and buckets: 50 there"));
  EXPECT_FALSE(founder.Trained(3));
  kill(second.command().pid(), SIGKILL);
  kill(founder.command().pid(), SIGKILL);
}

// Nobody there yet is no error, but no silence either.
TEST(JoinTest, SaysWhatItWaitsFor) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "");
  Worker lonely(folder, "lonely", job, "127.0.0.1:1");
  EXPECT_TRUE(Eventually([&] {
    return lonely.command().err().find("nobody answers at 127.0.0.1:1") != std::string::npos;
  })) << lonely.command().err();
  kill(lonely.command().pid(), SIGKILL);
}

TEST(JoinTest, SaysWhatIsMissing) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "");
  const CommandResult nonsense =
      RunRubato({"worker", "--job", job, "--job-dir", "made", "--join", "nonsense"}, folder.path());
  EXPECT_EQ(nonsense.exit_code, 2);
  EXPECT_THAT(nonsense.err, HasSubstr("--join: \"nonsense\" is not HOST:PORT"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made")) << "nothing is left behind";
  const CommandResult result = RunRubato({"worker", "--join", "127.0.0.1:4000"}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("give --job FILE"));
}

}  // namespace
}  // namespace rubato

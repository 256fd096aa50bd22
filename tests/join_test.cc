// Workers without a master: `rubato worker --job FILE`, and `--join` for whoever comes later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/digits.h"
#include "tests/hand_worker.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// On one machine, or as if each had one of its own: over TCP, where steps are applied early. Or the
// second alone has: all go over TCP then, the two others side by side.
enum class Machines : uint8_t { kOne, kSeveral, kTwo };
class FoundersTest : public testing::TestWithParam<Machines> {};

// One founds the group, one joins, one joins late, and then the founder is killed: the two others
// are a majority and train to the end, every record once, to the same weights.
TEST_P(FoundersTest, NobodyIsNeededNotEvenTheFounder) {
  const bool second_apart = GetParam() != Machines::kOne;
  const bool apart = GetParam() == Machines::kSeveral;
  if (second_apart && !CanRunApart()) GTEST_SKIP() << "only root can make process namespaces";
  ScratchFolder folder;
  // Held back until all have come: a process takes a while to start.
  folder.Write("pace", "8000");
  const std::string job = WritePacedDigitsJob(folder, 1500, "epochs: 20\n");
  Worker founder(folder, "founder", job, "", apart);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  Worker second(folder, "second", job, founder.Address(), second_apart);
  ASSERT_TRUE(second.TrainsWith(2)) << second.err();
  // Through the second: whoever is in the group can let one in.
  Worker third(folder, "third", job, second.Address(), apart);
  ASSERT_TRUE(third.TrainsWith(3) && second.TrainsWith(3)) << third.err();
  founder.Send(SIGKILL);
  std::filesystem::remove(folder.path() + "/pace");

  const CommandResult of_second = second.Wait();
  const CommandResult of_third = third.Wait();
  EXPECT_EQ(of_second.exit_code, 0) << of_second.err;
  EXPECT_EQ(of_third.exit_code, 0) << of_third.err;
  EXPECT_THAT(of_second.out, StartsWith("trained 940 steps, 30000 records; weights "));
  EXPECT_THAT(of_second.out, HasSubstr("accuracy"));
  EXPECT_EQ(of_second.out, of_third.out);
  EXPECT_EQ(founder.Wait().out, "") << "it should not have lived to see the end";
  EXPECT_GT(second.Checkpoint().size(), 100000u);
  EXPECT_TRUE(second.Checkpoint() == third.Checkpoint());
}

std::string NameOf(Machines machines) {
  if (machines == Machines::kTwo) return "Two";
  return machines == Machines::kOne ? "One" : "Several";
}
INSTANTIATE_TEST_SUITE_P(Machines, FoundersTest,
                         testing::Values(Machines::kOne, Machines::kSeveral, Machines::kTwo),
                         [](const auto& info) { return NameOf(info.param); });

// The oldest of two dies: half without the oldest is no majority, so the other says what it waits
// for, and keeps what it has when it is stopped. From there a group goes on, with whoever joins it,
// and the model is as good to use as one that a master looked after.
TEST(JoinTest, AGroupThatLostItsMajorityGoesOnFromACheckpoint) {
  ScratchFolder folder;
  const std::string job =
      WriteDigitsJob(folder, 1500, "epochs: 4000\ncheckpoint: {every_steps: 100, keep: 50}\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  ASSERT_TRUE(Eventually(
      [&] {  // Written beside training, by the first of the group.
        return !ReadText(founder.directory() + "/checkpoints/1/manifest.json").empty();
      },
      kLong))
      << founder.err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(second.TrainsWith(2) && founder.TrainsWith(2)) << second.err();
  founder.Send(SIGKILL);
  ASSERT_TRUE(second.Says("waiting after step ")) << second.err();
  EXPECT_TRUE(second.Said("allreduce.quorum is majority"));
  EXPECT_TRUE(second.Said(founder.Address() + ": its process ended; too few")) << second.err();
  second.Send(SIGINT);
  const CommandResult stopped = second.Wait();
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_THAT(stopped.err, HasSubstr(absl::StrCat("with a checkpoint; go on with: rubato worker "
                                                  "--resume ",
                                                  second.directory())));

  EXPECT_EQ(second.Summary()["steps"], second.Events("checkpoint_complete").back()["step"]);
  // Nobody went on, so there is nothing that it took; but why it stopped is known.
  ASSERT_EQ(second.Events("failure").size(), 1u) << stopped.err;
  EXPECT_EQ(second.Events("failure")[0]["worker"], founder.Address());
  EXPECT_FALSE(second.Events("failure")[0].contains("redo_ms"));

  Worker resumed(folder, second.directory());
  ASSERT_TRUE(resumed.Listens()) << resumed.err();
  EXPECT_TRUE(resumed.Said("going on after step "));
  Worker third(folder, "third", job, resumed.Address());
  ASSERT_TRUE(third.TrainsWith(2) && resumed.TrainsWith(2)) << third.err();
  third.Send(SIGTERM);
  EXPECT_EQ(third.Wait().exit_code, 130);
  resumed.Send(SIGINT);
  EXPECT_EQ(resumed.Wait().exit_code, 130);
  // With a master it would begin anew, and put its checkpoints in the place of these.
  const std::string kept = ReadText(second.directory() + "/checkpoints/1/manifest.json");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "--resume", second.directory()},
        {"scale", second.directory(), "--workers", "2"}}) {
    const CommandResult refused = RunRubato(words, folder.path());
    EXPECT_NE(refused.exit_code, 0) << words[0];
    EXPECT_THAT(refused.err, HasSubstr("is of a worker without a master; `rubato worker --resume"));
  }
  EXPECT_EQ(ReadText(second.directory() + "/checkpoints/1/manifest.json"), kept);
  const CommandResult evaluated = RunRubato({"evaluate", second.directory()}, folder.path());
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
}

// The founder dies and is resumed at its old address while the other still waits for it: it trains
// to the end, alone, and the other says where to join it.
TEST(JoinTest, OneResumedAtItsOldAddressIsNotHeldUpByWhoWaits) {
  ScratchFolder folder;
  folder.Write("pace", "1000");
  const std::string job =
      WritePacedDigitsJob(folder, 1500, "epochs: 8\ncheckpoint: {every_steps: 10}\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  const std::string address = founder.Address();
  Worker second(folder, "second", job, address);
  ASSERT_TRUE(second.TrainsWith(2) && founder.TrainsWith(2)) << second.err();
  // Any: where the second took long to start, the first ones are gone.
  ASSERT_TRUE(Eventually(
      [&] {
        std::error_code none_yet;
        const auto all =
            std::filesystem::directory_iterator(founder.directory() + "/checkpoints", none_yet);
        return !none_yet && std::any_of(begin(all), end(all), [](const auto& one) {
          return std::filesystem::exists(one.path() / "manifest.json");
        });
      },
      kLong))
      << founder.err();
  founder.Send(SIGKILL);
  founder.Wait();
  ASSERT_TRUE(second.Says("waiting after step ")) << second.err();
  Worker resumed(folder, "resumed",
                 {"worker", "--resume", founder.directory(), "--listen", address});
  EXPECT_TRUE(second.Says(absl::StrCat("founded apart from this one, trains at ", address)))
      << second.err();
  std::filesystem::remove(folder.path() + "/pace");
  const CommandResult ended = resumed.Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("trained 376 steps, 12000 records; weights "));
  second.Send(SIGINT);
  EXPECT_EQ(second.Wait().exit_code, 130);
}

// Two who train, and a third who is let in, and falls asleep before it has the model: a step takes
// seconds by then, and no copy is used before the step after it.
class TooLateTest : public testing::Test {
 protected:
  void Start(bool apart) {
    folder_.Write("pace", "60000");  // Minutes for one alone: the others need time to start.
    const std::string job = WritePacedDigitsJob(folder_, 320, "epochs: 10\n");
    founder_.emplace(folder_, "founder", job, "", apart);
    ASSERT_TRUE(founder_->Listens()) << founder_->err();
    second_.emplace(folder_, "second", job, founder_->Address(), apart);
    ASSERT_TRUE(second_->TrainsWith(2)) << second_->err();
    folder_.Write("pace", "200000");
    late_.emplace(folder_, "late", job, founder_->Address(), apart);
    ASSERT_TRUE(late_->Says(": 3 workers, 2 with the model")) << late_->err();
    late_->Send(SIGSTOP);
  }

  ScratchFolder folder_;
  std::optional<Worker> founder_, second_, late_;
};

class TooLateToTrainTest : public TooLateTest, public testing::WithParamInterface<bool> {};

// The others train to the end without it. When it wakes there is nobody left to copy from, but they
// have left word: it ends as one whose work is done.
TEST_P(TooLateToTrainTest, WhoMissesTheEndIsTold) {
  if (GetParam() && !CanRunApart()) GTEST_SKIP() << "only root can make process namespaces";
  ASSERT_NO_FATAL_FAILURE(Start(/*apart=*/GetParam()));
  std::filesystem::remove(folder_.path() + "/pace");
  const CommandResult first = founder_->Wait(), second = second_->Wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
  // What is done has nothing to go on with.
  const CommandResult again =
      RunRubato({"worker", "--resume", founder_->directory()}, folder_.path());
  EXPECT_EQ(again.exit_code, 2) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the job is done already"));
  late_->Send(SIGCONT);
  const CommandResult late = late_->Wait();
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_THAT(late.err, HasSubstr("training has ended: the others finished it before"));
  EXPECT_EQ(late.out, "");
}

// One that holds the model sleeps through the end: it is told as well, and keeps what it has.
TEST_F(TooLateTest, WhatItHeldBeforeTheEndIsKept) {
  folder_.Write("pace", "20000");
  const std::string job = WritePacedDigitsJob(folder_, 320, "epochs: 10\n");
  founder_.emplace(folder_, "founder", job);
  ASSERT_TRUE(founder_->Listens()) << founder_->err();
  second_.emplace(folder_, "second", job, founder_->Address());
  late_.emplace(folder_, "late", job, founder_->Address());
  ASSERT_TRUE(late_->TrainsWith(3)) << late_->err();
  late_->Send(SIGSTOP);
  ASSERT_TRUE(founder_->Says(": 2 workers, 2 with the model")) << founder_->err();
  std::filesystem::remove(folder_.path() + "/pace");
  EXPECT_EQ(founder_->Wait().exit_code, 0);
  EXPECT_EQ(second_->Wait().exit_code, 0);
  late_->Send(SIGCONT);
  const CommandResult late = late_->Wait();
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_THAT(late.err, HasSubstr("training has ended: the others finished it before"));
  EXPECT_THAT(late.err, HasSubstr("what it has itself, "));
  const CommandResult resumed =
      RunRubato({"worker", "--resume", late_->directory()}, folder_.path());
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

// The others are killed: nobody can tell it anything, and it does not wait for ever.
TEST_F(TooLateTest, WhoIsLeftWithNothingSaysSo) {
  ASSERT_NO_FATAL_FAILURE(Start(/*apart=*/false));
  founder_->Send(SIGKILL);
  second_->Send(SIGKILL);
  founder_->Wait();
  second_->Wait();
  late_->Send(SIGCONT);
  // It promises nothing that it does not have.
  EXPECT_TRUE(late_->Says("has not copied the model yet and keeps nothing")) << late_->err();
  EXPECT_EQ(late_->Summary()["state"], "starting");
  const CommandResult late = late_->Wait();
  EXPECT_EQ(late.exit_code, 1) << late.err;
  EXPECT_THAT(late.err, Not(HasSubstr("Ctrl-C keeps a checkpoint")));
  const CommandResult resumed =
      RunRubato({"worker", "--resume", late_->directory()}, folder_.path());
  EXPECT_EQ(resumed.exit_code, 2) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("this worker ended before it had a model to keep"));
  EXPECT_THAT(late.err,
              HasSubstr("nobody is left who has the model: the workers that this one could "
                        "copy it from are gone"));
  EXPECT_THAT(late.err, HasSubstr("go on with: rubato worker --resume DIR, its job directory; the "
                                  "others then --join that one"));
}

INSTANTIATE_TEST_SUITE_P(Machines, TooLateToTrainTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Several" : "One"; });

// Two who train together, for much longer than a test lasts.
class LeaveTest : public testing::Test {
 protected:
  void SetUp() override { Begin("founder", "second"); }
  void Begin(const std::string& founder, const std::string& second) {
    const std::string job = WriteDigitsJob(folder_, 1500, "epochs: 4000\n");
    founder_.emplace(folder_, founder, job);
    ASSERT_TRUE(founder_->Listens()) << founder_->err();
    second_.emplace(folder_, second, job, founder_->Address());
    ASSERT_TRUE(second_->TrainsWith(2)) << second_->err();
  }

  ScratchFolder folder_;
  std::optional<Worker> founder_, second_;
};

// Who is stopped while others train takes nothing with it, and says that they go on.
TEST_F(LeaveTest, WhoLeavesIsNotMissed) {
  bool left = false;
  for (int attempt = 1; !left && attempt <= 3; ++attempt) {
    founder_->Send(SIGTERM);
    const CommandResult result = founder_->Wait();
    EXPECT_EQ(result.exit_code, 130);
    left = result.err.find("the others go on") != std::string::npos;
    if (left) {
      EXPECT_TRUE(second_->Says(": 1 workers, 1 with the model"));
    } else {
      // Who finds no time to leave within five seconds, on a busy machine, keeps a checkpoint; the
      // other, without the oldest, is then no majority.
      EXPECT_THAT(result.err, HasSubstr("with a checkpoint"));
    }
    second_->Send(SIGINT);
    EXPECT_THAT(second_->Wait().err, HasSubstr("with a checkpoint"));
    if (!left) Begin(absl::StrCat("founder-", attempt), absl::StrCat("second-", attempt));
  }
  EXPECT_TRUE(left) << "not once of three times";
}

// When all are stopped at once, one of them keeps the model for all.
TEST_F(LeaveTest, WhoLeaveTogetherKeepACheckpoint) {
  founder_->Send(SIGTERM);
  second_->Send(SIGTERM);
  const CommandResult first = founder_->Wait(), other = second_->Wait();
  EXPECT_EQ(first.exit_code, 130);
  EXPECT_EQ(other.exit_code, 130);
  EXPECT_THAT(first.err + other.err, HasSubstr("with a checkpoint"));
}

// Another job, or the same with another number in it, is not let in, and says why.
TEST(JoinTest, WhoTrainsSomethingElseIsTold) {
  ScratchFolder folder, elsewhere;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 4000\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  const std::string other = WriteDigitsJob(elsewhere, 320, "epochs: 9\nseed: 8\n");
  Worker stranger(elsewhere, "stranger", other, founder.Address());
  const CommandResult result = stranger.Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr(absl::StrCat("the group at ", founder.Address(),
                                     " trains something else: epochs is 9 here and 4000 there; "
                                     "seed is 8 here and 7 there")));
  EXPECT_FALSE(founder.Trained(2));
  EXPECT_FALSE(std::filesystem::exists(stranger.directory())) << "nothing is left behind";
  founder.Send(SIGKILL);
}

// Where the batch grows with the workers, the order of records hangs on how many there may be: who
// says otherwise is not let in, nor is a checkpoint gone on from in another order.
TEST(JoinTest, WhoCutsTheEpochOtherwiseIsTold) {
  ScratchFolder folder, elsewhere;
  folder.Write("pace", "1000");
  const char* const keys =
      "epochs: 4000\nallreduce: {batch_rule: linear}\ncheckpoint: {every_steps: 2}\n";
  const std::string job =
      WritePacedDigitsJob(folder, 320, absl::StrCat(keys, "workers: {max: 2}\n"));
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  const std::string other =
      WritePacedDigitsJob(elsewhere, 320, absl::StrCat(keys, "workers: {max: 4}\n"));
  Worker stranger(elsewhere, "stranger", other, founder.Address());
  const CommandResult result = stranger.Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("workers.max is 4 here and 2 there"));
  ASSERT_TRUE(Eventually([&] { return !founder.Events("checkpoint_complete").empty(); }, kLong))
      << founder.err();
  founder.Send(SIGINT);
  EXPECT_EQ(founder.Wait().exit_code, 130);

  const std::string kept = founder.directory() + "/job.yaml";
  const std::string began_with = ReadText(kept);
  std::ofstream(kept) << absl::StrReplaceAll(began_with, {{"max: 2", "max: 4"}});
  ASSERT_NE(ReadText(kept), began_with);
  const CommandResult again = RunRubato({"worker", "--resume", founder.directory()}, folder.path());
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("it is of a job with batches_per_task 16, and this one has 32"));
}

// Where a group has a secret, who does not know it is turned away and told; who does is one of
// them.
TEST(JoinTest, WhoDoesNotKnowTheSecretIsTurnedAway) {
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
  ASSERT_TRUE(founder.Listens()) << founder.err();
  const auto join = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--join", founder.Address()});
    return words;
  };
  Worker stranger(folder, "stranger", join(words("stranger", guess)));
  Worker ignorant(folder, "ignorant", job, founder.Address());
  Worker friendly(folder, "friend", join(words("friend", secret)));
  EXPECT_TRUE(friendly.TrainsWith(2)) << friendly.err();
  const std::string there = "the member at " + founder.Address();
  const CommandResult refused = stranger.Wait(), told = ignorant.Wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr(there + " does not speak TLS, or knows another secret: check "
                                             "--secret-file and allreduce.encrypt"));
  EXPECT_EQ(told.exit_code, 2);
  EXPECT_THAT(told.err, HasSubstr(there + " encrypts and this one does not: check --secret-file"));
  EXPECT_FALSE(founder.Trained(3));
}

// A port that somebody else has: nothing is left behind, and nothing of theirs is touched.
TEST(JoinTest, APortThatIsTakenLeavesNothingBehind) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 4000\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  const std::string directory = folder.path() + "/second";
  const CommandResult result =
      RunRubato({"worker", "--job", job, "--job-dir", directory, "--listen", founder.Address()},
                folder.path());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr(founder.Address()));
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_TRUE(std::filesystem::exists(founder.directory() + "/job.yaml"));
}

// Nor does data that cannot be opened, or an address of another machine: whoever mends that begins
// in the same place.
TEST(JoinTest, WhatCannotBeginLeavesNothingBehind) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "");
  std::vector<std::string> words = {"worker", "--job", job, "--job-dir", "made"};
  std::filesystem::rename(folder.path() + "/train-labels", folder.path() + "/elsewhere");
  const CommandResult missing = RunRubato(words, folder.path());
  EXPECT_EQ(missing.exit_code, 2) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("train-labels"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made"));
  std::filesystem::rename(folder.path() + "/elsewhere", folder.path() + "/train-labels");
  words.insert(words.end(), {"--listen", "192.0.2.1:0"});
  const CommandResult foreign = RunRubato(words, folder.path());
  EXPECT_EQ(foreign.exit_code, 2) << foreign.err;
  EXPECT_THAT(foreign.err, HasSubstr("cannot listen at 192.0.2.1:0"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made"));
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

// Without a master, too, a step that cannot be computed ends training, once it is clear that it
// cannot; what was trained before it is kept.
TEST(JoinTest, AStepThatFailsAgainAndAgain) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "shuffle: {tasks: false, buffer: 0}\n");
  std::fstream labels(folder.path() + "/train-labels",
                      std::ios::in | std::ios::out | std::ios::binary);
  labels.seekp(8 + 200).put(static_cast<char>(77));
  labels.close();
  const CommandResult result =
      RunRubato({"worker", "--job", job, "--job-dir", "made"}, folder.path());
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("step 7 failed 3 times; the first error: "));
  EXPECT_THAT(result.err, HasSubstr("the label is 77"));
  EXPECT_THAT(result.err, HasSubstr("go on with: rubato worker --resume made"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/made/checkpoints/1/worker-0.ckpt"));
  EXPECT_THAT(ReadText(folder.path() + "/made/summary.json"), HasSubstr("\"state\": \"failed\""));
}

// A torn checkpoint is passed over for the one before it.
TEST(JoinTest, GoesOnFromTheNewestSoundCheckpoint) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "checkpoint: {keep: 9}\n");
  ASSERT_EQ(RunRubato({"worker", "--job", job, "--job-dir", "made"}, folder.path()).exit_code, 0);
  const std::string checkpoints = folder.path() + "/made/checkpoints/";
  for (const char* newer : {"2", "3"}) {
    std::filesystem::copy(checkpoints + "1", checkpoints + newer);
  }
  std::filesystem::remove(checkpoints + "2/worker-0.ckpt");
  std::filesystem::resize_file(checkpoints + "3/worker-0.ckpt", 1000);
  const auto resume = [&] {  // As if it had been killed before it could say that it was done.
    std::filesystem::remove(folder.path() + "/made/summary.json");
    return RunRubato({"worker", "--resume", "made"}, folder.path());
  };
  const CommandResult resumed = resume();
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, StartsWith("trained 10 steps, 320 records; weights "));
  EXPECT_THAT(resumed.err, HasSubstr("passed over: made/checkpoints/3/worker-0.ckpt: "));
  EXPECT_THAT(resumed.err, HasSubstr("passed over: made/checkpoints/2/worker-0.ckpt: "));
  EXPECT_THAT(resumed.err, HasSubstr("going on after step 10, from checkpoint 1\n"));
  for (const char* version : {"1", "4"}) {
    std::filesystem::resize_file(absl::StrCat(checkpoints, version, "/worker-0.ckpt"), 9);
  }
  const CommandResult none = resume();
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
  ASSERT_TRUE(founder.Listens()) << founder.err();
  Worker second(alike, "second", write(alike, 50), founder.Address());
  ASSERT_TRUE(second.TrainsWith(2)) << second.err();
  Worker stranger(elsewhere, "stranger", write(elsewhere, 60), founder.Address());
  const CommandResult result = stranger.Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("trains something else: features is hash "));
  EXPECT_THAT(result.err, HasSubstr("is buckets: 60 here and buckets: 50 there"));
  EXPECT_FALSE(founder.Trained(3));
  second.Send(SIGKILL);
  founder.Send(SIGKILL);
}

// A step that takes longer than anybody waits to leave: the oldest of two goes at the end of one,
// as agreed, and the other trains on. If it just went, the other would wait for it for ever.
TEST(JoinTest, WhoLeavesStaysForALongStep) {
  ScratchFolder folder;
  folder.Write("pace", "1000");
  const std::string job = WritePacedDigitsJob(folder, 1500, "epochs: 400\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(founder.Listens()) << founder.err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(second.TrainsWith(2) && founder.TrainsWith(2)) << second.err();
  folder.Write("pace", "200000");  // 6.4 s a step.
  founder.Send(SIGTERM);
  const CommandResult left = founder.Wait();
  EXPECT_EQ(left.exit_code, 130);
  EXPECT_THAT(left.err, HasSubstr("left the group after step"));
  EXPECT_TRUE(second.Says(": 1 workers, 1 with the ")) << second.err();
  EXPECT_FALSE(second.Said("waiting after step"));
  second.Send(SIGKILL);
}

// As for rubato train: a key for this once.
TEST(JoinTest, TakesKeysFromTheCommandLine) {
  ScratchFolder folder;
  const std::string job = WriteDigitsJob(folder, 320, "epochs: 4000\n");
  const auto words = [&](const std::string& key) {
    return std::vector<std::string>{"worker", "--job", job, "--job-dir", "made", "--set", key};
  };
  const CommandResult trained = RunRubato(words("epochs=2"), folder.path());
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, StartsWith("trained 20 steps, 640 records; weights "));
  EXPECT_THAT(RunRubato(words("epoch=2"), folder.path()).err, HasSubstr("epochs"));
  const CommandResult resumed =
      RunRubato({"worker", "--resume", "made", "--set", "epochs=3"}, folder.path());
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("--set goes with --job"));
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

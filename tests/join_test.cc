// Workers without a master: `rubato worker --job FILE`, and `--join` for whoever comes later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/digits.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A worker started by hand, with a job directory of its own.
class Worker {
 public:
  Worker(const ScratchFolder& folder, const std::string& name, const std::string& job,
         const std::string& join = "")
      : directory_(absl::StrCat(folder.path(), "/", name)),
        command_(Words(job, directory_, join), folder.path(), name) {}

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
  const std::string job = WriteDigitsJob(folder, 1500, "epochs: 60\n");
  Worker founder(folder, "founder", job);
  ASSERT_TRUE(Eventually([&] { return !founder.Address().empty(); })) << founder.command().err();
  Worker second(folder, "second", job, founder.Address());
  ASSERT_TRUE(Eventually([&] { return second.Trained(2); })) << second.command().err();
  // Through the second: whoever is in the group can let one in.
  Worker third(folder, "third", job, second.Address());
  ASSERT_TRUE(Eventually([&] { return third.Trained(3) && second.Trained(3); }))
      << third.command().err();
  kill(founder.command().pid(), SIGKILL);

  const CommandResult of_second = second.command().Wait();
  const CommandResult of_third = third.command().Wait();
  EXPECT_EQ(of_second.exit_code, 0) << of_second.err;
  EXPECT_EQ(of_third.exit_code, 0) << of_third.err;
  EXPECT_THAT(of_second.out, StartsWith("trained 2820 steps, 90000 records; weights "));
  EXPECT_THAT(of_second.out, HasSubstr("accuracy"));
  EXPECT_EQ(of_second.out, of_third.out);
  EXPECT_EQ(founder.command().Wait().out, "") << "it should not have lived to see the end";
  EXPECT_GT(second.Checkpoint().size(), 100000u);
  EXPECT_TRUE(second.Checkpoint() == third.Checkpoint());
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
  const CommandResult result = RunRubato({"worker", "--join", "127.0.0.1:4000"}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("give --job FILE"));
}

}  // namespace
}  // namespace rubato

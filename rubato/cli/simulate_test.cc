#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "rubato/adapters/files/text_file.h"
#include "rubato/cli/commands.h"
#include "rubato/cli/simulate_input.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

class SimulateCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs `rubato LINE`; words are split at spaces.
  int Rubato(const std::string& line) {
    out_.str("");
    err_.str("");
    Cli cli({.out = out_, .err = err_});
    AddGenerate(cli);
    AddSimulate(cli);
    const std::vector<std::string> words = absl::StrSplit("rubato " + line, ' ');
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    return cli.Main(static_cast<int>(argv.size()), argv.data());
  }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(At(name)) << text;
    return At(name);
  }

  std::filesystem::path folder_;
  std::ostringstream out_, err_;
};

// What a newcomer types first; no file from elsewhere is needed.
TEST_F(SimulateCommandTest, ATraceIsDrawnSimulatedAndReportedOn) {
  ASSERT_EQ(Rubato("generate trace --jobs 50 --gpus 16 --seed 3 --out " + At("jobs.csv")), 0)
      << err_.str();
  ASSERT_EQ(Rubato("simulate --trace " + At("jobs.csv") +
                   " --cluster n2g8 --policy fifo,edf-capped --json --out " + At("report.html")),
            0)
      << err_.str();
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["jobs"], 50);
  EXPECT_EQ(json["policies"][1]["policy"], "edf-capped");
  EXPECT_EQ(json["policies"][1]["completed"], 50);
  EXPECT_THAT(*ReadTextFile(At("report.html")), StartsWith("<!doctype html>"));
}

// A name with .gz at its end is taken at its word, and --json says what was drawn.
TEST_F(SimulateCommandTest, ACompressedTraceIsTheSameTrace) {
  const std::string draw = "generate trace --jobs 40 --gpus 8 --seed 5 --json --out ";
  ASSERT_EQ(Rubato(draw + At("jobs.csv")), 0) << err_.str();
  const auto written = nlohmann::json::parse(out_.str());
  EXPECT_EQ(written["jobs"], 40);
  EXPECT_EQ(written["path"], At("jobs.csv"));
  ASSERT_EQ(Rubato(draw + At("jobs.csv.gz")), 0) << err_.str();
  EXPECT_LT(std::filesystem::file_size(At("jobs.csv.gz")),
            std::filesystem::file_size(At("jobs.csv")) / 2);
  EXPECT_EQ(*ReadTextFile(At("jobs.csv.gz")), *ReadTextFile(At("jobs.csv")));
}

// Names are the user's: bytes that are not UTF-8 become replacement characters in JSON, and only
// there.
TEST_F(SimulateCommandTest, NamesOfAnyBytesAreJsonAllTheSame) {
  const std::string path = At("caf\xe9.csv");
  ASSERT_EQ(Rubato("generate trace --json --jobs 8 --gpus 8 --out " + path), 0) << err_.str();
  EXPECT_EQ(nlohmann::json::parse(out_.str())["path"], At("caf\uFFFD.csv"));
  const std::string trace = Write("bytes\xff.csv",
                                  "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu\n"
                                  "j\xfc,0,9,deepfm,,4096,1\n");
  const std::string simulate = "simulate --json --per-job --cluster n1g8 --trace " + trace;
  ASSERT_EQ(Rubato(simulate + " --policy fifo --out " + At("\xff.html")), 0) << err_.str();
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["trace"], At("bytes\uFFFD.csv"));
  EXPECT_EQ(json["policies"][0]["job_results"][0]["job"], "j\uFFFD");
  EXPECT_EQ(Rubato("simulate --json --seed -1"), 2);  // What went wrong is JSON too.
  EXPECT_THAT(std::string(nlohmann::json::parse(out_.str())["error"]), HasSubstr("--seed"));
  EXPECT_EQ(Rubato(simulate + "\xfe"), 2);
  EXPECT_THAT(std::string(nlohmann::json::parse(out_.str())["error"]), HasSubstr("\uFFFD"));
}

// Each policy once, in the order in which it was first named.
TEST_F(SimulateCommandTest, PoliciesAreNamedLooselyAndRunOnce) {
  ASSERT_EQ(Rubato("generate trace --jobs 8 --gpus 8 --out " + At("jobs.csv")), 0);
  const auto ran = [&](const std::string& policies) {
    const std::string line = "simulate --json --cluster n1g8 --trace " + At("jobs.csv");
    EXPECT_EQ(Rubato(line + " --policy " + policies), 0) << err_.str();
    std::vector<std::string> names;
    const auto json = nlohmann::json::parse(out_.str());
    for (const auto& policy : json["policies"]) names.push_back(policy["policy"]);
    return names;
  };
  EXPECT_THAT(ran("rubato,fifo,rubato"), ElementsAre("rubato", "fifo"));
  const std::vector<std::string> all = ran("rubato,all");
  EXPECT_EQ(all.front(), "rubato");
  EXPECT_THAT(all, UnorderedElementsAreArray(PolicyNames()));
}

TEST_F(SimulateCommandTest, BuiltInProfilesMayBeWrittenAndReadBack) {
  ASSERT_EQ(Rubato("generate trace --jobs 30 --gpus 8 --out " + At("jobs.csv")), 0);
  ASSERT_EQ(Rubato("generate profiles --out " + At("profiles")), 0);
  const std::string common = "simulate --policy fifo --cluster n1g8 --trace " + At("jobs.csv");
  ASSERT_EQ(Rubato(common), 0);
  // All but the last column, which is how long it took.
  const auto ratio = [&] { return out_.str().substr(0, out_.str().find('%')); };
  const std::string built_in = ratio();
  ASSERT_EQ(Rubato(common + " --gpu-type A100 --profiles " + At("profiles")), 0) << err_.str();
  EXPECT_EQ(ratio(), built_in);
}

TEST_F(SimulateCommandTest, AScenarioShowsGangAgainstElastic) {
  ASSERT_EQ(Rubato("simulate --scenario two-jobs"), 0);
  EXPECT_THAT(out_.str(), HasSubstr("fifo-elastic: training done at 1022 s, waited 0 s"));
  EXPECT_THAT(out_.str(), HasSubstr("█ job 1   ▒ job 2"));
  ASSERT_EQ(Rubato("simulate --scenario colocate --json"), 0);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_GT(json["policies"][1]["scenario"]["utilisation_while_training"], 0.9);
}

// One policy that cannot go on loses nobody else's result, and the exit code tells.
TEST_F(SimulateCommandTest, APolicyThatFailsLosesNobodyElsesResult) {
  const std::string header =
      "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,min_gpu\n";
  const std::string trace = Write("floors.csv", header + "a,0,9,deepfm,,4096,1,2\n");
  const std::string line = "simulate --cluster n1g8 --overhead elasticflow --trace " + trace +
                           " --policy edf,rubato --out " + At("report.html");
  EXPECT_EQ(Rubato(line + " --json"), 1);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_THAT(std::string(json["policies"][0]["error"]), HasSubstr("no min_gpu as job a asks for"));
  EXPECT_EQ(json["policies"][1]["completed"], 1);
  EXPECT_THAT(err_.str(), HasSubstr("no min_gpu as job a asks for"));
  EXPECT_THAT(*ReadTextFile(At("report.html")), HasSubstr("\"name\":\"rubato\""));
  EXPECT_EQ(Rubato(line), 1);
  EXPECT_THAT(out_.str(), HasSubstr("edf                  failed\n"));
  EXPECT_EQ(Rubato("simulate --cluster n1g8 --policy all --trace " + trace), 0) << err_.str();
}

// Of nobody nothing is known: null for programs, a dash for people.
TEST_F(SimulateCommandTest, TimesOfNobodyAreNotZero) {
  const std::string header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu\n";
  const std::string trace = Write("late.csv", header + "a,0,1e6,deepfm,1,4096,1\n");
  const std::string line = "simulate --cluster n1g8 --policy rubato --trace " + trace;
  ASSERT_EQ(Rubato(line + " --json --out " + At("report.html")), 0) << err_.str();
  const auto policy = nlohmann::json::parse(out_.str())["policies"][0];
  EXPECT_EQ(policy["refused"], 1);
  for (const char* name : {"jct", "best_effort_jct"}) {
    EXPECT_TRUE(policy[name]["mean"].is_null() && policy[name]["p95"].is_null()) << name;
  }
  EXPECT_TRUE(policy["makespan"].is_null());
  EXPECT_THAT(*ReadTextFile(At("report.html")), HasSubstr("\"jct_mean\":null,"));
  ASSERT_EQ(Rubato(line), 0);
  EXPECT_THAT(out_.str(), HasSubstr("1          -           -         -   0.0%"));
}

TEST_F(SimulateCommandTest, WhatIsWrongIsNamedAndExitsWithTwo) {
  const std::string header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu\n";
  const std::string good = Write("good.csv", header + "a,0,9,deepfm,,4096,1\n");
  const std::string bad = Write("bad.csv", header + "a,0,9,deepfm,,4096,1\nb,0,x,m,,1,1\n");
  const std::string other = Write("other.csv", header + "a,0,9,bert,,64,1\n");
  const std::string negative =
      Write("negative.csv",
            "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n"
            "a,0,9,deepfm,,4096,1,-1\n");
  const std::string endless = Write("endless.csv", header + "a,0,1e15,deepfm,,4096,1\n");
  struct Case {
    std::string line, message;
  };
  for (const Case& c : {
           Case{"simulate", "give --trace and --cluster, or a --scenario"},
           Case{"simulate --scenario nine-jobs", "no scenario \"nine-jobs\""},
           Case{"simulate --scenario two-jobs --cluster n1g8", "brings its own"},
           Case{"simulate --trace " + At("none.csv") + " --cluster n1g8", "cannot open"},
           Case{"simulate --trace " + At("") + " --cluster n1g8", "is a folder"},
           Case{"simulate --trace " + bad + " --cluster n1g8", "bad.csv:3: iteration is \"x\""},
           Case{"simulate --trace " + other + " --cluster n1g8",
                "other.csv:2: job a: no profile of bert with batch size 64"},
           Case{"simulate --trace " + other + " --cluster n1g8", "with --profiles"},
           Case{"simulate --trace " + good + " --cluster n1g8x", "should read like n16g8"},
           Case{"simulate --trace " + good + " --cluster n0g8", "must be positive"},
           Case{"simulate --trace " + good + " --cluster n1g8 --policy best", "no policy \"best\""},
           Case{"simulate --trace " + good + " --cluster n1g8 --overhead some", "--overhead some"},
           Case{"simulate --trace " + good + " --cluster n1g8 --slot 0", "--slot is 0"},
           Case{"simulate --trace " + good + " --cluster n1g8 --slot nan", "--slot is nan"},
           Case{"simulate --trace " + good + " --cluster n1g8 --cooldown nan", "--cooldown is nan"},
           Case{"simulate --trace " + good + " --cluster n1g8 --failures inf", "--failures is inf"},
           Case{"simulate --trace " + good + " --cluster n1g8 --failures 1e9", "from 0 to 1440"},
           Case{"simulate --trace " + good + " --cluster n1g8 --repair 0", "--repair is 0"},
           Case{"simulate --trace " + good + " --cluster n1g8 --reserve -1", "--reserve is -1"},
           Case{"simulate --trace " + good + " --cluster n1g8 --reserve 8", "nothing to promise"},
           Case{"simulate --trace " + good + " --cluster n1g8 --seed -1", "-1 is negative"},
           Case{"simulate --trace " + good + " --cluster n1g8 --out " + At(""), "is a folder"},
           Case{"simulate --trace " + good + " --cluster n1g8 --policy ", "no policy \"\""},
           Case{"simulate --trace " + good + " --cluster n1g8 --policy rubado",
                "did you mean 'rubato'?"},
           Case{"simulate --trace " + good + " --cluster n1g8:H900", "\"H900\", only of A100"},
           Case{"simulate --trace " + good + " --cluster n2", "read like n16g8"},
           Case{"simulate --trace " + good +
                    " --cluster n1g8 --overhead elasticflow --policy edf --cooldown 9",
                "no --cooldown"},
           Case{"simulate --trace " + negative + " --cluster n1g8", "duration is -1"},
           Case{"simulate --trace " + good + " --cluster n1g8 --profiles " + At("no"),
                "is not a folder"},
           Case{"simulate --trace " + good + " --cluster n1g8 --out " + At("no/report.html"),
                "cannot create"},
           Case{"simulate --trace " + endless + " --cluster n1g8",
                "endless.csv:2: job a: 1e+15 iterations take more than 1e+09 s (thirty years) on 1 "
                "GPUs\n"},
           Case{"simulate --trace " + good + " --cluster n2g8:", "should read like n16g8"},
           Case{"generate trace --load -1 --out " + At("t.csv"), "load is -1"},
           Case{"generate trace --load inf --out " + At("t.csv"), "load is inf"},
           Case{"generate trace --lambda-high inf --out " + At("t.csv"), "--lambda-high is inf"},
           Case{"generate trace --seed -1 --out " + At("t.csv"), "-1 is negative"},
           Case{"generate trace --gpu-types T4,H900 --out " + At("t.csv"),
                "no GPU type \"H900\"; there are A100, V100, T4"},
           Case{"generate trace --out " + At("t.csv") + " --sedd 3",
                "no flag '--sedd'; did you mean '--seed'?"},
           Case{"simulate --scenario two-job", "did you mean 'two-jobs'?"},
           Case{"simulate --trace " + good + " --cluster n1g8 --per-job", "give --json too"},
       }) {
    EXPECT_EQ(Rubato(c.line), 2) << c.line;
    EXPECT_THAT(err_.str(), HasSubstr(c.message)) << c.line;
  }
}

}  // namespace
}  // namespace rubato

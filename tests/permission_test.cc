// Files and folders that may not be read or written: named, with exit code 2, and nothing is left
// half done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A table, a job that was trained on it and its export, made once; and `locked`, a folder into
// which nobody may write.
class PermissionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder();
    std::string csv = "click,price,site\n";
    for (int i = 0; i < 600; ++i) absl::StrAppend(&csv, i % 2, ",", i % 7, ",site", i % 5, "\n");
    for (const char* name : {"train.csv", "test.csv"}) folder_->Write(name, csv);
    Run({"init", "--data", "train.csv", "--validation", "test.csv", "--label", "click", "--model",
         "logistic", "--out", "ctr"});
    Run({"train", "ctr/job.yaml", "--job-dir", "job", "--set", "epochs=1"});
    Run({"export", "job", "--out", "model"});
    fs::create_directory(Path("locked"));
    chmod(Path("locked").c_str(), 0555);
  }
  static void TearDownTestSuite() { delete folder_; }

  static void Run(const std::vector<std::string>& arguments) {
    const CommandResult result = RunRubato(arguments, folder_->path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  static std::string Path(const std::string& name) {
    return absl::StrCat(folder_->path(), "/", name);
  }

  // `arguments` are refused for the sake of `culprit`, which the words name.
  static void ExpectDenied(const std::vector<std::string>& arguments, const std::string& culprit) {
    const CommandResult result = RunWithoutPrivilege(arguments, folder_->path());
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(culprit));
    EXPECT_THAT(result.err, HasSubstr("ermission denied"));
    EXPECT_TRUE(fs::is_empty(Path("locked")));
  }
  // The same while `culprit` may be read by nobody.
  static void ExpectUnreadable(const std::vector<std::string>& arguments,
                               const std::string& culprit) {
    SCOPED_TRACE(absl::StrCat(arguments[0], " without ", culprit));
    struct stat before;
    ASSERT_EQ(stat(Path(culprit).c_str(), &before), 0);
    chmod(Path(culprit).c_str(), 0);
    ExpectDenied(arguments, culprit);
    chmod(Path(culprit).c_str(), before.st_mode);
  }
  static void ExpectUnwritable(const std::vector<std::string>& arguments) {
    SCOPED_TRACE(arguments[0]);
    ExpectDenied(arguments, "locked/");
  }

  static inline ScratchFolder* folder_ = nullptr;
};

TEST_F(PermissionTest, DataThatMayNotBeRead) {
  const std::vector<std::string> init = {"init",  "--data", "train.csv", "--validation", "test.csv",
                                         "--out", "other",  "--label",   "click"};
  const std::vector<std::string> train = {"train", "ctr/job.yaml", "--job-dir", "other"};
  for (const char* data : {"train.csv", "test.csv"}) {
    ExpectUnreadable(init, data);
    ExpectUnreadable(train, data);
  }
  ExpectUnreadable({"analyze", "ctr/job.yaml"}, "train.csv");
  ExpectUnreadable({"convert", "--data", "train.csv", "--out", "other.tsv"}, "train.csv");
  ExpectUnreadable({"evaluate", "job", "--data", "test.csv"}, "test.csv");
  ExpectUnreadable({"predict", "job", "--data", "test.csv", "--out", "other.tsv"}, "test.csv");
  for (const char* made : {"other", "other.tsv"}) EXPECT_FALSE(fs::exists(Path(made))) << made;
}

TEST_F(PermissionTest, JobsAndModelsThatMayNotBeRead) {
  const std::vector<std::string> train = {"train", "ctr/job.yaml", "--job-dir", "other"};
  ExpectUnreadable(train, "ctr/job.yaml");
  ExpectUnreadable(train, "ctr/features.yaml");
  ExpectUnreadable(train, "ctr");
  ExpectUnreadable({"analyze", "ctr/job.yaml"}, "ctr/job.yaml");
  ExpectUnreadable({"show", "job"}, "job");
  ExpectUnreadable({"evaluate", "job"}, "job");
  ExpectUnreadable({"evaluate", "job"}, "job/job.yaml");
  ExpectUnreadable({"export", "job", "--out", "other"}, "job/checkpoints");
  ExpectUnreadable({"predict", "model", "--data", "test.csv", "--out", "other.tsv"}, "model");
  ExpectUnreadable({"score", "model", "--listen", "127.0.0.1:0"}, "model");
  ExpectUnreadable({"score", "model", "--listen", "127.0.0.1:0"}, "model/manifest.json");
  for (const char* made : {"other", "other.tsv"}) EXPECT_FALSE(fs::exists(Path(made))) << made;
}

TEST_F(PermissionTest, FoldersThatMayNotBeWritten) {
  ExpectUnwritable({"init", "--data", "train.csv", "--label", "click", "--out", "locked/ctr"});
  ExpectUnwritable({"train", "ctr/job.yaml", "--job-dir", "locked/job"});
  ExpectUnwritable({"predict", "job", "--data", "test.csv", "--out", "locked/scores.tsv"});
  ExpectUnwritable({"export", "job", "--out", "locked/model"});
  ExpectUnwritable({"convert", "--data", "train.csv", "--out", "locked/train.tsv"});
  ExpectUnwritable({"analyze", "ctr/job.yaml", "--html", "locked/data.html"});
  ExpectUnwritable({"analyze", "ctr/job.yaml", "--features", "locked/features.yaml"});
  ExpectUnwritable({"generate", "criteo", "--rows", "100", "--out", "locked/data"});
}

// What is there and no file, a device say, is not replaced, whoever may do so: before any scoring.
TEST_F(PermissionTest, OutputsThatAreNoFiles) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0666), 0);
  fs::create_directory(Path("folder"));
  for (const char* out : {"pipe", "folder"}) {
    const CommandResult result = RunRubato(
        {"predict", "job", "--data", "test.csv", "--out", out, "--force"}, folder_->path());
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("--out: ", out, " is there and is no file")));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("predicting")));
    EXPECT_FALSE(fs::is_regular_file(Path(out)));
  }
}

// A program reads the same words, and the code.
TEST_F(PermissionTest, IsToldInJsonToo) {
  const CommandResult result = RunWithoutPrivilege(
      {"train", "ctr/job.yaml", "--job-dir", "locked/job", "--json"}, folder_->path());
  const nlohmann::json said = nlohmann::json::parse(result.out);
  EXPECT_EQ(said["exit_code"], 2);
  EXPECT_THAT(said["error"].get<std::string>(), HasSubstr("ermission denied"));
}

}  // namespace
}  // namespace rubato

// From a table to a trained model without a line of code, and what is said when the features are
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/job_runner.h"
#include "tests/people.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

TEST(FeaturesTest, InitAndTrainNeedNoEditing) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(4000, 0));
  folder.Write("test.csv", PeopleCsv(1000, 4000));
  const CommandResult init = RunRubato({"init", "--data", "people.csv", "--validation", "test.csv",
                                        "--label", "income", "--model", "logistic"},
                                       folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(init.err, HasSubstr("format: csv"));
  TrainingJob training(folder.path(), {folder.path() + "/job.yaml", "--json"});
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(nlohmann::json::parse(result.out)["metrics"]["auc"].get<double>(), 0.75);
  // The features belong to the job and to its checkpoints.
  const std::string kept = ReadText(training.job_dir() + "/features.yaml");
  EXPECT_THAT(kept, HasSubstr("Rome, Italy"));
  EXPECT_EQ(kept, ReadText(folder.path() + "/features.yaml"));
  const std::string model = nlohmann::json::parse(result.out)["checkpoint"];
  EXPECT_EQ(kept, ReadText(model + "/features.yaml"));
  // Files that are there are not replaced unasked.
  EXPECT_EQ(RunRubato({"init", "--data", "people.csv"}, folder.path()).exit_code, 2);
}

// A name may have quotes, as a query has them around its columns.
TEST(FeaturesTest, InitWritesWhatItWasTold) {
  ScratchFolder folder;
  folder.Write("my \"people\".csv", PeopleCsv(300, 0));
  const CommandResult init =
      RunRubato({"init", "--data", "my \"people\".csv", "--label", "income"}, folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  const CommandResult analyze = RunRubato({"analyze", "job.yaml", "--json"}, folder.path());
  ASSERT_EQ(analyze.exit_code, 0) << analyze.err;
  EXPECT_EQ(nlohmann::json::parse(analyze.out)["rows"], 300);
}

// Films of which those with more of drama than of action are liked; nothing but the bag says so.
TEST(FeaturesTest, ABagWithWeightsIsLearnedFrom) {
  const auto films = [](int rows, int start) {
    std::string csv = "liked,genres\n";
    for (int i = start; i < start + rows; ++i) {
      const int drama = i * 7 % 11, action = i * 5 % 13;
      absl::StrAppend(&csv, drama > action ? 1 : 0, ",drama:", drama, ".5|action:", action,
                      i % 3 == 0 ? ".5|short:1.5" : ".5", "\n");
    }
    return csv;
  };
  ScratchFolder folder;
  folder.Write("train.csv", films(4000, 0));
  folder.Write("test.csv", films(1000, 4000));
  const CommandResult init =
      RunRubato({"init", "--data", "train.csv", "--label", "liked"}, folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  const std::string job =
      folder.Write("job.yaml",
                   "model: wide_deep\nmodel_options: {dim: 4, hidden: 16, batch_norm: true}\n"
                   "data: {train: train.csv, validation: test.csv, format: csv}\n"
                   "features: features.yaml\nbatch_size: 64\nepochs: 6\n"
                   "optimizer: {name: adam, learning_rate: 0.01}\n"
                   "evaluate: {every_steps: 120, keep_best: true, stop_after_stalls: 2, "
                   "lower_rate: 0.1}\nworkers: {min: 1, max: 2}\n");
  TrainingJob training(folder.path(), {job, "--json"});
  // The master dies in the middle: what it had decided it decides again.
  ASSERT_TRUE(training.ReachStep(130));
  for (const TrainingJob::Process& process : training.Alive("master")) {
    kill(process.pid, SIGKILL);
  }
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_GT(summary["metrics"]["auc"].get<double>(), 0.97);
  // The model is the best that was evaluated, and it is there.
  double best = 0;
  for (const auto& evaluation : summary["evaluations"]) {
    best = std::max(best, evaluation["metrics"]["auc"].get<double>());
  }
  EXPECT_EQ(summary["metrics"]["auc"].get<double>(), best);
  const std::string best_line = ReadText(training.job_dir() + "/checkpoints/BEST");
  EXPECT_EQ(summary["checkpoint"].get<std::string>(),
            training.job_dir() + "/checkpoints/" + best_line.substr(0, best_line.find(' ')));
  EXPECT_NE(ReadText(summary["checkpoint"].get<std::string>() + "/manifest.json"), "");
}

// More numbers than the format itself could take as names: rows held back, and the table as files
// of other formats, are read as the features read them.
TEST(FeaturesTest, AWideTableIsTrainedOnWithoutValidationDataAndConverted) {
  constexpr int kColumns = 300;
  std::string table = "y";
  for (int c = 0; c < kColumns; ++c) absl::StrAppend(&table, ",n", c);
  for (int row = 0; row < 400; ++row) {
    absl::StrAppend(&table, "\n", row % 2);
    for (int c = 0; c < kColumns; ++c) {
      absl::StrAppend(&table, ",", (row * 7 + c * 13) % 101 + (c == 0 ? row % 2 * 1000 : 0), ".5");
    }
  }
  ScratchFolder folder;
  folder.Write("wide.csv", table + "\n");
  const auto run = [&](const std::vector<std::string>& words) {
    const CommandResult result = RunRubato(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << words[0] << ": " << result.err;
    return result.out;
  };
  run({"init", "--data", "wide.csv", "--label", "y", "--model", "logistic"});
  const auto trained = nlohmann::json::parse(
      run({"train", "job.yaml", "--job-dir", "job", "--set", "max_steps=20", "--json"}));
  EXPECT_TRUE(trained["metrics"].contains("auc")) << trained;
  run({"predict", "job", "--data", "wide.csv", "--out", "scores.tsv"});
  for (const std::string name : {"wide.tsv", "wide.rec"}) {
    run({"convert", "--data", "wide.csv", "--out", name});
    run({"predict", "job", "--data", name, "--out", name + ".scores"});
    EXPECT_EQ(ReadText(folder.path() + "/" + name + ".scores"),
              ReadText(folder.path() + "/scores.tsv"));
  }
}

// Exporters put blanks behind commas, and a quote behind a blank is a quote.
TEST(FeaturesTest, BlanksBeforeQuotesMakeTheSameTable) {
  ScratchFolder folder;
  std::string plain = "\"y\",\"city\",\"n\"\n", blank = "\"y\", \"city\" , \"n\"\n";
  for (int i = 0; i < 400; ++i) {
    const std::string city = absl::StrCat("\"", i % 2 ? "Rome, Italy" : "Oslo", "\"");
    const int y = i % 2 != (i % 11 == 0);
    absl::StrAppend(&plain, y, ",", city, ",", i % 7, "\n");
    absl::StrAppend(&blank, y, ", ", city, " , ", i % 7, "\n");
  }
  folder.Write("plain.csv", plain);
  folder.Write("blank.csv", blank);
  for (const std::string name : {"plain", "blank"}) {
    const CommandResult init = RunRubato(
        {"init", "--data", name + ".csv", "--label", "y", "--model", "logistic", "--out", name},
        folder.path());
    ASSERT_EQ(init.exit_code, 0) << init.err;
  }
  const std::string features = ReadText(folder.path() + "/blank/features.yaml");
  EXPECT_THAT(features, HasSubstr("Rome, Italy"));
  EXPECT_EQ(features, ReadText(folder.path() + "/plain/features.yaml"));
}

TEST(FeaturesTest, AnalyzeTellsProgramsPeopleAndBrowsers) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(3000, 0));
  folder.Write("job.yaml",
               "model: logistic\ndata: {train: people.csv, format: csv, "
               "label: income}\nfeatures: not-yet.yaml\n");
  const CommandResult result = RunRubato(
      {"analyze", "job.yaml", "--json", "--html", "p.html", "--features", "f.yaml"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["rows"], 3000);
  EXPECT_EQ(json["columns"][0]["kind"], "integer");
  EXPECT_EQ(json["columns"][0]["min"], 18);
  EXPECT_EQ(json["columns"][0]["missing"], (3000 + 16) / 17);
  EXPECT_EQ(json["columns"][1]["distinct"], 2);
  EXPECT_THAT(result.err, HasSubstr("3000 rows"));
  EXPECT_THAT(ReadText(folder.path() + "/p.html"), HasSubstr("<svg"));
  EXPECT_THAT(ReadText(folder.path() + "/f.yaml"), HasSubstr("positive: [\">50K\"]"));
}

// Its own page is only the data's; anything else may be somebody's work.
TEST(FeaturesTest, AnalyzeReplacesNothingUnasked) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(300, 0));
  folder.Write("job.yaml",
               "model: logistic\ndata: {train: people.csv, format: csv, label: income}\n");
  const auto analyze = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"analyze", "job.yaml"});
    return RunRubato(words, folder.path());
  };
  ASSERT_EQ(analyze({"--html", "p.html", "--features", "f.yaml"}).exit_code, 0);
  EXPECT_EQ(analyze({"--html", "p.html"}).exit_code, 0);
  folder.Write("f.yaml", "mine");
  folder.Write("q.html", "<!doctype html>mine");
  const CommandResult features = analyze({"--features", "f.yaml"});
  EXPECT_EQ(features.exit_code, 2);
  EXPECT_THAT(features.err, HasSubstr("--features: f.yaml is there; --force replaces it"));
  const CommandResult page = analyze({"--html", "q.html"});
  EXPECT_EQ(page.exit_code, 2);
  EXPECT_THAT(page.err, HasSubstr("--html: q.html is there, and no page of rubato analyze"));
  EXPECT_EQ(ReadText(folder.path() + "/f.yaml") + ReadText(folder.path() + "/q.html"),
            "mine<!doctype html>mine");
  ASSERT_EQ(analyze({"--html", "q.html", "--features", "f.yaml", "--force"}).exit_code, 0);
  EXPECT_THAT(ReadText(folder.path() + "/f.yaml"), HasSubstr("features:"));
  EXPECT_THAT(ReadText(folder.path() + "/q.html"), HasSubstr("<svg"));
}

struct BadFeatures {
  const char* name;
  const char* text;
  std::vector<std::string> words;
};

class BadFeaturesTest : public testing::TestWithParam<BadFeatures> {};

TEST_P(BadFeaturesTest, AreExplainedWithTwo) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(100, 0));
  folder.Write("features.yaml", GetParam().text);
  const std::string job =
      folder.Write("job.yaml",
                   "model: logistic\ndata: {train: people.csv, format: csv, label: income}\n"
                   "features: features.yaml\n");
  const CommandResult result =
      RunRubato({"train", job, "--job-dir", folder.path() + "/job"}, folder.path());
  EXPECT_EQ(result.exit_code, 2) << result.err;
  for (const std::string& word : GetParam().words) EXPECT_THAT(result.err, HasSubstr(word));
  EXPECT_THAT(result.err, Not(HasSubstr("job/features.yaml"))) << "the copy is gone";
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/job")) << "a second try finds it free";
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFeaturesTest,
    testing::Values(
        BadFeatures{"WrongColumn",
                    "label: {column: income, positive: x}\nfeatures:\n"
                    "  - {column: twon, transform: hash}\n",
                    {"features.yaml:3: feature 'twon'", "no column 'twon'; did you mean 'town'?"}},
        BadFeatures{"TextWhereANumberIsWanted",
                    "label: {column: income, positive: x}\nfeatures:\n"
                    "  - {column: age, transform: hash}\n  - {column: town, transform: number}\n",
                    {"people.csv:2", "column 'town'", "not a finite number"}},
        BadFeatures{"Unsorted",
                    "features:\n  - {column: age, transform: discretize, boundaries: [3, 1]}\n",
                    {"features.yaml:2", "1 comes after 3"}},
        BadFeatures{"TwiceInTheVocabulary",
                    "features:\n  - {column: town, transform: lookup, vocabulary: [a, a]}\n",
                    {"features.yaml:2", "'a' is word 1 and again word 2"}},
        BadFeatures{"ZeroDeviation",
                    "features:\n  - {column: age, transform: normalize, deviation: 0}\n",
                    {"features.yaml:2", "deviation: 0"}}),
    [](const auto& info) { return info.param.name; });

// A vocabulary in a file of its own: the word is named, and so is the file, and nothing started.
TEST(BadVocabularyTest, AFileWithAWordTwiceIsExplainedWithTwo) {
  ScratchFolder folder;
  folder.Write("people.csv", PeopleCsv(100, 0));
  folder.Write("towns.txt", "Oslo\nRome, Italy\nOslo\n");
  folder.Write("features.yaml",
               "label: {column: income, positive: \">50K\"}\nfeatures:\n"
               "  - {column: town, transform: lookup, vocabulary_file: towns.txt}\n");
  const std::string job = folder.Write("job.yaml",
                                       "model: logistic\nfeatures: features.yaml\n"
                                       "data: {train: people.csv, format: csv, label: income}\n");
  const CommandResult twice =
      RunRubato({"train", job, "--job-dir", folder.path() + "/job"}, folder.path());
  EXPECT_EQ(twice.exit_code, 2) << twice.err;
  EXPECT_THAT(twice.err, HasSubstr("towns.txt"));
  EXPECT_THAT(twice.err, HasSubstr("'Oslo' is word 1 and again word 3"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/job"));
}

}  // namespace
}  // namespace rubato

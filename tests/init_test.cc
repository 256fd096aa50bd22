// Public data sets in the shape in which they are published, through init, train, evaluate and
// predict, with nothing changed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/civil_time.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kUsers = 40, kItems = 60;

// Who likes what: users of an even number what has an even number, but for one in ten.
struct Taste {
  explicit Taste(int i) : user(i * 7 % kUsers), item(i * 11 % 997 % kItems) {
    likes = (user % 2 == item % 2) != (i * 31 % 10 == 0);
  }
  int user, item;
  bool likes = false;
};

// Entries of global ids, as Frappe has them: user, item, and two circumstances.
std::vector<int> IdsOf(int i) {
  const Taste taste(i);
  return {taste.user, kUsers + taste.item, kUsers + kItems + i % 7, kUsers + kItems + 7 + i % 3};
}

std::string Libfm(int i) {
  return absl::StrCat(Taste(i).likes ? "1" : "-1", " ", absl::StrJoin(IdsOf(i), ":1 "), ":1\n");
}

std::string Libffm(int i) {
  std::string line = Taste(i).likes ? "1" : "0";
  int field = 0;
  for (const int id : IdsOf(i)) absl::StrAppend(&line, " ", field++, ":", id, ":1");
  return line + "\n";
}

// Not as many entries in every row, and values other than 1.
std::string Libsvm(int i) {
  const std::vector<int> ids = IdsOf(i);
  return absl::StrCat(Taste(i).likes ? "+1 " : "-1 ", ids[0], ":1 ", ids[1], ":1",
                      i % 3 > 0 ? absl::StrCat(" ", ids[2], ":0.25") : "", "\n");
}

std::string Table(int i) {
  return absl::StrCat(Taste(i).likes ? 1 : 0, ",", absl::StrJoin(IdsOf(i), ","), "\n");
}

// MovieLens: stars as the label, what a film is as a list.
std::string Ratings(int i) {
  const Taste taste(i);
  std::vector<absl::string_view> genres;
  const int kinds = 1 + taste.item * 7 % 31;
  for (const auto& [bit, genre] :
       {std::pair(1, "Action"), std::pair(2, "Crime"), std::pair(4, "Drama"), std::pair(8, "War"),
        std::pair(16, "Western")}) {
    if (kinds & bit) genres.push_back(genre);
  }
  return absl::StrCat(taste.user, ",", taste.item, ",", taste.likes ? 4 + i % 2 : 1 + i % 3, ".0,",
                      964980000 + i * 37 % 9999, ",", absl::StrJoin(genres, "|"), "\n");
}

// As a spreadsheet in much of Europe writes it; a price hardly ever repeats.
std::string Prices(int i) {
  const int cents = i * 7919 % 9973;
  const bool is_bought = (cents < 5000) != (i * 31 % 10 == 0);
  return absl::StrCat(is_bought ? 1 : 0, ";", cents / 100, cents % 100 < 10 ? ",0" : ",",
                      cents % 100, ";", i % 3 == 0 ? "Köln" : "Wien", "\n");
}

// A shop is visited in the evening, on working days, and what it costs is written as money.
std::string Visits(int i) {
  const int hour = i * 7 % 24, day = i * 11 % 60, cents = i * 7919 % 20000;
  const bool is_bought = ((hour >= 18) != (day % 7 < 2)) != (i * 31 % 12 == 0);
  return absl::StrCat(
      is_bought ? "Sale" : "None", ",",
      absl::FormatCivilTime(absl::CivilMinute(2026, 3, 2, hour, i % 60) + int64_t{1440} * day),
      ":00Z,\"$", cents / 1000, ",", 100 + cents % 900, ".50\"\n");
}

struct Published {
  const char* name;
  const char* header;
  std::string (*row)(int i);
  const char* label;  // Empty: what init takes.
  const char* says;   // In the features file.
};

class InitTest : public testing::TestWithParam<Published> {};

TEST_P(InitTest, MakesSenseOf) {
  const Published& data = GetParam();
  constexpr int kRows = 3000, kTestRows = 600;
  ScratchFolder folder;
  std::string train = data.header, test = data.header;
  for (int i = 0; i < kRows; ++i) train += data.row(i);
  for (int i = kRows; i < kRows + kTestRows; ++i) test += data.row(i);
  folder.Write("train", train);
  folder.Write("test", test);
  std::vector<std::string> init = {"init", "--data", "train", "--validation", "test"};
  if (*data.label != 0) init.insert(init.end(), {"--label", data.label});
  const CommandResult proposed = RunRubato(init, folder.path());
  ASSERT_EQ(proposed.exit_code, 0) << proposed.err;
  EXPECT_THAT(ReadText(folder.path() + "/features.yaml"), HasSubstr(data.says));

  TrainingJob training(folder.path(), {folder.path() + "/job.yaml", "--json"});
  const CommandResult trained = training.Wait();
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto summary = nlohmann::json::parse(trained.out);
  EXPECT_GT(summary["metrics"]["auc"].get<double>(), 0.8);

  const CommandResult evaluated =
      RunRubato({"evaluate", training.job_dir(), "--data", "test", "--json"}, folder.path());
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_NEAR(nlohmann::json::parse(evaluated.out)["metrics"]["auc"].get<double>(),
              summary["metrics"]["auc"].get<double>(), 1e-6);
  const CommandResult predicted = RunRubato(
      {"predict", training.job_dir(), "--data", "test", "--out", "scores.tsv"}, folder.path());
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const std::string scores = ReadText(folder.path() + "/scores.tsv");
  const std::vector<std::string> lines = absl::StrSplit(scores, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), static_cast<size_t>(kTestRows));
}

INSTANTIATE_TEST_SUITE_P(
    As, InitTest,
    testing::Values(Published{"DecimalCommas", "bought;price;town\n", Prices, "", "decimal: comma"},
                    Published{"Times", "sold,at,price\n", Visits, "", "part: weekday"},
                    Published{"Libsvm", "", Libsvm, "", "weight_separator: \":\""},
                    Published{"FrappeLibfm", "", Libfm, "", "positive: [\"1\"]"},
                    Published{"Libffm", "", Libffm, "", "transform: merge_rare"},
                    Published{"FrappeCsv", "label,user,item,daytime,weekday\n", Table, "",
                              "transform: merge_rare\n    column: \"daytime\""},
                    Published{"MovieLens", "userId,movieId,rating,timestamp,genres\n", Ratings,
                              "rating", "separator: \"|\""}),
    [](const auto& info) { return info.param.name; });

// The label need not be the first column, if it is called one.
TEST(InitLabelTest, IsFoundByItsName) {
  ScratchFolder folder;
  std::string rows = "user_id\titem_id\tLabel\n";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&rows, i % 9, "\t", i % 7, "\t", i % 2, "\n");
  folder.Write("clicks.tsv", rows);
  const CommandResult result = RunRubato({"init", "--data", "clicks.tsv"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadText(folder.path() + "/features.yaml"), HasSubstr("label: \"Label\""));
}

// What is wrong with the command itself is told before the whole table is read.
TEST(InitErrorsTest, AreToldBeforeThePass) {
  ScratchFolder folder;
  std::string rows = "age,town,bought\n";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&rows, i % 90, ",t", i % 7, ",", i % 2, "\n");
  folder.Write("people.csv", rows);
  const auto init = [&](const std::string& flag, const std::string& value) {
    const CommandResult result =
        RunRubato({"init", "--data", "people.csv", flag, value}, folder.path());
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("distinct"))) << "the table of columns";
    return result.err;
  };
  EXPECT_THAT(init("--label", "bougth"), HasSubstr("no column 'bougth'; did you mean 'bought'?"));
  EXPECT_THAT(init("--out", "people.csv/ctr"),
              HasSubstr("--out: people.csv/ctr/job.yaml: cannot write: Not a directory"));
}

// A survey, all of it text, where the name of a column is an answer in it.
TEST(InitLabelTest, SaysThatTheFirstLineIsAHeader) {
  ScratchFolder folder;
  std::string rows = "shop,town,bought\n";
  for (int i = 0; i < 200; ++i) rows += i % 3 == 0 ? "web,rome,yes\n" : "shop,oslo,no\n";
  folder.Write("s.csv", rows);
  const auto result = RunRubato({"init", "--data", "s.csv", "--label", "bought"}, folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// A label of many numbers needs to be told from where on it is a yes.
TEST(InitLabelTest, MayBeFromANumberOn) {
  ScratchFolder folder;
  std::string rows = "town,score\n";
  for (int i = 0; i < 4000; ++i) {
    absl::StrAppend(&rows, "t", i % 7, ",", 1 + i * 7919 % 401 / 100.0, "\n");
  }
  folder.Write("marks.csv", rows);
  const std::vector<std::string> init = {"init",  "--data",  "marks.csv", "--label",
                                         "score", "--model", "logistic"};
  const CommandResult refused = RunRubato(init, folder.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--positive '>=NUMBER'"));
  std::vector<std::string> from_four = init;
  from_four.insert(from_four.end(), {"--positive", ">=4"});
  const CommandResult made = RunRubato(from_four, folder.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("label 'score': 4 and more count as 1, less as 0"));
  const CommandResult trained = RunRubato(
      {"train", "job.yaml", "--job-dir", "job", "--set", "epochs=1", "--json"}, folder.path());
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  // A fourth of the rows, 4.00 to 5.00: the yardstick of that share.
  const double base = nlohmann::json::parse(trained.out)["metrics"]["base_logloss"];
  EXPECT_NEAR(base, 0.56, 0.08);
}

// analyze chooses the label as init did: by the job's features, or by the names of columns.
TEST(InitLabelTest, IsTheSameForAnalyze) {
  ScratchFolder folder;
  std::string rows = "user,bought,click\n";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&rows, i % 9, ",", i % 2, ",", i % 3 / 2, "\n");
  folder.Write("clicks.csv", rows);
  const auto proposed = [&](const char* json) { return nlohmann::json::parse(json)["proposed"]; };
  const CommandResult named =
      RunRubato({"init", "--data", "clicks.csv", "--label", "bought", "--json"}, folder.path());
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(proposed(named.out.c_str())["label"], "bought");
  const std::vector<std::string> analyze = {"analyze", "job.yaml", "--features", "f.yaml",
                                            "--json"};
  const CommandResult again = RunRubato(analyze, folder.path());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(proposed(again.out.c_str())["label"], "bought");
  EXPECT_EQ(ReadText(folder.path() + "/f.yaml"), ReadText(folder.path() + "/features.yaml"));

  const CommandResult found =
      RunRubato({"init", "--data", "clicks.csv", "--force", "--json"}, folder.path());
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_EQ(proposed(found.out.c_str())["label"], "click");
  EXPECT_THAT(found.err, HasSubstr("label: 'click'"));
  folder.Write("job.yaml", "model: fm\ndata: {train: clicks.csv, format: csv}\n");
  std::vector<std::string> forced = analyze;
  forced.push_back("--force");
  const CommandResult bare = RunRubato(forced, folder.path());
  ASSERT_EQ(bare.exit_code, 0) << bare.err;
  EXPECT_EQ(proposed(bare.out.c_str())["label"], "click");
}

// A field that training never saw says nothing, as an id that it never saw; and rows lack what they
// lack. With features and without.
TEST(InitTellsTest, FieldsOfTheValidationDataAlone) {
  ScratchFolder folder;
  std::string train, test, strange;
  for (int i = 0; i < 1200; ++i) {
    const std::string line = Libffm(i);
    (i < 1000 ? train : test) += i < 1000 ? line : line.substr(0, line.rfind(' ')) + " 9:5:1\n";
    absl::StrAppend(&strange, i % 2, " site:5:1\n");
  }
  folder.Write("train", train);
  folder.Write("test", test);
  folder.Write("strange", strange);
  const CommandResult init =
      RunRubato({"init", "--data", "train", "--validation", "test"}, folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(init.err, HasSubstr("warning: field 9: in --validation alone, so nothing is"));
  for (const char* features : {"features=features.yaml", "features="}) {
    const CommandResult trained = RunRubato(
        {"train", "job.yaml", "--job-dir", features, "--set", features, "--set", "epochs=2"},
        folder.path());
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_EQ(RunRubato({"evaluate", features}, folder.path()).exit_code, 0);
    const CommandResult other =
        RunRubato({"predict", features, "--data", "strange", "--out", "s.tsv"}, folder.path());
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr("the data's fields are site, and none of them is one of the "
                                     "training data, 0, 1, 2, 3"));
  }
  const CommandResult early =
      RunRubato({"train", "job.yaml", "--job-dir", "none", "--set", "data.validation=strange"},
                folder.path());
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_THAT(early.err, HasSubstr("data.validation: the data's fields are site, and none of"));
}

// Validation data as somebody else's query wrote it: the columns in another order, one more, and
// without one that nothing is made of.
TEST(InitTellsTest, ColumnsOfTheValidationDataGoByName) {
  ScratchFolder folder;
  std::string train = "clicked,user,item,hour,day,row\n", test = train;
  std::string other = "day,hour,more,item,user,clicked\n";
  for (int i = 0; i < 1200; ++i) {
    const std::vector<int> ids = IdsOf(i);
    const int likes = Taste(i).likes ? 1 : 0;
    absl::StrAppend(i < 1000 ? &train : &test, likes, ",", absl::StrJoin(ids, ","), ",r", i, "\n");
    if (i < 1000) continue;
    absl::StrAppend(&other, ids[3], ",", ids[2], ",\"x,y\",", ids[1], ",", ids[0], ",", likes,
                    "\n");
  }
  folder.Write("train.csv", train);
  folder.Write("test.csv", test);
  folder.Write("other.csv", other);
  const CommandResult init =
      RunRubato({"init", "--data", "train.csv", "--validation", "other.csv"}, folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  const auto auc = [&](const std::string& data, std::vector<std::string> more) {
    const std::string job_dir = absl::StrCat("of-", data, more.size());
    std::vector<std::string> args = {"train",     "job.yaml", "--json",
                                     "--job-dir", job_dir,    "--set",
                                     "epochs=3",  "--set",    "data.validation=" + data};
    args.insert(args.end(), more.begin(), more.end());
    const CommandResult trained = RunRubato(args, folder.path());
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    return nlohmann::json::parse(trained.out)["metrics"]["auc"].get<double>();
  };
  EXPECT_EQ(auc("other.csv", {}), auc("test.csv", {}));
  // Without features too, where the label is the first column of the training data.
  const std::vector<std::string> plain = {"--set", "features=", "--set",
                                          "data.categorical=[user, item, hour, day]"};
  EXPECT_EQ(auc("other.csv", plain), auc("test.csv", plain));
}

// One in a thousand: a tenth of the rows would hold hardly any, and the best version would be luck.
TEST(InitHoldoutTest, RareLabelsHaveMoreRowsHeldBack) {
  const auto init = [](int yes) {
    ScratchFolder folder;
    std::string rows = "amount,country,fraud\n";
    for (int i = 0; i < 4000; ++i) {
      absl::StrAppend(&rows, i * 37 % 500, ",", i % 9, ",", i < yes ? 1 : 0, "\n");
    }
    folder.Write("t.csv", rows);
    const CommandResult made =
        RunRubato({"init", "--data", "t.csv", "--label", "fraud"}, folder.path());
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.err + ReadText(folder.path() + "/job.yaml");
  };
  EXPECT_THAT(init(100), AllOf(HasSubstr("holdout_every: 10 "), Not(HasSubstr("rarer"))));
  EXPECT_THAT(init(3940), AllOf(HasSubstr("holdout_every: 6 "), Not(HasSubstr("rarer"))));
  EXPECT_THAT(init(14), AllOf(HasSubstr("holdout_every: 3 "),
                              HasSubstr("warning: of the rarer class there are 14 rows, and about "
                                        "4 of them are held back")));
}

// Names that are not UTF-8, as of old spreadsheets, are JSON all the same: columns as they are
// quoted in messages, paths with replacement characters.
TEST(InitTellsTest, NamesOfAnyBytesInJson) {
  ScratchFolder folder;
  std::string rows = "click,gr\xf6\xdf\n";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&rows, i % 2, ",", i % 9, "\n");
  folder.Write("clicks.csv", rows);
  const CommandResult made = RunRubato(
      {"init", "--data", "clicks.csv", "--out", "caf\xe9", "--force", "--json"}, folder.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(nlohmann::json::parse(made.out)["job"], "caf\uFFFD/job.yaml");
  folder.Write("job.yaml", "model: fm\ndata: {train: clicks.csv, format: csv}\n");
  const CommandResult looked = RunRubato({"analyze", "job.yaml", "--json"}, folder.path());
  ASSERT_EQ(looked.exit_code, 0) << looked.err;
  EXPECT_EQ(nlohmann::json::parse(looked.out)["columns"][1]["name"], "gr\\xf6\\xdf");
}

// One table alone: a tenth of its rows is evaluated on, and no epoch trains on them.
TEST(InitHoldoutTest, RowsAreTrainedOnOrEvaluatedOn) {
  ScratchFolder folder;
  std::string table = "bought;price;town\n";
  for (int i = 0; i < 3004; ++i) table += Prices(i);
  folder.Write("t.csv", table);
  const CommandResult init =
      RunRubato({"init", "--data", "t.csv", "--label", "bought", "--json"}, folder.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  const auto proposed = nlohmann::json::parse(init.out);
  const int64_t held = proposed["rows_held_back"];
  EXPECT_NEAR(static_cast<double>(held), 300.5, 0.6);
  EXPECT_EQ(proposed["warnings"].size(), 0u) << init.out;
  EXPECT_THAT(init.err, HasSubstr("3004 rows, one in every 10, are for evaluation"));
  TrainingJob training(
      folder.path(), {"job.yaml", "--set", "epochs=3", "--set", "evaluate.every_steps=10", "--set",
                      "workers.max=2", "--set", "evaluate.stop_after_stalls=0"});
  const CommandResult trained = training.Wait();
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], 3 * (3004 - held));
  ASSERT_GE(summary["evaluations"].size(), 2u);
  for (const auto& evaluation : summary["evaluations"]) EXPECT_EQ(evaluation["records"], held);
  EXPECT_GT(summary["metrics"]["auc"].get<double>(), 0.8);
  // The job's own rows, told apart as training did; and all rows of the file, if it is named.
  const auto evaluate = [&](std::vector<std::string> words) {
    words.push_back("--json");
    const CommandResult result = RunRubato(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto own = evaluate({"evaluate", training.job_dir()});
  EXPECT_EQ(own["records"], held);
  EXPECT_NEAR(own["metrics"]["auc"].get<double>(), summary["metrics"]["auc"].get<double>(), 1e-6);
  EXPECT_EQ(evaluate({"evaluate", training.job_dir(), "--data", "t.csv"})["records"], 3004);

  // None is held back if nobody wants it, and none of a few rows.
  const CommandResult all = RunRubato(
      {"init", "--data", "t.csv", "--holdout-every", "0", "--force", "--json"}, folder.path());
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.err, HasSubstr("warning: no --validation, and no rows are held back"));
  EXPECT_THAT(ReadText(folder.path() + "/job.yaml"), Not(HasSubstr("holdout")));
}

// A model that is no model of clicks, and lists among the columns: what is proposed runs as it is.
TEST(InitModelTest, ATransformerReadsRowsOfATable) {
  ScratchFolder folder;
  std::string table = "click,site,genres\n";
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&table, i % 3 == 0, ",s", i % 7, ",",
                    i % 2 == 0 ? "war|drama" : "drama|love|art", "\n");
  }
  folder.Write("t.csv", table);
  const CommandResult proposed = RunRubato(
      {"init", "--data", "t.csv", "--label", "click", "--model", "transformer", "--out", "j"},
      folder.path());
  ASSERT_EQ(proposed.exit_code, 0) << proposed.err;
  const CommandResult trained =
      RunRubato({"train", "j/job.yaml", "--set", "max_steps=2"}, folder.path());
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
}

TEST(InitTellsTest, WhatIsLeftOut) {
  ScratchFolder folder;
  std::string table = "y,id,same,city\n";
  for (int row = 0; row < 100; ++row) {
    absl::StrAppend(&table, row % 3 == 0, ",x", row, ",7,", row % 2 == 0 ? "rome" : "oslo", "\n");
  }
  folder.Write("t.csv", table);
  const CommandResult result =
      RunRubato({"init", "--data", "t.csv", "--label", "y", "--json"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("left out: id (hardly ever repeats), same (never changes)\n"));
  const auto left_out = nlohmann::json::parse(result.out)["proposed"]["left_out"];
  ASSERT_EQ(left_out.size(), 2u);
  EXPECT_EQ(left_out[1]["column"], "same");
}

// Neither a label that is missing nor one that training never saw is taken for a no.
TEST(InitLabelTest, AStrangeLabelIsABadRow) {
  ScratchFolder folder;
  std::string rows = "bought,user\n";
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&rows, i % 10 == 9 ? "NA" : i % 3 == 0 ? "yes" : "no", ",u", i % 9, "\n");
  }
  folder.Write("clicks.csv", rows);
  const CommandResult result =
      RunRubato({"init", "--data", "clicks.csv", "--label", "bought"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("label 'bought': 30 rows have none; data.bad_rows: skip"));
  EXPECT_THAT(ReadText(folder.path() + "/features.yaml"), HasSubstr("negative: [\"no\"]"));
  const CommandResult strict = RunRubato(
      {"train", "job.yaml", "--set", "data.bad_rows=fail", "--job-dir", folder.path() + "/strict"},
      folder.path());
  EXPECT_EQ(strict.exit_code, 1) << strict.err;
  EXPECT_THAT(strict.err, HasSubstr("column 'bought', 'NA', is not a label"));
  TrainingJob lenient(folder.path(), {"job.yaml"});
  const CommandResult trained = lenient.Wait();
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(lenient.Summary()["bad_rows"], 30);
  folder.Write("loud.csv", "bought,user\nYES,u1\nNO,u2\n");
  const CommandResult loud =
      RunRubato({"evaluate", "job", "--data", "loud.csv", "--json"}, folder.path());
  EXPECT_EQ(loud.exit_code, 2) << "nobody guesses";
  EXPECT_THAT(loud.err, HasSubstr("none of the 2 rows could be read; the first: "));
  EXPECT_THAT(loud.err, HasSubstr("loud.csv:2: column 'bought', 'YES', is not a label"));
  folder.Write("calm.csv", "bought,user\nno,u1\nno,u2\n");
  const CommandResult calm =
      RunRubato({"evaluate", "job", "--data", "calm.csv", "--json"}, folder.path());
  ASSERT_EQ(calm.exit_code, 0) << calm.err;
  EXPECT_THAT(calm.err, HasSubstr("warning: all labels are of one class, so there is no auc"));
  EXPECT_TRUE(nlohmann::json::parse(calm.out)["metrics"]["auc"].is_null()) << calm.out;
}

// A row that is broken off, far down in a table: it is told where it is, and the job runs.
TEST(InitTellsTest, WhichRowsCannotBeRead) {
  ScratchFolder folder;
  const auto write = [&](const char* name, int rows, int broken) {
    std::string table = "bought,user,town,note\n";
    for (int i = 0; i < rows; ++i) {
      absl::StrAppend(&table, i % 2, ",u", i % 9, ",", i % 4 == 0 ? "rome" : "oslo");
      if (i < rows - broken) absl::StrAppend(&table, ",", std::string(200, 'x'), i % 3);
      table += "\n";
    }
    folder.Write(name, table);
  };
  write("train.csv", 3000, 1);
  write("test.csv", 2000, 2);
  write("worse.csv", 2000, 21);
  std::vector<std::string> init = {"init",         "--data",   "train.csv",
                                   "--validation", "test.csv", "--json"};
  const CommandResult result = RunRubato(init, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: --data: 1 of 3000 rows cannot be read, and "
                                    "data.bad_rows: skip leaves such out; the first: "));
  EXPECT_THAT(result.err, HasSubstr("train.csv:3001: has 3 columns, not 4\n"));
  EXPECT_THAT(result.err, HasSubstr("test.csv:2000: has 3 columns, not 4\n"));
  EXPECT_EQ(nlohmann::json::parse(result.out)["warnings"].size(), 2u) << result.out;
  EXPECT_THAT(ReadText(folder.path() + "/job.yaml"),
              HasSubstr("bad_rows: skip\n  bad_rows_max: 1006\n"));
  TrainingJob training(folder.path(), {"job.yaml", "--set", "epochs=1"});
  const CommandResult trained = training.Wait();
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(training.Summary()["bad_rows"], 3) << "one to train on, two to evaluate on";

  init[4] = "worse.csv";
  init.push_back("--force");
  const CommandResult refused = RunRubato(init, folder.path());
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--validation: 21 of 2000 rows cannot be read, more than one "
                                     "in 100; the first: "));
}

// More values than are counted: which column does not keep to --min-count is said.
TEST(InitTellsTest, WhereMinCountIsNotKept) {
  ScratchFolder folder;
  std::string rows = "click,user,page\n";
  for (int i = 0; i < 300'000; ++i) {
    absl::StrAppend(&rows, i % 2, ",u", i * 7919LL % 140'000, ",p", i % 50, "\n");
  }
  folder.Write("clicks.csv", rows);
  const CommandResult result =
      RunRubato({"init", "--data", "clicks.csv", "--min-count", "2", "--json"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("min-count 2 is not kept exactly by user:"));
  const auto json = nlohmann::json::parse(result.out)["proposed"];
  EXPECT_EQ(json["min_count"], 2);
  ASSERT_EQ(json["min_count_not_kept"].size(), 1u) << result.out;
  EXPECT_EQ(json["min_count_not_kept"][0]["column"], "user");
}

struct BadTable {
  const char* name;
  std::string text;
  std::vector<std::string> flags;
  std::vector<std::string> words;
};

class InitRefusesTest : public testing::TestWithParam<BadTable> {};

TEST_P(InitRefusesTest, WithTwoAndTheReason) {
  ScratchFolder folder;
  folder.Write("t.csv", GetParam().text);
  std::vector<std::string> init = {"init", "--data", "t.csv"};
  init.insert(init.end(), GetParam().flags.begin(), GetParam().flags.end());
  if (!absl::c_linear_search(init, "--label")) init.insert(init.end(), {"--label", "y"});
  const CommandResult result = RunRubato(init, folder.path());
  EXPECT_EQ(result.exit_code, 2) << result.err;
  for (const std::string& word : GetParam().words) EXPECT_THAT(result.err, HasSubstr(word));
  EXPECT_EQ(ReadText(folder.path() + "/job.yaml"), "") << "nothing is left behind";
}

constexpr char kGood[] = "y,age\n1,20\n0,30\n1,20\n0,30\n";

INSTANTIATE_TEST_SUITE_P(
    Tables, InitRefusesTest,
    testing::Values(
        BadTable{"Empty", "", {}, {"t.csv", "is empty"}},
        BadTable{"OnlyAHeader", "y,age\n", {}, {"t.csv", "no row"}},
        BadTable{
            "OnlyTheLabel", "y\n1\n0\n1\n", {}, {"t.csv", "has one column", "besides a label"}},
        BadTable{"NothingElse",
                 "y,a\n1,7\n0,7\n1,7\n",
                 {},
                 {"besides the label 'y' there is nothing to learn from: 'a' never changes"}},
        BadTable{"TwoSortsOfRows",
                 kGood,
                 {"--validation", "t.csv", "--holdout-every", "5"},
                 {"--holdout-every: --validation is there as well"}},
        BadTable{"OneRow", "y,age\n1,20\n", {}, {"label 'y'", "is always"}},
        BadTable{"OneAnswer", "y,age\nyes,20\nyes,30\n", {}, {"label 'y'", "is always"}},
        BadTable{"ThreeAnswers", "y,age\nyes,20\nno,30\nmaybe,40\n", {}, {"--positive"}},
        BadTable{"NoSuchAnswer",
                 "y,age\nyes,20\nno,30\nmaybe,40\n",
                 {"--positive", "Yes"},
                 {"never is 'Yes'", "did you mean 'yes'?"}},
        BadTable{"ANameTwice", "y,age,age\n1,2,3\n0,2,3\n", {}, {"t.csv", "line 1", "'age' twice"}},
        BadTable{"ANameMissing", "y,,b\n1,2,3\n0,4,5\n", {}, {"t.csv", "line 1", "column 2"}},
        BadTable{"Ragged",
                 "y,t\n1,2\n0\n1,3\n0,2\n",
                 {},
                 {"t.csv", "line 3 has 1 columns, and most others have 2"}},
        BadTable{"NoSuchLabel", kGood, {"--label", "aeg"}, {"'aeg'", "did you mean 'age'?"}},
        BadTable{"NoSuchModel", kGood, {"--model", "deepfn"}, {"did you mean 'deepfm'?"}},
        BadTable{"NoSuchDatabase",
                 kGood,
                 {"--validation", "mysql://here/x?table=t"},
                 {"mysql://here", "sqlite:// and postgresql://"}},
        BadTable{"NoValidation", kGood, {"--validation", "no.csv"}, {"no.csv", "No such file"}}),
    [](const auto& info) { return info.param.name; });

// What init cannot read it says how to mend, and writes nothing.
TEST(InitErrorsTest, MovieLensWithColonsIsToldHowToBeRead) {
  ScratchFolder folder;
  folder.Write("ratings.dat", "1::1193::5::978300760\n1::661::3::978302109\n");
  const CommandResult result = RunRubato({"init", "--data", "ratings.dat"}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("sed 's/::/\\t/g'"));
  EXPECT_EQ(ReadText(folder.path() + "/job.yaml"), "");
}

}  // namespace
}  // namespace rubato

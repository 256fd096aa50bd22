// From a checkpoint to scores: evaluate, predict, export and score say the same as training did,
// whatever is killed, and refuse what is damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rubato/adapters/sql/connection.h"
#include "tests/job_runner.h"
#include "tests/people.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The port of a `rubato score` once it listens.
int PortOf(RunningCommand& server) {
  int port = 0;
  EXPECT_TRUE(Eventually([&] {
    const std::string err = server.err();
    const size_t at = err.find("http://127.0.0.1:");
    return at != std::string::npos && err.find('\n', at) != std::string::npos &&
           absl::SimpleAtoi(err.substr(at + 17, err.find('\n', at) - at - 17), &port);
  })) << server.err();
  return port;
}

// One trained job for all tests: FOLDER/job, and its export, FOLDER/model.
class ServeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    folder_->Write("people.csv", PeopleCsv(4000, 0));
    folder_->Write("test.csv", PeopleCsv(1000, 4000));
    ASSERT_EQ(Run({"init", "--data", "people.csv", "--validation", "test.csv", "--label", "income"})
                  .exit_code,
              0);
    // Decay that rows must catch up with and the statistics of batch norm: what an export could
    // forget.
    TrainingJob training(
        path(), {path() + "/job.yaml", "--set", "servers=2", "--set",
                 "optimizer.weight_decay=0.001", "--set", "model_options.batch_norm=true", "--set",
                 "epochs=2", "--set", "evaluate.group=town"});
    const CommandResult result = training.Wait();
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const CommandResult exported = Run({"export", "job", "--out", "model", "--json"});
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static const std::string& path() { return folder_->path(); }
  static CommandResult Run(const std::vector<std::string>& words) {
    return RunRubato(words, path());
  }
  static std::vector<std::string> Lines(const std::string& name) {
    return absl::StrSplit(ReadText(path() + "/" + name), '\n', absl::SkipEmpty());
  }

  static ScratchFolder* folder_;
};
ScratchFolder* ServeTest::folder_ = nullptr;

// The job's last evaluation went through servers and workers; this one through a frozen copy.
TEST_F(ServeTest, EvaluateAgreesWithTraining) {
  const json trained = json::parse(ReadText(path() + "/job/summary.json"))["metrics"];
  for (const char* model : {"job", "model"}) {
    const CommandResult result = Run({"evaluate", model, "--data", "test.csv", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json metrics = json::parse(result.out)["metrics"];
    EXPECT_NEAR(metrics["logloss"].get<double>(), trained["logloss"].get<double>(), 1e-7);
    // Many people are alike, and training's batches are smaller: where matrices of another size add
    // in another order, a tie may be broken by the last bit.
    EXPECT_NEAR(metrics["auc"].get<double>(), trained["auc"].get<double>(), 1e-3);
    // Within a town there is something else to tell apart.
    EXPECT_NEAR(metrics["gauc"].get<double>(), trained["gauc"].get<double>(), 1e-3);
    EXPECT_NE(metrics["gauc"].get<double>(), metrics["auc"].get<double>());
  }
}

// However many models score side by side, every digit stays.
TEST_F(ServeTest, EvaluateIsTheSameForAnyNumberOfWorkers) {
  folder_->Write("wide.csv", PeopleCsv(70000, 0));
  std::string first;
  for (const char* workers : {"1", "2", "5"}) {
    const CommandResult result =
        Run({"evaluate", "model", "--data", "wide.csv", "--workers", workers, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["records"], 70000);
    const std::string metrics = json::parse(result.out)["metrics"].dump();
    EXPECT_THAT(metrics, HasSubstr("auc"));
    if (first.empty()) first = metrics;
    EXPECT_EQ(metrics, first) << workers;
  }
  // The first bad row ends it, whoever meets it.
  folder_->Write("broken.csv", PeopleCsv(70000, 0) + "old,Oslo,s1,>50K\n");
  const CommandResult broken = Run({"evaluate", "model", "--data", "broken.csv", "--workers", "3"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("broken.csv:70002: column 'age', 'old', is not"));
}

// Every row scores over HTTP as it does in a file read as training reads it, alone or with others.
TEST_F(ServeTest, ServedScoresAreTrainingScores) {
  ASSERT_EQ(
      Run({"predict", "job", "--data", "test.csv", "--out", "s.tsv", "--id", "serial"}).exit_code,
      0);
  const std::vector<std::string> lines = Lines("s.tsv");
  ASSERT_EQ(lines.size(), 1000u);
  RunningCommand server({"score", "model", "--listen", "127.0.0.1:0"}, path());
  httplib::Client client("127.0.0.1", PortOf(server));
  client.set_read_timeout(60);  // A busy machine may take its time.
  json all = {{"rows", json::array()}};
  for (int i = 4000; i < 5000; ++i) {
    json row = {{"town", i * 13 % 5 < 2 ? "Rome, Italy" : "Oslo"},
                {"serial", absl::StrCat("s", i)}};
    if (i % 17 != 0) row["age"] = 18 + i * 7 % 60;
    all["rows"].push_back(row);
  }
  const auto reply = client.Post("/score", all.dump(), "application/json");
  ASSERT_TRUE(reply) << httplib::to_string(reply.error());
  ASSERT_EQ(reply->status, 200) << reply->body;
  const json scores = json::parse(reply->body)["scores"];
  ASSERT_EQ(scores.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> line = absl::StrSplit(lines[i], '\t');
    ASSERT_EQ(line[0], absl::StrCat("s", 4000 + i));
    EXPECT_NEAR(scores[i].get<double>(), std::stod(line[1]), 1e-6);
    if (i % 100 != 0) continue;
    const json one = {{"rows", {all["rows"][i]}}};
    const auto alone = client.Post("/score", one.dump(), "application/json");
    EXPECT_NEAR(json::parse(alone->body)["scores"][0].get<double>(), std::stod(line[1]), 1e-6);
  }
  EXPECT_EQ(json::parse(client.Get("/health")->body)["state"], "serving");
  const std::string metrics = client.Get("/metrics")->body;
  EXPECT_THAT(metrics, HasSubstr("rubato_score_rows_total 1010"));
  EXPECT_THAT(metrics, HasSubstr("rubato_score_strangers_total{column=\"town\"} 0"));
  EXPECT_EQ(server.End(SIGINT), 0);
}

// Who saw what when, with weights of either sign among the genres, and rows without any.
json CellsOf(int i) {
  return json{{"age", absl::StrCat(18 + i * 7 % 60)},
              {"town", i * 13 % 5 < 2 ? "Rome" : "Oslo"},
              {"genres", i % 9 == 0 ? ""
                                    : absl::StrCat("action:", i % 4 - 1, ".5|drama|g", i % 23,
                                                   ":0.", i % 7 + 1)},
              {"seen", absl::StrFormat("2026-11-%02d %02d:30", 1 + i % 28, i * 5 % 24)}};
}

bool Likes(int i) { return (i % 3 == 0) != (i * 31 % 10 == 0); }

std::string ViewsCsv(int begin, int end) {
  std::string csv = "age,town,genres,seen,liked\n";
  for (int i = begin; i < end; ++i) {
    const json row = CellsOf(i);
    for (const char* column : {"age", "town", "genres", "seen"}) {
      absl::StrAppend(&csv, row[column].get<std::string>(), ",");
    }
    absl::StrAppend(&csv, Likes(i) ? 1 : 0, "\n");
  }
  return csv;
}

// So do bags with weights, crosses and times; and what is served has the logloss to the row that
// the last evaluation of training had, through servers and workers.
TEST(ServeFeaturesTest, ServedScoresAreTrainingScores) {
  ScratchFolder folder;
  folder.Write("train.csv", ViewsCsv(0, 3000));
  folder.Write("test.csv", ViewsCsv(3000, 3300));
  std::string features =
      "label: liked\nfeatures:\n  - {column: age, transform: normalize, mean: 47, deviation: 17}\n"
      "  - {name: bin, column: age, transform: discretize, boundaries: [30, 40, 50]}\n"
      "  - {column: town, transform: lookup, vocabulary: [Rome]}\n"
      "  - {columns: [bin, town], name: both, transform: cross, buckets: 50}\n"
      "  - {columns: [bin, town], name: either, transform: concatenate}\n"
      "  - {column: seen, name: hour, transform: time_part, part: hour}\n"
      "  - {column: seen, name: when, transform: log, read: time}\n";
  for (const char* combiner : {"sum", "mean", "sqrtn"}) {
    absl::StrAppend(&features, "  - {column: genres, name: ", combiner,
                    ", transform: hash, buckets: 40, separator: '|', weight_separator: ':', ",
                    "combiner: ", combiner, "}\n");
  }
  folder.Write("features.yaml", features);
  folder.Write("job.yaml",
               "model: deepfm\nmodel_options: {hidden: 16}\nfeatures: features.yaml\nservers: 2\n"
               "data: {train: train.csv, validation: test.csv, format: csv}\nbatch_size: 100\n");
  const auto run = [&](const std::vector<std::string>& words) {
    const CommandResult result = RunRubato(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << words[0] << ": " << result.err;
    return result.out;
  };
  const json trained = json::parse(run({"train", "job.yaml", "--job-dir", "job", "--json"}));
  run({"export", "job", "--out", "model"});
  run({"predict", "job", "--data", "test.csv", "--out", "scores.tsv"});
  const std::vector<std::string> lines =
      absl::StrSplit(ReadText(folder.path() + "/scores.tsv"), '\n', absl::SkipEmpty());
  RunningCommand server({"score", "model", "--listen", "127.0.0.1:0"}, folder.path());
  httplib::Client client("127.0.0.1", PortOf(server));
  client.set_read_timeout(60);  // A busy machine may take its time.
  json rows = {{"rows", json::array()}};
  for (int i = 3000; i < 3300; ++i) rows["rows"].push_back(CellsOf(i));
  const auto reply = client.Post("/score", rows.dump(), "application/json");
  ASSERT_TRUE(reply && reply->status == 200) << (reply ? reply->body : "no reply");
  const json scores = json::parse(reply->body)["scores"];
  ASSERT_EQ(scores.size(), 300u);
  ASSERT_EQ(lines.size(), 300u);
  double logloss = 0;
  for (int i = 0; i < 300; ++i) {
    const double score = scores[i];
    const std::vector<std::string> line = absl::StrSplit(lines[i], '\t');
    EXPECT_NEAR(score, std::stod(line[1]), 1e-6) << i;
    logloss -= std::log(Likes(3000 + i) ? score : 1 - score) / 300;
  }
  EXPECT_NEAR(logloss, trained["metrics"]["logloss"].get<double>(), 1e-6);
  EXPECT_EQ(server.End(SIGINT), 0);
}

TEST_F(ServeTest, WrongRequestsAreToldWhatIsWrong) {
  RunningCommand server({"score", "model", "--listen", "127.0.0.1:0"}, path());
  httplib::Client client("127.0.0.1", PortOf(server));
  client.set_read_timeout(60);  // A busy machine may take its time.
  const auto post = [&](const std::string& body) {
    const auto reply = client.Post("/score", body, "application/json");
    return reply ? absl::StrCat(reply->status, " ", reply->body) : std::string("no reply");
  };
  EXPECT_THAT(post("{\"rows\": [{}, {\"agee\": 1}]}"), HasSubstr("rows[1]: no column 'agee'; did"));
  EXPECT_THAT(post("{\"rows\": [{\"age\": \"old\"}]}"), HasSubstr("'old', is not a finite number"));
  EXPECT_THAT(post("{\"rows\": [{\"age\": {}}]}"), HasSubstr("neither text nor a number"));
  EXPECT_THAT(post("{\"rows\": [3]}"), HasSubstr("400 "));
  EXPECT_THAT(post("{\"rows\": []}"), AllOf(HasSubstr("200 "), HasSubstr("\"scores\":[]")));
  EXPECT_THAT(post("{\"rows\": [{\"age\": NaN}]}"), HasSubstr("null is missing"));
  EXPECT_THAT(post(std::string(9 << 20, ' ')), HasSubstr("413 "));
  EXPECT_THAT(post("{}"), HasSubstr("neither \\\"rows\\\" nor"));
  EXPECT_THAT(post(std::string(100000, '[')), HasSubstr("is not JSON"));
  EXPECT_THAT(post(std::string("\0\xff\xfe", 3)), HasSubstr("is not JSON"));
  EXPECT_THAT(post("{\"rows\": [{\"town\": \"\\ud800\"}]}"), HasSubstr("400"));
  EXPECT_THAT(post("{\"records\": [\"39,Oslo,s1,x\"]}"), HasSubstr("200 "));
  EXPECT_EQ(client.Get("/score")->status, 405);
  EXPECT_EQ(client.Put("/score", "{}", "application/json")->status, 405);
  EXPECT_EQ(client.Get("/nothing")->status, 404);
}

TEST_F(ServeTest, DamagedAndForeignExportsAreRefused) {
  for (const auto& file : fs::directory_iterator(path() + "/model")) {
    const std::string copy = path() + "/damaged";
    fs::remove_all(copy);
    fs::copy(path() + "/model", copy);
    const std::string victim = copy + "/" + file.path().filename().string();
    std::string bytes = ReadText(victim);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(victim, std::ios::binary) << bytes;
    const CommandResult result = Run({"evaluate", "damaged", "--data", "test.csv"});
    EXPECT_EQ(result.exit_code, 2) << victim << result.err;
    EXPECT_THAT(result.err, HasSubstr("damaged/"));
  }
  fs::remove_all(path() + "/other");
  fs::copy(path() + "/model", path() + "/other");
  json manifest = json::parse(ReadText(path() + "/other/manifest.json"));
  manifest["rubato"] = "9.9";
  folder_->Write("other/manifest.json", manifest.dump());
  const CommandResult other = Run({"score", "other", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("by rubato 9.9"));
  EXPECT_THAT(Run({"export", "job", "--out", "model"}).err, HasSubstr("--force"));
  EXPECT_THAT(Run({"evaluate", "job", "--from", "7"}).err, HasSubstr("no checkpoint 7"));
  EXPECT_THAT(Run({"evaluate", "job", "--from", "job/checkpoints/7/"}).err,
              HasSubstr("no checkpoint 7"));
  for (const char* bad : {"job", "somewhere/7", "newest", "0", "-1"}) {
    const CommandResult result = Run({"evaluate", "job", "--from", bad});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err,
                HasSubstr(absl::StrCat("--from: '", bad, "' is no checkpoint: give its number")));
  }
  EXPECT_THAT(Run({"evaluate", "people.csv"}).err, HasSubstr("neither a job directory"));
}

// --force is for exports. A slip of the pen costs no job, and nobody's other folder.
TEST_F(ServeTest, ExportReplacesExportsOnly) {
  for (const char* made : {"jobs", "precious", "empty"}) fs::create_directory(path() + "/" + made);
  fs::copy(path() + "/job", path() + "/jobs/mine", fs::copy_options::recursive);
  folder_->Write("precious/notes.txt", "mine");
  const auto export_to = [&](const std::string& out) {
    return Run({"export", "jobs/mine", "--out", out, "--force"});
  };
  for (const char* out : {"jobs/mine", "jobs/mine/", "jobs", ".", "precious", "people.csv",
                          "jobs/mine/checkpoints", "jobs/mine/checkpoints/1"}) {
    const CommandResult refused = export_to(out);
    EXPECT_EQ(refused.exit_code, 2) << out;
    EXPECT_THAT(refused.err, HasSubstr("is no export, which is all that --force replaces")) << out;
  }
  EXPECT_TRUE(fs::exists(path() + "/jobs/mine/journal"));
  EXPECT_TRUE(fs::exists(path() + "/precious/notes.txt"));
  for (const char* out : {"empty", "empty", "empty/", "new/"}) {
    EXPECT_EQ(export_to(out).exit_code, 0) << out;
  }
  EXPECT_TRUE(fs::exists(path() + "/empty/weights.bin"));
  EXPECT_TRUE(fs::exists(path() + "/new/weights.bin"));
  EXPECT_FALSE(fs::exists(path() + "/empty.replaced"));
}

// Killed again and again, predict still writes every line once, and knows of the row that it could
// not read before.
TEST_F(ServeTest, PredictGoesOnAfterEveryKill) {
  fs::copy(path() + "/job", path() + "/lenient", fs::copy_options::recursive);
  const std::string job = ReadText(path() + "/job/job.yaml");
  ASSERT_THAT(job, HasSubstr("bad_rows: fail"));
  folder_->Write("lenient/job.yaml",
                 absl::StrReplaceAll(job, {{"bad_rows: fail", "bad_rows: skip"}}));
  std::string many = PeopleCsv(300000, 0);
  many.replace(many.find("\n?") + 1, 1, "old");
  folder_->Write("many.csv", many);
  const char* const bad = "warning: 1 rows could not be read and have the score nan; the first: ";
  const std::vector<std::string> command = {"predict", "lenient",    "--data", "many.csv",
                                            "--out",   "killed.tsv", "--id",   "serial"};
  const std::string out = path() + "/killed.tsv";
  const auto kept = [&] {
    const json state = json::parse(ReadText(out + ".partial.state"), nullptr, false);
    return state.is_object() ? state.value("records", int64_t{0}) : 0;
  };
  int kills = 0;
  for (int64_t before = 0; kills < 3 && !fs::exists(out); before = kept()) {
    RunningCommand predict(command, path());
    ASSERT_TRUE(Eventually([&] { return kept() > before || !predict.running(); }));
    kills += predict.End(SIGKILL) == 128 + SIGKILL;
  }
  ASSERT_GT(kills, 0) << "the machine is too fast for this test: more records, please";
  // It may have been done before the last blow fell, or between its last two deeds: then the lines
  // have their name, and the count of them is still there.
  const bool was_done = fs::exists(out);
  if (!was_done || fs::exists(out + ".partial.state")) {
    const CommandResult last = Run(command);
    ASSERT_EQ(last.exit_code, 0) << last.err;
    EXPECT_TRUE(was_done || last.err.find("went on after") != std::string::npos) << last.err;
    EXPECT_THAT(last.err, HasSubstr(bad));
    EXPECT_THAT(last.err, HasSubstr("many.csv:2: column 'age', 'old', is not a finite number"));
  }
  const std::vector<std::string> lines = Lines("killed.tsv");
  ASSERT_EQ(lines.size(), 300000u);
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i].substr(0, lines[i].find('\t')), absl::StrCat("s", i));
  }
  EXPECT_FALSE(fs::exists(out + ".partial.state"));
  EXPECT_EQ(lines[0], "s0\tnan");
  const CommandResult calm =
      Run({"predict", "lenient", "--data", "many.csv", "--out", "calm.tsv", "--id", "serial"});
  ASSERT_EQ(calm.exit_code, 0) << calm.err;
  EXPECT_THAT(calm.err, HasSubstr(bad));
  EXPECT_EQ(ReadText(out), ReadText(path() + "/calm.tsv"));
}

// The exported TorchScript gives the scores that the model gives, and serving with it.
TEST_F(ServeTest, TorchScriptScoresAsTheModel) {
  EXPECT_EQ(json::parse(ReadText(path() + "/model/manifest.json"))["torchscript"], "model.pt");
  for (const bool script : {false, true}) {
    std::vector<std::string> words = {"predict",  "model", "--data",
                                      "test.csv", "--out", script ? "script.tsv" : "code.tsv"};
    if (script) words.push_back("--torchscript");
    const CommandResult result = Run(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  const std::vector<std::string> code = Lines("code.tsv"), script = Lines("script.tsv");
  ASSERT_EQ(code.size(), 1000u);
  ASSERT_EQ(script.size(), 1000u);
  for (size_t i = 0; i < code.size(); ++i) {
    const std::vector<std::string> a = absl::StrSplit(code[i], '\t');
    const std::vector<std::string> b = absl::StrSplit(script[i], '\t');
    EXPECT_EQ(a[0], b[0]);
    EXPECT_NEAR(std::stod(a[1]), std::stod(b[1]), 1e-6);
  }
  const CommandResult none = Run({"evaluate", "job", "--torchscript"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("there is no model.pt: it comes with an export"));
}

// The same scores in a database; killed on the way, every row is there once all the same.
TEST_F(ServeTest, PredictIntoSqliteGoesOnAfterAKill) {
  folder_->Write("most.csv", PeopleCsv(200000, 0));
  const std::string out = absl::StrCat("sqlite://", path(), "/scores.db?table=scores");
  const std::vector<std::string> command = {"predict", "model", "--data", "most.csv",
                                            "--out",   out,     "--id",   "serial"};
  const absl::StatusOr<SqlUri> uri = ParseSqlUri(out);
  ASSERT_TRUE(uri.ok()) << uri.status();
  const auto kept = [&] {
    int64_t records = 0;
    if (!fs::exists(path() + "/scores.db")) return records;
    Connection connection(*uri, {});
    const auto found = connection.QueryOnce("SELECT records FROM rubato_predictions");
    if (!found.ok() || found->rows.empty()) return records;  // Not yet, or being written.
    EXPECT_TRUE(absl::SimpleAtoi(found->rows[0][0].value_or(""), &records));
    return records;
  };
  RunningCommand predict(command, path());
  ASSERT_TRUE(Eventually([&] { return kept() > 0 || !predict.running(); })) << predict.err();
  predict.End(SIGKILL);
  const int64_t before = kept();
  ASSERT_GT(before, 0);
  const CommandResult last = Run(command);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr(absl::StrCat("went on after ", before, " records")));
  ASSERT_EQ(Run({"predict", "model", "--data", "most.csv", "--out", "most.tsv", "--id", "serial"})
                .exit_code,
            0);
  // Read back with our own reader of tables.
  ASSERT_EQ(Run({"convert", "--data", out, "--out", "back.tsv", "--no-header"}).exit_code, 0);
  const std::vector<std::string> lines = Lines("most.tsv"), rows = Lines("back.tsv");
  ASSERT_EQ(lines.size(), 200000u);
  ASSERT_EQ(rows.size(), 200000u);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> line = absl::StrSplit(lines[i], '\t');
    const std::vector<std::string> row = absl::StrSplit(rows[i], '\t');
    ASSERT_EQ(row[0], absl::StrCat(i));
    ASSERT_EQ(row[1], line[0]);
    ASSERT_NEAR(std::stod(row[2]), std::stod(line[1]), 1e-9);
  }
}

// The same rows in another format, or packed, score the same: columns are found by their names.
TEST_F(ServeTest, DataMayHaveAnotherFormatThanTraining) {
  ASSERT_EQ(Run({"predict", "model", "--data", "test.csv", "--out", "as-csv.out"}).exit_code, 0);
  const auto want = Lines("as-csv.out");
  ASSERT_EQ(want.size(), 1000u);
  for (const char* name : {"test2.tsv", "test2.csv.gz", "test2.rec", "rows.txt"}) {
    const bool is_named = std::string(name) != "rows.txt";
    std::vector<std::string> convert = {"convert", "--data", "test.csv", "--out", name};
    if (!is_named) convert.insert(convert.end(), {"--to", "tsv"});
    const CommandResult converted = Run(convert);
    ASSERT_EQ(converted.exit_code, 0) << converted.err;
    const std::string out = absl::StrCat(name, ".out");
    std::vector<std::string> predict = {"predict", "model", "--data", name, "--out", out};
    if (!is_named) {
      // Nothing tells what it is: read as in training it has one column, and that is said.
      const CommandResult wrong = Run(predict);
      EXPECT_EQ(wrong.exit_code, 2);
      EXPECT_THAT(wrong.err, HasSubstr("(read as csv; --format reads it as something else)"));
      predict.insert(predict.end(), {"--format", "tsv"});
    }
    const CommandResult predicted = Run(predict);
    ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
    EXPECT_EQ(Lines(out), want) << name;
  }
  const CommandResult evaluated = Run({"evaluate", "job", "--data", "test2.tsv", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["metrics"],
            json::parse(Run({"evaluate", "job", "--json"}).out)["metrics"]);
  EXPECT_EQ(Run({"evaluate", "job", "--data", "test.csv", "--format", "cvs"}).exit_code, 2);
}

// Rows to predict need no label, and their columns may stand in another order.
TEST_F(ServeTest, PredictNeedsNoLabels) {
  folder_->Write("new.csv", "town,serial,age\nOslo,s1,50\n\"Rome, Italy\",s2,\nOslo,s3,x\n");
  const CommandResult bad = Run({"predict", "model", "--data", "new.csv", "--out", "new.tsv"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("new.csv:4: column 'age', 'x', is not a finite number"));
  // Quotes that are letters do not make one cell of all that is between them.
  folder_->Write("new.csv", "town,serial,age\n\"Oslo,s1,50\nRome,s2,1\n\"Rome\",s3,5\n");
  const CommandResult stray = Run({"predict", "model", "--data", "new.csv", "--out", "new.tsv"});
  EXPECT_EQ(stray.exit_code, 2);
  EXPECT_THAT(stray.err,
              HasSubstr("new.csv:2: a quote that opens is never closed at the end of a"));
  folder_->Write("new.csv", "town,serial,age\nOslo,s1,50\n\"Rome, Italy\",s2,\n");
  ASSERT_EQ(Run({"predict", "model", "--data", "new.csv", "--out", "new.tsv"}).exit_code, 0);
  ASSERT_EQ(Lines("new.tsv").size(), 2u);
  EXPECT_EQ(Lines("new.tsv")[1].substr(0, 2), "1\t");
}

// The table that is read, or another that is there, is not what scores are written over.
TEST_F(ServeTest, PredictReplacesNothingUnasked) {
  const std::string rows = "town,serial,age\nOslo,s1,50\n\"Rome, Italy\",s2,\n";
  folder_->Write("own.csv", rows);
  fs::create_symlink("own.csv", path() + "/alias.csv");
  for (const char* out : {"own.csv", "./own.csv", "alias.csv"}) {
    for (const bool force : {false, true}) {
      std::vector<std::string> command = {"predict", "model", "--data", "ow*.csv", "--out", out};
      if (force) command.push_back("--force");
      const CommandResult result = Run(command);
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_THAT(result.err, HasSubstr("is what --data reads; name another"));
    }
  }
  EXPECT_EQ(ReadText(path() + "/own.csv"), rows);
  EXPECT_FALSE(fs::exists(path() + "/own.csv.partial.index"));
  folder_->Write("mine.tsv", "mine\n");
  std::vector<std::string> command = {"predict", "model", "--data", "own.csv", "--out", "mine.tsv"};
  const CommandResult refused = Run(command);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("mine.tsv is there; --force replaces it"));
  EXPECT_EQ(ReadText(path() + "/mine.tsv"), "mine\n");
  command.push_back("--force");
  ASSERT_EQ(Run(command).exit_code, 0);
  EXPECT_EQ(Lines("mine.tsv").size(), 2u);
  // Scores of other data stay, too, in a table.
  const std::string out = absl::StrCat("sqlite://", path(), "/kept.db?table=scores");
  ASSERT_EQ(Run({"predict", "model", "--data", "own.csv", "--out", out}).exit_code, 0);
  folder_->Write("other.csv", "town,serial,age\nOslo,s1,x\n");
  const CommandResult other = Run({"predict", "model", "--data", "other.csv", "--out", out});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("holds 2 scores of another model or of other data; --force"));
}

// Without servers and features: the weights of a group, and the format's own columns.
TEST(ServeGroupTest, AGroupsCheckpointScoresToo) {
  ScratchFolder folder;
  WriteCriteoJob(folder, 2000, "");
  const std::string job = folder.Write("group.yaml",
                                       "model: logistic\nmodel_options: {buckets: 500}\n"
                                       "data: {train: train.tsv, validation: valid.tsv}\n"
                                       "strategy: allreduce\nbatch_size: 256\n");
  TrainingJob training(folder.path(), {job});
  ASSERT_EQ(training.Wait().exit_code, 0);
  const json trained = training.Summary()["metrics"];
  ASSERT_EQ(RunRubato({"export", "job", "--out", "model"}, folder.path()).exit_code, 0);
  const CommandResult result = RunRubato({"evaluate", "model", "--json"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double logloss = json::parse(result.out)["metrics"]["logloss"];
  EXPECT_NEAR(logloss, trained["logloss"].get<double>(), 1e-7);
}

}  // namespace
}  // namespace rubato

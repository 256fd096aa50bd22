// Jobs that train on a real PostgreSQL, which goes away in the middle and comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/adapters/sql/database.h"
#include "rubato/adapters/sql/sql_source.h"
#include "rubato/adapters/sql/table_writer.h"
#include "tests/job_runner.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// A server of its own, in a folder, behind a Unix socket there, never as root: PostgreSQL refuses.
class Postgres {
 public:
  // Nothing if PostgreSQL is not installed.
  static std::optional<std::string> Binaries() {
    std::error_code error;
    for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", error)) {
      if (fs::exists(version.path() / "bin/postgres")) return version.path() / "bin";
    }
    return std::nullopt;
  }

  explicit Postgres(const std::string& folder) : binaries_(*Binaries()), folder_(folder) {
    fs::create_directories(folder_);
    fs::permissions(fs::path(folder_).parent_path(),
                    fs::perms::others_exec | fs::perms::others_read, fs::perm_options::add);
    if (getuid() == 0) RUBATO_EXPECT(chown(folder_.c_str(), kNobody, kNobody) == 0);
    RUBATO_EXPECT(
        Wait(Spawn({"initdb", "-A", "trust", "-U", "rubato", "-N", "-D", folder_ + "/db"})) == 0);
    Start();
  }
  ~Postgres() { Kill(); }

  void Start() {
    pid_ = Spawn({"postgres", "-D", folder_ + "/db", "-k", folder_, "-h", "", "-F"});
    EXPECT_TRUE(Eventually([&] { return Sql("SELECT 1") == 0; }));
  }
  // As kill -9 of the whole server would: connections break, nothing is said.
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGQUIT);
    Wait(pid_);
    pid_ = 0;
  }
  int Sql(const std::string& sql) {
    return Wait(Spawn({"psql", "-h", folder_, "-U", "rubato", "-d", "postgres", "-qc", sql}));
  }
  // Begins `sql`, which lasts.
  pid_t Hold(const std::string& sql) {
    return Spawn({"psql", "-h", folder_, "-U", "rubato", "-d", "postgres", "-qc", sql});
  }
  void Await(pid_t pid) { Wait(pid); }
  bool Holds(const std::string& condition) {
    return Sql(absl::StrCat("SELECT 1 / (", condition, ")::int")) == 0;
  }
  std::string Uri(const std::string& what) const {
    return absl::StrCat("postgresql:///postgres?host=", folder_, "&user=rubato&", what);
  }

 private:
  static void RUBATO_EXPECT(bool condition) { EXPECT_TRUE(condition); }

  pid_t Spawn(std::vector<std::string> words) {
    words[0] = binaries_ + "/" + words[0];
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(126);
    if (chdir(folder_.c_str()) != 0 || freopen("postgres.log", "a", stdout) == nullptr) _exit(126);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  static int Wait(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
  }

  const std::string binaries_, folder_;
  pid_t pid_ = 0;
};

class SqlTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Postgres::Binaries().has_value()) << "no PostgreSQL: run tools/install";
    postgres_.emplace(folder_.path() + "/pg");
    // Older people in the south are rich, mostly; keys have gaps.
    ASSERT_EQ(
        postgres_->Sql(
            "CREATE TABLE people AS SELECT 3 * i AS id, (18 + i * 7 % 60) AS age, CASE WHEN i "
            "* 13 % 5 < 2 THEN 'Rome, Italy' ELSE 'Oslo' END AS town, ((18 + i * 7 % 60 > 45 "
            "AND i * 13 % 5 < 2) <> (i * 31 % 10 = 0)) AS rich FROM generate_series(1, 30000) "
            "AS i; ALTER TABLE people ADD PRIMARY KEY (id)"),
        0);
  }

  // Other scores take the place of those in `scores`, which `calm` has too, all at once: until
  // then, and through a kill, the old ones are read.
  void ReplaceScores(const std::string& many, const std::string& scores) {
    ASSERT_EQ(postgres_->Sql("CREATE VIEW likely AS SELECT * FROM scores WHERE score > 0.5"), 0);
    const std::vector<std::string> by_row = {"predict", "job", "--data", many, "--out", scores};
    {
      std::vector<std::string> forced = by_row;
      forced.push_back("--force");
      RunningCommand predict(forced, folder_.path());
      ASSERT_TRUE(Eventually([&] {
        return postgres_->Holds(
                   "(SELECT count(*) FROM rubato_predictions WHERE records > 0) > 1") ||
               !predict.running();
      })) << predict.err();
      predict.End(SIGKILL);
    }
    EXPECT_TRUE(postgres_->Holds("(SELECT count(*) FROM scores JOIN calm USING (id)) = 120000"));
    const CommandResult replaced = RunRubato(by_row, folder_.path());
    EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
    EXPECT_THAT(replaced.err, HasSubstr("went on after "));
    EXPECT_TRUE(postgres_->Holds(
        "(SELECT count(*) = 120000 AND count(DISTINCT record) = 120000 FROM scores "
        "JOIN calm ON calm.id = (record + 1)::text WHERE scores.id = record::text "
        "AND scores.score = calm.score)"));
    EXPECT_TRUE(postgres_->Holds("(SELECT count(*) FROM rubato_predictions) = 1"));
    EXPECT_TRUE(postgres_->Holds("(SELECT count(*) FROM likely) >= 0"));
  }

  ScratchFolder folder_;
  std::optional<Postgres> postgres_;
};

// Nothing to program here either; and while it trains, the database dies twice.
TEST_F(SqlTest, ADatabaseThatGoesAwayCostsNothing) {
  const CommandResult init =
      RunRubato({"init", "--data", postgres_->Uri("table=people"), "--validation",
                 postgres_->Uri("query=SELECT * FROM people WHERE id %25 7 = 0&key=id"), "--label",
                 "rich", "--model", "logistic"},
                folder_.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  TrainingJob training(
      folder_.path(), {folder_.path() + "/job.yaml", "--set", "workers.max=2", "--set",
                       "batch_size=64", "--set", "epochs=3", "--set", "shuffle.buffer=512", "--set",
                       "evaluate.every_steps=1000000"});  // Else it ends as soon as it is good.
  // The terminal says it, once, and once that it is back.
  const auto said = [&](const std::string& words) {
    const std::vector<std::string> parts =
        absl::StrSplit(ReadText(folder_.path() + "/train.err"), words);
    return static_cast<int>(parts.size()) - 1;
  };
  const std::string who = absl::StrCat("people: the database at ", folder_.path(), "/pg ");
  int times = 0;
  for (const int64_t step : {100, 500}) {
    ASSERT_TRUE(training.ReachStep(step)) << ReadText(folder_.path() + "/train.err");
    postgres_->Kill();
    ++times;
    ASSERT_TRUE(Eventually([&] { return said(who + "has not answered for ") == times; }))
        << ReadText(folder_.path() + "/train.err");
    EXPECT_EQ(said(who + "is back after "), times - 1);
    postgres_->Start();
    ASSERT_TRUE(Eventually([&] { return said(who + "is back after ") == times; }))
        << ReadText(folder_.path() + "/train.err");
  }
  const CommandResult result = training.Wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(said("); trying again\n"), 2);
  EXPECT_EQ(said(" is back after "), 2);
  const nlohmann::json summary = training.Summary();
  EXPECT_EQ(summary["records_committed"], 90000);
  EXPECT_EQ(summary["records_repeated"], 0);
  EXPECT_EQ(summary["workers"]["lost"], 0);
  EXPECT_GT(summary["metrics"]["auc"].get<double>(), 0.75);
  std::string logs;
  for (const auto& log : fs::directory_iterator(training.job_dir() + "/logs")) {
    logs += ReadText(log.path());
  }
  EXPECT_THAT(logs, HasSubstr("the database is away, asking again"));
  ASSERT_EQ(RunRubato({"predict", "job", "--data", postgres_->Uri("table=people"), "--out",
                       "scores.tsv", "--id", "id"},
                      folder_.path())
                .exit_code,
            0);
  const std::string scores = ReadText(folder_.path() + "/scores.tsv");
  EXPECT_EQ(std::count(scores.begin(), scores.end(), '\n'), 30000);
  EXPECT_EQ(scores.substr(0, 2), "3\t");
}

// A lock that another holds is waited for, and said; nothing is read twice or left out.
TEST_F(SqlTest, ALockedTableIsWaitedForAndTold) {
  const pid_t other = postgres_->Hold("BEGIN; LOCK TABLE people; SELECT pg_sleep(8); COMMIT");
  ASSERT_TRUE(Eventually([&] {
    return postgres_->Holds(
        "(SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND "
        "relation = 'people'::regclass) > 0");
  }));
  const CommandResult init = RunRubato({"init", "--data", postgres_->Uri("table=people"), "--label",
                                        "rich", "--model", "logistic", "--json"},
                                       folder_.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(init.err, HasSubstr("the database is locked, asking again: another holds a lock"));
  EXPECT_EQ(nlohmann::json::parse(init.out)["rows"], 30000);
  postgres_->Await(other);
}

// One that is never given back ends the wait with a reason.
TEST_F(SqlTest, ALockForGoodIsAnErrorThatNamesIt) {
  const pid_t other = postgres_->Hold("BEGIN; LOCK TABLE people; SELECT pg_sleep(4); COMMIT");
  ASSERT_TRUE(Eventually([&] {
    return postgres_->Holds(
        "(SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND "
        "relation = 'people'::regclass) > 0");
  }));
  const absl::Status status =
      IndexTable(postgres_->Uri("table=people"), {.patience = absl::Milliseconds(300)}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the database was asked for 300ms in vain: another holds a lock on it"));
  postgres_->Await(other);
}

// Predictions into a table: predict is killed, the database is killed, and every row is there once.
TEST_F(SqlTest, PredictIntoATableThroughKills) {
  ASSERT_EQ(postgres_->Sql("CREATE TABLE many AS SELECT i AS id, p.age, p.town FROM "
                           "generate_series(1, 120000) AS i JOIN people AS p ON p.id = 3 * (i % "
                           "30000 + 1); ALTER TABLE many ADD PRIMARY KEY (id)"),
            0);
  ASSERT_EQ(RunRubato({"init", "--data", postgres_->Uri("table=people"), "--label", "rich",
                       "--model", "logistic"},
                      folder_.path())
                .exit_code,
            0);
  ASSERT_EQ(
      RunRubato({"train", "job.yaml", "--job-dir", "job", "--set", "max_steps=50"}, folder_.path())
          .exit_code,
      0);
  const std::string many = postgres_->Uri("table=many"), scores = postgres_->Uri("table=scores");
  const std::vector<std::string> command = {"predict", "job",  "--data", many,
                                            "--out",   scores, "--id",   "id"};
  const auto grown = [&](int64_t beyond) {
    return postgres_->Holds(
        absl::StrCat("coalesce((SELECT records FROM rubato_predictions), 0) > ", beyond));
  };
  for (const int64_t beyond : {0, 20000}) {
    RunningCommand predict(command, folder_.path());
    ASSERT_TRUE(Eventually([&] { return grown(beyond) || !predict.running(); })) << predict.err();
    predict.End(SIGKILL);
  }
  {
    Command predict(command, folder_.path(), "predict");
    ASSERT_TRUE(Eventually([&] { return grown(40000); })) << predict.err();
    postgres_->Kill();
    postgres_->Start();
    const CommandResult result = predict.Wait();
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_TRUE(
      postgres_->Holds("(SELECT count(*) = 120000 AND min(record) = 0 AND max(record) = "
                       "119999 AND count(DISTINCT id) = 120000 FROM scores)"));
  // The very scores that a file would have.
  ASSERT_EQ(RunRubato({"predict", "job", "--data", many, "--out", "calm.tsv", "--id", "id"},
                      folder_.path())
                .exit_code,
            0);
  ASSERT_EQ(postgres_->Sql(absl::StrCat("CREATE TABLE calm (id text, score float8); COPY calm "
                                        "FROM '",
                                        folder_.path(), "/calm.tsv'")),
            0);
  EXPECT_TRUE(
      postgres_->Holds("(SELECT count(*) = 120000 FROM scores JOIN calm USING (id) WHERE "
                       "scores.score = calm.score)"));
  // Which may as well be what is read: a model of a table's columns takes a file that has them.
  ASSERT_EQ(RunRubato({"convert", "--data", many, "--out", "many.csv"}, folder_.path()).exit_code,
            0);
  const CommandResult of_file = RunRubato(
      {"predict", "job", "--data", "many.csv", "--out", "file.tsv", "--id", "id"}, folder_.path());
  ASSERT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_TRUE(ReadText(folder_.path() + "/file.tsv") == ReadText(folder_.path() + "/calm.tsv"));
  ReplaceScores(many, scores);
  std::vector<std::string> back = command;
  back.push_back("--force");
  ASSERT_EQ(RunRubato(back, folder_.path()).exit_code, 0);
  // Once more: there is nothing left to do. And what is not ours stays.
  const CommandResult again = RunRubato(command, folder_.path());
  EXPECT_THAT(again.err, HasSubstr("went on after 120000"));
  const CommandResult foreign = RunRubato(
      {"predict", "job", "--data", many, "--out", postgres_->Uri("table=people")}, folder_.path());
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.err, HasSubstr("table people holds 30000 rows that no prediction wrote"));
}

// PostgreSQL is stricter with UTF-8 than SQLite is.
TEST_F(SqlTest, IdsOfAnyBytesAreWritten) {
  const auto writer = TableWriter::Open(
      {.uri = postgres_->Uri("table=ids"), .work = "model", .numbers = {"score"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const std::string& id :
       {std::string("a\0b", 3), std::string("K\xf6ln"), std::string("\xf0\x9f\x99\x82"),
        std::string("\xed\xa0\x80"), std::string("\xc0\xaf"), std::string("\xf4\x90\x80\x80")}) {
    ASSERT_TRUE((*writer)->Append(id, {0.5f}).ok());
  }
  const absl::Status kept = (*writer)->Keep();
  ASSERT_TRUE(kept.ok()) << kept;
  EXPECT_TRUE(
      postgres_->Holds("(SELECT count(*) FROM ids WHERE id IN ('a\\x00b', 'K\\xf6ln')) = 2"));
  EXPECT_TRUE(postgres_->Holds("(SELECT count(*) FROM ids) = 6"));
}

// Tags may be an array, which is read as a list in JSON is.
TEST_F(SqlTest, ArraysAreLists) {
  ASSERT_EQ(postgres_->Sql("CREATE TYPE genre AS ENUM ('drama', 'film noir'); CREATE TABLE films "
                           "(id int PRIMARY KEY, tags text[], genres genre[], seen bool[], l jsonb)"
                           "; INSERT INTO films VALUES (1, '{war,\"a, b\"}', '{drama,film noir}', "
                           "'{t,f}', '[\"war\", 7]'), (2, '{}', NULL, '{NULL}', '[]')"),
            0);
  const auto index = IndexTable(postgres_->Uri("table=films"));
  ASSERT_TRUE(index.ok()) << index.status();
  std::vector<std::string> records;
  ASSERT_TRUE((*OpenTable(*index))
                  ->Read(0, 2,
                         [&](int64_t, absl::string_view record) {
                           records.emplace_back(record);
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(records[0],
            R"(1,"[""war"", ""a, b""]","[""drama"", ""film noir""]","[1, 0]","[""war"", 7]")");
  EXPECT_EQ(records[1], "2,[],,[null],[]");
  // What init proposes is read so by those who ask a server of scores, too.
  ASSERT_EQ(postgres_->Sql("CREATE TABLE rated AS SELECT id, rich, ARRAY[town, 't' || id % 5] || "
                           "CASE WHEN id % 2 = 0 THEN ARRAY['u' || id % 7] END AS tags FROM "
                           "people; ALTER TABLE rated ADD PRIMARY KEY (id)"),
            0);
  const CommandResult init = RunRubato(
      {"init", "--data", postgres_->Uri("table=rated"), "--label", "rich"}, folder_.path());
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(ReadText(folder_.path() + "/features.yaml"), HasSubstr("brackets: true"));
}

// A table's address is all that a job need say of its data: no format, no folder, no files.
TEST_F(SqlTest, AJobOfAnAddressAlone) {
  const auto steps = [&](const std::string& name, const std::string& uri) -> nlohmann::json {
    const std::string job = folder_.Write(
        name + ".yaml", absl::StrCat("model: logistic\ndata: {train: \"", uri, "\"}\n"));
    const CommandResult result =
        RunRubato({"train", job, "--job-dir", name, "--set", "max_steps=50"}, folder_.path());
    if (result.exit_code != 0) return result.err;
    return nlohmann::json::parse(
        ReadText(absl::StrCat(folder_.path(), "/", name, "/summary.json")))["steps"];
  };
  ASSERT_EQ(
      postgres_->Sql("CREATE TABLE clicks AS SELECT rich AS click, town, age, id FROM people; "
                     "ALTER TABLE clicks ADD PRIMARY KEY (id)"),
      0);
  EXPECT_EQ(steps("postgres", postgres_->Uri("table=clicks")), 50);
  const std::string lite = folder_.path() + "/clicks.db";
  const auto database = OpenSqlite(lite, /*create=*/true);
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE((*database)
                  ->Query("CREATE TABLE clicks AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                          "SELECT i + 1 FROM n WHERE i < 30000) SELECT i % 5 < 2 AS click, CASE "
                          "WHEN i % 5 < 2 THEN 'Rome' ELSE 'Oslo' END AS town FROM n")
                  .ok());
  EXPECT_EQ(steps("sqlite", absl::StrCat("sqlite://", lite, "?table=clicks")), 50);
}

// What is printed names the table that was written, never the password.
TEST_F(SqlTest, NoPasswordIsPrinted) {
  const std::string people = postgres_->Uri("password=secret&table=people");
  const std::string scores = postgres_->Uri("password=secret&table=scores");
  for (const std::vector<std::string>& words : {
           std::vector<std::string>{"init", "--data", people, "--label", "rich", "--model",
                                    "logistic", "--json"},
           {"train", "job.yaml", "--job-dir", "job", "--set", "max_steps=20", "--json"},
           {"predict", "job", "--data", people, "--out", scores, "--json"},
           {"predict", "job", "--data", people, "--out", people, "--json"},
           {"analyze", "job.yaml", "--set", "data.train=" + scores + "_", "--json"},
           {"train", "job.yaml", "--set", "data.train=" + people, "--set", "data.format=csv"},
       }) {
    const CommandResult result = RunRubato(words, folder_.path());
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("secret"))) << words[0];
    if (words[0] == "predict" && words[5] == scores) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(nlohmann::json::parse(result.out)["out"], postgres_->Uri("table=scores"));
    }
  }
  EXPECT_THAT(ReadText(folder_.path() + "/job/events.jsonl"), Not(HasSubstr("secret")));
}

TEST_F(SqlTest, MistakesAreToldBeforeAnythingStarts) {
  ASSERT_EQ(postgres_->Sql("CREATE TABLE bare (a int); INSERT INTO bare VALUES (1)"), 0);
  const auto train = [&](const std::string& what) {
    const std::string job =
        folder_.Write("bad.yaml", absl::StrCat("model: logistic\ndata: {format: sql, train: \"",
                                               postgres_->Uri(what), "\", label: rich}\n"));
    const CommandResult result = RunRubato({"train", job, "--job-dir", "bad"}, folder_.path());
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(train("table=peple"),
              AllOf(HasSubstr("\"peple\" does not exist"), Not(HasSubstr("SELECT"))));
  EXPECT_THAT(train("table=bare"), HasSubstr("&key=COLUMN"));
  EXPECT_THAT(train("table=people&key=age"), HasSubstr("different values of age"));
  EXPECT_THAT(train("table=people&key=town"), HasSubstr("town"));
}

}  // namespace
}  // namespace rubato

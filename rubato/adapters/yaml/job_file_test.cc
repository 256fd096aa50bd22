#include "rubato/adapters/yaml/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/rng.h"
#include "rubato/job/job_keys.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kGood[] = R"(
name: ctr
model: deepfm
model_options: {dim: 16, hidden: [256, 128]}
data:
  train: [data/a.tsv, /abs/b.tsv.gz]
  validation: data/../valid.tsv
workers: {min: 1, max: 4}
optimizer: {name: adagrad, learning_rate: 0.1}
checkpoint:
  every_steps: 5000
deadline: 1h30m
epoch_barrier: yes
seed: 18446744073709551615
)";

TEST(LoadJobFileTest, ReadsEveryKindOfValue) {
  const absl::StatusOr<JobSpec> spec = ParseJobText(kGood, "/jobs/x.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name, "ctr");
  EXPECT_THAT(spec->model_options, ElementsAre(Pair("dim", "16"), Pair("hidden", "256,128")));
  EXPECT_THAT(spec->data.train, ElementsAre("/jobs/data/a.tsv", "/abs/b.tsv.gz"));
  EXPECT_THAT(spec->data.validation, ElementsAre("/jobs/valid.tsv"));
  EXPECT_EQ(spec->workers, (WorkersSpec{.min = 1, .max = 4}));
  EXPECT_EQ(spec->optimizer.learning_rate, 0.1);
  EXPECT_EQ(spec->checkpoint.every_steps, 5000);
  EXPECT_EQ(spec->deadline, absl::Minutes(90));
  EXPECT_TRUE(spec->epoch_barrier);
  EXPECT_EQ(spec->seed, 18446744073709551615u);
}

TEST(LoadJobFileTest, AJobWithoutANameIsCalledAfterItsFile) {
  EXPECT_EQ(ParseJobText("model: m\ndata: {train: t}", "/jobs/night.yaml")->name, "night");
}

// A file may be called anything; a job's name is also that of a folder.
TEST(LoadJobFileTest, ANameThatAJobCannotHaveIsMended) {
  const std::pair<std::string, std::string> cases[] = {
      {"my job (2).yaml", "my-job-2"},
      {"a--b.yaml", "a-b"},
      {".hidden.yaml", "hidden"},
      {"v1.2_x.yaml", "v1.2_x"},
      {"caf\xc3\xa9 1.yaml", "caf-1"},
      {"+++.yaml", "job"},
      {"-x.yaml", "x"},
      {std::string(120, 'a') + ".yaml", std::string(100, 'a')},
  };
  for (const auto& [file, name] : cases) {
    const absl::StatusOr<JobSpec> spec = ParseJobText("model: m\ndata: {train: t}", "/x/" + file);
    ASSERT_TRUE(spec.ok()) << file << ": " << spec.status();
    EXPECT_EQ(spec->name, name);
  }
  EXPECT_FALSE(ParseJobText("name: my job\nmodel: m\ndata: {train: t}", "/x/j.yaml").ok());
}

TEST(LoadJobFileTest, APluginIsFoundBesideTheJobFile) {
  EXPECT_EQ(ParseJobText("model: libmine.so\ndata: {train: t}", "/jobs/j.yaml")->model,
            "/jobs/libmine.so");
}

TEST(LoadJobFileTest, OverridesWin) {
  const absl::StatusOr<JobSpec> spec = ParseJobText(
      kGood, "/jobs/x.yaml",
      {"batch_size=64", "data.train=*.tsv", "data.validation=[a, b]", "model_options.dim=8",
       "elastic.lease=90s", "name=a=b-is-no-name", "name=again", "deadline=none"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(spec->batch_size, 64);
  EXPECT_THAT(spec->data.train, ElementsAre(here + "/*.tsv"));
  EXPECT_THAT(spec->data.validation, ElementsAre(here + "/a", here + "/b"));
  EXPECT_EQ(spec->model_options.at("dim"), "8");
  EXPECT_EQ(spec->elastic.lease, absl::Seconds(90));
  EXPECT_EQ(spec->name, "again");
  EXPECT_EQ(spec->deadline, absl::InfiniteDuration());
}

// What is said of one table, in the file and after --set, which wins.
TEST(LoadJobFileTest, TablesAreNamed) {
  const std::string text = R"(
model: m
data: {train: t}
tables:
  admit_count: 2
  named:
    users: {ttl_steps: 9, optimizer: {name: ftrl, schedule: {warmup: 0}}}
    a.b: {optimizer.learning_rate: 0.5}
)";
  const auto spec = ParseJobText(text, "/x/j.yaml",
                                 {"tables.named.users.ttl_steps=10", "tables.named.a.b.capacity=7",
                                  "tables.named.c.optimizer.beta1=0.5"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->tables.admit_count, 2);
  ASSERT_EQ(spec->named_tables.size(), 3u);
  const TableRules& users = spec->named_tables.at("users");
  EXPECT_THAT(users.given, ElementsAre("optimizer.name", "optimizer.schedule.warmup", "ttl_steps"));
  EXPECT_EQ(users.rows.ttl_steps, 10);
  EXPECT_EQ(users.optimizer.name, "ftrl");
  EXPECT_THAT(spec->named_tables.at("a.b").given,
              ElementsAre("capacity", "optimizer.learning_rate"));
  EXPECT_EQ(*ParseJobText(FormatJobText(*spec), "/x/j.yaml"), *spec) << FormatJobText(*spec);
  const auto again = ParseJobText(text, "/x/j.yaml", {"tables.named={items: {admit_count: 5}}"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->named_tables.size(), 1u);
  EXPECT_EQ(again->named_tables.at("items").rows.admit_count, 5);
}

// Where a key was given is known to whoever finds out later that it is wrong.
TEST(LoadJobFileTest, WhatIsFoundWrongLaterHasAPlace) {
  JobPlaces places;
  const auto spec =
      ParseJobText("model: m\ndata: {train: t}\ntables:\n  named:\n    users: {ttl_steps: 9}\n",
                   "j.yaml", {"tables.named.items.capacity=5"}, &places);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto located = [&](const char* message) {
    return std::string(Locate(absl::InvalidArgumentError(message), places, "").message());
  };
  EXPECT_EQ(located("tables.named.users: unknown"), "j.yaml:5: tables.named.users: unknown");
  EXPECT_EQ(located("tables.named.users.optimizer.l1: bad"),
            "j.yaml:5: tables.named.users.optimizer.l1: bad");
  EXPECT_EQ(located("tables.named.items: unknown"),
            "--set tables.named.items.capacity=5: tables.named.items: unknown");
  EXPECT_EQ(located("model m: bad"), "model m: bad");
}

// The format of an address is the address's own, in the file or after --set.
TEST(LoadJobFileTest, AnAddressOfADatabaseIsReadAsOne) {
  const auto format = [](const std::string& data, const std::vector<std::string>& overrides = {}) {
    const auto spec = ParseJobText("model: m\ndata: " + data, "/x/j.yaml", overrides);
    return spec.ok() ? spec->data.format : std::string(spec.status().message());
  };
  EXPECT_EQ(format("{train: \"postgresql://...?table=clicks\"}"), "sql");
  EXPECT_EQ(format("{train: \"sqlite:///a.db?table=clicks\"}"), "sql");
  EXPECT_EQ(format("{train: a.tsv}", {"data.train=sqlite://a.db?table=clicks"}), "sql");
  EXPECT_EQ(format("{train: a.tsv}"), "criteo");
  EXPECT_EQ(format("{train: \"sqlite:///a.db\", format: ./libmine.so}"), "/x/libmine.so");
  EXPECT_EQ(format("{train: \"sqlite:///a.db?table=t\", format: csv}"),
            "/x/j.yaml:2: data.format: sqlite:///a.db?table=t is in a database, which is `format: "
            "sql`, not csv");
  // A message names the place, never the password.
  EXPECT_EQ(format("{train: a.tsv}", {"data.validation=postgresql://me:secret@db/shop?table=v"}),
            "--set data.validation=postgresql://me@db/shop?table=v: data.validation: "
            "postgresql://me@db/shop?table=v is in a database, which is `format: sql`, not criteo");
}

struct BadText {
  std::string text;
  std::vector<std::string> overrides;
  std::string message;
};

void ExpectRefused(absl::Span<const BadText> cases) {
  for (const BadText& bad : cases) {
    EXPECT_EQ(ParseJobText(bad.text, "job.yaml", bad.overrides).status(),
              absl::InvalidArgumentError(bad.message))
        << bad.text;
  }
}

TEST(LoadJobFileTest, WhatIsWrongIsNamedWithItsLine) {
  const std::string good = "model: m\ndata: {train: t}\n";
  const BadText cases[] = {
      {"", {}, "job.yaml: the job file is empty"},
      {"just words", {}, "job.yaml:1: the job file: expected keys and values"},
      {"model: m\n\n\noptimzer: {name: sgd}",
       {},
       "job.yaml:4: unknown key 'optimzer'; did you mean 'optimizer'?"},
      {"data:\n  trian: x", {}, "job.yaml:2: unknown key 'data.trian'; did you mean 'train'?"},
      {"learning_rate: 1",
       {},
       "job.yaml:1: unknown key 'learning_rate'; did you mean 'optimizer.learning_rate'?"},
      {"frobnicate: 1", {}, "job.yaml:1: unknown key 'frobnicate'"},
      {"model: m\nbatch_size: many",
       {},
       "job.yaml:2: batch_size: expected an integer, found 'many'"},
      {"batch_size: 1.5", {}, "job.yaml:1: batch_size: expected an integer, found '1.5'"},
      {"batch_size: [1, 2]", {}, "job.yaml:1: batch_size: expected an integer, found a list"},
      {"batch_size:", {}, "job.yaml:1: batch_size: expected an integer, found nothing"},
      {"batch_size: 99999999999999999999",
       {},
       "job.yaml:1: batch_size: expected an integer, found '99999999999999999999'"},
      {"seed: -1", {}, "job.yaml:1: seed: expected a non-negative integer, found '-1'"},
      {"epoch_barrier: maybe",
       {},
       "job.yaml:1: epoch_barrier: expected true or false, found 'maybe'"},
      {"deadline: 90",
       {},
       "job.yaml:1: deadline: expected a duration such as 90s or 2h, found '90'"},
      {"data: {train: [[a]]}",
       {},
       "job.yaml:1: data.train: expected a text or a list of texts, found a list"},
      {"data: some.tsv", {}, "job.yaml:1: data: expected keys and values"},
      {"model_options: deep",
       {},
       "job.yaml:1: model_options: expected a map of options, found 'deep'"},
      {"seed: 1\nseed: 2", {}, "job.yaml:2: key 'seed' was given already at job.yaml:1"},
      {"data: {train: a}\ndata: {label: b}",
       {},
       "job.yaml:2: key 'data' was given already at job.yaml:1"},
      {"name: [", {}, "job.yaml:1: end of sequence flow not found"},
      {good + "workers:\n  min: 5", {}, "job.yaml: workers.max: 1 is less than workers.min, 5"},
      {good + "workers:\n  min: 5\n  max: 2",
       {},
       "job.yaml:5: workers.max: 2 is less than workers.min, 5"},
      {good, {"batch_size=0"}, "--set batch_size=0: batch_size: 0 is less than 1"},
      {good, {"batch_size=x"}, "--set batch_size=x: batch_size: expected an integer, found 'x'"},
      {good,
       {"batchsize=1"},
       "--set batchsize=1: unknown key 'batchsize'; did you mean 'batch_size'?"},
      {good, {"data.tain=1"}, "--set data.tain=1: unknown key 'data.tain'; did you mean 'train'?"},
      {good,
       {"workers=4"},
       "--set workers=4: 'workers' is a section; set one of its keys, workers.min"},
      {good, {"seed"}, "--set seed: expected key=value"},
      {good, {"data.train=[a"}, "--set data.train=[a: end of sequence flow not found"},
  };
  ExpectRefused(cases);
}

// What is said of one table, too.
TEST(LoadJobFileTest, WhatIsWrongOfATableIsNamedWithItsLine) {
  const std::string good = "model: m\ndata: {train: t}\n";
  const BadText cases[] = {
      {good + "tables: {named: {users: 5}}",
       {},
       "job.yaml:3: tables.named.users: expected keys and values"},
      {good + "tables:\n  named:\n    users: {ttl_step: 5}",
       {},
       "job.yaml:5: unknown key 'tables.named.users.ttl_step'; did you mean 'ttl_steps'?"},
      {good + "tables:\n  named:\n    users: {learning_rate: 5}",
       {},
       "job.yaml:5: unknown key 'tables.named.users.learning_rate'; did you mean "
       "'optimizer.learning_rate'?"},
      {good + "tables:\n  named:\n    users:\n      optimizer: {rate: 5, bta1: 3}",
       {},
       "job.yaml:6: unknown key 'tables.named.users.optimizer.rate'"},
      {good + "tables:\n  named:\n    users:\n      optimizer: {bta1: 3}",
       {},
       "job.yaml:6: unknown key 'tables.named.users.optimizer.bta1'; did you mean 'beta1'?"},
      {good + "tables:\n  named:\n    users: {capacity: many}",
       {},
       "job.yaml:5: tables.named.users.capacity: expected an integer, found 'many'"},
      {good + "tables:\n  named:\n    users: {capacity: 1}\n    users: {capacity: 2}",
       {},
       "job.yaml:6: key 'tables.named.users' was given already at job.yaml:5"},
      {good + "tables:\n  named:\n    users:\n      capacity: -1",
       {},
       "job.yaml:6: tables.named.users.capacity: -1 is less than 0"},
      {good + "tables:\n  named:\n    users:\n      optimizer:\n        beta1: 1",
       {},
       "job.yaml:7: tables.named.users.optimizer.beta1: 1 is not a number of 0 or "
       "more and less than 1"},
      {good,
       {"tables.named.users.ttl=5"},
       "--set tables.named.users.ttl=5: unknown key 'tables.named.users.ttl'"},
      {good,
       {"tables.named.users=5"},
       "--set tables.named.users=5: 'tables.named.users' is a section; set one of its keys, "
       "tables.named.users.admit_count"},
      {good, {"tables.named=5"}, "--set tables.named=5: tables.named: expected keys and values"},
      {good + "strategy: allreduce",
       {"tables.named.users.ttl_steps=5"},
       "job.yaml: tables.named: {users: {ttl_steps: 5}} does nothing with strategy: allreduce, "
       "which has no servers; take it out, or use strategy: ps"},
  };
  ExpectRefused(cases);
}

TEST(LoadJobFileTest, AMissingFileIsNamed) {
  EXPECT_EQ(LoadJobFile("/nowhere/job.yaml").status(),
            absl::NotFoundError("/nowhere/job.yaml: cannot open: No such file or directory"));
}

// Whatever a spec holds, its file holds the same.
TEST(WriteJobFileTest, LoadsBackEqual) {
  const TestFolder folder;
  JobSpec spec = *ParseJobText(kGood, "/jobs/x.yaml");
  spec.data.format = "csv";
  spec.data.numeric = {"age", "- odd: \"name\"", "null", "~", "12", "true", "naïve\n"};
  spec.data.label = " y";
  spec.model_options["note"] = "";
  spec.optimizer.learning_rate = 1.0 / 3;
  spec.elastic.heartbeat = absl::Microseconds(1500);
  const std::string path = folder.File("job.yaml");
  ASSERT_TRUE(WriteJobFile(path, spec).ok());
  const absl::StatusOr<JobSpec> loaded = LoadJobFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, spec) << *ReadWholeFile(path);
}

TEST(WriteJobFileTest, NamesEveryKey) {
  const std::string text = FormatJobText(JobSpec());
  for (const JobKey& key : JobKeys()) {
    EXPECT_THAT(text, HasSubstr(key.name.substr(key.name.find('.') + 1) + ": ")) << key.name;
  }
}

// Bytes that are no YAML are refused, whatever they are.
TEST(LoadJobFileTest, RandomBytesNeverCrash) {
  Rng rng(11);
  const std::string alphabet = "abc:-[]{}\n \t\"'#&*!|>%@`,?0\x80\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t n = rng.Below(60); n > 0; --n) text += alphabet[rng.Below(alphabet.size())];
    EXPECT_FALSE(ParseJobText(text, "job.yaml").ok()) << text;
  }
}

// docs/job.md lists every key with its type, its default and its line of explanation.
TEST(JobPageTest, ListsEveryKey) {
  const absl::StatusOr<std::string> page = ReadWholeFile("../../../docs/job.md");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, HasSubstr(JobKeysMarkdown()));
}

}  // namespace
}  // namespace rubato

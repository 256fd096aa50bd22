#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "absl/types/span.h"
#include "rubato/job/advice.h"
#include "rubato/job/contract.h"
#include "rubato/job/job_keys.h"
#include "rubato/job/job_spec.h"
#include "rubato/job/suggest.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace {

JobSpec GoodJob() {
  JobSpec spec;
  spec.name = "ctr";
  spec.model = "deepfm";
  spec.data.train = {"train.tsv"};
  return spec;
}

TEST(ValidateTest, TheDefaultsAreValidOnceModelAndDataAreNamed) {
  EXPECT_TRUE(GoodJob().Validate().ok()) << GoodJob().Validate();
}

struct BadJob {
  std::function<void(JobSpec&)> spoil;
  std::string message;
};

void ExpectRefused(absl::Span<const BadJob> cases) {
  for (const BadJob& bad : cases) {
    JobSpec spec = GoodJob();
    bad.spoil(spec);
    EXPECT_EQ(spec.Validate(), absl::InvalidArgumentError(bad.message));
  }
}

// Each message names the key, the value and the remedy.
TEST(ValidateTest, WhatIsWrongIsNamed) {
  const BadJob cases[] = {
      {[](JobSpec& s) { s.name = ""; }, "name: a job needs a name"},
      {[](JobSpec& s) { s.name = "a/b"; },
       "name: 'a/b' names a folder: use up to 100 letters, digits, '-', '_' and '.', and no '.' "
       "in front"},
      {[](JobSpec& s) { s.model = ""; },
       "model: name a model of the zoo such as deepfm or resnet, or a plug-in"},
      {[](JobSpec& s) { s.data.train.clear(); }, "data.train: name the files to train on"},
      {[](JobSpec& s) { s.data.validation = {""}; }, "data.validation: a file's name is empty"},
      {[](JobSpec& s) { s.data.format = "cvs"; },
       "data.format: 'cvs' is not one of criteo, csv, tsv, ssv, psv, libfm, libsvm, libffm, idx, "
       "recordio, "
       "sql; did you mean 'csv'?"},
      {[](JobSpec& s) {
         s.data.format = "idx";
         s.data.train = {"a", "b", "c"};
       },
       "data.train: idx needs a folder, or a file of images and one of labels, not 3 files"},
      {[](JobSpec& s) { s.data.label = "click"; },
       "data.label: only csv, tsv, recordio and sql have named columns; data.format is criteo"},
      {[](JobSpec& s) {
         s.data.format = "csv";
         s.data.numeric = {"age"};
         s.data.categorical = {"city", "age"};
       },
       "data.categorical: column 'age' is used twice"},
      {[](JobSpec& s) { s.data.bad_rows = "ignore"; },
       "data.bad_rows: 'ignore' is not one of fail, skip"},
      {[](JobSpec& s) { s.data.bad_rows_max = -1; }, "data.bad_rows_max: -1 is less than 0"},
      {[](JobSpec& s) { s.strategy = "pss"; },
       "strategy: 'pss' is not one of ps, allreduce; did you mean 'ps'?"},
      {[](JobSpec& s) { s.workers.min = 0; }, "workers.min: 0 is less than 1"},
      {[](JobSpec& s) { s.workers = {.min = 3, .max = 2}; },
       "workers.max: 2 is less than workers.min, 3"},
      {[](JobSpec& s) { s.workers = {.min = 2, .max = 4, .start = 1}; },
       "workers.start: 1 is not between workers.min, 2, and workers.max, 4 (0 means workers.max)"},
      {[](JobSpec& s) { s.servers = 0; }, "servers: 0 is less than 1"},
      {[](JobSpec& s) { s.batch_size = 1 << 30; }, "batch_size: 1073741824 is more than 16777216"},
      {[](JobSpec& s) { s.epochs = 0; }, "epochs: 0 is less than 1"},
      {[](JobSpec& s) { s.max_steps = -1; }, "max_steps: -1 is less than 0"},
      {[](JobSpec& s) { s.checkpoint.keep = 0; }, "checkpoint.keep: 0 is less than 1"},
      {[](JobSpec& s) { s.elastic.heartbeat = absl::ZeroDuration(); },
       "elastic.heartbeat: 0 is less than 1ms"},
      {[](JobSpec& s) { s.elastic.lease = absl::Milliseconds(200); },
       "elastic.lease: 200ms is not finite and at least three times elastic.heartbeat, 100ms; one "
       "lost message would cost a worker its tasks"},
      {[](JobSpec& s) { s.deadline = absl::Seconds(-1); }, "deadline: -1s is not in the future"},
      {[](JobSpec& s) { s.allreduce.microbatches = s.batch_size + 1; },
       "allreduce.microbatches: 513 parts cannot be cut from a batch_size of 512"},
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.allreduce.deterministic = true;
         s.workers.max = 20;
       },
       "allreduce.microbatches: 0 stands for 16, too few for 20 workers; the result depends on "
       "their number, so with allreduce.deterministic: true give it yourself"},
      {[](JobSpec& s) { s.allreduce.batch_warmup = 5; },
       "allreduce.batch_warmup: 5 samples phase a larger batch in, but with allreduce.batch_rule: "
       "constant none grows; choose linear or sqrt, or leave it out"},
      {[](JobSpec& s) { s.allreduce.wire = "fp8"; },
       "allreduce.wire: 'fp8' is not one of fp32, bf16, fp16"},
      {[](JobSpec& s) { s.priority = "hihg"; },
       "priority: 'hihg' is not one of low, normal, high; did you mean 'high'?"},
  };
  ExpectRefused(cases);
}

// What one table has otherwise is judged with what the job says of all.
TEST(ValidateTest, RulesOfATableAreNamedWithIt) {
  const auto say = [](const char* table, const char* key, auto TableRules::*part, auto set) {
    return [=](JobSpec& s) {
      TableRules& rules = s.named_tables[table];
      set(rules.*part);
      rules.given.insert(key);
    };
  };
  const BadJob cases[] = {
      {say("users", "ttl_steps", &TableRules::rows, [](RowsSpec& r) { r.ttl_steps = -1; }),
       "tables.named.users.ttl_steps: -1 is less than 0"},
      {say("users", "optimizer.name", &TableRules::optimizer,
           [](OptimizerSpec& o) { o.name = "adamm"; }),
       "tables.named.users.optimizer.name: 'adamm' is not one of sgd, momentum, nesterov, adagrad, "
       "rowwise_adagrad, adam, dense_adam, amsgrad, adamw, rmsprop, ftrl; did you mean 'adam'?"},
      {say("users", "optimizer.l1", &TableRules::optimizer, [](OptimizerSpec& o) { o.l1 = 1; }),
       "tables.named.users.optimizer.l1: is ftrl's; adagrad has optimizer.weight_decay"},
  };
  ExpectRefused(cases);
}

// A single key is in the place of the job's; an optimizer that is named is another one.
TEST(TableRulesTest, WhatIsNotSaidIsAsOfAllTables) {
  const RowsSpec all = {.admit_count = 3, .ttl_steps = 50};
  const OptimizerSpec job = {.name = "adam", .learning_rate = 0.1, .weight_decay = 0.5};
  TableRules rules;
  rules.given = {"ttl_steps", "optimizer.learning_rate"};
  rules.rows.ttl_steps = 7;
  rules.optimizer.learning_rate = 0.2;
  EXPECT_EQ(RowsBy(rules, all), (RowsSpec{.admit_count = 3, .ttl_steps = 7}));
  OptimizerSpec faster = job;
  faster.learning_rate = 0.2;
  EXPECT_EQ(OptimizerBy(rules, job), faster);
  rules.given.insert("optimizer.name");
  rules.optimizer.name = "ftrl";
  EXPECT_EQ(OptimizerBy(rules, job), (OptimizerSpec{.name = "ftrl", .learning_rate = 0.2}));
}

// What clips is done to the gradient of a whole step.
TEST(TableRulesTest, EveryKeyOfTablesAndOptimizersButClipsMayBeSaid) {
  std::set<std::string> known;
  for (const JobKey& key : JobKeys()) {
    if (key.name.rfind("tables.", 0) == 0 && key.name != kNamedTables) {
      known.insert(key.name.substr(7));
    } else if (key.name.rfind("optimizer.", 0) == 0 && key.name.find("clip") == key.name.npos) {
      known.insert(key.name);
    }
  }
  const auto& keys = TableRuleKeys();
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()), known);
}

// A view of more is taken for garbage.
TEST(ValidateTest, WorkersThatNoGroupCanHaveAreRefused) {
  const BadJob cases[] = {
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.workers.max = 1001;
       },
       "workers.max: 1001 is more than 1000, as many as a group can have; use 1000 or less, or "
       "strategy: ps"},
  };
  ExpectRefused(cases);
  JobSpec spec = GoodJob();
  spec.workers.max = 1001;
  EXPECT_TRUE(spec.Validate().ok()) << spec.Validate();
}

TEST(ValidateTest, WhatIsWrongWithServersIsNamed) {
  const BadJob cases[] = {
      {[](JobSpec& s) { s.params.wire = "fp8"; },
       "params.wire: 'fp8' is not one of fp32, bf16, fp16"},
      {[](JobSpec& s) { s.params.threads = 0; }, "params.threads: 0 is less than 1"},
      {[](JobSpec& s) { s.params.replicas = 2; }, "params.replicas: 2 is more than 1"},
      {[](JobSpec& s) { s.params.replicas = 1; },
       "params.replicas: 1: there is no other server to keep a copy of the log; set servers: 2 or "
       "more"},
      {[](JobSpec& s) { s.params.staleness_max = -1; }, "params.staleness_max: -1 is less than 0"},
      {[](JobSpec& s) {
         s.params.staleness_max = 11;
         s.workers.max = 4;
         s.max_inflight = 2;
       },
       "params.staleness_max: 11: 4 workers with max_inflight 2 are behind each other by up to 12 "
       "steps, and most of what they compute would be refused; 0 is no bound"},
      {[](JobSpec& s) {
         s.params.staleness_max = 40;
         s.mode = "hybrid";
       },
       "params.staleness_max: with mode: hybrid rounds.tolerance bounds how far behind a gradient "
       "may be"},
      {[](JobSpec& s) { s.params.staleness = "halve"; },
       "params.staleness: 'halve' is not one of ignore, scale"},
      {[](JobSpec& s) {
         s.params.staleness = "scale";
         s.mode = "sync";
       },
       "params.staleness: with mode: sync rounds say how far behind a gradient may be; it goes "
       "with mode: async"},
      {[](JobSpec& s) { s.checkpoint.full_every = 0; }, "checkpoint.full_every: 0 is less than 1"},
      {[](JobSpec& s) { s.checkpoint.log_bytes = 1000; },
       "checkpoint.log_bytes: 1000 is neither 0, for no limit, nor 1048576 or more"},
      {[](JobSpec& s) { s.checkpoint.log_bytes = -1; },
       "checkpoint.log_bytes: -1 is neither 0, for no limit, nor 1048576 or more"},
      {[](JobSpec& s) { s.servers = 1025; }, "servers: 1025 is more than 1024"},
      {[](JobSpec& s) { s.evaluate.metric = "aucc"; },
       "evaluate.metric: 'aucc' is not one of auc, gauc, accuracy, loss, logloss, rmse; did you "
       "mean 'auc'?"},
      {[](JobSpec& s) { s.evaluate.metric = "gauc"; },
       "evaluate.metric: gauc is the mean over groups; name their column, as evaluate.group: user"},
      {[](JobSpec& s) { s.params.metrics = "here"; },
       "params.metrics: here is no address: write host:port"},
      {[](JobSpec& s) { s.metrics = "9100"; }, "metrics: 9100 is no address: write host:port"},
      {[](JobSpec& s) { s.params.metrics = "localhost:99999"; },
       "params.metrics: localhost:99999: port 99999 and the 0 after it, one a server, pass 65535"},
  };
  ExpectRefused(cases);
}

// What one strategy does not read is refused, not passed over in silence.
TEST(ValidateTest, KeysOfTheOtherStrategyAreNamed) {
  const BadJob cases[] = {
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.checkpoint.full_every = 2;
       },
       "checkpoint.full_every: 2 does nothing with strategy: allreduce, which has no servers; take "
       "it out, or use strategy: ps"},
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.servers = 2;
       },
       "servers: 2 does nothing with strategy: allreduce, which has no servers; take it out, or "
       "use strategy: ps"},
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.max_inflight = 0;
       },
       "max_inflight: 0 does nothing with strategy: allreduce, which has no servers; take it out, "
       "or use strategy: ps"},
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.tables.ttl_steps = 100;
       },
       "tables.ttl_steps: 100 does nothing with strategy: allreduce, which has no servers; take it "
       "out, or use strategy: ps"},
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.evaluate.every = absl::Seconds(9);
       },
       "evaluate.every: strategy: allreduce evaluates by steps; use evaluate.every_steps"},
      {[](JobSpec& s) { s.allreduce.wire = "bf16"; },
       "allreduce.wire: bf16 does nothing with strategy: ps; take it out, or use strategy: "
       "allreduce"},
  };
  ExpectRefused(cases);
}

TEST(ValidateTest, WhatIsWrongWithAnOptimizerIsNamed) {
  const BadJob cases[] = {
      {[](JobSpec& s) { s.optimizer.name = "adagard"; },
       "optimizer.name: 'adagard' is not one of sgd, momentum, nesterov, adagrad, rowwise_adagrad, "
       "adam, dense_adam, amsgrad, adamw, rmsprop, ftrl; did you mean 'adagrad'?"},
      {[](JobSpec& s) { s.optimizer.learning_rate = 0; },
       "optimizer.learning_rate: 0 is not a finite number above 0"},
      {[](JobSpec& s) { s.optimizer.epsilon = -2; },
       "optimizer.epsilon: -2 is not a finite number of 0 or more"},
      {[](JobSpec& s) { s.optimizer.epsilon = 0; },
       "optimizer.epsilon: 0 with optimizer.initial_accumulator 0 divides by zero; make one "
       "positive"},
      {[](JobSpec& s) { s.optimizer.beta2 = 1; },
       "optimizer.beta2: 1 is not a number of 0 or more and less than 1"},
      {[](JobSpec& s) { s.optimizer.weight_decay = 100; },
       "optimizer.weight_decay: 100 times optimizer.learning_rate, 0.01, is not less than 1"},
      {[](JobSpec& s) {
         s.optimizer.weight_decay = 30;
         s.optimizer.schedule = {.name = "linear", .samples = 100, .end = 4};
       },
       "optimizer.schedule.end: 4 times optimizer.learning_rate, 0.01, times "
       "optimizer.weight_decay, 30, is not less than 1"},
      {[](JobSpec& s) { s.optimizer.schedule = {.name = "step", .samples = 100, .factor = 1.5}; },
       "optimizer.schedule.factor: 1.5 is above 1: the learning rate would grow without end"},
      {[](JobSpec& s) { s.optimizer.l1 = 0.1; },
       "optimizer.l1: is ftrl's; adagrad has optimizer.weight_decay"},
      {[](JobSpec& s) {
         s.optimizer.name = "ftrl";
         s.optimizer.schedule.warmup = 5;
       },
       "optimizer.schedule: ftrl keeps one learning rate: its weights would jump"},
      {[](JobSpec& s) { s.optimizer.schedule.name = "cosine"; },
       "optimizer.schedule.samples: a cosine schedule needs its length in samples"},
  };
  ExpectRefused(cases);
}

TEST(ValidateTest, ALeaseTooShortToAgreeWithinIsNamed) {
  ExpectRefused({
      {[](JobSpec& s) {
         s.strategy = "allreduce";
         s.elastic = {.lease = absl::Milliseconds(100), .heartbeat = absl::Milliseconds(20)};
       },
       "elastic.lease: 100ms is less than 300ms, what all workers need to agree on who is left; "
       "with strategy: allreduce the living would be taken for dead"},
  });
}

// Workers that train together agree on whatever a step depends on, not on what is theirs alone.
TEST(TrainingContractTest, HoldsWhatAStepDependsOn) {
  const auto differs = [](void (*change)(JobSpec&)) {
    JobSpec spec;
    const std::string before = TrainingContract(spec);
    change(spec);
    return TrainingContract(spec) != before;
  };
  EXPECT_TRUE(differs([](JobSpec& s) { s.model = "resnet"; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.model_options["width"] = "8"; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.batch_size = 64; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.epochs = 2; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.seed = 8; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.optimizer.learning_rate = 0.5; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.allreduce.quorum = "any"; }));
  EXPECT_TRUE(differs([](JobSpec& s) { s.evaluate.every_steps = 9; }));
  EXPECT_FALSE(differs([](JobSpec& s) { s.data.train = {"elsewhere"}; }));
  EXPECT_FALSE(differs([](JobSpec& s) { s.workers.max = 3; }));
  EXPECT_FALSE(differs([](JobSpec& s) { s.checkpoint.keep = 1; }));
}

// Where the plan is cut by the number of workers, all go through it only if they cut it alike.
TEST(TrainingContractTest, HoldsTheNumberOfWorkersWhereThePlanHangsOnIt) {
  JobSpec spec;
  spec.strategy = "allreduce";
  const auto hangs_on_it = [&] {
    JobSpec more = spec;
    more.workers.max = 8;
    return TrainingContract(spec) != TrainingContract(more);
  };
  EXPECT_FALSE(hangs_on_it());
  for (const char* const rule : {"linear", "sqrt"}) {
    spec.allreduce.batch_rule = rule;
    EXPECT_TRUE(hangs_on_it()) << rule;
  }
  spec.batches_per_task = 4;
  EXPECT_FALSE(hangs_on_it());
}

// Every byte of the features counts, and whatever can be shown is.
TEST(TrainingContractTest, HoldsTheFeatures) {
  const std::string vocabulary(5000, 'a');
  const std::string one = FeaturesContract("age: log\nwords: " + vocabulary + "b\n");
  const std::string two = FeaturesContract("age: number\nwords: " + vocabulary + "b\n");
  const std::string three = FeaturesContract("age: log\nwords: " + vocabulary + "c\n");
  EXPECT_THAT(one, testing::HasSubstr("features line 1: age: log\n"));
  EXPECT_THAT(two, testing::HasSubstr("features line 1: age: number\n"));
  EXPECT_NE(one, three);
  EXPECT_LT(three.size(), 200u) << "a vocabulary counts by its hash";
}

// No two keys share a name or a place, so none can overwrite another.
// Two keys that are valid and do not do what they seem to: said when the job is submitted.
TEST(AdviceTest, SaysWhatWillNotComeAsExpected) {
  JobSpec job = GoodJob();
  job.allreduce.quorum = "any";
  EXPECT_TRUE(CheckForMaster(job).ok()) << "strategy: ps is refused elsewhere";
  job.strategy = "allreduce";
  EXPECT_THAT(
      std::string(CheckForMaster(job).message()),
      testing::StartsWith("allreduce.quorum: any does nothing where a master runs the job"));
  job.allreduce.quorum = "majority";
  EXPECT_TRUE(CheckForMaster(job).ok());

  struct Case {
    int64_t workers, microbatches, batch_size;
    const char* text;
  };
  const Case cases[] = {
      {16, 0, 512, ""},
      {40, 0, 512, ""},
      {4, 4, 512, ""},
      {8, 4, 512,
       "workers.max is 8, but a step has 4 parts to compute (allreduce.microbatches): with more "
       "than 4 workers the others idle; set allreduce.microbatches: 8 or more, or workers.max: 4"},
      {100, 16, 64,
       "workers.max is 100, but a step has 16 parts to compute (allreduce.microbatches): with more "
       "than 16 workers the others idle; set batch_size and allreduce.microbatches: 100 or more, "
       "or workers.max: 16"},
      {8, 0, 1,
       "workers.max is 8, but a step has 1 part to compute (batch_size): with more than 1 workers "
       "the others idle; set batch_size: 8 or more, or workers.max: 1"},
  };
  for (const Case& c : cases) {
    job.workers.max = c.workers;
    job.allreduce.microbatches = c.microbatches;
    job.batch_size = c.batch_size;
    EXPECT_EQ(IdleWorkersText(job), c.text);
    job.strategy = "ps";
    EXPECT_EQ(IdleWorkersText(job), "");
    job.strategy = "allreduce";
  }
}

TEST(JobKeysTest, NamesAndPlacesAreDistinct) {
  JobSpec spec;
  std::set<std::string> names;
  std::set<JobField> places;
  for (const JobKey& key : JobKeys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_TRUE(places.insert(key.field(spec)).second) << key.name;
    EXPECT_FALSE(key.doc.empty());
  }
}

TEST(JobKeysTest, DefaultsAreShownAsInAJobFile) {
  std::map<std::string, std::string> defaults;
  for (const JobKey& key : JobKeys()) defaults[key.name] = key.Default();
  EXPECT_EQ(defaults["data.train"], "required");
  EXPECT_EQ(defaults["data.validation"], "[]");
  EXPECT_EQ(defaults["optimizer.learning_rate"], "0.01");
  EXPECT_EQ(defaults["elastic.heartbeat"], "100ms");
  EXPECT_EQ(defaults["deadline"], "none");
  EXPECT_EQ(defaults["shuffle.tasks"], "true");
}

TEST(DidYouMeanTest, OnlyWhatIsNear) {
  const std::vector<std::string> words = {"optimizer", "servers", "seed"};
  EXPECT_EQ(DidYouMean("optimzer", words), "; did you mean 'optimizer'?");
  EXPECT_EQ(DidYouMean("Sede", words), "; did you mean 'seed'?");
  EXPECT_EQ(DidYouMean("banana", words), "");
  EXPECT_EQ(DidYouMean("", words), "");
  EXPECT_EQ(DidYouMean("7", {"0", "1"}), "") << "nothing of it is left";
  EXPECT_EQ(DidYouMean("aa", {"a", "b"}), "; did you mean 'a'?");
}

}  // namespace
}  // namespace rubato

#include "rubato/job/job_keys.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace {

// Names of the alternatives of JobField, in their order.
constexpr const char* kTypes[] = {"a text",
                                  "an integer",
                                  "a non-negative integer",
                                  "a number",
                                  "true or false",
                                  "a duration such as 90s or 2h",
                                  "a text or a list of texts",
                                  "a map of options",
                                  "a map of tables"};
static_assert(std::size(kTypes) == std::variant_size_v<JobField>);

// The member at `path` of a spec, as a function for the table below.
#define AT(path) [](JobSpec& s) -> JobField { return &s.path; }

// What is trained, on what, by how many.
std::vector<JobKey> TrainingKeys() {
  return {
      {"name", "what the job is called; by default after the job file", AT(name)},
      {"model", "a model of the zoo, as docs/models.md lists them, or a plug-in (.so)", AT(model)},
      {"model_options", "options of the model, as it documents them", AT(model_options)},
      {"data.train", "files or globs to train on, gzip or not; sql: a table or query",
       AT(data.train)},
      {"data.validation",
       "files or globs to evaluate on; none: no evaluation, but for data.holdout_every",
       AT(data.validation)},
      {"data.holdout_every",
       "without data.validation: one row of every so many of data.train is held back, to evaluate "
       "on and never to train on; 0: none",
       AT(data.holdout_every)},
      {"data.format",
       "criteo, csv, tsv, ssv, psv, libfm, libsvm, libffm, idx (MNIST), recordio, sql, or a "
       "plug-in (.so); by default sql if data.train is the address of a database",
       AT(data.format)},
      {"data.label", "csv, tsv: the label's column; by default the first", AT(data.label)},
      {"data.numeric", "csv, tsv: columns read as numbers", AT(data.numeric)},
      {"data.categorical", "csv, tsv: columns read as categories; with no list, all columns",
       AT(data.categorical)},
      {"data.header", "csv, tsv: the first line of every file names its columns", AT(data.header)},
      {"data.bad_rows", "fail, or skip malformed rows up to data.bad_rows_max", AT(data.bad_rows)},
      {"data.bad_rows_max", "malformed rows the whole job may skip", AT(data.bad_rows_max)},
      {"features", "features.yaml: columns made from raw ones; none: the format's own",
       AT(features)},
      {"strategy", "how weights are shared: ps (parameter servers) or allreduce", AT(strategy)},
      {"workers.min", "below this many live workers the job waits", AT(workers.min)},
      {"workers.max", "never more workers than this; with strategy: allreduce at most 1000",
       AT(workers.max)},
      {"workers.start", "workers at the start; 0: workers.max", AT(workers.start)},
      {"servers", "parameter servers", AT(servers)},
      {"batch_size", "records of one step", AT(batch_size)},
      {"epochs", "passes over the training data", AT(epochs)},
      {"max_steps", "the job ends after exactly this many steps; 0: no limit", AT(max_steps)},
      {"epoch_barrier", "finish every record of an epoch before the next begins",
       AT(epoch_barrier)},
      {"batches_per_task", "steps of one lease; 0: chosen from the size of the data",
       AT(batches_per_task)},
      {"max_inflight", "batches pulled ahead of the last push: how far behind itself a worker is",
       AT(max_inflight)},
      {"mode", "gradients apply at once (async), by rounds (sync), or rows at once (hybrid)",
       AT(mode)},
      {"rounds.gradients", "sync, hybrid: batches whose mean is one step; 0: workers.max",
       AT(rounds.gradients)},
      {"rounds.tolerance", "sync, hybrid: steps a gradient may be behind; 0: none",
       AT(rounds.tolerance)},
  };
}

std::vector<JobKey> OptimizerKeys() {
  return {
      {"optimizer.name",
       "sgd, momentum, nesterov, adagrad, rowwise_adagrad, adam, dense_adam, amsgrad, adamw, "
       "rmsprop or ftrl",
       AT(optimizer.name)},
      {"optimizer.learning_rate", "the size of a step", AT(optimizer.learning_rate)},
      {"optimizer.epsilon", "added to a root; -1: 1e-10 for the two Adagrads, else 1e-8",
       AT(optimizer.epsilon)},
      {"optimizer.initial_accumulator", "adagrad, rowwise_adagrad, ftrl: where accumulators start",
       AT(optimizer.initial_accumulator)},
      {"optimizer.momentum", "momentum, nesterov: what is kept of the last move",
       AT(optimizer.momentum)},
      {"optimizer.beta1", "the Adams: what is kept of the mean gradient", AT(optimizer.beta1)},
      {"optimizer.beta2", "the Adams: what is kept of the mean square", AT(optimizer.beta2)},
      {"optimizer.alpha", "rmsprop: what is kept of the mean square", AT(optimizer.alpha)},
      {"optimizer.weight_decay",
       "all but ftrl: pulls weights to zero; rows not in a batch catch up",
       AT(optimizer.weight_decay)},
      {"optimizer.l1", "ftrl: gradients that sum up to less leave a weight at zero",
       AT(optimizer.l1)},
      {"optimizer.l2", "ftrl: pulls weights to zero", AT(optimizer.l2)},
      {"optimizer.beta", "ftrl: slows down the first steps of a weight", AT(optimizer.beta)},
      {"optimizer.schedule.name", "constant, step, linear, polynomial or cosine",
       AT(optimizer.schedule.name)},
      {"optimizer.schedule.warmup", "samples over which the learning rate climbs from 0 first",
       AT(optimizer.schedule.warmup)},
      {"optimizer.schedule.samples", "step: samples between steps; others: until the end",
       AT(optimizer.schedule.samples)},
      {"optimizer.schedule.end", "linear, polynomial, cosine: what is left of the rate at the end",
       AT(optimizer.schedule.end)},
      {"optimizer.schedule.power", "polynomial: 1 is linear, 2 falls fast first",
       AT(optimizer.schedule.power)},
      {"optimizer.schedule.factor", "step: what the rate is multiplied with at each step",
       AT(optimizer.schedule.factor)},
      {"optimizer.clip_value", "no element of a gradient passes it; 0: any may",
       AT(optimizer.clip_value)},
      {"optimizer.clip_norm", "the norm of a whole step's gradient does not pass it; 0: it may",
       AT(optimizer.clip_norm)},
      {"tables.admit_count",
       "pushes of an id before it gets a row; none for ttl_steps, or 100,000: from the start",
       AT(tables.admit_count)},
      {"tables.admit_probability", "chance of each push of an id without a row to count",
       AT(tables.admit_probability)},
      {"tables.ttl_steps", "rows not pushed to for this many steps go; 0: none",
       AT(tables.ttl_steps)},
      {"tables.capacity", "rows of a table on all servers; the longest unused go; 0: any number",
       AT(tables.capacity)},
      {kNamedTables,
       "what a table has otherwise, by its name: keys as above, and those of `optimizer` but clips",
       AT(named_tables)},
  };
}

// What happens beside training.
std::vector<JobKey> CourseKeys() {
  return {
      {"evaluate.every_steps", "steps between evaluations; 0: only at the end",
       AT(evaluate.every_steps)},
      {"evaluate.every", "time between evaluations, whichever comes first; none: by steps alone",
       AT(evaluate.every)},
      {"evaluate.lower_rate", "what the learning rate is multiplied with when there is no gain",
       AT(evaluate.lower_rate)},
      {"evaluate.keep_best", "keep the best version evaluated: it is what the job gives",
       AT(evaluate.keep_best)},
      {"evaluate.stop_after_stalls", "evaluations without gain before stopping; 0: never stop",
       AT(evaluate.stop_after_stalls)},
      {"evaluate.forgive_stalls",
       "so many in a row without gain do not count, before the first that does",
       AT(evaluate.forgive_stalls)},
      {"evaluate.metric",
       "what tells the best version: auc, gauc, accuracy, loss, logl"
       "oss or rmse; by default auc, or the loss if there is none; ranks do no"
       "t choose a version whose logloss the constant rate beats, if there is another",
       AT(evaluate.metric)},
      {"evaluate.group",
       "the column, as user, whose groups' AUCs are averaged as gauc; it need be no feature; with "
       "`features` rows in which it is missing are left out of gauc; without, they are a group",
       AT(evaluate.group)},
      {"checkpoint.every_steps", "steps between checkpoints; 0: at the end and on Ctrl-C",
       AT(checkpoint.every_steps)},
      {"checkpoint.keep", "complete checkpoints that stay", AT(checkpoint.keep)},
      {"checkpoint.full_every", "one of so many checkpoints is full, the others hold what changed",
       AT(checkpoint.full_every)},
      {"checkpoint.log_bytes",
       "also a checkpoint when a server's push log since the last is longer; 0: any length",
       AT(checkpoint.log_bytes)},
      {"shuffle.tasks", "shuffle the order of tasks in every epoch", AT(shuffle.tasks)},
      {"shuffle.buffer", "records shuffled together within a task; 0: file order",
       AT(shuffle.buffer)},
      {"shuffle.spread",
       "before that, take the records of a batch from all over the data, which may be sorted; "
       "false, or with `buffer` 0: neighbours stay together",
       AT(shuffle.spread)},
      {"elastic.lease",
       "a worker silent this long loses its tasks; with `allreduce` (300ms at least) its place in "
       "the group, from half of this on if the others do not hear it either. A connection between "
       "two that is silent this long (2 s at least) is a dead link: if a new one is, too, one of "
       "them makes room for 10 s or more",
       AT(elastic.lease)},
      {"elastic.heartbeat", "how often processes report to the master", AT(elastic.heartbeat)},
      {"elastic.task_failures_max",
       "times one task may fail, on whichever workers, before the job fails",
       AT(elastic.task_failures_max)},
      {"elastic.not_finite_max",
       "losses and gradients that are NaN or infinite, in all, before the job fails",
       AT(elastic.not_finite_max)},
      {"elastic.crash_loop_max", "crashes in a row without progress before the job fails",
       AT(elastic.crash_loop_max)},
  };
}

// Of one strategy or the other, and of the job as a whole.
std::vector<JobKey> StrategyKeys() {
  return {
      {"params.wire", "weights and gradients to and from servers: fp32, bf16 or fp16",
       AT(params.wire)},
      {"params.threads", "threads of a server: workers pull side by side", AT(params.threads)},
      {"params.replicas", "copies of every server's push log on another server's disk: 0 or 1",
       AT(params.replicas)},
      {"params.rebalance", "partitions leave a server that is much busier than the others",
       AT(params.rebalance)},
      {"params.staleness",
       "async: ignore, or scale a push s steps behind to 1 / (1 + s) of the rate (ftrl: of the "
       "gradient)",
       AT(params.staleness)},
      {"params.staleness_max",
       "async: a push more steps behind than this is refused and computed again; 0: none is",
       AT(params.staleness_max)},
      {"params.metrics", "host:port where Prometheus reads server 0, the next port server 1, ...",
       AT(params.metrics)},
      {"allreduce.microbatches",
       "parts of a step, dealt to workers; 0: 16, or one a worker (with `allreduce.deterministic` "
       "more than 16 workers need a number)",
       AT(allreduce.microbatches)},
      {"allreduce.deterministic", "the same bits for every history of worker counts",
       AT(allreduce.deterministic)},
      {"allreduce.wire", "gradients between workers: fp32, bf16 or fp16", AT(allreduce.wire)},
      {"allreduce.bucket_bytes",
       "gradients of this size are summed while backward computes the next; 0: all at once, "
       "afterwards",
       AT(allreduce.bucket_bytes)},
      {"allreduce.batch_rule",
       "constant: batch_size is a step's; linear, sqrt: it is one worker's, and the learning rate "
       "grows with the workers, or with their root",
       AT(allreduce.batch_rule)},
      {"allreduce.batch_warmup", "samples over which such a growth is phased in",
       AT(allreduce.batch_warmup)},
      {"allreduce.quorum", "without a master: majority, or any (one worker may train on alone)",
       AT(allreduce.quorum)},
      {"allreduce.network", "how far workers are apart: loopback, lan or wan",
       AT(allreduce.network)},
      {"allreduce.kept_bytes",
       "memory of a newcomer for what passes while it copies the state, the rest goes to a file in "
       "the "
       "job directory, a gradient a step until it is level; "
       "0: twice the state, and at least 256 MB",
       AT(allreduce.kept_bytes)},
      {"allreduce.encrypt",
       "hide and authenticate what workers send each other; needs their secret",
       AT(allreduce.encrypt)},
      {"metrics", "host:port where Prometheus reads how the job stands, from its master",
       AT(metrics)},
      {"deadline", "when the job must be done, counted from submission; used by submit",
       AT(deadline)},
      {"priority", "low, normal or high; used by submit", AT(priority)},
      {"seed", "the same seed gives the same start, order and dropout", AT(seed)},
  };
}
#undef AT

// The shortest text that reads back as the same number.
std::string FormatDouble(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

struct Formatter {
  std::string operator()(const std::string* v) const { return *v; }
  std::string operator()(const int64_t* v) const { return absl::StrCat(*v); }
  std::string operator()(const uint64_t* v) const { return absl::StrCat(*v); }
  std::string operator()(const double* v) const { return FormatDouble(*v); }
  std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
  std::string operator()(const absl::Duration* v) const { return FormatJobDuration(*v); }
  std::string operator()(const std::vector<std::string>* v) const {
    return absl::StrCat("[", absl::StrJoin(*v, ", "), "]");
  }
  std::string operator()(const std::map<std::string, std::string>* v) const {
    return absl::StrCat("{", absl::StrJoin(*v, ", ", absl::PairFormatter(": ")), "}");
  }
  std::string operator()(const std::map<std::string, TableRules>* v) const {
    return FormatNamedTables(*v, [](const std::string& text) { return text; });
  }
};

}  // namespace

std::string JobKey::Type() const {
  JobSpec spec;
  return JobFieldType(field(spec));
}

std::string JobKey::Default() const {
  if (name == "model" || name == "data.train") return "required";
  JobSpec spec;
  return FormatJobField(field(spec));
}

const std::vector<JobKey>& JobKeys() {
  static const std::vector<JobKey>& all = *[] {
    auto* keys = new std::vector<JobKey>(TrainingKeys());
    for (auto& more : {OptimizerKeys(), CourseKeys(), StrategyKeys()}) {
      keys->insert(keys->end(), more.begin(), more.end());
    }
    return keys;
  }();
  return all;
}

std::string JobKeysHelp() {
  std::string help;
  for (const JobKey& key : JobKeys()) {
    const std::string shown = key.Default().empty() ? "" : absl::StrCat("(", key.Default(), ")");
    absl::StrAppendFormat(&help, "  %-29s %-11s %s\n", key.name, shown, key.doc);
  }
  return help;
}

std::string JobKeysMarkdown() {
  std::string table = "| key | default | type | meaning |\n|---|---|---|---|\n";
  for (const JobKey& key : JobKeys()) {
    const std::string shown = key.Default().empty() ? "" : absl::StrCat("`", key.Default(), "`");
    absl::StrAppend(&table, "| `", key.name, "` | ", shown, " | ", key.Type(), " | ", key.doc,
                    " |\n");
  }
  return table;
}

std::string JobFieldType(const JobField& field) { return kTypes[field.index()]; }

std::string FormatJobField(const JobField& field) { return std::visit(Formatter(), field); }

std::string FormatJobDuration(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? "none" : absl::FormatDuration(duration);
}

}  // namespace rubato

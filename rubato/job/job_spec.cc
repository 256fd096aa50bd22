#include "rubato/job/job_spec.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "rubato/base/status.h"
#include "rubato/job/checks.h"
#include "rubato/job/job_keys.h"
#include "rubato/job/plugin_name.h"
#include "rubato/job/table_rules.h"

namespace rubato {
namespace {

// Keeps batch_size * batches_per_task, and what memory they need, far from overflow.
constexpr int64_t kBatchSizeMax = 1 << 24;
constexpr int64_t kBatchesPerTaskMax = 1 << 24;
constexpr int64_t kGradientsMax = 1 << 16;
// A shorter log would be over before a checkpoint is.
constexpr int64_t kLogBytesMin = 1 << 20;
constexpr int64_t kToleranceMax = 1 << 10;
constexpr int64_t kProcessesMax = 4096;
constexpr int64_t kMicrobatches = 16;  // Unless there are more workers.
constexpr int64_t kServersMax = 1024;  // One a partition of the parameters.
// Within it whoever lives must have let go of a view; see membership/view_authority.h.
constexpr absl::Duration kGroupLeaseMin = absl::Milliseconds(300);

absl::Status CheckName(const std::string& name) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  if (name.empty()) return Invalid("name", "a job needs a name");
  if (name[0] == '.' || !std::all_of(name.begin(), name.end(), is_plain) || name.size() > 100) {
    return Invalid("name", "'", name,
                   "' names a folder: use up to 100 letters, digits, '-', '_' and '.', and "
                   "no '.' in front");
  }
  return absl::OkStatus();
}

// The columns of csv and tsv: none twice, and none for the formats that bring their own.
absl::Status CheckColumns(const DataSpec& data) {
  const bool has_columns = data.format == "csv" || data.format == "tsv" || data.format == "ssv" ||
                           data.format == "psv" || data.format == "sql" ||
                           data.format == "recordio" || IsPlugin(data.format);
  if (!has_columns) {
    const char* key = !data.label.empty()         ? "data.label"
                      : !data.numeric.empty()     ? "data.numeric"
                      : !data.categorical.empty() ? "data.categorical"
                                                  : nullptr;
    if (key == nullptr) return absl::OkStatus();
    return Invalid(key, "only csv, tsv, recordio and sql have named columns; data.format is ",
                   data.format);
  }
  std::vector<std::string> columns = {data.label};
  for (const auto& [key, names] : {std::pair("data.numeric", &data.numeric),
                                   std::pair("data.categorical", &data.categorical)}) {
    for (const std::string& name : *names) {
      if (name.empty()) return Invalid(key, "a column's name is empty");
      if (std::find(columns.begin(), columns.end(), name) != columns.end()) {
        return Invalid(key, "column '", name, "' is used twice");
      }
      columns.push_back(name);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckData(const DataSpec& data) {
  if (data.train.empty()) return Invalid("data.train", "name the files to train on");
  for (const auto& [key, files] :
       {std::pair("data.train", &data.train), std::pair("data.validation", &data.validation)}) {
    for (const std::string& file : *files) {
      if (file.empty()) return Invalid(key, "a file's name is empty");
    }
    if (data.format == "sql" && files->size() > 1) {
      return Invalid(key, "sql needs one table or query, not ", files->size());
    }
    if (data.format == "idx" && files->size() > 2) {
      return Invalid(key, "idx needs a folder, or a file of images and one of labels, not ",
                     files->size(), " files");
    }
  }
  if (!IsPlugin(data.format)) {
    RUBATO_RETURN_IF_ERROR(CheckOneOf("data.format", data.format,
                                      {"criteo", "csv", "tsv", "ssv", "psv", "libfm", "libsvm",
                                       "libffm", "idx", "recordio", "sql"}));
  }
  RUBATO_RETURN_IF_ERROR(CheckColumns(data));
  if (data.holdout_every != 0) {
    RUBATO_RETURN_IF_ERROR(CheckRange("data.holdout_every", data.holdout_every, 2));
    if (!data.validation.empty()) {
      return Invalid("data.holdout_every", "data.validation is there as well; one of both is ",
                     "evaluated on");
    }
  }
  RUBATO_RETURN_IF_ERROR(CheckOneOf("data.bad_rows", data.bad_rows, {"fail", "skip"}));
  return CheckRange("data.bad_rows_max", data.bad_rows_max, 0);
}

absl::Status CheckWorkers(const WorkersSpec& workers, const std::string& strategy) {
  RUBATO_RETURN_IF_ERROR(CheckRange("workers.min", workers.min, 1, kProcessesMax));
  RUBATO_RETURN_IF_ERROR(CheckRange("workers.max", workers.max, 1, kProcessesMax));
  if (strategy == "allreduce" && workers.max > kGroupWorkersMax) {
    return Invalid("workers.max", workers.max, " is more than ", kGroupWorkersMax,
                   ", as many as a group can have; use ", kGroupWorkersMax,
                   " or less, or strategy: ps");
  }
  if (workers.max < workers.min) {
    return Invalid("workers.max", workers.max, " is less than workers.min, ", workers.min);
  }
  if (workers.start == 0) return absl::OkStatus();
  if (workers.start < workers.min || workers.start > workers.max) {
    return Invalid("workers.start", workers.start, " is not between workers.min, ", workers.min,
                   ", and workers.max, ", workers.max, " (0 means workers.max)");
  }
  return absl::OkStatus();
}

absl::Status CheckElastic(const ElasticSpec& elastic, const std::string& strategy) {
  if (elastic.heartbeat < absl::Milliseconds(1)) {
    return Invalid("elastic.heartbeat", FormatJobDuration(elastic.heartbeat), " is less than 1ms");
  }
  if (elastic.lease < 3 * elastic.heartbeat || elastic.lease == absl::InfiniteDuration()) {
    return Invalid("elastic.lease", FormatJobDuration(elastic.lease),
                   " is not finite and at least three times elastic.heartbeat, ",
                   FormatJobDuration(elastic.heartbeat),
                   "; one lost message would cost a worker its tasks");
  }
  if (strategy == "allreduce" && elastic.lease < kGroupLeaseMin) {
    return Invalid("elastic.lease", FormatJobDuration(elastic.lease), " is less than ",
                   FormatJobDuration(kGroupLeaseMin),
                   ", what all workers need to agree on who is left; with strategy: allreduce "
                   "the living would be taken for dead");
  }
  RUBATO_RETURN_IF_ERROR(CheckRange("elastic.task_failures_max", elastic.task_failures_max, 1));
  RUBATO_RETURN_IF_ERROR(CheckRange("elastic.not_finite_max", elastic.not_finite_max, 0));
  return CheckRange("elastic.crash_loop_max", elastic.crash_loop_max, 1);
}

absl::Status CheckAllreduce(const AllreduceSpec& spec, const JobSpec& job) {
  RUBATO_RETURN_IF_ERROR(CheckRange("allreduce.microbatches", spec.microbatches, 0, kProcessesMax));
  if (spec.microbatches > job.batch_size) {
    return Invalid("allreduce.microbatches", spec.microbatches,
                   " parts cannot be cut from a batch_size of ", job.batch_size);
  }
  if (spec.deterministic && spec.microbatches == 0 && job.workers.max > kMicrobatches) {
    return Invalid("allreduce.microbatches", spec.microbatches, " stands for ", kMicrobatches,
                   ", too few for ", job.workers.max, " workers; the result depends on their ",
                   "number, so with allreduce.deterministic: true give it yourself");
  }
  RUBATO_RETURN_IF_ERROR(CheckOneOf("allreduce.wire", spec.wire, {"fp32", "bf16", "fp16"}));
  if (spec.deterministic && spec.wire != "fp32") {
    return Invalid("allreduce.wire", spec.wire, " rounds sums on the way, so it cannot be ",
                   "deterministic; use fp32 or allreduce.deterministic: false");
  }
  RUBATO_RETURN_IF_ERROR(CheckRange("allreduce.bucket_bytes", spec.bucket_bytes, 0));
  RUBATO_RETURN_IF_ERROR(CheckRange("allreduce.kept_bytes", spec.kept_bytes, 0));
  RUBATO_RETURN_IF_ERROR(
      CheckOneOf("allreduce.batch_rule", spec.batch_rule, {"constant", "linear", "sqrt"}));
  RUBATO_RETURN_IF_ERROR(CheckRange("allreduce.batch_warmup", spec.batch_warmup, 0));
  if (spec.batch_rule == "constant" && spec.batch_warmup > 0) {
    return Invalid("allreduce.batch_warmup", spec.batch_warmup,
                   " samples phase a larger batch in, but with allreduce.batch_rule: constant ",
                   "none grows; choose linear or sqrt, or leave it out");
  }
  if (spec.batch_rule != "constant" && (spec.deterministic || job.max_steps > 0)) {
    return Invalid("allreduce.batch_rule", spec.batch_rule,
                   " lets the workers decide how long a step is; leave out ",
                   spec.deterministic ? "allreduce.deterministic" : "max_steps");
  }
  RUBATO_RETURN_IF_ERROR(CheckOneOf("allreduce.quorum", spec.quorum, {"majority", "any"}));
  return CheckOneOf("allreduce.network", spec.network, {"loopback", "lan", "wan"});
}

// -1 if `address` is no host:port.
int64_t PortOf(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int64_t port = 0;
  const bool is_one = colon != absl::string_view::npos && colon > 0 &&
                      absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0;
  return is_one ? port : -1;
}

absl::Status CheckMetrics(const std::string& address) {
  if (address.empty() || (PortOf(address) >= 0 && PortOf(address) <= 65535)) {
    return absl::OkStatus();
  }
  return Invalid("metrics", address, " is no address: write host:port");
}

absl::Status CheckParams(const ParamsSpec& spec, int64_t servers) {
  RUBATO_RETURN_IF_ERROR(CheckOneOf("params.wire", spec.wire, {"fp32", "bf16", "fp16"}));
  RUBATO_RETURN_IF_ERROR(CheckRange("params.threads", spec.threads, 1, 64));
  RUBATO_RETURN_IF_ERROR(CheckRange("params.replicas", spec.replicas, 0, 1));
  if (spec.replicas == 1 && servers == 1) {
    return Invalid("params.replicas", spec.replicas,
                   ": there is no other server to keep a copy of the log; set servers: 2 or more");
  }
  RUBATO_RETURN_IF_ERROR(CheckOneOf("params.staleness", spec.staleness, {"ignore", "scale"}));
  RUBATO_RETURN_IF_ERROR(CheckRange("params.staleness_max", spec.staleness_max, 0));
  if (spec.metrics.empty()) return absl::OkStatus();
  const int64_t port = PortOf(spec.metrics);
  if (port < 1) return Invalid("params.metrics", spec.metrics, " is no address: write host:port");
  if (port + servers - 1 > 65535) {
    return Invalid("params.metrics", spec.metrics, ": port ", port, " and the ", servers - 1,
                   " after it, one a server, pass 65535");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RowsSpec::Validate() const {
  RUBATO_RETURN_IF_ERROR(CheckRange("tables.admit_count", admit_count, 1, 60000));
  RUBATO_RETURN_IF_ERROR(
      CheckNumber("tables.admit_probability", admit_probability, /*zero_allowed=*/false));
  if (admit_probability > 1) {
    return Invalid("tables.admit_probability", admit_probability, " is more than 1");
  }
  RUBATO_RETURN_IF_ERROR(CheckRange("tables.ttl_steps", ttl_steps, 0));
  return CheckRange("tables.capacity", capacity, 0);
}

namespace {

// A plug-in may have metrics of its own.
absl::Status CheckMetric(const EvaluateSpec& spec, const std::string& model) {
  if (spec.metric.empty() || IsPlugin(model)) return absl::OkStatus();
  RUBATO_RETURN_IF_ERROR(CheckOneOf("evaluate.metric", spec.metric,
                                    {"auc", "gauc", "accuracy", "loss", "logloss", "rmse"}));
  if (spec.metric != "gauc" || !spec.group.empty()) return absl::OkStatus();
  return Invalid("evaluate.metric", "gauc is the mean over groups; name their column, as ",
                 "evaluate.group: user");
}

absl::Status CheckEvaluate(const EvaluateSpec& spec, const std::string& strategy) {
  RUBATO_RETURN_IF_ERROR(CheckRange("evaluate.every_steps", spec.every_steps, 0));
  RUBATO_RETURN_IF_ERROR(CheckRange("evaluate.stop_after_stalls", spec.stop_after_stalls, 0));
  RUBATO_RETURN_IF_ERROR(CheckRange("evaluate.forgive_stalls", spec.forgive_stalls, 0));
  if (spec.every <= absl::ZeroDuration()) {
    return Invalid("evaluate.every", FormatJobDuration(spec.every), " is no time to train in");
  }
  if (!(spec.lower_rate > 0 && spec.lower_rate <= 1)) {
    return Invalid("evaluate.lower_rate", spec.lower_rate, " is not above 0 and at most 1");
  }
  // A group rests after the same step everywhere, and no two clocks agree on one.
  if (strategy != "ps" && spec.every < absl::InfiniteDuration()) {
    return Invalid("evaluate.every",
                   "strategy: allreduce evaluates by steps; use evaluate.every_steps");
  }
  return absl::OkStatus();
}

// Workers of one speed are behind each other by what all of them have under way.
int64_t StepsUnderWay(const JobSpec& job) { return job.workers.max * (job.max_inflight + 1); }

absl::Status CheckStalenessMax(const JobSpec& job) {
  const int64_t least = StepsUnderWay(job);
  const int64_t most = job.params.staleness_max;
  if (job.strategy != "ps" || most == 0 || most >= least || most == ParamsSpec().staleness_max) {
    return absl::OkStatus();
  }
  return Invalid("params.staleness_max", most, ": ", job.workers.max, " workers with max_inflight ",
                 job.max_inflight, " are behind each other by up to ", least,
                 " steps, and most of what they compute would be refused; 0 is no bound");
}

absl::Status CheckMode(const JobSpec& job) {
  RUBATO_RETURN_IF_ERROR(CheckOneOf("mode", job.mode, {"async", "sync", "hybrid"}));
  RUBATO_RETURN_IF_ERROR(CheckRange("rounds.gradients", job.rounds.gradients, 0, kGradientsMax));
  RUBATO_RETURN_IF_ERROR(CheckRange("rounds.tolerance", job.rounds.tolerance, 0, kToleranceMax));
  if (job.mode != "async" && job.params.staleness != "ignore") {
    return Invalid("params.staleness", "with mode: ", job.mode,
                   " rounds say how far behind a gradient may be; it goes with mode: async");
  }
  if (job.mode == "async") {
    if (job.rounds != RoundsSpec()) {
      return Invalid("rounds", "mode: async has none; choose mode: sync or hybrid");
    }
    return CheckStalenessMax(job);
  }
  if (job.params.staleness_max != ParamsSpec().staleness_max) {
    return Invalid("params.staleness_max", "with mode: ", job.mode,
                   " rounds.tolerance bounds how far behind a gradient may be");
  }
  if (job.batches_per_task > 1) {
    return Invalid("batches_per_task", job.batches_per_task, " with mode: ", job.mode,
                   ", whose tasks are one batch each; take it out");
  }
  return absl::OkStatus();
}

// Whether `key` means something to one strategy alone, and to which.
absl::string_view StrategyOf(absl::string_view key) {
  if (key == "servers" || absl::StartsWith(key, "servers.")) return "ps";
  if (key == "mode" || absl::StartsWith(key, "rounds.") || absl::StartsWith(key, "params."))
    return "ps";
  if (key == "max_inflight" || key == "checkpoint.full_every" || key == "checkpoint.log_bytes")
    return "ps";
  if (absl::StartsWith(key, "tables.")) return "ps";
  return absl::StartsWith(key, "allreduce.") ? "allreduce" : "";
}

// A key that would do nothing is refused: whoever wrote it expects something of it.
absl::Status CheckStrategyKeys(JobSpec spec) {
  for (const JobKey& key : JobKeys()) {
    const absl::string_view owner = StrategyOf(key.name);
    if (owner.empty() || owner == spec.strategy) continue;
    const std::string value = FormatJobField(key.field(spec));
    if (value == key.Default()) continue;
    const absl::string_view why = owner == "ps" ? ", which has no servers" : "";
    return Invalid(key.name, value, " does nothing with strategy: ", spec.strategy, why,
                   "; take it out, or use strategy: ", owner);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status JobSpec::Validate() const {
  RUBATO_RETURN_IF_ERROR(CheckName(name));
  if (model.empty()) {
    return Invalid("model", "name a model of the zoo such as deepfm or resnet, or a plug-in");
  }
  RUBATO_RETURN_IF_ERROR(CheckData(data));
  if (!features.empty() && (!data.numeric.empty() || !data.categorical.empty())) {
    return Invalid("features",
                   "these say which columns are read; take data.numeric and "
                   "data.categorical out");
  }
  if (!features.empty() && data.format == "idx") {
    return Invalid("features", "idx has no columns to make features of");
  }
  RUBATO_RETURN_IF_ERROR(CheckOneOf("strategy", strategy, {"ps", "allreduce"}));
  RUBATO_RETURN_IF_ERROR(CheckAllreduce(allreduce, *this));
  RUBATO_RETURN_IF_ERROR(CheckParams(params, servers));
  RUBATO_RETURN_IF_ERROR(CheckMetrics(metrics));
  RUBATO_RETURN_IF_ERROR(CheckWorkers(workers, strategy));
  RUBATO_RETURN_IF_ERROR(CheckRange("servers", servers, 1, kServersMax));
  RUBATO_RETURN_IF_ERROR(CheckRange("batch_size", batch_size, 1, kBatchSizeMax));
  RUBATO_RETURN_IF_ERROR(CheckRange("epochs", epochs, 1));
  RUBATO_RETURN_IF_ERROR(CheckRange("max_steps", max_steps, 0));
  RUBATO_RETURN_IF_ERROR(CheckRange("batches_per_task", batches_per_task, 0, kBatchesPerTaskMax));
  RUBATO_RETURN_IF_ERROR(CheckRange("max_inflight", max_inflight, 0, 1024));
  RUBATO_RETURN_IF_ERROR(optimizer.Validate());
  RUBATO_RETURN_IF_ERROR(tables.Validate());
  for (const auto& [table, rules] : named_tables) {
    RUBATO_RETURN_IF_ERROR(CheckTableRules(table, rules, tables, optimizer));
  }
  RUBATO_RETURN_IF_ERROR(CheckEvaluate(evaluate, strategy));
  RUBATO_RETURN_IF_ERROR(CheckMetric(evaluate, model));
  RUBATO_RETURN_IF_ERROR(CheckRange("checkpoint.every_steps", checkpoint.every_steps, 0));
  RUBATO_RETURN_IF_ERROR(CheckRange("checkpoint.keep", checkpoint.keep, 1));
  RUBATO_RETURN_IF_ERROR(CheckRange("checkpoint.full_every", checkpoint.full_every, 1));
  if (checkpoint.log_bytes != 0 && checkpoint.log_bytes < kLogBytesMin) {
    return Invalid("checkpoint.log_bytes", checkpoint.log_bytes,
                   " is neither 0, for no limit, nor ", kLogBytesMin, " or more");
  }
  RUBATO_RETURN_IF_ERROR(CheckRange("shuffle.buffer", shuffle.buffer, 0, kBatchSizeMax));
  RUBATO_RETURN_IF_ERROR(CheckElastic(elastic, strategy));
  RUBATO_RETURN_IF_ERROR(CheckStrategyKeys(*this));
  RUBATO_RETURN_IF_ERROR(CheckMode(*this));
  if (deadline <= absl::ZeroDuration()) {
    return Invalid("deadline", FormatJobDuration(deadline), " is not in the future");
  }
  return CheckOneOf("priority", priority, {"low", "normal", "high"});
}

int64_t StalenessBound(const JobSpec& job) {
  const int64_t most = job.params.staleness_max;
  if (most != ParamsSpec().staleness_max) return most;
  return std::max(most, 4 * StepsUnderWay(job));
}

}  // namespace rubato

// What a user asks for: one job file, resolved. Every field is a key of the job file (dots for
// nesting), with its default here and its page in docs/job.md.
#ifndef RUBATO_JOB_JOB_SPEC_H_
#define RUBATO_JOB_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/job/optimizer_spec.h"

namespace rubato {

// Where records come from and how a row is read.
struct DataSpec {
  std::vector<std::string> train;        // Files or globs; .gz is inflated on the way.
  std::vector<std::string> validation;   // What it is evaluated on, unless
  int64_t holdout_every = 0;             // one row of every so many of `train` is held back for it.
  std::string format = "criteo";         // As docs/job.md lists them.
  std::string label;                     // csv, tsv: the label's column; default the first.
  std::vector<std::string> numeric;      // csv, tsv: columns read as numbers.
  std::vector<std::string> categorical;  // csv, tsv: columns read as text, hashed to ids.
  // csv, tsv: the first line of every file names its columns; without it they are 1, 2, ...
  bool header = true;
  std::string bad_rows = "fail";  // fail, or skip up to bad_rows_max in the whole job.
  int64_t bad_rows_max = 1000;

  // Else the job is never evaluated.
  bool has_validation() const { return !validation.empty() || holdout_every > 0; }
  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

// With strategy allreduce all are members of one view, and a longer one is taken for garbage.
inline constexpr int64_t kGroupWorkersMax = 1000;

// How many workers the job may have. `rubato scale` moves the target between min and max.
struct WorkersSpec {
  int64_t min = 1;  // Below this many live workers the job waits for relaunches.
  int64_t max = 1;
  int64_t start = 0;  // The first target; 0 means max.
  friend bool operator==(const WorkersSpec&, const WorkersSpec&) = default;
};

// Which ids get rows on the servers, and which rows go. All of it follows from the pushes and their
// order, never from the clock, so that a server replays its log to the same tables.
struct RowsSpec {
  int64_t admit_count = 1;       // A row is made by this many pushes of its id, up to 60,000.
  double admit_probability = 1;  // Chance of each push of an id without a row to count.
  int64_t ttl_steps = 0;         // Rows not pushed to for this many steps go; 0: none.
  int64_t capacity = 0;          // Rows of a table, on all servers; the oldest go. 0: any number.

  absl::Status Validate() const;
  friend bool operator==(const RowsSpec&, const RowsSpec&) = default;
};

// What a job says of one table by its name; what it leaves out is as of all tables.
struct TableRules {
  RowsSpec rows;
  OptimizerSpec optimizer;
  std::set<std::string> given;  // The keys that it says (table_rules.h); others mean nothing.
  friend bool operator==(const TableRules&, const TableRules&) = default;
};

struct EvaluateSpec {
  int64_t every_steps = 0;                          // 0: only at the end,
  absl::Duration every = absl::InfiniteDuration();  // unless so much time has passed.
  int64_t stop_after_stalls = 0;                    // In a row. 0: never stop early.
  // So many in a row without gain are no stalls, before the first of a job that is one, unless the
  // loss is two hundredths above its lowest.
  int64_t forgive_stalls = 0;
  double lower_rate = 1;   // What the learning rate is multiplied with when there is no gain.
  bool keep_best = false;  // The best version evaluated is kept, and is what the job gives.
  std::string metric;      // What tells the best version; by default auc, or else loss.
  std::string group;       // The column whose groups gauc is the mean of; none: no gauc.
  friend bool operator==(const EvaluateSpec&, const EvaluateSpec&) = default;
};

struct CheckpointSpec {
  int64_t every_steps = 0;  // 0: only at the end and on Ctrl-C.
  int64_t keep = 3;         // How many complete ones stay; at least 1.
  int64_t full_every =
      8;  // Servers: so many together are a full one and deltas on it; 1: all full.
  // Servers: also when what one of them would have to replay is longer; 0: not for that.
  int64_t log_bytes = int64_t{1} << 30;
  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

struct ShuffleSpec {
  bool tasks = true;      // The order of tasks within an epoch, by seed and epoch.
  int64_t buffer = 8192;  // Records shuffled together within a task; 0 keeps file order.
  bool spread = true;     // Before that: a batch's records come from all over the data.
  // Whether they do.
  bool spreads() const { return spread && buffer > 1; }
  friend bool operator==(const ShuffleSpec&, const ShuffleSpec&) = default;
};

// Knobs of survival. The defaults suit one machine.
struct ElasticSpec {
  absl::Duration lease = absl::Seconds(2);  // Silent this long: a worker loses its tasks.
  absl::Duration heartbeat = absl::Milliseconds(100);
  int64_t task_failures_max = 3;  // Different workers a task may fail on.
  int64_t not_finite_max = 10;    // Batches in all that may fail for a NaN or an infinity.
  int64_t crash_loop_max = 5;     // Crashes in a row without any progress.
  friend bool operator==(const ElasticSpec&, const ElasticSpec&) = default;
};

// Strategy allreduce alone.
struct AllreduceSpec {
  int64_t microbatches = 0;    // Parts of a step that are dealt to workers; 0: 16, or more.
  bool deterministic = false;  // The same bits for every history of worker counts.
  std::string wire = "fp32";   // Gradients between workers: fp32, bf16 or fp16.
  // Gradients of about so many bytes are summed while backward computes the next; 0: all at once,
  // afterwards. Not used by `deterministic`.
  int64_t bucket_bytes = 1 << 20;
  // constant: batch_size is that of a step, however many workers there are. linear, sqrt: it is one
  // worker's, and the learning rate grows with the number of workers, or with its root.
  std::string batch_rule = "constant";
  int64_t batch_warmup = 0;  // Samples over which such a growth is phased in.
  // Without a master: majority, or any (train on while one worker lives).
  std::string quorum = "majority";
  std::string network = "loopback";  // How far workers are apart: loopback, lan or wan.
  bool encrypt = true;  // What goes between workers over TCP and UDP, where they have a secret.
  // Memory of a newcomer for the sums of the steps that pass while it copies the state; what is
  // more goes to a file in the job directory. 0: twice the state, and at least 256 MB.
  int64_t kept_bytes = 0;
  friend bool operator==(const AllreduceSpec&, const AllreduceSpec&) = default;
};

// Modes sync and hybrid.
struct RoundsSpec {
  int64_t gradients = 0;  // Batches of one step; 0: workers.max.
  int64_t tolerance = 0;  // A gradient may be computed this many steps behind its own.
  friend bool operator==(const RoundsSpec&, const RoundsSpec&) = default;
};

// Strategy ps alone.
struct ParamsSpec {
  std::string wire = "fp32";  // Weights and gradients to and from servers: fp32, bf16 or fp16.
  int64_t threads = 2;        // Of a server: workers pull side by side.
  std::string metrics;        // "host:port" for Prometheus; server s listens on port + s.
  int64_t replicas = 0;       // Copies of a server's push log on other servers' disks: 0 or 1.
  bool rebalance = true;      // Partitions leave a server that is much busier than the others.
  // Mode async: `scale` divides the rate of a push by one more than the steps it is behind.
  std::string staleness = "ignore";
  // Mode async: a push computed from weights more steps behind is refused, and computed again from
  // newer ones; 0: none is.
  int64_t staleness_max = 1000;
  friend bool operator==(const ParamsSpec&, const ParamsSpec&) = default;
};

struct JobSpec {
  std::string name;
  std::string model;                                 // A zoo name, or the path of a plug-in (.so).
  std::map<std::string, std::string> model_options;  // As the model documents: dim, hidden, ...
  DataSpec data;
  std::string features;  // features.yaml; empty: the format's own columns.
  std::string strategy = "ps";
  WorkersSpec workers;
  int64_t servers = 1;
  int64_t batch_size = 512;
  int64_t epochs = 1;
  int64_t max_steps = 0;         // 0: no limit. Exact: the job ends with this many steps.
  bool epoch_barrier = false;    // Every record of an epoch before the first of the next.
  int64_t batches_per_task = 0;  // 0: chosen from the size of the data.
  int64_t max_inflight = 2;      // Batches pulled ahead of the last acknowledged push: how far
                                 // behind itself a worker is. 0: strictly one after the other.
  std::string mode = "async";    // When a gradient moves the weights: at once (async), with its
                                 // round (sync), or rows at once and dense weights so (hybrid).
  RoundsSpec rounds;
  OptimizerSpec optimizer;
  RowsSpec tables;  // Of every table, unless the model asks for something else,
  std::map<std::string, TableRules> named_tables;  // or the user does, of this one.
  EvaluateSpec evaluate;
  CheckpointSpec checkpoint;
  ShuffleSpec shuffle;
  ElasticSpec elastic;
  AllreduceSpec allreduce;
  ParamsSpec params;
  std::string metrics;  // "host:port" where Prometheus reads the job from its master.
  absl::Duration deadline = absl::InfiniteDuration();  // Used by submit.
  std::string priority = "normal";                     // low, normal, high. Used by submit.
  uint64_t seed = 7;

  // INVALID_ARGUMENT that names the key, its value and the remedy: "workers.max: 2 is less than
  // workers.min, 3". UNIMPLEMENTED for what Rubato cannot do yet.
  absl::Status Validate() const;
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// Mode async: how many steps a push may be behind; 0: any number. Unless the job says otherwise,
// four times what all its workers have under way, or params.staleness_max if that is more.
int64_t StalenessBound(const JobSpec& job);

}  // namespace rubato

#endif  // RUBATO_JOB_JOB_SPEC_H_

// One server's share of the parameters, as a state machine: requests go in as the bytes they came
// in, replies come out. What it holds is a function of its first declaration and of the pushes it
// applied, in order, so a log of those two restores it exactly.
//
//     push ── known worker? ──no──▶ kFenced
//               │ yes
//             batch applied? ─all─▶ kDuplicate     ─partly─▶ error: not a batch of this job
//               │ no
//             finite and fitting? ─no─▶ error naming table and worker; for a NaN or an infinity
//               │                         OUT_OF_RANGE, and counted
//               │ yes
//             append to the log, apply, kApplied
//
// Thread-safe only in that pulls may go side by side: the server's lock guards it.
#ifndef RUBATO_PARAMS_SHARD_H_
#define RUBATO_PARAMS_SHARD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/net/buffer.h"
#include "rubato/params/declaration.h"
#include "rubato/params/embedding_table.h"
#include "rubato/params/inspection.h"
#include "rubato/params/memory.h"
#include "rubato/params/record_file.h"
#include "rubato/params/wire.h"

namespace rubato {

class WeightsSink;

struct ShardOptions {
  int64_t server = 0;
  int64_t servers = 1;
  uint64_t rows_max = uint64_t{1} << 30;  // A table's, on this server.
};

struct ShardCounters {
  int64_t pulls = 0;
  int64_t rows_pulled = 0;
  int64_t pushes = 0;  // Applied.
  int64_t rows_pushed = 0;
  int64_t duplicates = 0;
  int64_t fenced = 0;
  int64_t not_finite = 0;
  // Steps applied between a push's pull and its arrival, of those that say so.
  int64_t stale_pushes = 0;
  int64_t staleness_sum = 0;
  int64_t staleness_max = 0;
  // Of all tables, a log's replay included.
  int64_t rows_admitted = 0;
  int64_t rows_refused = 0;  // Gradients of ids that have no row yet.
  int64_t rows_evicted = 0;
};

// What a pull works with; keep it for the next one.
struct PullScratch {
  DecodedPull pull;
  std::vector<float> rows;
};

class Shard {
 public:
  Shard(Memory& memory, ShardOptions options);

  // ---- requests ----

  // The first one makes the tables; a later one must agree, else FAILED_PRECONDITION naming the
  // difference. The first is appended to `log` before it counts.
  absl::Status Declare(absl::string_view body, RecordSink* log);
  // Appends the rows and dense weights asked for. FAILED_PRECONDITION before the first Declare.
  // Changes nothing but a count: several threads may pull at a time, each with its own scratch,
  // while nobody calls anything else.
  absl::Status Pull(absl::string_view body, Buffer* reply, PullScratch* scratch) const;
  absl::Status Pull(absl::string_view body, Buffer* reply) const {
    PullScratch scratch;
    return Pull(body, reply, &scratch);
  }
  // See above. Appended to `log` before it counts; if that fails, nothing has changed.
  absl::StatusOr<PushOutcome> Push(absl::string_view body, RecordSink* log);

  // ---- the master's word ----

  // Who may push. Ignored unless newer than the view it has.
  void SetView(int64_t number, std::vector<WorkerId> workers);
  int64_t view() const { return view_; }

  // ---- recovery ----

  // One record of a log, applied as it was then: the live checks of the view do not apply.
  absl::Status Replay(RecordKind kind, absl::string_view body);

  // ---- state ----

  bool declared() const { return declaration_.has_value(); }
  const std::map<int64_t, IntervalSet>& applied() const { return applied_; }
  ShardCounters counters() const;
  const ShardOptions& options() const { return options_; }
  // Fills in all that a shard knows.
  void Inspect(ServerInspection* out) const;
  int64_t rows() const;
  int64_t bytes() const;
  // Everything, in one order whatever the history: equal bytes mean equal state. For tests and
  // small tools; holds it all in memory.
  std::string Export() const;
  // Its part of the weights, as of the next step (params/weights.h). FAILED_PRECONDITION before
  // the first Declare.
  absl::Status VisitWeights(WeightsSink& sink) const;

 private:
  friend class CheckpointWriter;
  friend class CheckpointReader;

  absl::Status MakeTables(const Declaration& declaration);
  absl::Status CheckParts(const DecodedPush& push);
  bool Fenced(const PushRequest& request) const;
  void CountStaleness(int64_t pulled);
  absl::Status Apply(const PushRequest& request);
  void BeginStep();

  Memory& memory_;
  ShardOptions options_;
  Interval partitions_;
  std::optional<Declaration> declaration_;  // Without its dense values.
  std::string declaration_bytes_;           // As received first, without its dense values.
  std::optional<Optimizer> optimizer_;
  std::vector<float> dense_;  // Weights, then their state.
  size_t dense_size_ = 0;     // Weights of it.
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
  std::map<int64_t, IntervalSet> applied_;
  int64_t steps_ = 0;   // Pushes applied.
  OptimizerStep next_;  // The step of the next push.
  double rate_ = 1;     // What the last push multiplied learning rates with.
  int64_t view_ = 0;
  std::vector<WorkerId> workers_;  // Sorted.
  ShardCounters counters_;
  mutable std::atomic<int64_t> pulls_ = 0, rows_pulled_ = 0;
  DecodedPush push_;  // Reused.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_SHARD_H_

// One server's share of the parameters, as a state machine: requests go in as the bytes they came
// in, replies come out. What it holds is a function of its first declaration and of the pushes it
// applied, in order, so a log of those two restores it exactly.
//
//     push ── known worker? ──no──▶ kFenced
//               │ yes
//             for the partitions it owns? ──no──▶ ABORTED: one of us has an older map
//               │ yes
//             batch applied to all of them? ─yes─▶ kDuplicate     ─partly─▶ error: no batch of this
//             job
//               │ no, to some or none
//             finite and fitting? ─no─▶ error naming table and worker; for a NaN or an infinity
//               │                         OUT_OF_RANGE, and counted
//               │ yes
//             append to the log, apply, kApplied
//
// While one push moves its rows the next may be checked and logged (PushTurn): what that looks at
// has changed by then. Rows move in the order of the log.
//
// In modes sync and hybrid a gradient of a round that is not whole yet is staged instead of applied
// (shard_rounds.cc); to its batch it is the same: once.
//
// What it owns is a set of partitions, rows and slices of the dense weights, each with its history
// (params/history.h): nothing of a partition depends on which others are here, so it can live on
// any server, and move. The one exception is a table's `capacity`, of which a server has a share.
//
// Thread-safe only in that pulls may go side by side: the server's lock guards it.
#ifndef RUBATO_PARAMS_SHARD_H_
#define RUBATO_PARAMS_SHARD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/net/buffer.h"
#include "rubato/params/changes.h"
#include "rubato/params/declaration.h"
#include "rubato/params/embedding_table.h"
#include "rubato/params/history.h"
#include "rubato/params/inspection.h"
#include "rubato/params/memory.h"
#include "rubato/params/record_file.h"
#include "rubato/params/staged_rounds.h"
#include "rubato/params/wire.h"

namespace rubato {

class LogForecast;
class WeightsSink;
struct CheckpointFile;

struct ShardOptions {
  int64_t server = 0;
  // When the job begins, these share all partitions evenly; a server beyond them begins with none.
  int64_t servers = 1;
  uint64_t rows_max = uint64_t{1} << 30;  // A table's, on this server, if it has address space.
  uint64_t late_max = EmbeddingTableOptions().late_max;
};

struct ShardCounters {
  int64_t pulls = 0;
  int64_t rows_pulled = 0;
  int64_t pushes = 0;  // Applied.
  int64_t rows_pushed = 0;
  int64_t duplicates = 0;
  int64_t fenced = 0;
  int64_t stale = 0;
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

// How a push comes to have a shard to itself, bit by bit, so that others need not wait all the time
// (base/shared_mutex.h). This one has it from the beginning to the end.
class PushTurn {
 public:
  virtual ~PushTurn() = default;
  // Whether no push before this one is still at work. If so, none begins.
  virtual bool Alone() { return true; }
  // Until then pulls go on, and the push before may be at work. Again is nothing.
  virtual void Write() {}
  // After Write: nothing but rows and dense weights is still to change, so the next may be checked
  // and logged beside it.
  virtual void PassOn() {}
};

class Shard {
 public:
  Shard(Memory& memory, ShardOptions options);

  // ---- requests ----

  // The first one makes the tables; a later one must agree, else FAILED_PRECONDITION naming the
  // difference. The first is appended to `log` before it counts. ABORTED if it has dense weights
  // for one that owns nothing.
  absl::Status Declare(absl::string_view body, RecordSink* log);
  // Appends the rows and dense weights asked for. FAILED_PRECONDITION before the first Declare.
  // Changes nothing but a count: several threads may pull at a time, each with its own scratch,
  // while nobody calls anything else.
  absl::Status Pull(absl::string_view body, Buffer* reply, PullScratch* scratch) const;
  // Whether this pull must have the shard to itself after all, and what is to be done before it
  // then: a round is to move the weights first, or partitions that are new here are as of another
  // step.
  bool PullChanges(absl::string_view body) const;
  absl::Status BeforePull(absl::string_view body);
  absl::Status Pull(absl::string_view body, Buffer* reply) const {
    PullScratch scratch;
    return Pull(body, reply, &scratch);
  }
  // See above. `push` is what DecodePush made of `body`, which needs no lock. Appended to `log`
  // before it counts; if that fails, nothing has changed. It is checked and logged before it says
  // turn.Write(), but for modes sync and hybrid, where a push may have to move the weights first.
  absl::StatusOr<PushOutcome> Push(const DecodedPush& push, absl::string_view body, RecordSink* log,
                                   PushTurn& turn);
  absl::StatusOr<PushOutcome> Push(absl::string_view body, RecordSink* log);

  // What pushes will fill next (EmbeddingTable::TakeAhead), of all tables.
  void TakeAhead(std::vector<MemoryRange>* memory);

  // ---- the master's word ----

  // Who may push. Ignored unless newer than the view it has.
  void SetView(int64_t number, std::vector<WorkerId> workers);
  int64_t view() const { return view_; }
  // Modes sync and hybrid: the first `rounds` rounds are whole on every server, so each moves the
  // weights, unless it has. Pulls and pushes bring the same word along. FAILED_PRECONDITION if
  // nothing of such a round ever came here, so that the word is not the ledger's.
  absl::Status Whole(int64_t rounds);
  int64_t rounds() const;  // That moved all weights here.

  // Which partitions are whose. Ignored unless newer than the map it has; the first one after a
  // restart may tell of a move in which this server died. What it gains must have arrived, else
  // DATA_LOSS; what it loses is forgotten. Appended to `log` if it changes what is owned here.
  absl::Status SetMap(const PartitionMap& map, RecordSink* log);

  // ---- moves: see params/move.h ----

  // A record of partitions on their way here. Appended to `log` before it counts. A repeated one
  // is OK and changes nothing; ABORTED if it is of another attempt or one before it is missing, or
  // if it is the first and a checkpoint is being written,
  // RESOURCE_EXHAUSTED without room for it beside the rounds that wait here.
  absl::Status Arrive(RecordKind kind, absl::string_view body, RecordSink* log);
  // What has wholly arrived, and is not owned yet.
  IntervalSet arrived() const;
  const std::vector<History>& arrived_histories() const;
  // Removes some thousand of the rows that were forgotten. False when none are left.
  bool Tidy();
  // Whether nothing is arriving, and nothing forgotten is left: what a checkpoint needs.
  bool observed() const;  // By a checkpoint or a move.
  bool settled() const { return !arrival_.has_value() && forgotten_.empty(); }
  // Whether what changed since the last cut is known, so that a checkpoint may be a delta.
  bool changes_known() const;

  // ---- recovery ----

  // Makes room for what the log of `forecast` is about to bring, and returns the memory which that
  // will fill (memory.h). Changes nothing else. After the declaration.
  std::vector<MemoryRange> Expect(const LogForecast& forecast);
  // One record of a log, applied as it was then: the live checks of the view do not apply.
  absl::Status Replay(RecordKind kind, absl::string_view body);

  // ---- state ----

  bool declared() const { return declaration_.has_value(); }
  const PartitionMap& map() const { return map_; }
  const std::vector<History>& histories() const { return histories_; }
  // Applied to every partition here.
  std::map<int64_t, IntervalSet> applied() const;
  // Positions applied to some of the partitions and not to all of them.
  int64_t uneven() const;
  ShardCounters counters() const;
  const ShardOptions& options() const { return options_; }
  // Fills in all that a shard knows.
  void Inspect(ServerInspection* out) const;
  int64_t rows() const;
  int64_t bytes() const;
  // Everything, in one order whatever the history: equal bytes mean equal state. For tests and
  // small tools; holds it all in memory.
  std::string Export() const;
  // The same in pieces with names that do not depend on who holds them: rows, counts and slices
  // with their state.
  void VisitState(
      absl::FunctionRef<void(const std::string& name, absl::string_view state)> visit) const;
  // Its part of the weights, as of the next step (params/weights.h). FAILED_PRECONDITION before
  // the first Declare.
  absl::Status VisitWeights(WeightsSink& sink) const;

 private:
  friend class CheckpointWriter;
  friend class CheckpointReader;
  friend class MoveSender;
  friend absl::Status RestoreShard(Shard& shard, const std::vector<CheckpointFile>& files);
  friend absl::Status RestoreChain(Shard& shard, const std::vector<CheckpointFile>& chain);

  using DenseSlice = std::vector<float>;  // Weights, then their state.
  // Hears of every slice that is about to move, as EmbeddingTable::Observer does of rows.
  class DenseObserver {
   public:
    virtual ~DenseObserver() = default;
    virtual void BeforeUpdate(int64_t slice, const DenseSlice& values) = 0;
  };

  // Partitions on their way here. Their rows are in the tables already, but nobody asks for them.
  struct Arrival {
    int64_t move = 0;
    int64_t attempt = 0;
    int64_t next = 0;  // Records that came.
    IntervalSet partitions;
    std::map<int64_t, DenseSlice> dense;
    std::vector<StagedGradient> staged;
    bool complete = false;
    std::vector<History> histories;  // When complete.
  };

  absl::Status MakeTables(const Declaration& declaration);
  void MakeDense(absl::Span<const float> weights);
  absl::StatusOr<PushOutcome> CheckPush(const DecodedPush& push) const;
  absl::Status CheckParts(const DecodedPush& push) const;
  absl::Status CheckFinite(const DecodedPush& push) const;
  absl::Status CheckRoom(const PushRequest& request) const;
  // Whether a table has room for `ids`, and so many `more`, beside all that gradients which wait
  // here may make.
  absl::Status CheckRoomIn(size_t table, absl::Span<const uint64_t> ids, uint64_t more = 0) const;
  // Whether there is room however many rows the push that is still at work makes.
  bool RoomBeside(const PushRequest& request) const;
  void NoteRoom(const PushRequest& request);
  absl::Status CheckVersion(int64_t version) const;
  bool Owns(absl::Span<const uint64_t> ids) const;
  bool Fenced(const PushRequest& request) const;
  void CountStaleness(int64_t pulled);
  absl::Status Apply(const DecodedPush& push, PushTurn& turn);
  // What the tables and dense weights must know of a step; a history goes on while they move.
  struct StepAt {
    uint32_t number = 0;
    int64_t samples = 0;
    double rate = 1;
    OptimizerStep dense;
  };
  StepAt StepOf(const History& history) const;
  void ApplyTo(History& history, const PushRequest& request, int64_t pulled, PushTurn* turn);
  void MoveWeights(const IntervalSet& partitions, const PushRequest& request,
                   const OptimizerStep& step);
  void CountStep(History& history);
  void ForgetCounted(int64_t steps, const IntervalSet& partitions);
  // What the staleness of a push leaves of the rate.
  double Freshness(const History& history, int64_t pulled) const;
  void UpdateDense(const IntervalSet& partitions, absl::Span<const float> gradient,
                   const OptimizerStep& step);
  void UpdateSlice(int64_t slice, absl::Span<const float> gradient, const OptimizerStep& step);
  OptimizerStep DenseStep(const History& history) const;
  bool InRounds() const { return declared() && declaration_->mode != PushMode::kAsync; }
  bool Stale(const DecodedPush& push) const;
  void Stage(const DecodedPush& push);
  StagedGradient StagedOf(const PushRequest& request) const;
  absl::Status ApplyRound(int64_t round);
  void ApplyMerged(History& history, const StagedRounds::Merged& merged);
  absl::Status EvenRounds();  // What moved the weights of some partitions here moves those of all.
  // With pushes alone a log tells which rounds are whole later than the server heard it. While
  // partitions come no rows go, and with them or without another share of them does: so before
  // they come or go it tells how many rounds were applied.
  absl::Status LogRounds(RecordSink& log) const;
  absl::Status ReplayRounds(absl::string_view body);
  // OK if it is of this model and of nothing but `partitions`.
  absl::Status CheckStaged(const StagedGradient& gradient, const IntervalSet& partitions) const;
  absl::Status RestoreStaged(const StagedGradient& gradient);  // What of it is owned here.
  void GatherRows(size_t table, absl::Span<const uint64_t> ids, float* out) const;
  void BeginStep(const StepAt& step, bool evict, double freshness = 1) const;
  void BeginNextStep();
  bool TakeEviction(const StepAt& step);  // Whether rows go now.
  absl::Status Arrive(RecordKind kind, absl::string_view body, RecordSink* log, bool replay);
  absl::Status BeginArrival(absl::string_view body, RecordSink* log, bool replay);
  absl::Status CheckArriving(RecordKind kind, absl::string_view body, bool replay) const;
  void TakeArriving(RecordKind kind, absl::string_view body);
  void DropArrival();
  void Forget(const IntervalSet& partitions);
  void SetOwned(std::vector<History> histories);
  void BeginChanges();                      // It is now as a checkpoint says.
  size_t SliceFloats(int64_t slice) const;  // Its weights; its state comes behind them.
  size_t dense_floats() const;

  Memory& memory_;
  ShardOptions options_;
  PartitionMap map_;
  std::vector<History> histories_;  // Of what it owns, by partition each once.
  std::array<bool, kPartitions> owned_{};
  std::optional<Arrival> arrival_;
  std::vector<int64_t> forgotten_;          // Partitions whose rows are still to be removed.
  std::optional<Declaration> declaration_;  // Without its dense values.
  std::string declaration_bytes_;           // As received first, without its dense values.
  std::optional<Optimizer> optimizer_;
  std::map<int64_t, DenseSlice> dense_;  // By number.
  DenseObserver* dense_observer_ = nullptr;
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
  ShardChanges changes_;  // But for those of the tables.
  StagedRounds staged_;
  int64_t view_ = 0;
  std::vector<WorkerId> workers_;  // Sorted.
  ShardCounters counters_;
  bool counts_known_ = true;  // False: it was restored from what does not tell tables' counters.
  mutable std::atomic<int64_t> pulls_ = 0, rows_pulled_ = 0;
  int64_t evicted_ = 0;         // The number of the last step at which rows went; 0: none is known.
  std::vector<uint64_t> room_;  // By table, beside the last push that passed its turn on.
  DecodedPush push_;            // Reused.
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_SHARD_H_

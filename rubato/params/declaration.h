// What a worker tells every server before its first step, and what the two then say to each other
// about a batch. Plain structs over memory the caller owns; params/wire.h turns them into bytes.
#ifndef RUBATO_PARAMS_DECLARATION_H_
#define RUBATO_PARAMS_DECLARATION_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/base/ids.h"
#include "rubato/data/batch.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"

namespace rubato {

// When a gradient moves the weights: docs/design/0003-modes.md.
enum class PushMode : uint8_t { kAsync = 0, kSync = 1, kHybrid = 2 };
// As a job file has it, which must be one of the three.
PushMode PushModeOf(absl::string_view name);

// The first declaration makes the tables and sets the dense weights; later ones must agree with it
// in everything but the dense values, which every worker derives from the same seed.
struct Declaration {
  ModelSignature signature;
  OptimizerSpec optimizer;  // Of dense weights, and of tables without their own.
  RowsSpec rows;            // Of tables without their own.
  uint64_t seed = 0;
  PushMode mode = PushMode::kAsync;
  // How far behind a gradient may be: rounds in modes sync and hybrid; steps in mode async, where
  // 0 is any number.
  int64_t tolerance = 0;
  // Mode async: a push computed from weights s steps ago moves them at 1 / (1 + s) of the rate.
  bool scale_stale = false;
  // All dense weights at their starting values, flat: signature.dense_size of them.
  std::vector<float> dense;
};

// One table's part of a pull: row i of `rows` (dim floats) is filled for ids[i].
struct TablePull {
  absl::Span<const uint64_t> ids;  // Each once.
  absl::Span<float> rows;          // ids.size() x dim
};

struct PullRequest {
  std::vector<TablePull> tables;  // One a table, as in the signature; empty if none is wanted.
  absl::Span<float> dense;        // All dense weights, or empty if not wanted.
  int64_t rounds = 0;             // Modes sync, hybrid: that many are whole, and shall be in them.
  // Filled with the steps each server had applied; -1 for those that were not asked. May be null.
  std::vector<int64_t>* steps = nullptr;
};

// One table's part of a push: ids[i] is moved against row i of `gradients`.
struct TablePush {
  absl::Span<const uint64_t> ids;     // Each once, its gradients summed.
  absl::Span<const float> gradients;  // ids.size() x dim
};

struct PushRequest {
  BatchKey key;
  WorkerId worker;
  int64_t view = 0;               // The newest view the worker knew.
  double rate = 1;                // What the learning rate is multiplied with from this push on.
  int64_t records = 0;            // That the gradient is the mean of; 0: there is none.
  int64_t round = 0;              // Modes sync, hybrid: the round this batch is of,
  int64_t rounds = 0;             // and how many were whole when it was leased.
  std::vector<TablePush> tables;  // One a table, as in the signature; empty if none is moved.
  absl::Span<const float> dense;  // All dense gradients, or empty if none.
  // By server: how many steps it had applied when the weights were pulled. Those applied since are
  // the push's staleness. Empty: unknown. A server that was not asked then, -1 or missing, is told
  // the least of the others: steps go with partitions, wherever they live.
  absl::Span<const int64_t> pulled;
};

// More records than anybody has: positions beyond are nobody's, and sums of them do not overflow.
inline constexpr int64_t kPositionsMax = int64_t{1} << 48;
// Whether a batch can be called so: some positions of some epoch.
inline bool IsBatch(const BatchKey& key) {
  return key.epoch >= 0 && key.begin >= 0 && key.begin < key.end && key.end <= kPositionsMax;
}

enum class PushOutcome {
  kApplied,
  kDuplicate,  // The batch was applied before: acknowledged, not applied again.
  kFenced,     // The worker is no longer in the view: refused for good.
  kStale,      // Computed from weights too far behind: to be computed again.
};
absl::string_view PushOutcomeName(PushOutcome outcome);  // As in "applied".

}  // namespace rubato

#endif  // RUBATO_PARAMS_DECLARATION_H_

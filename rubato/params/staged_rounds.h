// Modes sync and hybrid: gradients that wait for the others of their round.
//
// A round is a fixed run of batches of the plan; its gradients make one step, whoever computed
// them and in whatever order they came:
//
//     push ──Add──▶ staged, by round and batch ──Merge, once the round is whole──▶ one gradient
//
// That a round is whole everywhere is the ledger's word, which comes with leases and heartbeats; a
// server never decides it, for what is whole here may be missing elsewhere, and the batch that is
// missing there must be computed again from the weights the others were computed from.
//
// A gradient falls into rows and slices of the dense weights, which belong to partitions; parts of
// one batch may come apart, as when partitions come from two servers, and are put together here.
//
// What is staged never changes: a part that comes later makes a new gradient of both. So whoever
// writes a checkpoint keeps what is there at the cut, and encodes it when and where it likes.
//
// Not thread-safe: the shard owns it. Gradients are, for nobody changes them.
#ifndef RUBATO_PARAMS_STAGED_ROUNDS_H_
#define RUBATO_PARAMS_STAGED_ROUNDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/base/interval_set.h"
#include "rubato/data/batch.h"

namespace rubato {

// One batch's gradient, or some of it.
struct StagedGradient {
  struct Table {
    std::vector<uint64_t> ids;
    std::vector<float> gradients;
  };
  int64_t round = 0;
  BatchKey key;
  int64_t records = 0;                          // That it is the mean of; 0: there is none.
  double rate = 1;                              // As PushRequest's.
  std::map<int64_t, std::vector<float>> dense;  // By slice.
  std::vector<Table> tables;

  // What of it belongs to `partitions`.
  StagedGradient Of(const IntervalSet& partitions) const;
  int64_t bytes() const;  // In memory, about.

  std::string Encode() const;
  // DATA_LOSS if the bytes are none. Sizes are as they say, not yet held against any model.
  static absl::StatusOr<StagedGradient> Decode(absl::string_view bytes);
};

class StagedRounds {
 public:
  using Staged = std::shared_ptr<const StagedGradient>;

  bool empty() const { return rounds_.empty(); }
  bool Has(int64_t round) const { return rounds_.contains(round); }
  int64_t bytes() const { return bytes_; }
  // Of a table, those that come twice counted so.
  uint64_t ids(size_t table) const { return table < ids_.size() ? ids_[table] : 0; }

  // Whether some of it is here already, or what is here of its batch says otherwise.
  bool Clashes(const StagedGradient& gradient) const;
  // Keeps a gradient, beside the parts of the same batch that are here. The caller sees to it that
  // no part comes twice.
  void Add(StagedGradient gradient);

  // What of `round` belongs to `partitions`, as one gradient: the mean over its records, its
  // batches added in the order of the plan's positions, its ids in the order in which they first
  // come. One batch alone is that batch's gradient to the bit. `samples` are the records it stands
  // for.
  struct Merged {
    StagedGradient gradient;
    int64_t samples = 0;
  };
  Merged Merge(int64_t round, const IntervalSet& partitions) const;
  void DropBefore(int64_t round);
  // These are another server's now.
  void Forget(const IntervalSet& partitions);

  // Everything, in order.
  std::vector<Staged> All() const;
  void Visit(absl::FunctionRef<void(const StagedGradient& gradient)> visit) const;

 private:
  // By epoch and position, the same order on every server.
  using Round = std::map<std::pair<int64_t, int64_t>, Staged>;
  void Count(const StagedGradient& gradient, int64_t sign);

  int64_t bytes_ = 0;
  std::vector<uint64_t> ids_;  // By table.
  std::map<int64_t, Round> rounds_;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_STAGED_ROUNDS_H_

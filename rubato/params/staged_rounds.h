// Modes sync and hybrid: gradients that wait for the others of their round.
//
// A round is a fixed run of batches of the plan; its gradients make one step, whoever computed
// them and in whatever order they came:
//
//     push ──Stage──▶ staged, by round and batch ──Merge, once the round is whole──▶ one gradient
//
// That a round is whole everywhere is the ledger's word, which comes with leases and heartbeats; a
// server never decides it, for what is whole here may be missing elsewhere, and the batch that is
// missing there must be computed again from the weights the others were computed from.
//
// Not thread-safe: the shard owns it.
#ifndef RUBATO_PARAMS_STAGED_ROUNDS_H_
#define RUBATO_PARAMS_STAGED_ROUNDS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "rubato/params/declaration.h"

namespace rubato {

class StagedRounds {
 public:
  // Rounds merged so far: the number of the next one, and the version of the weights.
  int64_t merged() const { return merged_; }
  bool Has(int64_t round) const { return rounds_.contains(round); }
  bool Holds(const PushRequest& request) const;  // Its batch, in its round.
  bool empty() const { return rounds_.empty(); }
  int64_t bytes() const { return bytes_; }  // What is staged, about.
  int64_t ids() const { return ids_; }      // In all tables, those that come twice counted so.

  // Copies a gradient. Its round must not be merged, its batch not staged.
  void Stage(int64_t round, const PushRequest& request);

  // The next round as one gradient: the mean over its records, its batches added in the order of
  // the plan's positions, its ids in the order in which they first come. One batch alone is that
  // batch's gradient to the bit. `samples` are the records it stands for. Valid until the next
  // call. A round without any gradient gives one without parts.
  struct Merged {
    PushRequest request;
    int64_t samples = 0;
  };
  const Merged& Merge();

  // Everything staged, in order, and where it goes on: for checkpoints.
  template <typename Visitor>  // void(int64_t round, const PushRequest&)
  void Visit(Visitor visit) const {
    for (const auto& [round, batches] : rounds_) {
      for (const auto& [place, batch] : batches) visit(round, batch.View());
    }
  }
  // From a checkpoint: nothing may be staged yet.
  void Restore(int64_t merged) { merged_ = merged; }

 private:
  struct Table {
    std::vector<uint64_t> ids;
    std::vector<float> gradients;
  };
  struct Batch {
    PushRequest head;  // Without its parts.
    std::vector<float> dense;
    std::vector<Table> tables;
    PushRequest View() const;
    int64_t bytes() const;
    int64_t ids() const;
  };
  // By epoch and position, the same order on every server.
  using Round = std::map<std::pair<int64_t, int64_t>, Batch>;

  // The mean of `batches` over their records, into sum_.
  void Add(const std::vector<const Batch*>& batches, double records);

  int64_t merged_ = 0;
  int64_t bytes_ = 0;
  int64_t ids_ = 0;
  std::map<int64_t, Round> rounds_;
  Round last_;  // Behind merge_.
  Batch sum_;
  Merged merge_;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_STAGED_ROUNDS_H_

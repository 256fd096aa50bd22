// The vote that ends a step: up a tree when a member and all below it hold the whole sum, and down
// again once the root has heard of all. 2(P-1) small messages, 2 log2(P) deep.
//
// The votes also carry each member's speed, so that all deal the next step's microbatches from
// the same numbers.
#ifndef RUBATO_RING_VOTE_TREE_H_
#define RUBATO_RING_VOTE_TREE_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/types/span.h"

namespace rubato {

struct Vote {
  uint64_t view = 0;
  int64_t step = 0;
  bool all = false;           // On its way down: everyone has voted.
  std::vector<float> speeds;  // By rank; 0 where not yet known.
};

class VoteTree {
 public:
  VoteTree(uint64_t view, int64_t step, int rank, int size);

  // This member holds the whole sum. Once.
  void Cast(float speed);
  // From another rank; false if it is not for this vote, or not from a neighbour in the tree.
  bool Hear(int from, const Vote& vote);

  // Everyone's vote is in.
  bool complete() const { return complete_; }
  absl::Span<const float> speeds() const { return speeds_; }

  struct Send {
    int to = 0;
    Vote vote;
  };
  std::vector<Send> TakeSends();

 private:
  void Advance();
  Vote Make(bool all) const;

  const uint64_t view_;
  const int64_t step_;
  const int rank_;
  const std::vector<int> children_;
  bool cast_ = false;
  bool complete_ = false;
  std::set<int> heard_;
  std::vector<float> speeds_;
  std::vector<Send> sends_;
};

}  // namespace rubato

#endif  // RUBATO_RING_VOTE_TREE_H_

// An order of summation that belongs to the microbatches, not to the workers.
//
// The gradients of microbatches 0..n-1 are the leaves of one binary tree, cut at the largest power
// of two below the size. A worker that computed a run of leaves adds up the whole subtrees
// within it; what is left is added the same way by everyone. Floating-point addition is then
// always the same additions, so the sum has the same bits for every division of the leaves.
#ifndef RUBATO_RING_CANONICAL_H_
#define RUBATO_RING_CANONICAL_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace rubato {

// A node of the tree over `count` leaves: the leaves [begin, end) below it.
struct Subtree {
  int begin = 0;
  int end = 0;
  friend bool operator==(const Subtree&, const Subtree&) = default;
};

// The largest subtrees that cover exactly the leaves [begin, end): at most 2 log2(count) of them,
// in order.
std::vector<Subtree> WholeSubtrees(int count, int begin, int end);

// Where a subtree of at least two leaves is cut: its children are [begin, cut) and [cut, end).
int CutOf(const Subtree& subtree);

// One worker's part: the gradients of the run of microbatches that begins at `begin`, out of
// `count`, added up as they come. Keeps one buffer for each whole subtree: at most 2 log2(count).
class CanonicalSum {
 public:
  CanonicalSum(int count, int begin) : count_(count), next_(begin) {}

  // That of the next microbatch; all have the same size.
  void Add(absl::Span<const float> gradient);
  // WholeSubtrees() of what was added, and their sums.
  absl::Span<const Subtree> subtrees() const { return subtrees_; }
  absl::Span<const float> sum(size_t i) const { return sums_[i]; }

 private:
  const int count_;
  int next_;
  std::vector<Subtree> subtrees_;
  std::vector<std::vector<float>> sums_;
};

// The sum over `count` leaves out of the sums of subtrees that cover them, in order and without
// gaps; `parts[i]` is that of `subtrees[i]`. The parts are used up; the result is in parts[0].
void SumCanonical(absl::Span<const Subtree> subtrees, absl::Span<const absl::Span<float>> parts,
                  int count);

}  // namespace rubato

#endif  // RUBATO_RING_CANONICAL_H_

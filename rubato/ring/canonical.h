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
#include "rubato/ring/quota.h"

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

// How canonical sums travel: each subtree has a place of its own in one buffer, zero at all members
// but one, so that a sum over the members moves it everywhere as it is; then everyone adds the
// subtrees up in the same order. Large sums go piece by piece.
class CanonicalPlaces {
 public:
  // `quotas` are the runs of all members, by rank.
  CanonicalPlaces(int count, absl::Span<const Quota> quotas, int rank);

  // How many floats go at a time.
  size_t piece() const { return piece_; }
  // The places of floats [begin, begin + length) with what this member has to add, to be summed
  // over all members.
  absl::Span<float> Fill(const CanonicalSum& mine, size_t begin, size_t length);
  // Adds up what came of it.
  void Sum(absl::Span<float> into);

 private:
  std::vector<absl::Span<float>> Parts(size_t length);

  const int count_;
  std::vector<Subtree> subtrees_;  // Of all members.
  size_t first_ = 0;               // Of this one's.
  size_t piece_ = 0;
  std::vector<float> places_;
};

}  // namespace rubato

#endif  // RUBATO_RING_CANONICAL_H_

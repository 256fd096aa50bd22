// What must hold after every event of a simulated group, seen from above.
//
//  - No two different views with one number are ever used.
//  - A step is committed once someone takes it for that: has applied it with all votes or, where
//    steps are applied early, has the next one's sum. No step is committed twice, in two views or
//    with different weights, and no view begins before a step committed in an earlier one.
//  - Nobody who holds a view begins anew.
//  - No member takes a step for committed that is not.
//  - Every applied sum holds each microbatch of the step exactly once, computed from these weights.
//  - All who hold the state at the beginning of a view hold the same, and it is the founder's with
//    steps applied to it: a newcomer's weights spread to nobody.
//
// Where a split is allowed (quorum: any) the first two hold within each view, not between the
// halves: those who use the same view begin it with the same weights, and apply the same sum for
// each step.
#ifndef RUBATO_RING_SIM_CHECKER_H_
#define RUBATO_RING_SIM_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rubato/membership/view.h"

namespace rubato {

// Weights are a hash of everything that went into them, so equal hashes are equal histories.
using Weights = uint64_t;
// A reduced gradient: three sums over microbatches, and one element that differs from view to view
// as the rounding of a real sum does.
using Sum = std::vector<uint64_t>;

inline constexpr int kMicrobatches = 6;
inline constexpr int kSumElements = 4;

// The part of microbatch `index` in element `element` of step `step`'s gradient at these weights.
uint64_t GradientOf(Weights weights, int64_t step, int index, int element);
Weights ApplySum(Weights weights, const Sum& sum);

class RingChecker {
 public:
  explicit RingChecker(bool split_allowed) : split_allowed_(split_allowed) {}

  // The first weights.
  void Founded(Weights weights) { grown_.insert(weights); }
  void ViewUsed(MemberId member, const GroupView& view, Weights weights);
  // `member` applied `sum`, reduced in `view`, to `before`.
  void Applied(MemberId member, const GroupView& view, int64_t step, Weights before,
               const Sum& sum);
  // A step of `view`, with these weights after it, can no longer be undone.
  void Committed(const GroupView& view, int64_t step, Weights weights);
  // `member`, which holds `view`, begins a new life: its state is lost for nothing.
  void Forgets(MemberId member, const GroupView& view);
  // `member` believes `step` to be committed, with these weights after it.
  void Believes(MemberId member, int64_t step, Weights weights);

  // Empty while all is well; then the first thing that was not.
  const std::string& violation() const { return violation_; }
  void Fail(std::string what);

  // Where halves of a split may differ, each one's are counted.
  int64_t committed() const {
    if (split_allowed_) return static_cast<int64_t>(applied_.size());
    return committed_.empty() ? 0 : committed_.rbegin()->first;
  }
  const std::map<uint64_t, GroupView>& views() const { return views_; }

 private:
  struct Commit {
    uint64_t view = 0;
    Weights weights = 0;
  };

  const bool split_allowed_;
  std::string violation_;
  std::map<uint64_t, GroupView> views_;
  std::map<int64_t, Commit> committed_;
  // By the view's mark, since two halves of a split may use one number.
  std::map<uint64_t, Weights> base_;  // The holders' weights at the beginning of each view.
  std::map<std::pair<uint64_t, int64_t>, Weights> applied_;  // After each step of each view.
  std::set<Weights> grown_;  // All weights that were come by honestly.
};

}  // namespace rubato

#endif  // RUBATO_RING_SIM_CHECKER_H_

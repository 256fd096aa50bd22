// What must hold after every event of a simulated group, seen from above.
//
// Each RingRule below is one of them, and has a planted bug that breaks it (ring_sim_test).
//
// Where a split is allowed (quorum: any) the first three do not hold between its halves; within one
// all who use the same view begin it with the same weights, and apply the same sum for each step.
// Where a master issues the views there is no majority. Where a group is founded twice from one
// job, all hold within each founding.
#ifndef RUBATO_RING_SIM_CHECKER_H_
#define RUBATO_RING_SIM_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rubato/membership/view.h"
#include "rubato/membership/views.h"

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

enum class RingRule : uint8_t {
  kNone,
  // No two different views with one number are ever used.
  kOneViewANumber,
  // A step is committed once someone takes it for that: has applied it with all votes or, where
  // steps are applied early, has the next one's sum. None is committed in two views, or with
  // different weights, and no view begins before a step committed in an earlier one.
  kOneCommitAStep,
  // A view is used only if, in one ballot, a majority of the holders of the one before accepted it:
  // so a minority commits nothing.
  kMajority,
  // Every applied sum holds each microbatch of the step exactly once, computed from these weights;
  // and steps are applied one by one, none twice.
  kRecordsOnce,
  // Who holds a view begins it with the founder's weights and steps applied to them: a newcomer's
  // own spread to nobody.
  kNewcomersWeights,
  // All who hold a view begin it with the same weights, and apply the same sums.
  kOneState,
  // Nobody takes a step for committed, or training for done, that is not.
  kTrueBelief,
  // Nobody who holds a view begins anew, and no state is given up that someone has.
  kStateKept,
  // Who belongs to one founding never enters a view of another, no view has the founder of another
  // group in it, nobody who holds the state is left behind but by a later view of its own founding,
  // and nobody takes the end of another for its own's.
  kFoundingsApart,
  // Who ends with a step leaves nobody within reach without it.
  kNobodyInDoubt,
  // The last view that the master issued is the last in its journal.
  kJournal,
  // After the last fault all agree and train, or have ended, within a bound.
  kAgreement,
  kCount
};
const char* Name(RingRule rule);  // "one view a number", ...

class RingChecker {
 public:
  struct Options {
    bool split_allowed = false;
    bool issued = false;  // By a master: one founding, whoever begins it.
  };
  explicit RingChecker(Options options) : options_(options) {}

  // `member` begins a group with these weights.
  void Founded(MemberId member, Weights weights) { OfFounder(member).grown.emplace(weights, 0); }
  // `message` of the agreement on views leaves its sender, as anyone could see on the wire.
  void Said(const ViewMessage& message);
  void ViewUsed(MemberId member, const GroupView& view, Weights weights);
  // `member` applied `sum`, reduced in `view`, to `before`.
  void Applied(MemberId member, const GroupView& view, int64_t step, Weights before,
               const Sum& sum);
  // A step of `view`, with these weights after it, can no longer be undone.
  void Committed(const GroupView& view, int64_t step, Weights weights);
  // `member`, which holds `view`, begins a new life: its state is lost for nothing.
  void Forgets(MemberId member, const GroupView& view);
  // `member`, in `view`, believes `step` to be committed, with these weights after it.
  void Believes(MemberId member, const GroupView& view, int64_t step, Weights weights);
  // The group has gone on without `member`, whose view was `view`.
  void LeftBehind(MemberId member, const GroupView& view);
  // `member` takes training for done, which ends with `last_step`.
  void Done(MemberId member, const GroupView& view, int64_t last_step);
  // `member`, in `view`, has heard that training is done.
  void Told(MemberId member, const GroupView& view);

  // Empty while all is well; then the first thing that was not.
  const std::string& violation() const { return violation_; }
  RingRule broken() const { return broken_; }
  void Fail(RingRule rule, std::string what);

  // Where halves of a split may differ, each one's are counted.
  int64_t committed() const;
  // Which founding `view` goes back to, by its founder's id; 0: the only one.
  uint64_t FoundingOf(const GroupView& view) const;
  // How often one that held a view was in the next to learn the state anew.
  int64_t relearned() const { return static_cast<int64_t>(relearned_.size()); }
  int64_t foundings() const { return static_cast<int64_t>(foundings_.size()); }
  // The newest view used of each founding; of none where a split is allowed.
  std::map<uint64_t, GroupView> newest() const;

 private:
  struct Commit {
    uint64_t view = 0;
    Weights weights = 0;
  };

  struct Founding {
    std::map<uint64_t, GroupView> views;
    std::map<int64_t, Commit> committed;
    std::map<Weights, int64_t> grown;  // All weights that were come by honestly: after which step.
    bool done = false;                 // One took training for that.
  };
  Founding& OfFounder(MemberId founder) {
    return foundings_[options_.issued ? 0 : static_cast<uint64_t>(founder.value())];
  }
  Founding& Of(const GroupView& view) { return foundings_[FoundingOf(view)]; }
  // Whether enough of the view before have accepted `view`, which `user` is the first to use.
  bool MajorityAccepted(const GroupView& view, MemberId user) const;

  const Options options_;
  std::string violation_;
  RingRule broken_ = RingRule::kNone;
  std::map<uint64_t, Founding> foundings_;         // By the founder's id.
  std::map<uint64_t, uint64_t> founding_of_;       // By the mark of a view that was used.
  std::map<MemberId, uint64_t> belongs_to_;        // Which founding, from the first view on.
  std::map<uint64_t, GroupView> used_;             // By mark.
  using Proposal = std::pair<uint64_t, Ballot>;    // The number under agreement, and the ballot.
  std::map<uint64_t, std::set<Proposal>> offers_;  // Of each view, by its mark.
  std::map<Proposal, std::set<MemberId>> accepted_by_;
  std::set<std::pair<uint64_t, MemberId>> relearned_;  // In which view, by its mark, who.
  // By the view's mark, since two halves of a split may use one number.
  std::map<uint64_t, Weights> base_;  // The holders' weights at the beginning of each view.
  std::map<std::pair<uint64_t, int64_t>, Weights> applied_;  // After each step of each view.
};

}  // namespace rubato

#endif  // RUBATO_RING_SIM_CHECKER_H_

// The numbered set of members that train together.
#ifndef RUBATO_MEMBERSHIP_VIEW_H_
#define RUBATO_MEMBERSHIP_VIEW_H_

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "rubato/membership/member.h"

namespace rubato {

// Members stand in the order in which they came by the state: the first is the oldest. The first
// `holders` hold the model after `step`; the others have just come and copy it from a holder, who
// is never one of them. A rank is a place in this order.
struct GroupView {
  uint64_t number = 0;  // 0: no view yet.
  std::vector<GroupMember> members;
  int holders = 0;
  int64_t step = 0;  // The last step that the holders have applied when the view begins.

  int size() const { return static_cast<int>(members.size()); }
  // -1 if it is not a member.
  int RankOf(MemberId member) const;
  bool Contains(MemberId member) const { return RankOf(member) >= 0; }
  bool Holds(MemberId member) const;
  // How many holders must agree to the next view.
  int Majority() const { return holders / 2 + 1; }
  // "view 7 after step 120: member-3 member-9 | member-12", the learners behind the bar.
  std::string ToString() const;

  friend bool operator==(const GroupView&, const GroupView&) = default;
  friend std::ostream& operator<<(std::ostream& out, const GroupView& view) {
    return out << view.ToString();
  }
};

// What a member says when it lets go of a view: from these the next one is made.
struct Standing {
  GroupMember member;
  int64_t applied = 0;  // Steps up to this one are in its weights.
  int64_t voted = 0;    // The last step whose whole sum it holds: `applied` or one more.
};

// Bugs of other systems, to show that the simulation would find them here. Tests only.
enum class RingBug : uint8_t {
  kNone,
  kNoFencing,         // Messages of older views are taken, and a promise does not freeze.
  kRankByAddress,     // Members are ordered by address, not by age of state.
  kSourceIsRankZero,  // The view begins at its rank 0's step, not at the furthest.
  kForgetPromises,    // A member accepts any ballot.
};

// What the next view is made of.
struct ViewChange {
  std::vector<Standing> standings;  // Of those who let go of the old view.
  std::vector<GroupMember> keep;    // Learners that seem to be alive, with or without a standing.
  std::vector<GroupMember> newcomers;
  std::set<MemberId> leaving;  // Their standing counts; they are not in the new view.
};

// The view after `old`: holders with a standing in their old order, then learners who have
// caught up, then those still learning, then newcomers. It begins at the furthest applied step,
// so nothing that a majority applied is lost. A holder without a standing is out.
GroupView NextView(const GroupView& old, const ViewChange& change, RingBug bug = RingBug::kNone);

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_VIEW_H_

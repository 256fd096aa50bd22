// The numbered set of members that train together.
#ifndef RUBATO_MEMBERSHIP_VIEW_H_
#define RUBATO_MEMBERSHIP_VIEW_H_

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rubato/membership/member.h"

namespace rubato {

// Members stand in the order in which they came by the state: the first is the oldest. The first
// `holders` hold the model after `step`; the others have just come and copy it from a holder, who
// is never one of them. A rank is a place in this order.
struct GroupView {
  uint64_t number = 0;  // 0: no view yet.
  std::vector<GroupMember> members;
  int holders = 0;
  int64_t step = 0;     // The last step that the holders have applied when the view begins.
  uint64_t parent = 0;  // The mark of the view before; 0: the first.

  int size() const { return static_cast<int>(members.size()); }
  // -1 if it is not a member.
  int RankOf(MemberId member) const;
  bool Contains(MemberId member) const { return RankOf(member) >= 0; }
  bool Holds(MemberId member) const;
  // Whether these are enough to agree to the next view: more than half of the holders, or just
  // half with the oldest of them. Any two such sets share a member.
  bool IsMajority(const std::set<MemberId>& agreed) const;
  // Tells views apart that have one number, as the two halves of a split may, by all that led to
  // them: what messages and buffers of a view are marked with. 0 if there is no view.
  uint64_t Mark() const;
  // "view 7 after step 120: member-3 member-9 | member-12", the learners behind the bar.
  std::string ToString() const;

  friend bool operator==(const GroupView&, const GroupView&) = default;
  friend std::ostream& operator<<(std::ostream& out, const GroupView& view) {
    return out << view.ToString();
  }
};

// How the end of a member shows itself.
enum class LossReason : uint8_t {
  kProcess,  // Its process ended, seen from the same machine.
  kRefused,  // Nobody listens where it did.
  kHearsay,  // Others say that it is gone: it left, or they have proof.
  kExit,     // Its parent saw it end.
  kSocket,   // A connection to it broke.
  kLease,    // It answered no probe, its own or through others.
  kSilent,   // It did not report to the master.
  kLink,     // It lives, but it and others of the view do not hear each other.
  kLeft      // It asked to go.
};
const char* Name(LossReason reason);  // "process", "refused", ...
// Whether the member is known to have ended, not only out of reach.
bool IsProof(LossReason reason);

struct Loss {
  MemberId member;
  MemberId noticed_by;  // Null: the master.
  LossReason reason = LossReason::kLease;
  friend bool operator==(const Loss&, const Loss&) = default;
};

// One who was in the view before and is not in this one.
struct Departure {
  GroupMember member;
  Loss loss;         // Why: as one member saw it, or else as it was told with the view.
  absl::Time heard;  // The last sign of life that came to it.
};

// What a member says when it lets go of a view: from these the next one is made.
struct Standing {
  GroupMember member;
  // It can begin a view at any step between these.
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
  kForgetJournal,     // A restarted master has lost the last view that it issued.
  kVotesStay,         // Whoever lets go leaves its vote where others count it.
  kVoteMissed,        // Whoever waits for a sum waits for marks, not for the votes others count.
  kAskedAgain,        // Whoever asks again about a step takes its sum for lost.
  kBelieveEarly,      // A step counts as committed with one's own sum of it.
  kStayAhead,         // Whoever has applied a step that the next view redoes stays in it.
  kHastyMaster,       // The state is given up before those who may have it have been heard.
  kGoAtOnce,          // Whoever closes its group does not stay for those who lack its last step.
  kEndUncommitted,    // A loop ends with its own sum of the last step.
  kMixFoundings,      // Packets of another founding are taken for those of one's own.
  kVouchForAll,       // A newcomer tells one founding of the members of another.
  kEndForAll,         // What one founding says of its end is believed in another.
  kApplyAgain,        // A newcomer applies the sum of a step that its snapshot has.
  kTornSnapshot,      // A step changes what is yet to be copied for a snapshot.
};

// What the next view is made of.
struct ViewChange {
  std::vector<Standing> standings;  // Of those who let go of the old view.
  std::vector<GroupMember> keep;    // Learners that seem to be alive, with or without a standing.
  std::vector<GroupMember> newcomers;
  std::set<MemberId> leaving;  // Their standing counts; they are not in the new view.
};

// The view after `old`: holders with a standing in their old order, then learners who have caught
// up, then those still learning, then newcomers, kMembersMax in all. It begins at the step whose
// sum every holder with a standing has. If anyone knows a step to be committed, all had voted for
// it, so this is at or after every such step: none is ever undone. Where steps are applied before
// that is known (GroupOptions::early_apply), some may be a step further: then the view begins where
// most are, and the others learn the state anew. A holder without a standing is out.
GroupView NextView(const GroupView& old, const ViewChange& change, RingBug bug = RingBug::kNone);

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_VIEW_H_

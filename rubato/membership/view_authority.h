// The views of a group that has a master: one issues them, so there is nothing to agree on.
//
//     settled ──a death, a broken link──▶ letting go ──all who live have let go──▶ next view
//        │                                     ▲
//        └──one comes, is level, wants to go──▶ asking ──▶ at the end of a step
//
// A step needs the votes of all members of its view, so one member that has let go stops the view
// for all. The next view is issued when every member has let go or is out: known to be dead, or
// silent for its lease. It begins at the step whose sum every survivor holds, which is at or after
// every step that anyone has finished: nothing is lost while one holder lives, though seven of
// eight die at once. A member that is out but lives is fenced by its view number, and by its votes
// being asked for no more.
//
// What one member says of another without proof counts once it has said so, or the other has been
// silent here too, for half the lease: gossip is quicker, but whoever is slow or asleep shall not
// be out long before its time.
//
// A planned change costs nobody a step: it is set for the end of one that all are still to come to
// when they hear of it, by what they get done while a question and its answers travel.
//
// A view is kept in a journal before anybody hears of it; that is all a restarted master needs. The
// rest is in the members' reports, which they repeat. Not thread-safe: the master owns it.
#ifndef RUBATO_MEMBERSHIP_VIEW_AUTHORITY_H_
#define RUBATO_MEMBERSHIP_VIEW_AUTHORITY_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/membership/broken_links.h"
#include "rubato/membership/issued_views.h"
#include "rubato/membership/view.h"

namespace rubato {

struct AuthorityOptions {
  // Silent so long, a member is out; after half of it, if others do not hear it either. Longer
  // spares the slow, shorter resumes sooner.
  absl::Duration lease = absl::Seconds(2);
  // All are told to let go then, and whoever is missed must do so within this time.
  absl::Duration answer_within = absl::Milliseconds(300);
  absl::Duration gather = absl::Milliseconds(100);  // Newcomers within it share one change.
  // For the end of a step, before a planned change interrupts it; two steps, if they take longer.
  absl::Duration patience = absl::Seconds(5);
  absl::Duration retry = absl::Milliseconds(60);  // Between copies of an unanswered order.

  RingBug bug = RingBug::kNone;  // Tests only.

  absl::Status Validate() const;
};

class ViewAuthority {
 public:
  // `last` is the newest view in the journal; its members have a lease to report themselves.
  ViewAuthority(AuthorityOptions options, GroupView last, absl::Time now);

  // FAILED_PRECONDITION if the member is in a view newer than the journal's: it is of another job,
  // or the journal has lost its end, and nothing may be issued.
  absl::Status Receive(const ViewReport& report, absl::Time now);
  // The process of `member` has ended, as its parent saw.
  void Died(MemberId member, absl::Time now);
  void Tick(absl::Time now);
  absl::Time next_wake() const { return wake_; }
  // Founders must offer at least this step, as when a checkpoint reaches further than their state.
  // Does not concern heirs.
  void RequireOffer(int64_t step) { least_offer_ = step; }

  const GroupView& view() const { return view_; }
  // The state has died with its last holder: the next view waits for an heir, or for a newcomer
  // that offers one.
  bool bereft() const;
  // A learner has caught up: it has every step that anyone can have finished, or that step's sum,
  // and goes on should all holders die.
  bool HasHeir() const;
  // All holders are dead, and a learner that may live has not said yet that it is level. It has a
  // lease to do so from the moment this authority knows of the last death: a restarted one has yet
  // to hear from anybody, and so has one that has just issued a view; and who has let go may have
  // the last of the state still to put in place.
  bool AwaitsHeir() const;

  struct Decision {
    GroupView view;
    std::vector<Loss> losses;  // Who of the view before is out, and how that was noticed first.
    bool founded = false;      // From an offer: steps after view.step, if there were any, are lost.
  };
  // Write these to the journal, then send the orders.
  std::vector<Decision> TakeDecisions();
  struct Send {
    GroupMember to;
    ViewOrder order;
  };
  std::vector<Send> TakeOrders();

 private:
  enum class Phase : uint8_t { kSettled, kGathering, kAsking, kAtStepEnd, kLettingGo };
  struct Newcomer {
    GroupMember member;
    int64_t offer = -1;
    absl::Time heard;
  };
  struct Pace {  // When a member told of its last step.
    absl::Time at;
    int64_t finished = 0;
  };

  void Advance(absl::Time now);
  void Expire(absl::Time now);
  bool Urgent(absl::Time now) const;
  bool Wanted() const;
  // Nobody else is to be expected who could share the change that makes them holders.
  bool AllWhoCopyAreLevel() const;
  void Begin(Phase phase, absl::Time now);
  void OrderAll(absl::Time now);
  void Order(const GroupMember& to, bool evicted = false);
  void Accuse(const ViewReport& report, absl::Time now);
  struct Accusation {
    Loss loss;
    absl::Time since;  // Without a break.
  };
  // From when on it counts, as things are.
  absl::Time CountsFrom(const Accusation& accusation) const;
  // The first complaint about `member`; null: none.
  const Accusation* AccusationOf(MemberId member) const;
  bool IsOut(MemberId member) const { return out_.contains(member); }
  bool IsDead(MemberId member) const;
  void PutOut(const Loss& loss);
  bool HasLetGo(MemberId member) const;
  // What a member said when it let go stays true, but that one that copied the state may be level
  // since: an older report, which comes later, takes nothing back.
  bool IsOvertaken(const ViewReport& report) const;
  bool IsHeir(MemberId member) const;
  bool Complete() const;
  bool AllAnswered() const;
  void Clock(const ViewReport& report, absl::Time now);
  int64_t EndOfStep() const;
  absl::Duration Patience() const;
  // Steps that may be over before an order is there, `round_trip` being that of the last one.
  int64_t Headroom(absl::Duration round_trip) const;
  // Members with a broken link to each other, thinned out until no broken link is left.
  std::set<MemberId> BadlyLinked(absl::Time now) const;
  void Decide(absl::Time now);
  GroupView Found(const GroupView& old, ViewChange change) const;
  void Issue(GroupView next, bool founded, absl::Time now);
  std::vector<GroupMember> NewcomersInOrder() const;
  absl::Time NextWake(absl::Time now) const;

  const AuthorityOptions options_;
  GroupView view_;
  int64_t least_offer_ = 0;
  Phase phase_ = Phase::kSettled;
  absl::Time began_ = absl::InfinitePast();  // The phase.
  absl::Time resend_ = absl::InfinitePast();
  absl::Time wake_ = absl::InfinitePast();
  absl::Time ticked_ = absl::InfinitePast();
  int64_t after_step_ = 0;
  uint64_t sequence_ = 0;
  uint64_t asked_ = 0;
  // Of this view.
  std::map<MemberId, ViewReport> reports_;
  std::map<MemberId, absl::Time> heard_;
  std::map<MemberId, Pace> paces_;
  std::map<MemberId, Loss> out_;
  std::map<std::pair<MemberId, MemberId>, Accusation> accused_;  // By whom: the second.
  absl::Time heirs_until_ = absl::InfiniteFuture();              // While the state is not lost.
  // Of all views of this life.
  BrokenLinks links_;
  double rate_ = 0;  // Steps a second, by the last two reports that tell of one; 0: not known.
  std::set<MemberId> evicted_;
  std::map<MemberId, Newcomer> newcomers_;
  std::vector<MemberId> arrivals_;  // Newcomers, the first first.
  std::vector<Decision> decisions_;
  std::vector<Send> orders_;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_VIEW_AUTHORITY_H_

// Agreement on the next view: one instance of single-decree consensus for each view number.
//
//     proposer                              every holder of view N
//       Prepare(N+1, ballot)  ───────────▶  promises: takes no lower ballot, and lets go of view N:
//                             ◀───────────  Promise(what it accepted, how far it is)
//       Accept(N+1, ballot, view) ───────▶  accepts, unless it promised a higher ballot
//                             ◀───────────  Accepted
//       a majority: decided.  ───────────▶  Decide(view), to the old members and the new
//
// The oldest holder that seems to be alive proposes; two who both think so are told apart by their
// ballots. A proposer that finds an accepted view among its promises must propose that very
// view, so one who dies half-way is finished by the next, and no number ever gets two views.
//
// A promise freezes: from then on the member neither votes nor applies a step of view N, so what
// it reports stays true. Members of the next view are those who promised (holders) and those who
// need not (learners, newcomers); a holder whose promise came too late is out and comes back as a
// newcomer. Whoever hears that it is out, the proposer too, tells the next view's holders until so
// many of them have it that they could agree on the one after: were it silent sooner, they might
// wait for a majority of view N that its going has broken.
//
// A view is told together with the reasons for which members of the one before are not in it, as
// its proposer saw them; and one that a view left out, however many came since, is told whom that
// view left out and why. For the record alone: nothing is decided by them.
//
// With `quorum: any` a proposer needs nobody but itself: training goes on while one member
// lives, and a partition may split the group, both halves training; when they meet, the lower
// (number, size) is fenced and its steps since the split are lost. If all holders die, a learner
// that has all they had inherits: it goes on alone, and takes in whoever lives.
#ifndef RUBATO_MEMBERSHIP_VIEWS_H_
#define RUBATO_MEMBERSHIP_VIEWS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/base/rng.h"
#include "rubato/membership/broken_links.h"
#include "rubato/membership/swim.h"
#include "rubato/membership/view.h"
#include "rubato/membership/view_source.h"

namespace rubato {

enum class Quorum : uint8_t { kMajority, kAny };

struct ViewOptions {
  Quorum quorum = Quorum::kMajority;
  // How long a proposer waits for the promises of all who seem to be alive before it goes on with a
  // majority: longer spares a slow member, shorter resumes sooner when one has just died.
  absl::Duration promise_timeout = absl::Milliseconds(300);
  // Between copies of an unanswered message. What a proposer asks is asked again sooner at first:
  // one that dies with the question unread answers nothing, but its port refuses the next.
  absl::Duration retry = absl::Milliseconds(60);
  // A planned change (a newcomer, one who has caught up) waits this long for the end of the step
  // that runs, or two steps, if they take longer; then it interrupts it.
  absl::Duration patience = absl::Seconds(5);
  // Newcomers that arrive within this time share one change of view, as do learners who catch up
  // while others still copy.
  absl::Duration gather = absl::Milliseconds(100);
  // Frozen this long, a member proposes in place of whoever should have.
  absl::Duration takeover = absl::Seconds(1);
  RingBug bug = RingBug::kNone;  // Tests only.
  bool tells_once = false;       // Tests only, a bug too: who is out says so once.
  bool half_agrees = false;      // Likewise: any half of the holders is enough.

  absl::Status Validate() const;
};

struct Ballot {
  uint32_t round = 0;
  MemberId proposer;
  friend auto operator<=>(const Ballot&, const Ballot&) = default;
};

struct ViewMessage {
  enum class Kind : uint8_t {
    kPrepare,  // `view` is N, for those who have missed it.
    kPromise,  // `accepted` and `view`, if something was accepted; `applied`, `voted`.
    kAccept,   // `view` is the proposal for N+1.
    kAccepted,
    kReject,     // `ballot` is the higher one promised.
    kDecide,     // `view`, in use from now on.
    kQuery,      // Send me the view you have.
    kCaughtUp,   // A learner has applied what the holders have.
    kLeaving,    // The sender wants to go at the end of the step.
    kEvicted,    // The receiver was in a view, perhaps unknown to it, and is out again: enough of
                 // those who go on without it have the view.
    kComplaint,  // A connection of the view broke though both ends live: a new view mends it.
                 // `gone` are the other ends.
  };
  Kind kind = Kind::kQuery;
  GroupMember from;
  uint64_t number = 0;  // Of the view under agreement.
  Ballot ballot;
  Ballot accepted;
  int64_t applied = 0;
  int64_t voted = 0;
  int64_t after_step = 0;  // kPrepare: let this step finish first.
  std::optional<GroupView> view;
  // Who was in the view before `view` and is not in it; to one that is not in `view`: whom the view
  // left out that left it out. As far as is known. With kComplaint, whom the sender does not reach.
  std::vector<Loss> gone;
};

class Views : public ViewSource {
 public:
  Views(const Swim& swim, ViewOptions options, Rng rng);

  // The first view, of this member alone. Everyone else joins.
  void Found(int64_t step);
  // A view decided elsewhere, without those who are `gone`.
  void Adopt(const GroupView& view, absl::Time now, std::vector<Loss> gone = {});

  void Receive(const ViewMessage& message, absl::Time now);
  void Tick(absl::Time now) override;
  absl::Time next_wake() const override;
  // Tells the one who is behind.
  void HearNumber(const GroupMember& from, uint64_t number, uint64_t mark, absl::Time now) override;
  void SetProgress(const StepProgress& progress, absl::Time now) override;
  // The view that goes on without this member, while too few of its holders are known to have it.
  const std::optional<GroupView>& parting() const { return parting_; }
  // Who is not in view() any more, and why, as far as this member was told.
  const std::vector<Loss>& gone() const { return gone_; }
  // Of one that the others went on without: whom the view left out that did so, itself among them,
  // as those say who went on. Empty: nobody who knows has told.
  const std::vector<Loss>& left_out() const { return left_out_; }
  // Who has come, lives, and is in no view yet; without those who must wait for their link's sake.
  // Nobody while there is no room.
  std::vector<GroupMember> Newcomers() const;
  // One of them is told as lost: should it live after all, it begins a new life.
  void Exclude(const Loss& loss) { evicted_[loss.member] = {view_.number, loss}; }

  struct Send {
    std::string to;
    ViewMessage message;
  };
  std::vector<Send> TakeSends();

 private:
  struct Proposal {
    Ballot ballot;
    bool planned = false;
    int64_t after_step = 0;
    absl::Time deadline;
    absl::Time resend;
    absl::Duration pause;  // Until the one after; 0: nothing was sent yet.
    std::map<MemberId, ViewMessage> promises;
    std::optional<GroupView> view;  // Set in the second phase,
    std::vector<Loss> gone;         // with who is out of it.
    std::set<MemberId> accepted_by;
  };

  void HandlePrepare(const ViewMessage& message, absl::Time now);
  void HandlePromise(const ViewMessage& message, absl::Time now);
  void HandleAccept(const ViewMessage& message, absl::Time now);
  void HandleAccepted(const ViewMessage& message, absl::Time now);
  void HandleReject(const ViewMessage& message, absl::Time now);
  void Decide(absl::Time now);
  void Promise(const ViewMessage& prepare, absl::Time now);
  bool MayPropose(absl::Time now) const;
  bool WantedByPlan() const;
  // Someone is level, or wants to go.
  bool HeardWish() const;
  // When this holder does what was wished in place of an older one, whom the wish does not reach.
  absl::Time StandInTime() const;
  bool StandsIn(absl::Time now) const;
  // Nobody else is to be expected who could share the change that makes them holders.
  bool AllWhoCopyAreReady() const;
  void TellWishes(absl::Time now);
  void Freeze(absl::Time now);
  void Propose(bool planned, absl::Time now);
  void SendToHolders(ViewMessage message, absl::Time now);
  void Resend(absl::Time now);
  // How many steps later a planned change is set, for the others may be ahead of this member by the
  // time they hear of it, and would drop the step they are in.
  int64_t Headroom(absl::Time now) const;
  void Advance(absl::Time now);
  void ProposeValue(absl::Time now);
  bool AllLivingPromised() const;
  bool IsQuorum(const GroupView& view, const std::set<MemberId>& agreed) const;
  absl::Time TakeoverTime() const;  // When a frozen member no longer waits for an older one.
  bool IsHeir() const;
  // When an heir no longer waits for an older learner, which may be one too.
  absl::Time InheritTime() const;
  void Inherit(absl::Time now);
  bool HasWish() const;
  // Connections of this member that broke though both ends live, as far as it knows.
  std::vector<Loss> BrokenHere() const;
  void HearComplaints(MemberId from, const std::vector<Loss>& losses, absl::Time now);
  // Members to leave out since others do not reach them, though they live.
  std::set<MemberId> BadlyLinked() const;
  void Fence();  // And gives up what it proposed.
  void Part(const GroupView& next, std::vector<Loss> gone, absl::Time now);
  void TellParting(absl::Time now);
  void HearWhileParting(const GroupMember& from, uint64_t number);
  bool Loses(const GroupView& other) const;
  // Whether nobody is left who holds `view`, as far as is known, where any who is would be enough.
  bool Bereft(const GroupView& view) const;
  void SendTo(const GroupMember& to, ViewMessage message, absl::Time now);
  bool Recently(const std::string& what, absl::Time now);
  ViewMessage Make(ViewMessage::Kind kind) const;
  // One that tells `to` the view in use.
  ViewMessage Tell(ViewMessage::Kind kind, MemberId to) const;
  // Whom the view left out that left out `member`.
  std::vector<Loss> LeftOutWith(MemberId member) const;
  // Why members of view() are not in `next`.
  std::vector<Loss> WhyGone(const GroupView& next) const;

  const ViewOptions options_;
  Rng rng_;
  // For number view_.number + 1.
  Ballot promised_;
  Ballot accepted_;
  std::optional<GroupView> accepted_view_;
  std::optional<ViewMessage> held_;  // A planned prepare that waits for its step.
  std::optional<Proposal> proposal_;
  std::vector<Loss> gone_, left_out_;
  BrokenLinks links_;
  std::optional<GroupView> parting_;
  std::vector<Loss> parting_gone_;
  std::set<MemberId> reached_;  // Its holders who have it,
  absl::Time tell_again_;       // and when the others are told again.
  uint32_t round_ = 0;
  std::set<MemberId> ready_;                          // Learners who say that they have caught up.
  std::set<MemberId> leavers_;                        // Members who asked to go.
  absl::Time wished_since_ = absl::InfiniteFuture();  // A wish of this member's own in this view.
  absl::Time told_since_ = absl::InfiniteFuture();    // Likewise another's, told to this one.
  struct Exclusion {
    uint64_t view = 0;         // The first that was without it.
    std::optional<Loss> loss;  // Why, if that is known.
  };
  std::set<MemberId> entered_;             // Of the view: those known to have it.
  std::map<MemberId, Exclusion> evicted_;  // Once out, an id never comes back.
  uint64_t seen_number_ = 0;               // The highest number met, member of that view or not.
  absl::Time last_tick_ = absl::InfinitePast();
  absl::Time planned_since_ = absl::InfiniteFuture();
  absl::Time finished_at_ = absl::InfinitePast();  // The last step, and
  absl::Duration step_time_;                       // what one takes; 0: not known.
  absl::Time frozen_since_ = absl::InfiniteFuture();
  absl::Time heir_since_ = absl::InfiniteFuture();
  absl::Time not_before_ = absl::InfinitePast();  // Backing off after a reject.
  std::map<std::string, absl::Time> told_;        // What was last sent to whom, when.
  std::vector<Send> sends_;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_VIEWS_H_

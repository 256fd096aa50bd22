// Where a member's views come from: agreed among the members (Views), or issued by a master
// (IssuedViews). Both share what a member is at any moment:
//
//     in view N ──lets go──▶ frozen ──a successor with it──▶ in view N+1
//                              └──── a successor without it ──▶ fenced
//
// A frozen member votes for no step of its view and finishes none, so what it reports stays true. A
// fenced one has been left behind, and begins a new life with a new id.
#ifndef RUBATO_MEMBERSHIP_VIEW_SOURCE_H_
#define RUBATO_MEMBERSHIP_VIEW_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "rubato/membership/swim.h"
#include "rubato/membership/view.h"

namespace rubato {

// Where a member's training stands.
struct StepProgress {
  int64_t finished = 0;  // The last step that it saw through, with everyone's vote.
  int64_t applied = 0;   // The last step in its weights; -1 while it has no usable weights.
  int64_t voted = 0;     // The last step whose whole sum it holds.
  bool working = false;  // A step is being computed or reduced.
};

class ViewSource {
 public:
  // `swim` says who seems to be alive; it must outlive this.
  explicit ViewSource(const Swim& swim) : swim_(swim), self_(swim.self()) {}
  virtual ~ViewSource() = default;

  virtual void Tick(absl::Time now) = 0;
  virtual absl::Time next_wake() const = 0;
  // A packet of `from` carried this view number, and the view's mark; 0: not said.
  virtual void HearNumber(const GroupMember& from, uint64_t number, uint64_t mark,
                          absl::Time now) = 0;
  virtual void SetProgress(const StepProgress& progress, absl::Time now) = 0;

  // This learner has applied all that the holders have, and asks to be one of them.
  void SetCaughtUp(bool caught_up) { caught_up_ = caught_up; }
  // A connection between living members broke, and with it the step: asks for the next view, with
  // the same members if they all answer.
  void Complain() { complained_ = true; }
  // Asks for a view without this member, at the end of the step; then it is fenced().
  void SetLeaving() { leaving_ = true; }
  // The weights are those after `step`: this member may found the group. With its first view that
  // is over: they change then, or are copied.
  void Offer(int64_t step) { offer_ = step; }
  // Called when this member lets go of its view or enters the next: whether the sum of the step
  // under way turned out to be whole, see StepGate::Settle.
  void OnLetGo(std::function<bool()> settle) { settle_ = std::move(settle); }
  // How the end of `member` showed itself here; what was noted first stays, but for a proof.
  void NoteLoss(MemberId member, LossReason reason);

  const GroupView& view() const { return view_; }
  bool member() const { return view_.Contains(self_.id) && !fenced_; }
  // Has let go of its view: nothing of it may be voted or applied any more.
  bool frozen() const { return frozen_; }
  // Was a member, and the others went on without it. It must start a new life.
  bool fenced() const { return fenced_; }
  // Of one that the others went on without: the step that they went on from, as far as it has
  // heard; -1: not known. What it knows of later steps, they do not have.
  int64_t left_at() const { return left_at_; }
  // Members of the view that seem dead from here, or whose connection broke, and why.
  std::vector<Loss> Losses() const;

 protected:
  // Whether this member can go on into `view`. A holder of `view` comes from the view just before,
  // at most one step behind and then with that step's sum in hand; one that held the view just
  // before may learn. If not, the group went on without it, and its state is a branch of its own.
  bool MayEnter(const GroupView& view) const;
  // What this member votes for is decided now. Before it says how far it is.
  void Settle();
  // Is `view`'s member from now on.
  void Enter(const GroupView& view);
  void Fence() { fenced_ = frozen_ = true; }
  // `next` goes on without this member.
  void NoteLeft(const GroupView& next) { left_at_ = left_at_ < 0 ? next.step : left_at_; }
  bool SomeoneDied() const;

  const Swim& swim_;
  const GroupMember self_;
  GroupView view_;
  StepProgress progress_;
  bool frozen_ = false;
  bool fenced_ = false;
  bool caught_up_ = false;
  bool leaving_ = false;
  bool complained_ = false;
  int64_t offer_ = -1;
  int64_t left_at_ = -1;
  std::map<MemberId, LossReason> losses_;
  std::function<bool()> settle_;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_VIEW_SOURCE_H_

// When a step counts. One member's part of the rule that keeps all copies of the model equal:
//
//     finished k-1 ──Start──▶ working on k ──Vote──▶ voted ──Finish──▶ finished k
//           ▲                      │                   │
//           └──── redo ◀───────────┴── the view ends ──┴── its successor begins at k: finished k
//
// - Vote means: I hold the whole sum of step k. A member votes for k only after finishing k-1.
// - Finish (and with it, applying the sum to the weights) needs the votes of all members, unless
//   steps are applied early.
// - Neither is possible once the member has let go of the view.
//
// Where votes ride in the reduction (Pledge), a vote means: what I have to add is where everyone
// finds it, in memory that outlives me. Then the sum is whole for all as soon as the last has
// voted, and whoever lets go before takes its vote back and looks once more: either all had voted,
// and its own sum is whole, or nobody can count its vote any more.
//
// Where steps are applied early, Finish follows one's own Vote at once. The sum of k holds a part
// of everyone's, so all have finished k-1 by then, and that step is committed; of k itself the next
// sum will tell. Should the view end first, its successor begins where most are (NextView).
//
// So the members of a view are never more than one step apart, whoever is behind has that step's
// sum in its own memory, and what a change of view learns about a member stays true. A step that
// anyone has finished with all votes is *committed*, and may be shown to the world: all had voted
// for it, so the next view, whoever is in it, begins at it or later.
#ifndef RUBATO_RING_STEP_GATE_H_
#define RUBATO_RING_STEP_GATE_H_

#include <cstdint>
#include <functional>

#include "rubato/membership/view.h"
#include "rubato/membership/view_source.h"

namespace rubato {

// What a new view does to the step under way.
enum class Verdict : uint8_t {
  kNothing,  // There was none.
  kFinish,   // It was decided: apply the sum in hand.
  kRedo,     // It was not: drop what was computed, and start it again in the new view.
  kCopy      // This member has no usable state: copy that after view.step from a holder.
};

class StepGate {
 public:
  // The weights of this member are those after `step`, should its first view begin with them.
  void Found(int64_t step);
  // Takes part in `view` from now on.
  Verdict Enter(const GroupView& view, MemberId self);

  // Each answers whether it may be done; if not, the view has moved on. `step` must be the next,
  // `mark` that of the view it is of: numbers alone do not tell the halves of a split apart.
  bool Start(uint64_t mark, int64_t step, bool frozen);
  bool Vote(uint64_t mark, int64_t step, bool frozen);
  bool Finish(uint64_t mark, int64_t step, bool frozen);

  // In place of Vote, before anything of it leaves: `withdraw` takes the vote back, and says
  // whether all had voted by then.
  bool Pledge(uint64_t mark, int64_t step, bool frozen, std::function<bool()> withdraw);
  // The member lets go of the view: whether what it pledged stands, since all had voted.
  bool Settle();

  // A learner has copied the state and made up for the steps since, up to `step`. No if the view
  // has ended meanwhile and its successor begins elsewhere: then that is not the group's state.
  bool CatchUp(uint64_t mark, int64_t step);

  const StepProgress& progress() const { return progress_; }
  // The last step that is committed, as far as this member knows.
  int64_t finished() const { return progress_.finished; }
  bool learning() const { return progress_.applied < 0; }

  RingBug bug = RingBug::kNone;  // Tests only.

 private:
  uint64_t view_ = 0;
  uint64_t mark_ = 0;  // Of the view.
  StepProgress progress_{.finished = -1, .applied = -1, .voted = -1};
  int64_t offer_ = -1;
  std::function<bool()> withdraw_;  // Set from Pledge until Finish or Settle.
};

}  // namespace rubato

#endif  // RUBATO_RING_STEP_GATE_H_

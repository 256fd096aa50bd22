#include "rubato/ring/step_gate.h"

#include <utility>

#include "rubato/base/status.h"

namespace rubato {

void StepGate::Found(int64_t step) { offer_ = step; }

Verdict StepGate::Enter(const GroupView& view, MemberId self) {
  const bool was_working = progress_.working;
  // Whoever missed a view, or was in another half of a split, may hold another step of the same
  // number.
  const bool successor = view_ != 0 && view.parent == mark_;
  const bool level = successor && progress_.finished == view.step;
  const bool one_behind =
      successor && progress_.finished == view.step - 1 && progress_.voted == view.step;
  // The founder has its state from elsewhere; so, under a planted bug, may anyone think.
  const bool has_state = view.Holds(self) || !learning();
  const int64_t offer = std::exchange(offer_, -1);
  const bool founder = view.Holds(self) && learning() && offer >= 0 && offer == view.step;
  view_ = view.number;
  mark_ = view.Mark();
  progress_.working = false;
  if (one_behind || level || founder || (has_state && bug != RingBug::kNone)) {
    const bool decided = one_behind;
    progress_.finished = progress_.voted = view.step;
    if (has_state) progress_.applied = view.step;
    if (decided) return Verdict::kFinish;
    return was_working ? Verdict::kRedo : Verdict::kNothing;
  }
  // ViewSource::MayEnter fences a holder that is neither level nor one behind with the sum in hand.
  RUBATO_CHECK(!view.Holds(self));
  progress_ = {.finished = view.step, .applied = -1, .voted = view.step};
  return Verdict::kCopy;
}

bool StepGate::Start(uint64_t mark, int64_t step, bool frozen) {
  if (frozen || withdraw_ || mark != mark_ || step != progress_.finished + 1) return false;
  progress_.working = true;
  return true;
}

bool StepGate::Vote(uint64_t mark, int64_t step, bool frozen) {
  if (frozen || mark != mark_ || step != progress_.finished + 1) return false;
  progress_.voted = step;
  return true;
}

bool StepGate::Finish(uint64_t mark, int64_t step, bool frozen) {
  if (frozen || mark != mark_ || step != progress_.finished + 1) return false;
  if (std::exchange(withdraw_, nullptr)) progress_.voted = step;
  RUBATO_CHECK(progress_.voted == step);
  progress_.finished = step;
  if (!learning()) progress_.applied = step;
  progress_.working = false;
  return true;
}

bool StepGate::Pledge(uint64_t mark, int64_t step, bool frozen, std::function<bool()> withdraw) {
  if (frozen || mark != mark_ || step != progress_.finished + 1) return false;
  withdraw_ = std::move(withdraw);
  return true;
}

bool StepGate::Settle() {
  const std::function<bool()> withdraw = std::exchange(withdraw_, nullptr);
  if (!withdraw || !withdraw()) return false;
  progress_.voted = progress_.finished + 1;
  return true;
}

bool StepGate::CatchUp(uint64_t mark, int64_t step) {
  if (mark != mark_ || step != progress_.finished) return false;
  progress_.applied = step;
  return true;
}

}  // namespace rubato

// How a simulated loop ends, and with it its group.
#include "rubato/ring/sim/node.h"

namespace rubato {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(500);
// One that has no state, and has heard of those who do, does not wait for them longer.
constexpr absl::Duration kUnheard = absl::Seconds(15);

}  // namespace

// As a loop does that ends right after a Commit: when the last step is committed, as far as it
// knows. Applied early, that takes one more.
bool RingNode::Closes() {
  const int64_t last = wires_.last_step();
  const bool hasty = wires_.loop_bug() == RingBug::kEndUncommitted;
  const int64_t reached = hasty ? peer_->steps().finished() : confirmed_;
  if (closing()) return true;
  if (last < 0 || peer_->steps().learning() || reached < last) return false;
  closing_since_ = wires_.now();
  checker_.Done(life(), peer_->view(), last);
  peer_->Finish(wires_.now());
  peer_->Close(wires_.now());
  return true;
}

void RingNode::LookForCompany() {
  wires_.After(index_, kLook, [this, me = life()] {
    if (life() != me || closing()) return;
    company_.Note(*peer_, wires_.now());
    const bool waits = !peer_->holder() || peer_->frozen();
    const absl::Duration unheard = wires_.now() - company_.heard;
    const bool lost = unheard > kUnheard && unheard < absl::InfiniteDuration();
    if (waits && company_.Over(wires_.now())) return End(LoopEnd::kTold);
    if (lost && peer_->steps().learning()) return End(LoopEnd::kLost);
    LookForCompany();
  });
}

void RingNode::End(LoopEnd how) {
  wires_.Ended(index_, how);
  peer_->Farewell(wires_.now());
  for (const Peer::Send& send : peer_->TakeSends()) {
    wires_.SendPacket(index_, send.to, send.packet);
  }
  Die();
}

}  // namespace rubato

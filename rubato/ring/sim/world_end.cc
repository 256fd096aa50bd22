// What must hold when the loops of a simulated group come to their end.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/ring/sim/world.h"

namespace rubato {

void RingWorld::Ended(int index, LoopEnd how) {
  const RingNode& node = *nodes_[index];
  ended_[index] = how;
  if (how == LoopEnd::kDone) {
    CheckGoing(node);
  } else if (node.HasState() && !Forsaken(node)) {
    checker_.Fail(
        RingRule::kNobodyInDoubt,
        absl::StrCat(node.life().ToString(), ", which holds the state, ends without step ",
                     last_step_, ": those who have it left it in doubt", Describe()));
  }
  ShowDeath(index, node.life(), rng_.Chance(0.5));
}

void RingWorld::CheckGoing(const RingNode& node) {
  const Peer& peer = node.peer();
  const int64_t finished = peer.steps().finished();
  const bool late = now_ >= node.closing_since() + PeerOptions().close_max;
  for (const auto& other : nodes_) {
    if (!other->up() || other.get() == &node || !other->peer().member()) continue;
    if (FoundingOf(*other) != FoundingOf(node)) continue;
    // Where a split is allowed, one may have gone over to the other half, which this one cannot
    // know.
    const GroupView& theirs = other->peer().view();
    const bool elsewhere = options_.quorum == Quorum::kAny && theirs.number >= peer.view().number &&
                           !(theirs == peer.view());
    const bool together = peer.view().Contains(other->life()) && !peer.fenced() && !elsewhere;
    const bool reached = together && !late && peer.swim().health(other->life()) < Health::kDead;
    if (!reached) {
      forsaken_.insert(other->life());
    } else if (other->peer().steps().finished() < finished) {
      checker_.Fail(RingRule::kNobodyInDoubt,
                    absl::StrCat(node.life().ToString(), " goes after step ", finished, ", which ",
                                 other->life().ToString(), " has not finished", Describe()));
    }
  }
}

bool RingWorld::Forsaken(const RingNode& node) const {
  return forsaken_.contains(node.life()) || LostFoundings(-1).at(FoundingOf(node));
}

// A newcomer waits for those whom it waits for; one that never heard of any, for whoever may come.
bool RingWorld::AllEnded() const {
  bool others_wait = false;
  for (const auto& node : nodes_) {
    if (!node->up() || !node->HasState()) continue;
    if (!Forsaken(*node) || node->closing()) return false;
    others_wait = true;
  }
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return !node->up() || others_wait || node->company().heard == absl::InfinitePast();
  });
}

}  // namespace rubato

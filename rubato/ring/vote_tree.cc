#include "rubato/ring/vote_tree.h"

#include <algorithm>
#include <utility>

#include "rubato/ring/plan.h"

namespace rubato {

VoteTree::VoteTree(uint64_t view, int64_t step, int rank, int size)
    : view_(view),
      step_(step),
      rank_(rank),
      children_(TreeChildren(rank, size)),
      speeds_(size, 0.0f) {}

void VoteTree::Cast(float speed) {
  cast_ = true;
  speeds_[rank_] = speed;
  Advance();
}

bool VoteTree::Hear(int from, const Vote& vote) {
  if (vote.view != view_ || vote.step != step_ || vote.speeds.size() != speeds_.size()) {
    return false;
  }
  if (vote.all) {
    if (from != TreeParent(rank_) || complete_) return false;
    complete_ = true;
    speeds_ = vote.speeds;
    for (int child : children_) sends_.push_back({child, Make(true)});
    return true;
  }
  if (std::count(children_.begin(), children_.end(), from) == 0) return false;
  heard_.insert(from);
  for (size_t i = 0; i < speeds_.size(); ++i) speeds_[i] = std::max(speeds_[i], vote.speeds[i]);
  Advance();
  return true;
}

void VoteTree::Advance() {
  if (!cast_ || heard_.size() < children_.size() || complete_) return;
  if (rank_ > 0) {
    sends_.push_back({TreeParent(rank_), Make(false)});
    return;
  }
  complete_ = true;
  for (int child : children_) sends_.push_back({child, Make(true)});
}

Vote VoteTree::Make(bool all) const { return {view_, step_, all, speeds_}; }

std::vector<VoteTree::Send> VoteTree::TakeSends() { return std::exchange(sends_, {}); }

}  // namespace rubato

#include "rubato/membership/view_source.h"

#include <algorithm>

namespace rubato {

void ViewSource::NoteLoss(MemberId member, LossReason reason) {
  LossReason& noted = losses_.try_emplace(member, reason).first->second;
  if (IsProof(reason) && !IsProof(noted)) noted = reason;
}

std::vector<Loss> ViewSource::Losses() const {
  std::vector<Loss> losses;
  for (const GroupMember& member : view_.members) {
    const auto noted = losses_.find(member.id);
    const bool dead = member.id != self_.id && swim_.health(member.id) >= Health::kDead;
    if (noted != losses_.end()) {
      losses.push_back({member.id, self_.id, noted->second});
    } else if (dead) {
      const bool gone = swim_.health(member.id) == Health::kGone;
      losses.push_back({member.id, self_.id, gone ? LossReason::kHearsay : LossReason::kLease});
    }
  }
  return losses;
}

void ViewSource::Settle() {
  if (settle_ && settle_()) progress_.voted = progress_.finished + 1;
}

bool ViewSource::MayEnter(const GroupView& view) const {
  // One that held the view just before, and is not level with this one, copies the state anew.
  if (!view.Holds(self_.id)) return !view_.Holds(self_.id) || view.parent == view_.Mark();
  const bool founder = progress_.applied < 0 && offer_ >= 0 && offer_ == view.step;
  const bool level = progress_.applied == view.step ||
                     (progress_.applied == view.step - 1 && progress_.voted == view.step);
  const bool has_state = progress_.applied >= 0;
  return founder || (view.parent == view_.Mark() && has_state && level);
}

void ViewSource::Enter(const GroupView& view) {
  view_ = view;
  // Until the steps report, which a message in the same packet does not wait for.
  const int64_t applied = view.Holds(self_.id) ? view.step : -1;
  progress_ = {.finished = view.step, .applied = applied, .voted = view.step};
  frozen_ = complained_ = false;
  offer_ = -1;
  // Connections are made anew.
  std::erase_if(losses_, [&](const auto& loss) {
    return !view.Contains(loss.first) || !IsProof(loss.second);
  });
}

bool ViewSource::SomeoneDied() const {
  return std::any_of(view_.members.begin(), view_.members.end(), [&](const GroupMember& member) {
    return swim_.health(member.id) >= Health::kDead;
  });
}

}  // namespace rubato

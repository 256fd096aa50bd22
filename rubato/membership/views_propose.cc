// How a member proposes the next view: when it may, what it asks for, and which value its promises
// leave it.
#include <algorithm>
#include <utility>

#include "rubato/membership/views.h"

namespace rubato {
namespace {

constexpr double kFirstPause = 0.125;  // Of `retry`; each pause is twice the one before.
// Some may yet be in the step before the one that all are to finish.
constexpr int kPatienceSteps = 2;

}  // namespace

bool Views::MayPropose(absl::Time now) const {
  const int rank = view_.RankOf(self_.id);
  if (rank < 0 || rank >= view_.holders || now < not_before_) return false;
  if (frozen_ && now >= TakeoverTime()) return true;
  for (int older = 0; older < rank; ++older) {
    if (swim_.health(view_.members[older].id) < Health::kDead) return false;
  }
  return true;
}

bool Views::WantedByPlan() const { return HeardWish() || !Newcomers().empty(); }

bool Views::HeardWish() const {
  const bool promotion = std::any_of(ready_.begin(), ready_.end(), [&](MemberId id) {
    return view_.Contains(id) && !view_.Holds(id);
  });
  return promotion || (view_.holders > 1 && !leavers_.empty());
}

absl::Time Views::StandInTime() const {
  const bool younger_holder = view_.Holds(self_.id) && view_.RankOf(self_.id) > 0;
  if (!younger_holder || !HeardWish()) return absl::InfiniteFuture();
  return told_since_ + options_.takeover * view_.RankOf(self_.id);
}

// Whoever holds a planned change back knows that an older one has heard of it.
bool Views::StandsIn(absl::Time now) const {
  return now >= StandInTime() && now >= not_before_ && !held_ && !frozen_;
}

bool Views::AllWhoCopyAreReady() const {
  const bool all = std::all_of(view_.members.begin() + view_.holders, view_.members.end(),
                               [&](const GroupMember& m) { return ready_.contains(m.id); });
  return all && view_.holders < view_.size() && Newcomers().empty();
}

std::vector<GroupMember> Views::Newcomers() const {
  std::vector<GroupMember> newcomers;
  if (view_.size() >= kMembersMax) return newcomers;
  for (const GroupMember& member : swim_.Living()) {
    if (view_.Contains(member.id) || evicted_.contains(member.id)) continue;
    if (links_.MustWait(member, last_tick_)) continue;
    if (swim_.health(member.id) == Health::kAlive) newcomers.push_back(member);
  }
  return newcomers;
}

std::vector<Loss> Views::BrokenHere() const {
  std::vector<Loss> broken = Losses();
  std::erase_if(broken, [](const Loss& loss) { return !IsBrokenLink(loss.reason); });
  return broken;
}

void Views::HearComplaints(MemberId from, const std::vector<Loss>& losses, absl::Time now) {
  for (const Loss& loss : losses) {
    if (IsBrokenLink(loss.reason)) links_.Complain(view_, from, loss.member, now);
  }
}

std::set<MemberId> Views::BadlyLinked() const {
  Links links = links_.Of(view_);
  const auto dead = [&](MemberId id) { return swim_.health(id) >= Health::kDead; };
  std::erase_if(links, [&](const auto& link) { return dead(link.first) || dead(link.second); });
  return ThinOut(view_, std::move(links), [&](MemberId id) { return view_.Holds(id); });
}

void Views::Propose(bool planned, absl::Time now) {
  round_ = std::max({round_, promised_.round, proposal_ ? proposal_->ballot.round : 0}) + 1;
  proposal_ = Proposal{.ballot = {round_, self_.id}, .planned = planned};
  proposal_->deadline = now + options_.promise_timeout;
  if (planned) {
    const int64_t headroom = Headroom(now);
    proposal_->after_step = progress_.finished + (progress_.working ? 1 : 0) + headroom;
    proposal_->deadline =
        now + std::max(options_.patience, step_time_ * kPatienceSteps) + step_time_ * headroom;
  }
  Resend(now);
}

// One, for members of a view are at most one step apart, and as many as are taken while a packet is
// under way. None where nobody seems to be training, or where a step is long beside the patience
// for it: few are ahead just then, and to wait for one more costs more than to redo it.
int64_t Views::Headroom(absl::Time now) const {
  const bool rests = now - finished_at_ > step_time_ * 4 + options_.retry;
  if (step_time_ <= absl::ZeroDuration() || rests) return 0;
  const double meanwhile = absl::FDivDuration(options_.retry, step_time_);
  const double patience = absl::FDivDuration(options_.patience, step_time_) / 4;
  return static_cast<int64_t>(std::min({1 + meanwhile, 1000.0, patience}));
}

void Views::Resend(absl::Time now) {
  absl::Duration& pause = proposal_->pause;
  pause = std::clamp(pause * 2, options_.retry * kFirstPause, options_.retry);
  proposal_->resend = now + pause;
  ViewMessage message =
      Make(proposal_->view ? ViewMessage::Kind::kAccept : ViewMessage::Kind::kPrepare);
  message.ballot = proposal_->ballot;
  message.after_step = proposal_->after_step;
  message.view = proposal_->view ? *proposal_->view : view_;
  if (!proposal_->view) message.gone = gone_;
  SendToHolders(std::move(message), now);
}

// To whoever has not answered yet; to self last, since that answer may end the proposal. A learner
// need not agree, but its promise says how far it has come.
void Views::SendToHolders(ViewMessage message, absl::Time now) {
  const std::vector<GroupMember> members = view_.members;
  for (const GroupMember& member : members) {
    const bool answered = proposal_->view ? proposal_->accepted_by.contains(member.id)
                                          : proposal_->promises.contains(member.id);
    if (member.id != self_.id && !answered) SendTo(member, message, now);
  }
  Receive(message, now);
}

void Views::Advance(absl::Time now) {
  if (proposal_->view) {
    if (now >= proposal_->deadline) Propose(/*planned=*/false, now);
    return;
  }
  std::set<MemberId> promised;
  for (const auto& [id, promise] : proposal_->promises) promised.insert(id);
  const bool enough = IsQuorum(view_, promised);
  const bool late = now >= proposal_->deadline;
  if (enough && (AllLivingPromised() || (late && !proposal_->planned))) return ProposeValue(now);
  if (late) Propose(/*planned=*/false, now);
}

bool Views::AllLivingPromised() const {
  for (const GroupMember& member : view_.members) {
    if (proposal_->promises.contains(member.id)) continue;
    if (!view_.Holds(member.id) && !ready_.contains(member.id)) continue;
    if (swim_.health(member.id) < Health::kDead) return false;
  }
  return true;
}

void Views::ProposeValue(absl::Time now) {
  const ViewMessage* bound = nullptr;  // The accepted view of the highest ballot, if any.
  ViewChange change;
  for (const auto& [id, promise] : proposal_->promises) {
    change.standings.push_back({promise.from, promise.applied, promise.voted});
    if (!view_.Holds(id) || !promise.view || Bereft(*promise.view)) continue;
    if (bound == nullptr || promise.accepted > bound->accepted) bound = &promise;
  }
  for (const GroupMember& member : view_.members) {
    if (swim_.health(member.id) < Health::kDead) change.keep.push_back(member);
  }
  // One that stands in does not know who must wait for their link's sake.
  if (MayPropose(now)) change.newcomers = Newcomers();
  change.leaving = leavers_;
  HearComplaints(self_.id, BrokenHere(), now);
  for (MemberId id : BadlyLinked()) {
    change.leaving.insert(id);
    links_.LeaveOut(view_.members[static_cast<size_t>(view_.RankOf(id))], /*broken=*/true, now);
  }
  // If all want to go, the oldest sees the others off: the state must not be handed to nobody.
  const auto stays = [&](const GroupMember& member) {
    return view_.Holds(member.id) && proposal_->promises.contains(member.id) &&
           !change.leaving.contains(member.id);
  };
  if (std::none_of(view_.members.begin(), view_.members.end(), stays)) {
    for (const GroupMember& member : view_.members) {
      if (proposal_->promises.contains(member.id) && change.leaving.erase(member.id) > 0) break;
    }
  }
  proposal_->view = bound ? *bound->view : NextView(view_, change, options_.bug);
  // The other half of a split may be further, and must not take this one for the older.
  const bool may_split = options_.quorum == Quorum::kAny && !bound;
  if (may_split) proposal_->view->number = std::max(proposal_->view->number, seen_number_ + 1);
  proposal_->gone = WhyGone(*proposal_->view);
  proposal_->pause = absl::ZeroDuration();
  proposal_->deadline = now + options_.promise_timeout;
  Resend(now);
}

}  // namespace rubato

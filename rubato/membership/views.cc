#include "rubato/membership/views.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rubato {
namespace {

constexpr size_t kGoneMax = 64;  // Told with a view, which fills a packet by itself if it is large.

std::optional<Loss> Find(const std::vector<Loss>& losses, MemberId member) {
  const auto loss = std::find_if(losses.begin(), losses.end(),
                                 [&](const Loss& lost) { return lost.member == member; });
  return loss == losses.end() ? std::nullopt : std::optional(*loss);
}

}  // namespace

absl::Status ViewOptions::Validate() const {
  if (retry <= absl::ZeroDuration() || promise_timeout < retry || takeover < promise_timeout) {
    return absl::InvalidArgumentError(
        absl::StrFormat("retry (%s) must be above 0 and at most promise_timeout (%s), and that "
                        "at most takeover "
                        "(%s)",
                        absl::FormatDuration(retry), absl::FormatDuration(promise_timeout),
                        absl::FormatDuration(takeover)));
  }
  if (gather < absl::ZeroDuration() || patience < promise_timeout) {
    return absl::InvalidArgumentError(
        "gather must not be negative, patience at least promise_timeout");
  }
  return absl::OkStatus();
}

Views::Views(const Swim& swim, ViewOptions options, Rng rng)
    : ViewSource(swim), options_(options), rng_(rng) {}

void Views::Found(int64_t step) {
  view_ = GroupView{.number = 1, .members = {self_}, .holders = 1, .step = step};
  seen_number_ = 1;
  progress_ = {.finished = step, .applied = step, .voted = step};
}

void Views::Receive(const ViewMessage& message, absl::Time now) {
  using Kind = ViewMessage::Kind;
  if (fenced_) return;
  if (message.kind == Kind::kQuery) {
    if (view_.number > 0 && !Bereft(view_)) {
      SendTo(message.from, Tell(Kind::kDecide, message.from.id), now);
    }
    return;
  }
  const bool carries_used_view = message.kind == Kind::kDecide || message.kind == Kind::kPrepare;
  if (carries_used_view && message.view) Adopt(*message.view, now, message.gone);
  // What names others was meant for an earlier life at this address.
  const bool meant = message.gone.empty() || Find(message.gone, self_.id);
  if (message.kind == Kind::kEvicted && view_.number == 0 && meant) {
    left_out_ = message.gone;
    Fence();
  }
  if (fenced_ || !member()) return;
  if (parting_ && message.kind == Kind::kEvicted && message.number > parting_->number) {
    return Fence();  // It may reach too few of them to hear it from each.
  }
  if (parting_) {
    // Whoever still agrees on what is decided need not.
    const bool unaware = message.number == view_.number + 1;
    if (unaware && !Recently(absl::StrCat("parting ", message.from.address), now)) {
      ViewMessage decide = Make(Kind::kDecide);
      decide.view = parting_;
      decide.gone = parting_gone_;
      SendTo(message.from, std::move(decide), now);
    }
    return HearWhileParting(message.from, message.number - 1);
  }
  if (message.kind == Kind::kCaughtUp) ready_.insert(message.from.id);
  if (message.kind == Kind::kLeaving) leavers_.insert(message.from.id);
  if (HeardWish()) told_since_ = std::min(told_since_, now);
  if (message.kind == Kind::kComplaint && message.number == view_.number + 1) {
    HearComplaints(message.from.id, message.gone, now);
    Complain();
  }
  // What belongs to another instance of the agreement is past, or not yet ours to answer.
  if (message.number == view_.number + 1) {
    switch (message.kind) {
      case Kind::kPrepare:
        return HandlePrepare(message, now);
      case Kind::kPromise:
        return HandlePromise(message, now);
      case Kind::kAccept:
        return HandleAccept(message, now);
      case Kind::kAccepted:
        return HandleAccepted(message, now);
      case Kind::kReject:
        return HandleReject(message, now);
      case Kind::kCaughtUp:
      case Kind::kLeaving:
      case Kind::kComplaint:
        return Tick(now);  // A wish waits for no timer.
      default:
        return;
    }
  }
  HearNumber(message.from, message.number - 1, /*mark=*/0, now);
}

void Views::HearNumber(const GroupMember& from, uint64_t number, uint64_t mark, absl::Time now) {
  if (fenced_ || from.id == self_.id) return;
  if (parting_) return HearWhileParting(from, number);
  // Who only learns, from one who is dead, has nothing to tell: it goes over to those who live.
  const bool elsewhere = number > 0 && mark != 0 && mark != view_.Mark();
  if (elsewhere && member() && !view_.Holds(self_.id) && Bereft(view_)) return Fence();
  if (number > seen_number_) {
    if (!Recently(absl::StrCat("query ", from.address), now)) {
      SendTo(from, Make(ViewMessage::Kind::kQuery), now);
    }
    return;
  }
  const bool in_view = view_.Contains(from.id);
  const bool has_it = number > view_.number || (number == view_.number && mark == view_.Mark());
  if (in_view && has_it) entered_.insert(from.id);
  // Under `quorum: any` a stranger with our number is the other half of a split; so is one whom we
  // know, in a view of the same members that two proposed at once.
  const bool other = !in_view || (mark != 0 && mark != view_.Mark());
  const bool split = options_.quorum == Quorum::kAny && number == view_.number && other;
  const bool behind = number < view_.number && (number > 0 || in_view);
  const bool evicted = number == 0 && evicted_.contains(from.id);
  if (!member() || !(split || behind || evicted) || Bereft(view_)) return;
  if (Recently(absl::StrCat("decide ", from.address), now)) return;
  const auto kind = evicted ? ViewMessage::Kind::kEvicted : ViewMessage::Kind::kDecide;
  SendTo(from, Tell(kind, from.id), now);
  if (behind && evicted_.contains(from.id) && IsQuorum(view_, entered_)) {
    SendTo(from, Tell(ViewMessage::Kind::kEvicted, from.id), now);
  }
}

void Views::SetProgress(const StepProgress& progress, absl::Time now) {
  if (progress.finished > progress_.finished) {
    const absl::Duration took = now - finished_at_;
    const bool first = step_time_ == absl::ZeroDuration();
    if (finished_at_ > absl::InfinitePast()) {
      step_time_ = first ? took : step_time_ * 0.75 + took * 0.25;
    }
    finished_at_ = now;
  }
  progress_ = progress;
  if (held_ && progress_.finished >= held_->after_step) {
    const ViewMessage prepare = *std::exchange(held_, {});
    HandlePrepare(prepare, now);
  }
}

void Views::Adopt(const GroupView& view, absl::Time now, std::vector<Loss> gone) {
  seen_number_ = std::max(seen_number_, view.number);
  const bool newer = view.number > view_.number;
  if (fenced_ || !(newer || Loses(view))) return;
  if (parting_ && view.number <= parting_->number) return;
  if (!view.Contains(self_.id)) {
    if (!view_.Contains(self_.id) || Bereft(view)) return;
    NoteLeft(view);
    if (left_out_.empty() && Find(gone, self_.id)) left_out_ = gone;
    return Part(view, std::move(gone), now);
  }
  Settle();
  const bool bug = options_.bug != RingBug::kNone;
  if (!bug && !MayEnter(view)) {
    NoteLeft(view);
    return Fence();
  }
  for (const GroupMember& member : view_.members) {
    if (!view.Contains(member.id)) evicted_[member.id] = {view.number, Find(gone, member.id)};
  }
  Enter(view);
  entered_ = {self_.id};
  gone_ = std::move(gone);
  frozen_since_ = planned_since_ = heir_since_ = absl::InfiniteFuture();
  wished_since_ = told_since_ = absl::InfiniteFuture();
  promised_ = accepted_ = Ballot();
  accepted_view_.reset();
  held_.reset();
  proposal_.reset();
  round_ = 0;
  ready_.clear();
  std::erase_if(leavers_, [&](MemberId id) { return !view_.Contains(id); });
  told_.clear();
  not_before_ = absl::InfinitePast();
}

// Two views of one number exist only under `quorum: any`, after a split: the larger one stays.
bool Views::Loses(const GroupView& other) const {
  if (options_.quorum != Quorum::kAny || other.number != view_.number || other == view_ ||
      view_.members.empty() || other.members.empty()) {
    return false;
  }
  const auto rank = [](const GroupView& view) {  // The first of these that differs decides.
    return std::make_tuple(-view.size(), view.members[0].id, -view.holders, view.Mark());
  };
  return rank(other) < rank(view_);
}

bool Views::Bereft(const GroupView& view) const {
  return options_.quorum == Quorum::kAny &&
         std::all_of(view.members.begin(), view.members.begin() + view.holders,
                     [&](const GroupMember& holder) {
                       return swim_.knows(holder.id) && swim_.health(holder.id) >= Health::kDead;
                     });
}

void Views::Fence() {
  ViewSource::Fence();
  proposal_.reset();
  held_.reset();
  parting_.reset();
}

// A learner is no part of any majority; and a later view than the next was made by those who had
// it.
void Views::Part(const GroupView& next, std::vector<Loss> gone, absl::Time now) {
  if (!view_.Holds(self_.id) || parting_ || next.number > view_.number + 1) return Fence();
  parting_gone_ = std::move(gone);
  if (options_.tells_once || options_.bug == RingBug::kNoFencing) {
    parting_ = next;
    TellParting(now);
    return Fence();
  }
  Freeze(now);
  proposal_.reset();
  held_.reset();
  parting_ = next;
  reached_.clear();
  TellParting(now);
}

void Views::TellParting(absl::Time now) {
  tell_again_ = now + options_.retry;
  ViewMessage decide = Make(ViewMessage::Kind::kDecide);
  decide.view = parting_;
  decide.gone = parting_gone_;
  // Those who have it already may know of the others by now.
  for (const GroupMember& member : parting_->members) SendTo(member, decide, now);
}

void Views::HearWhileParting(const GroupMember& from, uint64_t number) {
  if (number == parting_->number && parting_->Holds(from.id)) reached_.insert(from.id);
  if (number > parting_->number || IsQuorum(*parting_, reached_)) Fence();
}

void Views::Freeze(absl::Time now) {
  if (options_.bug == RingBug::kNoFencing) return;
  if (frozen_) return;
  frozen_since_ = now;
  frozen_ = true;
  Settle();
}

void Views::HandlePrepare(const ViewMessage& message, absl::Time now) {
  // A promise tells how far this member is in this very view: the other half of a split may have
  // another one of the same number.
  if (!view_.Holds(message.from.id) || !message.view || !(*message.view == view_)) return;
  if (message.ballot < promised_ && options_.bug != RingBug::kForgetPromises) {
    ViewMessage reject = Make(ViewMessage::Kind::kReject);
    reject.ballot = promised_;
    return SendTo(message.from, std::move(reject), now);
  }
  if (held_ && held_->ballot > message.ballot) return;
  held_.reset();
  if (!frozen_ && progress_.finished < message.after_step) {
    held_ = message;
    return;
  }
  Promise(message, now);
}

void Views::Promise(const ViewMessage& prepare, absl::Time now) {
  promised_ = prepare.ballot;
  Freeze(now);
  ViewMessage promise = Make(ViewMessage::Kind::kPromise);
  promise.ballot = prepare.ballot;
  promise.applied = progress_.applied;
  promise.voted = progress_.voted;
  if (accepted_view_ && options_.bug != RingBug::kForgetPromises) {
    promise.accepted = accepted_;
    promise.view = accepted_view_;
  }
  SendTo(prepare.from, std::move(promise), now);
}

void Views::HandlePromise(const ViewMessage& message, absl::Time now) {
  if (!proposal_ || proposal_->view || proposal_->ballot != message.ballot) return;
  proposal_->promises[message.from.id] = message;
  Advance(now);
}

void Views::HandleAccept(const ViewMessage& message, absl::Time now) {
  if (!view_.Holds(message.from.id) || !message.view) return;
  if (message.ballot < promised_ && options_.bug != RingBug::kForgetPromises) {
    ViewMessage reject = Make(ViewMessage::Kind::kReject);
    reject.ballot = promised_;
    return SendTo(message.from, std::move(reject), now);
  }
  promised_ = accepted_ = message.ballot;
  accepted_view_ = message.view;
  held_.reset();
  Freeze(now);
  ViewMessage accepted = Make(ViewMessage::Kind::kAccepted);
  accepted.ballot = message.ballot;
  SendTo(message.from, std::move(accepted), now);
}

void Views::HandleAccepted(const ViewMessage& message, absl::Time now) {
  if (!proposal_ || !proposal_->view || proposal_->ballot != message.ballot) return;
  if (!view_.Holds(message.from.id)) return;
  proposal_->accepted_by.insert(message.from.id);
  if (IsQuorum(view_, proposal_->accepted_by)) Decide(now);
}

void Views::Decide(absl::Time now) {
  const GroupView next = *proposal_->view;
  ViewMessage decide = Make(ViewMessage::Kind::kDecide);
  decide.view = next;
  decide.gone = proposal_->gone;
  const auto tell = [&](const GroupMember& member) {
    if (member.id != self_.id) SendTo(member, decide, now);
  };
  for (const GroupMember& member : view_.members) {
    if (!next.Contains(member.id)) tell(member);
  }
  if (next.Contains(self_.id)) std::for_each(next.members.begin(), next.members.end(), tell);
  Adopt(next, now, decide.gone);
}

void Views::HandleReject(const ViewMessage& message, absl::Time now) {
  if (!proposal_ || message.ballot <= proposal_->ballot) return;
  round_ = std::max(round_, message.ballot.round);
  proposal_.reset();
  not_before_ = now + options_.retry * rng_.Uniform(1, 4);
}

void Views::Tick(absl::Time now) {
  last_tick_ = now;
  if (!member()) return;
  // Where any quorum will do, whoever holds the state goes on with it when those are dead who had
  // gone on without.
  if (parting_ && Bereft(*parting_)) {
    parting_.reset();
    left_at_ = -1;  // Nobody has gone on without it after all.
    left_out_.clear();
  }
  if (parting_) {
    if (now >= tell_again_) TellParting(now);
    return;
  }
  if (leaving_ && view_.size() == 1) return Fence();  // Nobody is left to be told.
  heir_since_ = IsHeir() ? std::min(heir_since_, now) : absl::InfiniteFuture();
  if (now >= InheritTime()) return Inherit(now);
  TellWishes(now);
  if (proposal_) {
    const bool overtaken = proposal_->planned && !proposal_->view && (complained_ || SomeoneDied());
    if (overtaken) return Propose(/*planned=*/false, now);
    Advance(now);
    if (proposal_ && now >= proposal_->resend) Resend(now);
    return;
  }
  const bool may = MayPropose(now);
  if (may && (frozen_ || complained_ || SomeoneDied())) return Propose(/*planned=*/false, now);
  const bool wanted = may && WantedByPlan();
  planned_since_ = wanted ? std::min(planned_since_, now) : absl::InfiniteFuture();
  const bool gathered = wanted && now >= planned_since_ + options_.gather;
  if (gathered || (wanted && AllWhoCopyAreReady()) || StandsIn(now)) {
    Propose(/*planned=*/true, now);
  }
}

// Never a time that a Tick() leaves in the past, or its owner would not sleep.
absl::Time Views::next_wake() const {
  if (!member()) return absl::InfiniteFuture();
  if (parting_) return tell_again_;
  absl::Time wake = absl::InfiniteFuture();
  if (HasWish()) {
    const auto told = told_.find("wish");
    wake = told == told_.end() ? absl::InfinitePast() : told->second + options_.retry;
  }
  if (proposal_) return std::min({wake, proposal_->resend, proposal_->deadline});
  if (!view_.Holds(self_.id)) return std::min(wake, InheritTime());
  absl::Time propose = planned_since_ + options_.gather;
  if (frozen_) propose = std::min(propose, TakeoverTime());
  if (not_before_ > last_tick_) propose = std::min(propose, not_before_);
  if (StandInTime() > last_tick_) propose = std::min(propose, StandInTime());
  return std::min(wake, std::max(propose, not_before_));
}

absl::Time Views::TakeoverTime() const {
  return frozen_since_ + options_.takeover * (view_.RankOf(self_.id) + 1);
}

bool Views::IsHeir() const {
  return !view_.Holds(self_.id) && progress_.applied >= 0 && Bereft(view_);
}

absl::Time Views::InheritTime() const {
  if (heir_since_ == absl::InfiniteFuture()) return heir_since_;
  const auto older = std::count_if(
      view_.members.begin() + view_.holders, view_.members.begin() + view_.RankOf(self_.id),
      [&](const GroupMember& member) { return swim_.health(member.id) < Health::kDead; });
  return heir_since_ + options_.takeover * older;
}

// Nobody need agree, where any quorum will do, and nobody is left who could. Another heir enters as
// a learner, level or not.
void Views::Inherit(absl::Time now) {
  Freeze(now);
  GroupView next{.number = std::max(view_.number, seen_number_) + 1,
                 .members = {self_},
                 .holders = 1,
                 .step = progress_.voted,
                 .parent = view_.Mark()};
  for (const GroupMember& member : view_.members) {
    const bool lives = swim_.health(member.id) < Health::kDead;
    if (lives && member.id != self_.id) next.members.push_back(member);
  }
  for (const GroupMember& member : Newcomers()) {
    if (next.size() < kMembersMax) next.members.push_back(member);
  }
  proposal_ = Proposal{.view = next, .gone = WhyGone(next)};
  Decide(now);
}

bool Views::HasWish() const {
  return leaving_ || complained_ || (caught_up_ && !view_.Holds(self_.id));
}

// A learner that has caught up, or a member that wants to go, says so until it is heard. Others may
// reach the oldest where this one does not: after a while all are told, and see to it in turn.
void Views::TellWishes(absl::Time now) {
  if (leaving_) leavers_.insert(self_.id);
  if (!HasWish() || Recently("wish", now)) return;
  wished_since_ = std::min(wished_since_, now);
  const bool learned = caught_up_ && !view_.Holds(self_.id);
  const bool unheard = now >= wished_since_ + options_.takeover;
  bool first = true;
  for (int rank = 0; rank < view_.holders; ++rank) {
    const GroupMember& holder = view_.members[rank];
    if (holder.id == self_.id || swim_.health(holder.id) >= Health::kDead) continue;
    if (leaving_) SendTo(holder, Make(ViewMessage::Kind::kLeaving), now);
    if (learned) SendTo(holder, Make(ViewMessage::Kind::kCaughtUp), now);
    if (complained_ && first) {
      ViewMessage complaint = Make(ViewMessage::Kind::kComplaint);
      complaint.gone = BrokenHere();
      SendTo(holder, std::move(complaint), now);
    }
    if (!unheard) return;
    first = false;
  }
}

std::vector<Loss> Views::WhyGone(const GroupView& next) const {
  const std::vector<Loss> losses = Losses();
  std::vector<Loss> gone;
  for (const GroupMember& member : view_.members) {
    if (next.Contains(member.id) || gone.size() == kGoneMax) continue;
    const std::optional<Loss> loss = Find(losses, member.id);
    if (leavers_.contains(member.id)) {
      gone.push_back({member.id, self_.id, LossReason::kLeft});
    } else {  // It lives, as far as is known: it did not answer in time, or was a step ahead.
      gone.push_back(loss.value_or(Loss{member.id, self_.id, LossReason::kLink}));
    }
  }
  return gone;
}

bool Views::IsQuorum(const GroupView& view, const std::set<MemberId>& agreed) const {
  const auto count =
      std::count_if(agreed.begin(), agreed.end(), [&](MemberId id) { return view.Holds(id); });
  if (options_.half_agrees) return 2 * count >= view.holders;
  return options_.quorum == Quorum::kAny ? count > 0 : view.IsMajority(agreed);
}

std::vector<Views::Send> Views::TakeSends() { return std::exchange(sends_, {}); }

// Whether `what` was done within the last `retry`; if not, notes that it is done now.
bool Views::Recently(const std::string& what, absl::Time now) {
  const auto [it, is_new] = told_.try_emplace(what, now);
  if (is_new) return false;
  if (now < it->second + options_.retry) return true;
  it->second = now;
  return false;
}

ViewMessage Views::Make(ViewMessage::Kind kind) const {
  return {.kind = kind, .from = self_, .number = view_.number + 1};
}

ViewMessage Views::Tell(ViewMessage::Kind kind, MemberId to) const {
  ViewMessage message = Make(kind);
  message.view = view_;
  message.gone = view_.Contains(to) ? gone_ : LeftOutWith(to);
  return message;
}

std::vector<Loss> Views::LeftOutWith(MemberId member) const {
  const auto out = evicted_.find(member);
  std::vector<Loss> losses;
  if (out == evicted_.end() || !out->second.loss) return losses;
  losses.push_back(*out->second.loss);
  for (const auto& [id, other] : evicted_) {
    if (id == member || other.view != out->second.view || !other.loss) continue;
    if (losses.size() < kGoneMax) losses.push_back(*other.loss);
  }
  return losses;
}

void Views::SendTo(const GroupMember& to, ViewMessage message, absl::Time now) {
  if (to.id == self_.id) return Receive(message, now);
  sends_.push_back({to.address, std::move(message)});
}

}  // namespace rubato

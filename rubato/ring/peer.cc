#include "rubato/ring/peer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "rubato/base/status.h"

namespace rubato {
namespace {

// So many probe periods one that came may seem dead, and be back, before it is taken for lost.
constexpr int kNewcomerPatience = 25;

// So many others are asked at once whether they live, those next to who asks.
constexpr int kAskedMax = 32;
constexpr double kFirstPause = 0.125;  // Of ViewOptions::retry; each is twice the one before.

// Without what it says of others who live.
SwimMessage OfItself(SwimMessage message) {
  std::erase_if(message.rumours, [&](const Rumour& rumour) {
    return rumour.health < Health::kDead && rumour.member.id != message.from.id;
  });
  return message;
}

const Loss* Find(const std::vector<Loss>& losses, MemberId member) {
  const auto loss = std::find_if(losses.begin(), losses.end(),
                                 [&](const Loss& lost) { return lost.member == member; });
  return loss == losses.end() ? nullptr : &*loss;
}

}  // namespace

absl::Status PeerOptions::Validate() const {
  RUBATO_RETURN_IF_ERROR(swim.Validate());
  return views.Validate();
}

Peer::Peer(GroupMember self, PeerOptions options, uint64_t seed)
    : options_(options), swim_(std::move(self), options.swim, Rng(Mix(seed, 1))) {
  if (options.issued) {
    auto issued = std::make_unique<IssuedViews>(swim_, options.report_period, options.views.bug);
    issued_ = issued.get();
    views_ = std::move(issued);
  } else {
    auto agreed = std::make_unique<Views>(swim_, options.views, Rng(Mix(seed, 2)));
    agreed_ = agreed.get();
    views_ = std::move(agreed);
  }
  steps_.bug = options.views.bug;
  views_->OnLetGo([this] { return steps_.Settle(); });
}

void Peer::Found(int64_t step, absl::Time now) {
  steps_.Found(step);
  views_->Offer(step);
  if (agreed_ != nullptr) {
    agreed_->Found(step);
    origin_ = static_cast<uint64_t>(self().id.value());
  }
  Settle(now);
}

void Peer::Join(std::vector<std::string> addresses, absl::Time now) {
  if (agreed_ != nullptr) swim_.Join(std::move(addresses), now);
  Settle(now);
}

void Peer::Leave(absl::Time now) {
  views_->SetLeaving();
  views_->Tick(now);
  Settle(now);
}

void Peer::Farewell(absl::Time now) {
  swim_.Leave(now);
  swim_.Tick(now);
  Settle(now);
}

void Peer::Finish(absl::Time now) {
  finished_ = true;
  swim_.GreetAll();
  Settle(now);
}

bool Peer::IsLevel(const GroupMember& member) const {
  if (member.id == self().id || swim_.health(member.id) >= Health::kDead) return true;
  const auto level = levels_.find(member.id);
  return level != levels_.end() && level->second.first == entered_ &&
         level->second.second >= steps_.finished();
}

bool Peer::AllLevel() const {
  const std::vector<GroupMember>& members = view().members;
  return agreed_ == nullptr || !member() || fenced() ||
         std::all_of(members.begin(), members.end(),
                     [&](const GroupMember& member) { return IsLevel(member); });
}

void Peer::Close(absl::Time now) {
  close_by_ = now + options_.close_max;
  AskLevels(now);
  Settle(now);
}

bool Peer::MayGo(absl::Time now) const {
  return AllLevel() || now >= close_by_ || options_.bug == RingBug::kGoAtOnce;
}

void Peer::AskLevels(absl::Time now) {
  ask_levels_ = now + options_.close_retry;
  if (AllLevel()) return;
  for (const GroupMember& member : view().members) {
    if (IsLevel(member)) continue;
    // Any answer says it.
    const ViewMessage query{
        .kind = ViewMessage::Kind::kQuery, .from = self(), .number = view().number + 1};
    Post(member.address, {.from = self(), .body = query});
  }
}

void Peer::AskWhoLives(absl::Time now) {
  ask_who_lives_ = now + ask_pause_;
  ask_pause_ *= 2;
  const int size = view().size();
  const int rank = view().RankOf(self().id);
  const int others = issued_ != nullptr ? size - 1 : rank;
  for (int nth = 1; nth <= std::min(kAskedMax, others); ++nth) {
    const int asked = issued_ != nullptr ? (rank + nth) % size : rank - nth;
    const GroupMember& member = view().members[static_cast<size_t>(asked)];
    const auto sign = signs_.find(member.id);
    const bool spoke = sign != signs_.end() && sign->second > asking_since_;
    if (!spoke && swim_.health(member.id) < Health::kDead) swim_.Greet(member);
  }
}

void Peer::BeginToAsk(absl::Time now) {
  asking_since_ = now;
  ask_pause_ = options_.views.retry * kFirstPause;
  AskWhoLives(now);
}

bool Peer::WaitsForOlder() const {
  if (agreed_ == nullptr || !holder() || frozen()) return false;
  return std::any_of(view().members.begin(), view().members.end(), [&](const GroupMember& member) {
    return swim_.health(member.id) >= Health::kDead;
  });
}

void Peer::Deny(MemberId member, absl::Time now) {
  const int rank = view().RankOf(member);
  if (rank < 0) return;
  denied_ = member;
  swim_.Greet(view().members[rank]);
  Settle(now);
}

absl::Time Peer::heard(absl::Time now) const { return member() && AnotherHolds() ? now : heard_; }

bool Peer::AnotherHolds() const {
  const std::vector<GroupMember>& members = view().members;
  return std::any_of(members.begin(), members.begin() + view().holders,
                     [&](const GroupMember& holder) {
                       return holder.id != self().id && swim_.health(holder.id) < Health::kDead;
                     });
}

bool Peer::IsStranger(const Packet& packet) {
  if (origin_ == 0 || packet.origin == 0 || packet.origin == origin_) return false;
  if (options_.bug == RingBug::kMixFoundings) return false;
  stranger_ = packet.from.address;
  const auto* message = std::get_if<SwimMessage>(&packet.body);
  if (message != nullptr && message->kind == SwimMessage::Kind::kPush) swim_.Greet(packet.from);
  return true;
}

void Peer::Receive(const Packet& packet, absl::Time now) {
  if (packet.group != options_.group || packet.from.id == self().id) return;
  if (IsStranger(packet)) return Settle(now);
  told_origin_ = packet.origin;
  if (packet.finished == self().id) told_finished_.insert(packet.origin);
  if (packet.view > 0 && !member()) heard_ = now;
  if (view().Contains(packet.from.id)) {
    levels_[packet.from.id] = {packet.mark, packet.step};
    signs_[packet.from.id] = now;
  } else if (const auto it = newcomers_.find(packet.from.id); it != newcomers_.end()) {
    it->second.departure.heard = now;
  }
  // Of two the younger gives way.
  const bool older =
      view().Contains(packet.from.id) && view().RankOf(packet.from.id) < view().RankOf(self().id);
  if (packet.denied == self().id && older && !said_denied_) {
    said_denied_ = true;
    events_.push_back({Event::Kind::kDenied, view()});
  }
  views_->HearNumber(packet.from, packet.view, packet.mark, now);
  if (const auto* message = std::get_if<SwimMessage>(&packet.body)) {
    // Whoever is in no view yet may have asked at several groups: it speaks for itself alone.
    const bool vouches =
        origin_ == 0 || packet.origin != 0 || options_.bug == RingBug::kVouchForAll;
    swim_.Receive(vouches ? *message : OfItself(*message), now);
  } else if (agreed_ != nullptr) {
    agreed_->Receive(std::get<ViewMessage>(packet.body), now);
  }
  Settle(now);
}

void Peer::Receive(const ViewOrder& order, absl::Time now) {
  if (issued_ != nullptr) issued_->Receive(order, now);
  Settle(now);
}

void Peer::Tick(absl::Time now) {
  if (now >= ask_levels_) AskLevels(now);
  if (now >= ask_who_lives_) AskWhoLives(now);
  swim_.Tick(now);
  if (now >= mourn_) WatchNewcomers(now);
  Settle(now);
  views_->Tick(now);
  Settle(now);
}

absl::Time Peer::next_wake() const {
  return std::min({swim_.next_wake(), views_->next_wake(), ask_levels_, ask_who_lives_, mourn_});
}

void Peer::ReportLost(MemberId member, LossReason reason, absl::Time now) {
  if (view().Contains(member)) views_->NoteLoss(member, reason);
  swim_.ReportLost(member, IsProof(reason), now);
  Settle(now);
}

void Peer::Complain(absl::Time now) {
  views_->Complain();
  views_->Tick(now);
  Settle(now);
}

bool Peer::StartStep(uint64_t mark, int64_t step, absl::Time now) {
  const bool may = steps_.Start(mark, step, frozen());
  views_->SetProgress(steps_.progress(), now);
  return may;
}

bool Peer::Vote(uint64_t mark, int64_t step, absl::Time now) {
  const bool may = steps_.Vote(mark, step, frozen());
  views_->SetProgress(steps_.progress(), now);
  return may;
}

bool Peer::Pledge(uint64_t mark, int64_t step, std::function<bool()> withdraw) {
  return steps_.Pledge(mark, step, frozen(), std::move(withdraw));
}

bool Peer::FinishStep(uint64_t mark, int64_t step, absl::Time now) {
  const bool may = steps_.Finish(mark, step, frozen());
  if (may) together_ = now;  // All have added to it.
  views_->SetProgress(steps_.progress(), now);
  Settle(now);  // A planned change may have waited for this.
  return may;
}

bool Peer::CatchUp(uint64_t mark, int64_t step, absl::Time now) {
  if (!steps_.CatchUp(mark, step)) return false;
  views_->SetProgress(steps_.progress(), now);
  views_->SetCaughtUp(true);
  views_->Tick(now);
  Settle(now);
  return true;
}

std::vector<Peer::Event> Peer::TakeEvents() { return std::exchange(events_, {}); }

std::vector<Peer::Send> Peer::TakeSends() { return std::exchange(sends_, {}); }

std::optional<ViewReport> Peer::TakeReport(absl::Time now) {
  if (issued_ == nullptr || fenced()) return std::nullopt;
  return issued_->TakeReport(now);
}

void Peer::Settle(absl::Time now) {
  // Before anything is decided: a member that needs nobody else lets go and goes on in one breath.
  // One that is told of a view has it already, and no longer knows what it saw in the one before.
  if (!fenced() && (entered_ == 0 || view().Mark() == entered_)) losses_ = views_->Losses();
  EnterView(now);
  // Whether those who went on live is for the detector to say; see Views::Tick.
  if (parting() != nullptr && options_.views.quorum == Quorum::kAny) {
    for (const GroupMember& member : parting()->members) swim_.Introduce(member, now);
  }
  if (swim_.TakeChanged()) {
    WatchNewcomers(now);
    views_->Tick(now);
  }
  EnterView(now);
  if (fenced() && !said_fenced_) {
    said_fenced_ = true;
    events_.push_back({.kind = Event::Kind::kFenced, .view = view(), .gone = LeftOut()});
    ask_who_lives_ = absl::InfiniteFuture();
  }
  if (frozen() && !said_frozen_ && !fenced()) {
    said_frozen_ = true;
    events_.push_back({Event::Kind::kFrozen, view()});
    ask_who_lives_ = absl::InfiniteFuture();
    if (issued_ != nullptr) BeginToAsk(now);
  }
  if (ask_who_lives_ == absl::InfiniteFuture() && WaitsForOlder()) BeginToAsk(now);
  // One that copies the state cannot agree on a view without those who hold it. If they only seem
  // dead, the complaint brings a new one when they are back; until then it need not wait in this.
  const bool forsaken = agreed_ != nullptr && member() && !holder() && !AnotherHolds();
  if (forsaken && !said_frozen_ && !fenced()) {
    said_frozen_ = true;
    views_->Complain();
    events_.push_back({Event::Kind::kFrozen, view()});
  }
  for (Swim::Send& send : swim_.TakeSends()) {
    Post(send.to, {.from = self(), .body = std::move(send.message)});
  }
  if (agreed_ == nullptr) return;
  for (Views::Send& send : agreed_->TakeSends()) {
    Post(send.to, {.from = self(), .body = std::move(send.message)});
  }
}

void Peer::EnterView(absl::Time now) {
  if (fenced() || !member()) return;
  // By its mark: after a split there may be two of one number, and a learner goes from one to the
  // other.
  const uint64_t mark = view().Mark();
  if (mark == entered_) return;
  entered_ = mark;
  denied_ = MemberId();
  std::vector<Departure> gone = Gone(std::exchange(in_use_, view()));
  together_ = now;
  std::erase_if(levels_, [&](const auto& entry) { return !view().Contains(entry.first); });
  std::erase_if(signs_, [&](const auto& entry) { return !view().Contains(entry.first); });
  std::erase_if(newcomers_, [&](const auto& entry) { return view().Contains(entry.first); });
  said_frozen_ = false;
  ask_who_lives_ = absl::InfiniteFuture();
  if (origin_ == 0 && agreed_ != nullptr) {
    origin_ = told_origin_;
    swim_.ForgetOthers();  // Some may be of another group.
  }
  swim_.StopSeeking();
  std::set<MemberId> others;
  for (const GroupMember& member : view().members) {
    if (member.id == self().id) continue;
    swim_.Readmit(member, now);
    others.insert(member.id);
  }
  swim_.Keep(std::move(others));
  const Verdict verdict = steps_.Enter(view(), self().id);
  views_->SetProgress(steps_.progress(), now);
  if (verdict == Verdict::kCopy) views_->SetCaughtUp(false);
  events_.push_back(
      {Event::Kind::kView, view(), verdict, std::exchange(losses_, {}), std::move(gone)});
}

std::vector<Departure> Peer::Missed() const {
  std::vector<Departure> missed;
  for (const Loss& loss : views_->Losses()) {
    const auto rank = static_cast<size_t>(view().RankOf(loss.member));
    missed.push_back(MissedSince(view().members[rank], loss));
  }
  return missed;
}

Departure Peer::MissedSince(const GroupMember& member, const Loss& loss) const {
  const auto sign = signs_.find(member.id);
  return {member, loss, sign != signs_.end() ? std::max(together_, sign->second) : together_};
}

std::vector<Departure> Peer::Gone(const GroupView& before) const {
  std::vector<Departure> gone;
  for (const GroupMember& member : before.members) {
    if (view().Contains(member.id)) continue;
    const Loss* seen = Find(losses_, member.id);
    const Loss* told = agreed_ != nullptr ? Find(agreed_->gone(), member.id) : nullptr;
    // What this member saw itself counts, unless that is hearsay, or the other had asked to go.
    const bool vague = seen == nullptr || seen->reason == LossReason::kHearsay;
    if (told != nullptr && (vague || told->reason == LossReason::kLeft)) seen = told;
    const Loss unknown = {member.id, MemberId(), LossReason::kLink};
    gone.push_back(MissedSince(member, seen != nullptr ? *seen : unknown));
  }
  return gone;
}

std::vector<Departure> Peer::LeftOut() const {
  std::vector<Departure> out;
  for (const Loss& loss : agreed_ != nullptr ? agreed_->left_out() : std::vector<Loss>()) {
    const int rank = view().RankOf(loss.member);
    if (rank >= 0) out.push_back(MissedSince(view().members[static_cast<size_t>(rank)], loss));
  }
  return out;
}

// One that says farewell is gone, not dead, and no loss.
void Peer::WatchNewcomers(absl::Time now) {
  mourn_ = absl::InfiniteFuture();
  if (agreed_ == nullptr || !member()) return;
  for (const GroupMember& newcomer : agreed_->Newcomers()) {
    const Loss silent = {newcomer.id, self().id, LossReason::kLease};
    newcomers_.try_emplace(newcomer.id, Newcomer{{newcomer, silent, now}});
  }
  const absl::Duration patience = options_.swim.probe_period * kNewcomerPatience;
  for (auto it = newcomers_.begin(); it != newcomers_.end();) {
    auto& [departure, dead_since] = it->second;
    const Health health = swim_.health(it->first);
    dead_since = health == Health::kDead ? std::min(dead_since, now) : absl::InfiniteFuture();
    const bool came_or_left = view().Contains(it->first) || health == Health::kGone;
    if (!came_or_left && now < dead_since + patience) {
      mourn_ = std::min(mourn_, dead_since + patience);
      ++it;
      continue;
    }
    if (!came_or_left) {
      agreed_->Exclude(departure.loss);
      lost_newcomers_.push_back(departure);
    }
    it = newcomers_.erase(it);
  }
}

void Peer::Post(const std::string& to, Packet packet) {
  packet.group = options_.group;
  packet.view = view().number;
  packet.mark = entered_;
  packet.origin = origin_;
  packet.step = steps_.finished();
  if (finished_) packet.finished = swim_.LifeAt(to);
  packet.denied = denied_;
  sends_.push_back({to, std::move(packet)});
}

}  // namespace rubato

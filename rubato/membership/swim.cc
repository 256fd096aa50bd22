#include "rubato/membership/swim.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace rubato {
namespace {

SwimMessage Make(SwimMessage::Kind kind, uint64_t sequence = 0, GroupMember target = {}) {
  SwimMessage message;
  message.kind = kind;
  message.sequence = sequence;
  message.target = std::move(target);
  return message;
}

SwimMessage Telling(SwimMessage::Kind kind, std::vector<Rumour> rumours) {
  SwimMessage message = Make(kind);
  message.rumours = std::move(rumours);
  return message;
}

constexpr size_t kToldMax = 32;     // Of a suspicion, by whoever has it first; or of the end.
constexpr size_t kErrandsMax = 64;  // Requests beyond this are forgotten: they time out anyway.

}  // namespace

Swim::Swim(GroupMember self, SwimOptions options, Rng rng)
    : self_(std::move(self)), options_(options), rng_(rng), next_push_(rng_.Below(1024)) {}

void Swim::Join(std::vector<std::string> addresses, absl::Time now) {
  std::erase(addresses, self_.address);
  seeds_ = std::move(addresses);
  seeking_ = true;
  next_push_pull_ = now;
  Tick(now);
}

void Swim::Introduce(const GroupMember& member, absl::Time now) {
  if (!known_.contains(member.id)) Hear({member, Health::kAlive, 0}, now);
}

void Swim::Readmit(const GroupMember& member, absl::Time now) {
  Introduce(member, now);
  Known& known = known_.at(member.id);
  if (known.health != Health::kDead) return;
  SetHealth(known, Health::kSuspect, known.incarnation, now);
  // The question carries the suspicion, and the answer will refute it.
  BeginProbeOf(member, now);
}

void Swim::ForgetOthers() {
  known_.clear();
  round_.clear();
  std::erase_if(queue_, [&](const Queued& q) { return q.rumour.member.id != self_.id; });
  probe_.reset();
  changed_ = true;
}

void Swim::Receive(const SwimMessage& message, absl::Time now) {
  if (message.from.id == self_.id) return;
  Introduce(message.from, now);
  known_.at(message.from.id).spoke = ++packets_;
  // Whoever is held for suspect or dead must hear of it to refute it.
  if (const Known& known = known_.at(message.from.id); known.health != Health::kAlive) {
    Spread({known.member, known.health, known.incarnation});
  }
  for (const Rumour& rumour : message.rumours) Hear(rumour, now);
  switch (message.kind) {
    case SwimMessage::Kind::kPing:
      if (message.target.id != self_.id) {
        // An earlier life at this address is over, since this one could take its place.
        if (message.target.address != self_.address) return;
        return SendTo(message.from.address,
                      Telling(SwimMessage::Kind::kGossip, {{message.target, Health::kGone, 0}}));
      }
      return SendTo(message.from.address, Make(SwimMessage::Kind::kAck, message.sequence));
    case SwimMessage::Kind::kAck: {
      if (probe_ && probe_->sequence == message.sequence) {
        if (message.from.id == probe_->target.id) known_.at(message.from.id).answered = true;
        probe_.reset();
      }
      const auto errand = errands_.find(message.sequence);
      if (errand == errands_.end()) return;
      SendTo(errand->second.requester.address,
             Make(SwimMessage::Kind::kAck, errand->second.sequence));
      errands_.erase(errand);
      return;
    }
    case SwimMessage::Kind::kPingRequest: {
      if (errands_.size() >= kErrandsMax) errands_.erase(errands_.begin());
      errands_[next_sequence_] = {message.from, message.sequence};
      return SendTo(message.target.address,
                    Make(SwimMessage::Kind::kPing, next_sequence_++, message.target));
    }
    case SwimMessage::Kind::kPush:
      return SendTo(message.from.address, Telling(SwimMessage::Kind::kPull, WholeTable()));
    case SwimMessage::Kind::kGossip:
    case SwimMessage::Kind::kPull:
      return;
  }
}

void Swim::Tick(absl::Time now) {
  ForgiveOwnSleep(now);
  last_tick_ = now;
  if (leaving_) {
    if (now >= next_gossip_) Gossip();
    next_gossip_ = std::max(next_gossip_, now + options_.gossip_period);
    return;
  }
  if (probe_ && now >= probe_->ask_others) AskOthers(now);
  if (probe_ && now >= probe_->give_up) MissProbe(std::exchange(probe_, {})->target, now);
  if (!probe_ && now >= next_probe_) StartProbe(now);
  ExpireSuspicions(now);
  if (now >= next_gossip_) {
    Gossip();
    next_gossip_ = now + options_.gossip_period;
  }
  if (now >= next_push_pull_) {
    PushPull();
    // A seeker asks at the pace of probes; in company, once a period, not all at once.
    next_push_pull_ = now + (seeking_ ? options_.probe_period
                                      : options_.push_pull_period * rng_.Uniform(0.8, 1.2));
  }
}

absl::Time Swim::next_wake() const {
  absl::Time wake = next_push_pull_;
  if (!queue_.empty()) wake = std::min(wake, next_gossip_);
  wake = std::min(wake, probe_ ? std::min(probe_->ask_others, probe_->give_up) : next_probe_);
  for (const auto& [id, known] : known_) {
    if (known.health == Health::kSuspect) wake = std::min(wake, known.deadline);
  }
  return wake;
}

// A process that was stopped must not blame the others for its own silence: whatever was due
// while it slept is due that much later.
void Swim::ForgiveOwnSleep(absl::Time now) {
  const absl::Duration asleep = now - last_tick_;
  if (last_tick_ == absl::InfinitePast() || asleep <= options_.probe_period * 2) return;
  probe_.reset();
  for (auto& [id, known] : known_) known.deadline += asleep;
}

void Swim::ReportLost(MemberId member, bool proven, absl::Time now) {
  const auto it = known_.find(member);
  if (it == known_.end() || it->second.health == Health::kGone) return;
  Known& known = it->second;
  if (proven) {
    SetHealth(known, Health::kGone, known.incarnation, now);
    next_gossip_ = now;
    return;
  }
  if (known.health != Health::kAlive) return;
  // A probe that is begun anew again and again comes to no end: they take turns.
  if (probe_ && probe_->reported) {
    const bool waits = probe_->target.id == member ||
                       std::find(round_.begin(), round_.end(), member) != round_.end();
    if (!waits) round_.push_back(member);
    return;
  }
  BeginProbeOf(known.member, now);
  probe_->reported = true;
}

void Swim::Greet(const GroupMember& member) {
  SendTo(member.address, Make(SwimMessage::Kind::kGossip));
}

void Swim::GreetAll() {
  std::vector<GroupMember> others = Others(/*with_dead=*/true);
  rng_.Shuffle(others);
  if (others.size() > kToldMax) others.resize(kToldMax);
  for (const GroupMember& other : others) Greet(other);
}

void Swim::Leave(absl::Time now) {
  leaving_ = true;
  Spread({self_, Health::kGone, incarnation_});
  next_gossip_ = now;
}

Health Swim::health(MemberId member) const {
  if (member == self_.id) return Health::kAlive;
  const auto it = known_.find(member);
  return it == known_.end() ? Health::kGone : it->second.health;
}

MemberId Swim::LifeAt(const std::string& address) const {
  const Known* best = nullptr;
  for (const auto& [id, known] : known_) {
    if (known.member.address != address) continue;
    if (best == nullptr || known.spoke > best->spoke) best = &known;
  }
  return best == nullptr ? MemberId() : best->member.id;
}

std::vector<GroupMember> Swim::Living() const {
  std::vector<GroupMember> living = Others(/*with_dead=*/false);
  const auto place = std::find_if(living.begin(), living.end(),
                                  [&](const GroupMember& m) { return m.id > self_.id; });
  living.insert(place, self_);
  return living;
}

std::vector<Swim::Send> Swim::TakeSends() { return std::exchange(sends_, {}); }

bool Swim::TakeChanged() { return std::exchange(changed_, false); }

void Swim::Hear(const Rumour& rumour, absl::Time now) {
  if (rumour.member.id == self_.id) return HearAboutSelf(rumour);
  auto it = known_.find(rumour.member.id);
  if (it == known_.end()) {
    // The death of a stranger is no news; taking it up would keep it going round for ever.
    if (rumour.health >= Health::kDead) return;
    it = known_.emplace(rumour.member.id, Known{rumour.member}).first;
    // Somewhere in the round that runs: all who hear of it now may have begun theirs together, and
    // nobody would probe it until the next.
    round_.insert(round_.begin() + static_cast<int64_t>(rng_.Below(round_.size() + 1)),
                  rumour.member.id);
    return SetHealth(it->second, rumour.health, rumour.incarnation, now);
  }
  Known& known = it->second;
  if (known.health == Health::kGone) return;
  // What others take for dead may only have been out of their reach: a side of a partition comes
  // back believing that of everyone on the other. So it is suspected, and may defend itself.
  const Health heard = rumour.health == Health::kDead ? Health::kSuspect : rumour.health;
  const bool newer = rumour.incarnation > known.incarnation;
  const bool worse = rumour.incarnation == known.incarnation && heard > known.health;
  const bool final = heard == Health::kGone;
  if (newer || worse || final) SetHealth(known, heard, rumour.incarnation, now);
}

void Swim::HearAboutSelf(const Rumour& rumour) {
  if (rumour.health == Health::kGone) declared_gone_ = !leaving_;
  if (rumour.health == Health::kAlive || leaving_ || rumour.incarnation < incarnation_) return;
  incarnation_ = rumour.incarnation + 1;
  Spread({self_, Health::kAlive, incarnation_});
}

void Swim::SetHealth(Known& known, Health health, uint32_t incarnation, absl::Time now) {
  known.health = health;
  known.incarnation = std::max(known.incarnation, incarnation);
  known.deadline = absl::InfiniteFuture();
  known.answered = false;
  if (health == Health::kSuspect) known.deadline = now + SuspicionTime();
  if (health >= Health::kDead) known.deadline = now + options_.forget_after;
  if (probe_ && probe_->target.id == known.member.id && health >= Health::kDead) probe_.reset();
  changed_ = true;
  Spread({known.member, health, known.incarnation});
}

void Swim::Spread(const Rumour& rumour) {
  std::erase_if(queue_, [&](const Queued& q) { return q.rumour.member.id == rumour.member.id; });
  queue_.push_front({rumour, 0});
}

void Swim::SendTo(const std::string& address, SwimMessage message) {
  message.from = self_;
  AttachRumours(message);
  sends_.push_back({address, std::move(message)});
}

void Swim::AttachRumours(SwimMessage& message) {
  const bool whole =
      message.kind == SwimMessage::Kind::kPush || message.kind == SwimMessage::Kind::kPull;
  if (whole) return;
  const double n = static_cast<double>(known_.size()) + 2;
  const int limit = static_cast<int>(options_.retransmit_factor * std::ceil(std::log10(n)));
  const int count = std::min<int>(options_.rumours_per_packet, static_cast<int>(queue_.size()));
  for (int i = 0; i < count; ++i) {
    Queued queued = std::move(queue_.front());
    queue_.pop_front();
    message.rumours.push_back(queued.rumour);
    if (++queued.sent >= limit) continue;
    // Behind everything told as often or less.
    const auto place = std::find_if(queue_.begin(), queue_.end(),
                                    [&](const Queued& q) { return q.sent > queued.sent; });
    queue_.insert(place, std::move(queued));
  }
}

std::vector<Rumour> Swim::WholeTable() const {
  std::vector<Rumour> table = {{self_, leaving_ ? Health::kGone : Health::kAlive, incarnation_}};
  for (const auto& [id, known] : known_) {
    table.push_back({known.member, known.health, known.incarnation});
  }
  // Where there are more than a packet may tell of, those who live matter most.
  if (table.size() > kMembersMax) {
    std::stable_sort(table.begin(), table.end(), [](const Rumour& a, const Rumour& b) {
      return a.health < Health::kDead && b.health >= Health::kDead;
    });
    table.resize(kMembersMax);
  }
  return table;
}

void Swim::StartProbe(absl::Time now) {
  next_probe_ = now + options_.probe_period;
  while (true) {
    if (round_.empty()) {
      for (const GroupMember& member : Others(/*with_dead=*/false)) round_.push_back(member.id);
      if (round_.empty()) return;
      rng_.Shuffle(round_);
    }
    const MemberId next = round_.back();
    round_.pop_back();
    if (health(next) <= Health::kSuspect) return BeginProbeOf(known_.at(next).member, now);
  }
}

void Swim::BeginProbeOf(const GroupMember& target, absl::Time now) {
  probe_ =
      Probe{target, next_sequence_++, now + options_.probe_timeout, now + options_.probe_period};
  SendTo(target.address, Make(SwimMessage::Kind::kPing, probe_->sequence, target));
}

void Swim::AskOthers(absl::Time now) {
  probe_->ask_others = absl::InfiniteFuture();
  std::vector<GroupMember> others = Others(/*with_dead=*/false);
  std::erase_if(others, [&](const GroupMember& m) { return m.id == probe_->target.id; });
  rng_.Shuffle(others);
  const size_t count = std::min<size_t>(others.size(), options_.indirect_probes);
  for (size_t i = 0; i < count; ++i) {
    SendTo(others[i].address,
           Make(SwimMessage::Kind::kPingRequest, probe_->sequence, probe_->target));
  }
}

void Swim::MissProbe(const GroupMember& target, absl::Time now) {
  Known& known = known_.at(target.id);
  if (known.health != Health::kAlive) return;
  SetHealth(known, Health::kSuspect, known.incarnation, now);
  // Rumours reach most at once and some late, and a suspicion runs from when it was heard: the one
  // who proposes the next view must not be the last. In large groups, rumours must do.
  std::vector<GroupMember> others = Others(/*with_dead=*/false);
  rng_.Shuffle(others);
  if (others.size() > kToldMax) others.resize(kToldMax);
  const Rumour suspicion{known.member, known.health, known.incarnation};
  for (const GroupMember& other : others) {
    SendTo(other.address, Telling(SwimMessage::Kind::kGossip, {suspicion}));
  }
}

void Swim::Gossip() {
  std::vector<GroupMember> others = Others(/*with_dead=*/false);
  rng_.Shuffle(others);
  const size_t count = std::min<size_t>(others.size(), options_.gossip_fanout);
  for (size_t i = 0; i < count && !queue_.empty(); ++i) {
    SendTo(others[i].address, Make(SwimMessage::Kind::kGossip));
  }
}

// In turn with everyone ever heard of, so that halves find each other within n periods.
void Swim::PushPull() {
  std::set<std::string> addresses(seeds_.begin(), seeds_.end());
  if (!seeking_ || seeds_.empty()) {
    for (const GroupMember& member : Others(/*with_dead=*/true)) addresses.insert(member.address);
  }
  addresses.erase(self_.address);
  if (addresses.empty()) return;
  const auto choice = std::next(addresses.begin(), next_push_++ % addresses.size());
  SendTo(*choice, Telling(SwimMessage::Kind::kPush, WholeTable()));
}

void Swim::ExpireSuspicions(absl::Time now) {
  for (auto it = known_.begin(); it != known_.end();) {
    Known& known = it->second;
    const bool due = now >= known.deadline;
    if (due && known.health >= Health::kDead && kept_.contains(it->first)) {
      known.deadline = now + options_.forget_after;
    } else if (due && known.health >= Health::kDead) {
      it = known_.erase(it);
      continue;
    }
    if (due && known.health < Health::kDead && std::exchange(known.answered, false)) {
      known.deadline = now + SuspicionTime();
    } else if (due && known.health < Health::kDead) {
      SetHealth(known, Health::kDead, known.incarnation, now);
    }
    ++it;
  }
}

std::vector<GroupMember> Swim::Others(bool with_dead) const {
  std::vector<GroupMember> others;
  for (const auto& [id, known] : known_) {
    if (known.health <= (with_dead ? Health::kDead : Health::kSuspect)) {
      others.push_back(known.member);
    }
  }
  return others;
}

absl::Duration Swim::SuspicionTime() const {
  const double n = static_cast<double>(known_.size()) + 1;
  return options_.probe_period * options_.suspicion_factor * std::max(1.0, std::log10(n));
}

}  // namespace rubato

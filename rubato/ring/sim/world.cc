#include "rubato/ring/sim/world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

constexpr absl::Duration kLinkLease = absl::Seconds(2);

// Some bugs are the world's alone.
RingBug PeerBug(RingBug bug) {
  const bool of_peer = bug <= RingBug::kForgetPromises || bug == RingBug::kStayAhead;
  return of_peer ? bug : RingBug::kNone;
}

PeerOptions MakePeerOptions(const RingWorldOptions& options) {
  PeerOptions peer;
  peer.group = options.seed;
  peer.swim.push_pull_period = absl::Seconds(2);
  peer.views.quorum = options.quorum;
  peer.views.patience = absl::Seconds(2);
  peer.views.bug = PeerBug(options.bug);
  peer.views.tells_once = options.tells_once;
  peer.views.half_agrees = options.half_agrees;
  peer.issued = options.master;
  peer.bug = options.bug;
  return peer;
}

}  // namespace

RingWorld::RingWorld(RingWorldOptions options)
    : options_(options),
      rng_(Mix(options.seed)),
      checker_({.split_allowed = options.quorum == Quorum::kAny, .issued = options.master}) {
  const int count = options_.nodes > 0 ? options_.nodes : 2 + static_cast<int>(rng_.Below(6));
  loss_ = rng_.Chance(0.5) ? 0 : rng_.Uniform(0, 0.25);
  duplication_ = rng_.Chance(0.5) ? 0 : 0.1;
  slow_ = rng_.Chance(0.5) ? 0 : 0.1;
  paused_until_.assign(count + 1,
                       absl::InfinitePast());  // The master is the last.
  cut_.assign(count + 1, std::vector<bool>(count + 1, false));
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<RingNode>(i, Mix(options_.seed, i), MakePeerOptions(options_),
                                                *this, checker_));
    addresses.push_back(nodes_[i]->address());
  }
  memory_.bug = options_.bug;
  if (options_.master) StartMaster();
  if (options_.ends) last_step_ = 10 + static_cast<int64_t>(rng_.Below(50));
  nodes_[0]->Found(addresses);
  for (int i = 1; i < count; ++i) {
    At(now_ + absl::Seconds(rng_.Uniform(0, 3)), -1, [this, i, addresses] {
      if (!nodes_[i]->up() && !ended_.contains(i)) nodes_[i]->Join(addresses);
    });
  }
  if (options_.foundings) {
    At(now_ + absl::Seconds(rng_.Uniform(0, 8)), -1, [this] { FoundAgain(); });
  }
  ScheduleFault();
  if (options_.severed) {
    At(now_ + absl::Seconds(rng_.Uniform(0, 14)), -1, [this, count] {
      const int a = static_cast<int>(rng_.Below(count));
      const int b = static_cast<int>(rng_.Below(count));
      if (a != b) severed_ = std::minmax(a, b);
    });
  }
  At(now_ + options_.faults_for, -1, [this] { EndFaults(); });
}

RingWorld::~RingWorld() = default;

RingWorldResult RingWorld::Run() {
  // Whoever waits for others who may be gone takes its time to be sure of it.
  const absl::Duration patience = options_.agree_within * (options_.ends ? 3 : 1);
  const absl::Time deadline = now_ + options_.faults_for + patience;
  RingWorldResult result;
  while (!queue_.empty() && now_ < deadline && checker_.violation().empty()) {
    Step();
    if ((events_ % 64) == 0 && Decided()) break;
  }
  result.quorum_lost = !options_.ends && AllLost();
  if (checker_.violation().empty() && !Decided()) {
    checker_.Fail(RingRule::kAgreement,
                  absl::StrCat(options_.ends ? "someone waits for ever" : "no agreement",
                               " within the time allowed after the last fault", Describe()));
  }
  result.violation = checker_.violation();
  result.broken = checker_.broken();
  result.committed = checker_.committed();
  for (const auto& [founder, view] : checker_.newest()) result.views += view.number;
  result.foundings = checker_.foundings();
  for (const auto& [node, how] : ended_) {
    ++(how == LoopEnd::kDone ? result.done : how == LoopEnd::kTold ? result.told : result.lost);
  }
  result.forsaken = static_cast<int64_t>(forsaken_.size());
  result.events = events_;
  result.restarts = restarts_;
  result.orphans = orphans_;
  result.relearned = checker_.relearned();
  result.struck = struck_;
  result.fell_back = falls_;
  result.agreed_after = now_ - (absl::UnixEpoch() + options_.faults_for);
  return result;
}

void RingWorld::At(absl::Time time, int node, std::function<void()> what) {
  queue_.push({time, next_sequence_++, node, std::move(what)});
}

void RingWorld::Step() {
  // The queue's top is const only to protect its order, which moving the action does not touch.
  Event event = std::move(const_cast<Event&>(queue_.top()));
  queue_.pop();
  now_ = std::max(now_, event.time);
  if (event.node >= 0 && paused_until_[event.node] > now_) {
    return At(paused_until_[event.node], event.node, std::move(event.what));
  }
  ++events_;
  event.what();
  if (options_.orphans && struck_ == 0) StrikeHolder();
}

absl::Duration RingWorld::Delay() {
  const double ms = rng_.Uniform(0.2, 3) + (rng_.Chance(slow_) ? rng_.Exponential(150) : 0);
  return absl::Milliseconds(ms);
}

int RingWorld::NodeOf(const std::string& address) const { return address[1] - '0'; }

void RingWorld::SendPacket(int from, const std::string& to_address, const Packet& packet) {
  const int to = NodeOf(to_address);
  const int copies = rng_.Chance(duplication_) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (rng_.Chance(loss_)) continue;
    At(now_ + Delay(), to, [this, from, to, packet] {
      if (nodes_[to]->up() && !IsCut(from, to)) nodes_[to]->Receive(packet);
    });
  }
}

void RingWorld::SendBulk(int from, const std::string& to_address, const Bulk& bulk) {
  const int to = NodeOf(to_address);
  At(now_ + Delay(), to,
     [this, from, to, sent = now_, bulk] { DeliverBulk(from, to, sent, bulk); });
}

// A silent link holds bulk data back, as TCP does, until it heals or an end dies.
void RingWorld::DeliverBulk(int from, int to, absl::Time sent, const Bulk& bulk) {
  if (nodes_[to]->life() != bulk.to) return;
  const bool orphan = nodes_[from]->life() != bulk.from;
  if (orphan && !OutlivesSender(bulk)) return;
  if (IsCut(from, to) || IsCut(to, from)) {
    const bool awaited =
        std::holds_alternative<Part>(bulk.body) || std::holds_alternative<Vote>(bulk.body);
    if (awaited && !orphan && now_ >= sent + kLinkLease) ShowSilence(from, to, bulk);
    At(now_ + absl::Milliseconds(100), to,
       [this, from, to, sent, bulk] { DeliverBulk(from, to, sent, bulk); });
    return;
  }
  orphans_ += orphan;
  nodes_[to]->Receive(bulk);
}

void RingWorld::ShowSilence(int from, int to, const Bulk& bulk) {
  for (const auto& [node, other] : {std::pair(from, bulk.to), std::pair(to, bulk.from)}) {
    At(now_ + Delay(), node, [this, node = node, other = other, mark = bulk.mark] {
      if (nodes_[node]->up()) nodes_[node]->ReportSilent(other, mark);
    });
  }
}

// What a process has handed to its kernel goes out even if it dies, but not if its machine does,
// nor where there is no room for it: for each connection the seed decides.
bool RingWorld::OutlivesSender(const Bulk& bulk) const {
  const uint64_t connection =
      Mix(static_cast<uint64_t>(bulk.from.value()), static_cast<uint64_t>(bulk.to.value()));
  return Rng(Mix(options_.seed, connection)).Chance(0.5);
}

void RingWorld::SendReport(int from, const ViewReport& report) {
  const int copies = rng_.Chance(duplication_) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (rng_.Chance(loss_)) continue;
    At(now_ + Delay(), master(), [this, from, report] {
      if (!authority_ || cut_[from][master()]) return;
      const absl::Status taken = authority_->Receive(report, now_);
      if (!taken.ok()) checker_.Fail(RingRule::kJournal, std::string(taken.message()));
      SettleMaster();
    });
  }
}

// All that it remembers is the journal; under the planted bug, less.
void RingWorld::StartMaster() {
  AuthorityOptions options;
  options.patience = absl::Seconds(2);
  options.bug = PeerBug(options_.bug);
  if (options_.bug == RingBug::kForgetJournal && journal_.size() > 1) journal_.pop_back();
  authority_ = std::make_unique<ViewAuthority>(
      options, journal_.empty() ? GroupView() : journal_.back(), now_);
  for (const MemberId dead : exits_) authority_->Died(dead, now_);
  if (struck_ > 0 && heirs_until_ == absl::InfiniteFuture()) heirs_until_ = now_ + options.lease;
  SettleMaster();
}

void RingWorld::StopMaster() {
  authority_.reset();
  master_wake_ = absl::InfiniteFuture();
  paused_until_[master()] = absl::InfinitePast();
  ++restarts_;
  At(now_ + absl::Seconds(rng_.Exponential(1)), -1, [this] { StartMaster(); });
}

void RingWorld::SettleMaster() {
  for (const ViewAuthority::Decision& decision : authority_->TakeDecisions()) {
    journal_.push_back(decision.view);
  }
  for (const ViewAuthority::Send& send : authority_->TakeOrders()) {
    const int to = NodeOf(send.to.address);
    const int copies = rng_.Chance(duplication_) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (rng_.Chance(loss_)) continue;
      At(now_ + Delay(), to, [this, to, send] {
        const bool meant = nodes_[to]->life() == send.to.id;
        if (meant && !cut_[master()][to]) nodes_[to]->Receive(send.order);
      });
    }
  }
  WakeMaster(authority_->next_wake());
  FallBackIfBereft();
}

std::set<MemberId> RingWorld::LevelLearners(const GroupView& view) const {
  std::set<MemberId> level;
  for (const auto& node : nodes_) {
    if (!node->up() || node->peer().fenced() || !(node->peer().view() == view)) continue;
    if (!view.Holds(node->life()) && !node->peer().steps().learning()) level.insert(node->life());
  }
  return level;
}

void RingWorld::StrikeHolder() {
  if (!authority_ || journal_.empty() || journal_.back().holders != 1) return;
  const GroupView& view = journal_.back();
  const int holder = NodeOf(view.members[0].address);
  if (nodes_[holder]->life() != view.members[0].id) return;
  heirs_ = LevelLearners(view);
  if (heirs_.empty()) return;
  ++struck_;
  exits_.insert(nodes_[holder]->life());
  CauseDeath(holder);
  StopMaster();
}

void RingWorld::FallBackIfBereft() {
  const GroupView& view = authority_->view();
  const bool waits = authority_->AwaitsHeir() && options_.bug != RingBug::kHastyMaster;
  if (view.number == 0 || !authority_->bereft() || authority_->HasHeir() || waits) return;
  if (std::exchange(fell_back_, view.number) == view.number) return;
  ++falls_;
  for (const MemberId heir : LevelLearners(view)) {
    if (!heirs_.contains(heir) || now_ >= heirs_until_) continue;
    checker_.Fail(RingRule::kStateKept, absl::StrCat(view.ToString(), " is given up, although ",
                                                     heir.ToString(), " has its state"));
  }
}

void RingWorld::WakeMaster(absl::Time when) {
  if (when >= master_wake_) return;
  master_wake_ = when;
  At(when, master(), [this, when] {
    if (!authority_ || master_wake_ != when) return;
    master_wake_ = absl::InfiniteFuture();
    authority_->Tick(now_);
    SettleMaster();
  });
}

void RingWorld::After(int node, absl::Duration delay, std::function<void()> what) {
  At(now_ + delay, node, std::move(what));
}

void RingWorld::Wake(const GroupView& view) {
  for (const GroupMember& member : view.members) {
    const int node = NodeOf(member.address);
    At(now_ + Delay(), node, [this, node] {
      if (nodes_[node]->up()) nodes_[node]->Look();
    });
  }
}

void RingWorld::ScheduleFault() {
  At(now_ + absl::Seconds(rng_.Exponential(0.9)), -1, [this] {
    if (faults_over_) return;
    CauseFault();
    ScheduleFault();
  });
}

void RingWorld::CauseFault() {
  // With a master, it is one more whose links and sleep can fail, and who can be restarted.
  const int count = static_cast<int>(nodes_.size()) + (options_.master ? 1 : 0);
  const int node = static_cast<int>(rng_.Below(count));
  const int other = static_cast<int>(rng_.Below(count));
  const absl::Time heal = now_ + absl::Seconds(rng_.Exponential(1.5));
  const uint64_t kind = rng_.Below(8);
  if (node == master() && (kind < 2 || kind == 7)) {
    if (authority_) StopMaster();
    return;
  }
  switch (kind) {
    case 0:
    case 1:
      // Mostly spare the groups that would end here, or few would live to see more.
      if (nodes_[node]->up() && (!QuorumLost(node) || rng_.Chance(0.05))) CauseDeath(node);
      return;
    case 2:
    case 3:
      paused_until_[node] = heal;
      return;
    case 4:  // One direction of one link.
      if (node == other) return;
      cut_[node][other] = true;
      return At(heal, -1, [this, node, other] { cut_[node][other] = false; });
    case 5:
    case 6: {  // Two sides that do not hear each other.
      const uint64_t side = rng_.Next();
      for (int a = 0; a < count; ++a) {
        for (int b = 0; b < count; ++b) {
          if (((side >> a) & 1) == ((side >> b) & 1)) continue;
          cut_[a][b] = true;
          At(heal, -1, [this, a, b] { cut_[a][b] = false; });
        }
      }
      return;
    }
    default:
      if (nodes_[node]->up() && nodes_[node]->peer().member()) nodes_[node]->Leave();
  }
}

void RingWorld::CauseDeath(int node) {
  const MemberId dead = nodes_[node]->life();
  const bool proven = rng_.Chance(0.5);
  nodes_[node]->Die();
  gone_.insert(dead);
  paused_until_[node] = absl::InfinitePast();
  ShowDeath(node, dead, proven);
  if (options_.master && rng_.Chance(0.5)) {  // Its parent sees it too.
    At(now_ + Delay(), master(), [this, dead] {
      exits_.insert(dead);
      if (!authority_) return;
      authority_->Died(dead, now_);
      SettleMaster();
    });
  }
  const auto revive = [this, node] {
    if (nodes_[node]->up() || ended_.contains(node)) return;
    std::vector<std::string> addresses;
    for (const auto& other : nodes_) addresses.push_back(other->address());
    nodes_[node]->Join(addresses);
  };
  At(now_ + absl::Seconds(rng_.Exponential(2)), -1, revive);
}

void RingWorld::ShowDeath(int node, MemberId dead, bool proven) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int other = static_cast<int>(i);
    if (other == node || !rng_.Chance(0.5) || IsCut(node, other)) continue;
    At(now_ + Delay(), static_cast<int>(i), [this, i, dead, proven] {
      if (nodes_[i]->up()) nodes_[i]->ReportLost(dead, proven);
    });
  }
}

// By hand, or from a checkpoint in the place of one that has just died.
void RingWorld::FoundAgain() {
  const int node = 1 + static_cast<int>(rng_.Below(nodes_.size() - 1));
  if (ended_.contains(node)) return;
  if (nodes_[node]->up()) CauseDeath(node);
  std::vector<std::string> addresses;
  for (const auto& other : nodes_) addresses.push_back(other->address());
  nodes_[node]->Found(addresses);
}

void RingWorld::EndFaults() {
  faults_over_ = true;
  loss_ = std::min(loss_, 0.05);
  slow_ = 0;
  for (auto& row : cut_) std::fill(row.begin(), row.end(), false);
  std::fill(paused_until_.begin(), paused_until_.end(), now_);
}

std::string RingWorld::Describe() const {
  std::string text = options_.ends ? absl::StrCat("; the last step is ", last_step_) : "";
  for (const auto& node : nodes_) {
    absl::StrAppend(&text, "; ", node->address(), " ");
    if (!node->up()) {
      absl::StrAppend(&text, "down");
      continue;
    }
    const Peer& peer = node->peer();
    absl::StrAppend(&text, peer.self().id.ToString(), " ", peer.view().ToString(), ", finished ",
                    peer.steps().finished(), peer.frozen() ? ", frozen" : "",
                    peer.fenced() ? ", fenced" : "", peer.steps().learning() ? ", learning" : "",
                    node->closing() ? ", closing" : "", ", sees ", peer.swim().Living().size());
  }
  return text;
}

// All that are up hold the state, within a step of the others of their founding and in one view
// with them; but for those of a founding that cannot go on, and for newcomers if there is no other.
bool RingWorld::Agreed() const {
  const std::map<uint64_t, bool> lost = LostFoundings(-1);
  std::map<std::pair<uint64_t, bool>, const RingNode*> first;
  const bool split = SplitForGood();
  for (const auto& node : nodes_) {
    if (!node->up()) continue;
    const auto founding = lost.find(FoundingOf(*node));
    if (node->peer().member() && founding != lost.end() && founding->second) continue;
    if (MadeRoom(NodeOf(node->address()))) continue;
    if (!node->peer().holder() || node->peer().frozen()) return false;
    const bool apart = split && NodeOf(node->address()) == severed_.first;
    const RingNode* const other =
        first.try_emplace({FoundingOf(*node), apart}, node.get()).first->second;
    if (!(node->peer().view() == other->peer().view())) return false;
    const int64_t ahead = node->peer().steps().finished() - other->peer().steps().finished();
    if (ahead < -1 || ahead > 1) return false;
    if (node->peer().steps().finished() < node->peer().view().step + 2) return false;
  }
  return !first.empty();
}

bool RingWorld::MadeRoom(int node) const {
  if (node != severed_.first && node != severed_.second) return false;
  const RingNode& other = *nodes_[node == severed_.first ? severed_.second : severed_.first];
  const Peer& peer = nodes_[node]->peer();
  if (!other.up() || !other.peer().holder() || other.peer().frozen()) return false;
  if (SplitForGood()) return false;
  const GroupView& view = other.peer().view();
  // One that is in, and learns, may ask others who hold the state.
  return !view.Holds(peer.self().id) && (!view.Contains(peer.self().id) || view.holders == 1);
}

bool RingWorld::SplitForGood() const {
  if (severed_.first < 0 || options_.quorum != Quorum::kAny || options_.master) return false;
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    const int index = NodeOf(node->address());
    const bool end = index == severed_.first || index == severed_.second;
    return node->up() == end && (!end || (node->peer().holder() && !node->peer().frozen()));
  });
}

bool RingWorld::Decided() const {
  if (options_.ends) return (faults_over_ || ended_.size() == nodes_.size()) && AllEnded();
  return faults_over_ && (Agreed() || AllLost());
}

bool RingWorld::QuorumLost(int without) const {
  const std::map<uint64_t, bool> lost = LostFoundings(without);
  return lost.empty() ||
         std::any_of(lost.begin(), lost.end(), [](auto& one) { return one.second; });
}

bool RingWorld::AllLost() const {
  const std::map<uint64_t, bool> lost = LostFoundings(-1);
  return std::all_of(lost.begin(), lost.end(), [](auto& one) { return one.second; });
}

// Whether some view that a living member sits in, or the newest one used, has lost its majority:
// then nobody may go on, and nobody can be asked to. With a master, its newest view counts; where
// any quorum will do, whether someone holds a view.
std::map<uint64_t, bool> RingWorld::LostFoundings(int without) const {
  if (options_.master) {
    // No view by then: the founder died before it could found anything.
    return {{0, journal_.empty() ? faults_over_ : TooFewHold(journal_.back(), without)}};
  }
  const MemberId dying = without < 0 ? MemberId() : nodes_[without]->life();
  std::map<uint64_t, bool> lost;
  const auto look = [&](uint64_t founding, const GroupView& view) {
    lost[founding] = lost[founding] || TooFewHold(view, without);
  };
  for (const auto& node : nodes_) {
    if (!node->up() || !node->peer().member()) continue;
    if (options_.quorum == Quorum::kAny) {  // One who holds the state is enough, in whatever view.
      bool& dead = lost.try_emplace(FoundingOf(*node), true).first->second;
      dead = dead && (!node->HasState() || node->life() == dying);
      continue;
    }
    look(FoundingOf(*node), node->peer().view());
    // Decided, though perhaps none of it lived to hear so.
    if (node->peer().parting() != nullptr) look(FoundingOf(*node), *node->peer().parting());
  }
  for (const auto& [founding, view] : checker_.newest()) look(founding, view);
  return lost;
}

// Where a majority must agree, whoever fell out or left without dying counts as there: it may do so
// only when the others have what they need to go on.
bool RingWorld::TooFewHold(const GroupView& view, int without) const {
  const bool one_is_enough = options_.master || options_.quorum == Quorum::kAny;
  const MemberId dying = without < 0 ? MemberId() : nodes_[without]->life();
  std::set<MemberId> there, lives;
  for (int rank = 0; rank < view.holders; ++rank) {
    const MemberId holder = view.members[rank].id;
    if (holder != dying && !gone_.contains(holder)) there.insert(holder);
  }
  for (const auto& node : nodes_) {
    if (node->up() && !node->peer().fenced() && there.contains(node->life())) {
      lives.insert(node->life());
    }
  }
  if (one_is_enough) return lives.empty();
  // Where both ends of the dead link are needed, they may not be able to agree.
  const auto suffice = [&](int missing) {
    std::set<MemberId> others = there;
    if (missing >= 0) others.erase(nodes_[missing]->life());
    return view.IsMajority(others);
  };
  return !suffice(severed_.first) && !suffice(severed_.second);
}

}  // namespace rubato

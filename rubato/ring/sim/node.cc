#include "rubato/ring/sim/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/ring/quota.h"

namespace rubato {
namespace {

constexpr uint32_t kChunkBytes = 3;  // Eight bytes of state: three chunks.
// Bytes are steps here: of every second node so few that most are kept elsewhere.
constexpr size_t kKeptMin = 1, kKeptMax = 1000;
// Sums that one which copies the state applies between two steps, at most.
constexpr int kAppliedMax = 2;
constexpr absl::Duration kAskAgain = absl::Milliseconds(80);

}  // namespace

bool SharedMemory::AllVoted(const Ballot& ballot, const GroupView& view) const {
  const auto votes = votes_.find(ballot);
  return votes != votes_.end() && static_cast<int>(votes->second.size()) == view.size();
}

bool SharedMemory::AllCame(const Ballot& ballot, const GroupView& view) const {
  const auto votes = votes_.find(ballot);
  return std::all_of(view.members.begin(), view.members.end(), [&](const GroupMember& member) {
    const auto mark = marks_.find(member.id);
    const bool voted = votes != votes_.end() && votes->second.contains(member.id);
    return (mark != marks_.end() && mark->second == ballot) ||
           (voted && bug != RingBug::kVoteMissed);
  });
}

Sum SharedMemory::SumOf(const Ballot& ballot) const {
  Sum sum(kSumElements, 0);
  for (const auto& [member, part] : parts_.at(ballot)) {
    for (int i = 0; i < kSumElements; ++i) sum[i] += part[i];
  }
  return sum;
}

bool SharedMemory::Withdraw(const Ballot& ballot, const GroupView& view) {
  const bool stands = AllVoted(ballot, view);
  if (!stands && bug != RingBug::kVotesStay) withdrawn_.insert(ballot);
  return stands;
}

RingNode::RingNode(int index, uint64_t seed, PeerOptions options, Wires& wires,
                   RingChecker& checker)
    : index_(index),
      options_(options),
      rng_(seed),
      wires_(wires),
      checker_(checker),
      kept_(seed % 2 == 0 ? kKeptMax : kKeptMin) {}

std::string RingNode::address() const { return absl::StrCat("n", index_); }

void RingNode::Begin(std::vector<std::string> seeds) {
  if (peer_ && peer_->holder() && !peer_->fenced()) checker_.Forgets(life(), peer_->view());
  if (peer_) company_.Note(*peer_, wires_.now());
  ++epoch_;
  const MemberId id(static_cast<int64_t>(rng_.Next() >> 1));
  peer_ = std::make_unique<Peer>(GroupMember{id, address()}, options_, rng_.Next());
  timer_ = absl::InfiniteFuture();
  weights_ = Mix(rng_.Next());  // Worthless until copied.
  history_.clear();
  confirmed_ = believed_ = -1;
  unconfirmed_.clear();
  finished_in_.clear();
  work_.reset();
  parts_.clear();
  early_votes_.clear();
  snapshots_.clear();
  askers_.clear();
  DropCopy();
  seeds_ = std::move(seeds);
}

void RingNode::Found(std::vector<std::string> others) {
  Begin(std::move(others));
  history_[0] = weights_;
  checker_.Founded(life(), weights_);
  confirmed_ = 0;
  peer_->Found(0, wires_.now());
  if (wires_.last_step() >= 0) LookForCompany();
  Settle();
}

void RingNode::Join(std::vector<std::string> addresses) {
  Begin(addresses);
  peer_->Join(std::move(addresses), wires_.now());
  if (wires_.last_step() >= 0) LookForCompany();
  Settle();
}

void RingNode::Die() {
  ++epoch_;
  peer_.reset();
  company_ = Company();
  leaving_ = false;
  closing_since_ = absl::InfiniteFuture();
}

void RingNode::Leave() {
  leaving_ = true;
  peer_->Leave(wires_.now());
  Settle();
}

void RingNode::ReportLost(MemberId member, bool proven) {
  const LossReason reason = proven ? LossReason::kProcess : LossReason::kSocket;
  peer_->ReportLost(member, reason, wires_.now());
  Settle();
}

void RingNode::ReportSilent(MemberId member, uint64_t view) {
  if (!peer_->member() || peer_->view().Mark() != view || peer_->frozen()) return;
  peer_->ReportLost(member, LossReason::kLink, wires_.now());
  peer_->Complain(wires_.now());
  Settle();
}

void RingNode::Receive(const Packet& packet) {
  peer_->Receive(packet, wires_.now());
  Settle();
}

void RingNode::Receive(const ViewOrder& order) {
  peer_->Receive(order, wires_.now());
  Settle();
}

void RingNode::Receive(const Bulk& bulk) {
  if (FenceOf(bulk.view) < FenceOf(peer_->view().number)) return;
  if (const auto* part = std::get_if<Part>(&bulk.body)) {
    parts_[{FenceOf(bulk.view), MarkOf(bulk.mark), part->step, bulk.from, part->index}] =
        part->values;
    Advance();
  } else if (const auto* vote = std::get_if<Vote>(&bulk.body)) {
    early_votes_.emplace_back(bulk.from, MarkOf(bulk.mark), *vote);
    CastVotes();
  } else if (MarkOf(bulk.mark) != MarkOf(mark_)) {
    return;  // The state of another view; it is asked for again.
  } else if (const auto* request = std::get_if<StateRequest>(&bulk.body)) {
    ServeState(bulk.from, *request);
  } else {
    StateChunk chunk = std::get<StateChunk>(bulk.body);
    if (rng_.Chance(0.02) && !chunk.bytes.empty()) chunk.bytes[0] ^= 1;  // Bits do flip.
    // One that is damaged is asked for again.
    if (bulk.from == sources_.source() && sink_) sink_->Take(chunk).IgnoreError();
  }
  Settle();
}

// Without fencing, the view of a message says nothing.
uint64_t RingNode::FenceOf(uint64_t view) const {
  return options_.views.bug == RingBug::kNoFencing ? 0 : view;
}

uint64_t RingNode::MarkOf(uint64_t mark) const {
  return options_.views.bug == RingBug::kNoFencing ? 0 : mark;
}

void RingNode::Settle() {
  std::vector<Peer::Send> sends = peer_->TakeSends();
  for (const Peer::Send& send : sends) {  // What was said comes before what was made of it.
    if (const auto* said = std::get_if<ViewMessage>(&send.packet.body)) checker_.Said(*said);
  }
  for (const Peer::Event& event : peer_->TakeEvents()) {
    Handle(event);
    if (event.kind == Peer::Event::Kind::kFenced) return;  // This life is over.
  }
  company_.Note(*peer_, wires_.now());
  if (peer_->member() && company_.Finished()) checker_.Told(life(), peer_->view());
  const std::vector<Peer::Send> more = peer_->TakeSends();
  sends.insert(sends.end(), more.begin(), more.end());
  for (const Peer::Send& send : sends) wires_.SendPacket(index_, send.to, send.packet);
  if (const std::optional<ViewReport> report = peer_->TakeReport(wires_.now())) {
    wires_.SendReport(index_, *report);
  }
  if (confirmed_ > believed_ && history_.contains(confirmed_)) {
    believed_ = confirmed_;
    checker_.Believes(life(), peer_->view(), confirmed_, history_[confirmed_]);
  }
  if (closing() && peer_->MayGo(wires_.now())) return End(LoopEnd::kDone);
  ArmTimer();
}

void RingNode::ArmTimer() {
  const absl::Time wake = std::max(peer_->next_wake(), wires_.now() + absl::Milliseconds(1));
  if (wake >= timer_) return;
  timer_ = wake;
  wires_.After(index_, wake - wires_.now(), [this, wake, me = life()] {
    if (!peer_ || life() != me || timer_ != wake) return;
    timer_ = absl::InfiniteFuture();
    peer_->Tick(wires_.now());
    Settle();
  });
}

void RingNode::Handle(const Peer::Event& event) {
  switch (event.kind) {
    case Peer::Event::Kind::kFrozen:
      // StepGate refuses from now on; the sum in hand is kept for the verdict.
      return AskAgain();
    case Peer::Event::Kind::kView:
      return EnterView(event);
    case Peer::Event::Kind::kDenied:
      return;  // Here everyone may open everything.
    case Peer::Event::Kind::kFenced:
      if (leaving_ && event.view.size() == 1) wires_.Gone(life());
      if (leaving_) return Die();
      checker_.LeftBehind(life(), event.view);
      if (closing()) return End(LoopEnd::kDone);  // Nothing that it knows is needed any more.
      return Join(seeds_);
  }
}

// Commit gives up after a while, and is called again.
void RingNode::AskAgain() {
  wires_.After(index_, kAskAgain, [this, epoch = epoch_] {
    if (epoch == epoch_ && work_) work_->asked = true;
  });
}

void RingNode::EnterView(const Peer::Event& event) {
  ++epoch_;
  mark_ = event.view.Mark();
  if (event.verdict == Verdict::kCopy)
    unconfirmed_.clear();  // What it had applied early is nobody's.
  Confirm(event.view.step);
  const bool decided = event.verdict == Verdict::kFinish && work_;
  // Whoever stops waiting looks once more.
  if (work_ && work_->pledged && wires_.memory()->AllCame(ballot(), working_view_)) {
    work_->sum = wires_.memory()->SumOf(ballot());
    work_->reduced = true;
  }
  if (decided && work_->asked && wires_.loop_bug() == RingBug::kAskedAgain) return Join(seeds_);
  if (decided && !peer_->steps().learning()) Apply(working_view_, event.view.step, work_->sum);
  if (decided && peer_->steps().learning()) Keep(working_view_, event.view.step, work_->sum);
  if (decided) finished_in_[event.view.step] = working_view_;
  if (event.verdict == Verdict::kCopy) finished_in_.clear();  // The group's may be others.
  work_.reset();
  std::erase_if(parts_, [&](const auto& part) {
    return std::get<0>(part.first) < FenceOf(event.view.number);
  });
  std::erase_if(early_votes_, [&](const auto& vote) {
    return FenceOf(std::get<Vote>(vote).view) < FenceOf(event.view.number);
  });
  checker_.ViewUsed(life(), event.view, weights_);
  if (event.view.Holds(life())) DropCopy();
  std::erase_if(snapshots_, [&](const auto& entry) {
    if (event.verdict == Verdict::kCopy) return true;  // Of a state that is nobody's.
    return !event.view.Contains(entry.first) || event.view.Holds(entry.first);
  });
  const bool copies = (sink_ || reached_ >= 0) && event.view.Holds(sources_.source());
  if (event.verdict == Verdict::kCopy || (peer_->steps().learning() && !copies)) StartCopy();
  // The first barrier of the view.
  if (wires_.memory() != nullptr) {
    Soon([this] { wires_.memory()->Mark({mark_, 0}, life()); });
  }
  StartStep();
}

void RingNode::ServeState(MemberId learner, const StateRequest& request) {
  if (!peer_->holder() || RankOf(learner) < 0) return;
  const std::shared_ptr<StateSnapshot>& snapshot = snapshots_[learner];
  if (!snapshot || snapshot->step() < request.min_step) {
    askers_[learner] = {mark_, request};
    return;
  }
  absl::StatusOr<StateChunk> chunk = StateSource(snapshot).Serve(request);
  if (chunk.ok()) SendTo(RankOf(learner), *std::move(chunk));
}

void RingNode::ServeAskers() {
  for (const auto& [learner, asked] : std::exchange(askers_, {})) {
    const auto& [mark, request] = asked;
    const int64_t step = peer_->steps().finished();
    if (mark != mark_ || !peer_->holder() || step < request.min_step) continue;
    snapshots_[learner] = std::make_shared<StateSnapshot>(
        step, State(),
        // Each chunk is copied when it is asked for, or when the weights are about to change.
        StateSnapshot::Options{.piece_bytes = kChunkBytes, .small_bytes = 0});
    ServeState(learner, request);
  }
}

void RingNode::BeforeChange() {
  if (wires_.loop_bug() == RingBug::kTornSnapshot) return;
  for (const auto& [learner, snapshot] : snapshots_) {
    if (snapshot) snapshot->BeforeChange(State().front());
  }
}

void RingNode::StartStep() {
  const int64_t step = peer_->steps().finished() + 1;
  const GroupView& view = peer_->view();
  if (Closes()) return;
  ServeAskers();
  if (peer_->steps().learning() && CatchUp()) {
    // Loading takes a while, in which the view may end; the peer is told then, and the step begins.
    Soon(
        [this, epoch = epoch_, mark = mark_, step] {
          peer_->CatchUp(mark, step - 1, wires_.now());
          if (epoch == epoch_) StartStep();
          Settle();
        },
        absl::Milliseconds(10));
    return;
  }
  if (!peer_->StartStep(mark_, step, wires_.now())) return;
  working_view_ = view;
  work_.emplace();
  work_->step = step;
  const absl::Duration compute = absl::Milliseconds(20) + absl::Seconds(rng_.Exponential(0.08));
  wires_.After(index_, compute, [this, epoch = epoch_, step] {
    if (epoch == epoch_ && peer_ && work_ && work_->step == step) {
      Compute();
      Advance();
      Settle();
    }
  });
}

void RingNode::Compute() {
  const GroupView& view = peer_->view();
  const int rank = RankOf(life());
  const std::vector<float> speeds(view.size(), 0.0f);
  work_->sum.assign(kSumElements, 0);
  if (view.holders > 0) {
    const Quota quota = DealMicrobatches(kMicrobatches, speeds, view.holders)[rank];
    for (int i = quota.begin; i < quota.end; ++i) {
      for (int e = 0; e + 1 < kSumElements; ++e) {
        work_->sum[e] += GradientOf(weights_, work_->step, i, e);
      }
    }
  }
  if (rank == 0) work_->sum[kSumElements - 1] = Mix(view.number, work_->step);
  const auto algorithm = static_cast<Algorithm>(options_.group % 3);
  work_->plan = MakePlan(algorithm, rank, view.size(), kSumElements);
  work_->votes.emplace(view.number, work_->step, rank, view.size());
  work_->computed = true;
  if (wires_.memory() != nullptr) Pledge();
}

void RingNode::Soon(std::function<void()> what, absl::Duration mean) {
  const absl::Duration delay = mean * rng_.Exponential(1);
  wires_.After(index_, delay, [this, me = life(), what = std::move(what)] {
    if (life() == me) what();
  });
}

// What others may count from now on is known to the peer before they can: another event in between
// may make it let go.
void RingNode::Pledge() {
  const auto withdraw = [this, ballot = ballot(), view = working_view_] {
    return wires_.memory()->Withdraw(ballot, view);
  };
  if (!peer_->Pledge(working_view_.Mark(), work_->step, withdraw)) return;
  work_->pledged = true;
  // In this order, as in SharedSlots, and even if the view ends meanwhile: the thread that writes
  // has not heard of it.
  Soon([this, was = ballot(), sum = work_->sum, view = working_view_] {
    wires_.memory()->Write(was, life(), sum);
    Soon([this, was, view] {
      wires_.memory()->Vote(was, life());
      wires_.Wake(view);
      Soon([this, was, view] {
        wires_.memory()->Mark(was, life());
        wires_.Wake(view);
      });
    });
  });
}

// First whether all have voted; then, a moment later, whether anyone took its vote back.
void RingNode::Look() {
  if (!work_ || !work_->pledged || work_->reduced) return;
  if (!wires_.memory()->AllCame(ballot(), working_view_)) return;
  work_->sum = wires_.memory()->SumOf(ballot());
  work_->reduced = true;
  const absl::Duration delay = absl::Milliseconds(rng_.Exponential(2));
  wires_.After(index_, delay, [this, epoch = epoch_, step = work_->step] {
    if (epoch != epoch_ || !peer_ || !work_ || work_->step != step) return;
    if (wires_.memory()->AnyWithdrawn(ballot())) return;
    FinishStep();
    Settle();
  });
}

// Goes through the plan as far as what has arrived allows.
void RingNode::Advance() {
  if (!work_ || !work_->computed || work_->reduced || wires_.memory() != nullptr) return;
  const GroupView& view = peer_->view();
  while (work_->stage < work_->plan.size()) {
    const Exchange& stage = work_->plan[work_->stage];
    if (stage.send_to >= 0 && !work_->sent) {
      Sum values(work_->sum.begin() + stage.send.begin, work_->sum.begin() + stage.send.end);
      SendTo(stage.send_to, Part{work_->step, work_->sent_to[stage.send_to]++, std::move(values)});
    }
    work_->sent = true;
    if (stage.receive_from >= 0) {
      const MemberId from = view.members[stage.receive_from].id;
      const auto part = parts_.find({FenceOf(view.number), MarkOf(mark_), work_->step, from,
                                     work_->received_from[stage.receive_from]});
      if (part == parts_.end()) return;
      // Longer than what is due only without fencing, when it is of another view.
      const auto due = static_cast<size_t>(stage.receive.end - stage.receive.begin);
      for (size_t i = 0; i < std::min(part->second.size(), due); ++i) {
        uint64_t& to = work_->sum[stage.receive.begin + static_cast<int64_t>(i)];
        to = (stage.reduce ? to : 0) + part->second[i];
      }
      ++work_->received_from[stage.receive_from];
      parts_.erase(part);
    }
    ++work_->stage;
    work_->sent = false;
  }
  Reduced();
}

// Early, the sum of a step says that all have the one before.
void RingNode::Reduced() {
  const bool early = wires_.applies_early();
  const bool believes = wires_.loop_bug() == RingBug::kBelieveEarly;
  if (early && !believes) Confirm(work_->step - 1);
  if (!peer_->Vote(mark_, work_->step, wires_.now())) return;
  work_->reduced = true;
  if (early) return FinishStep();
  work_->votes->Cast(1);
  CastVotes();
}

void RingNode::CastVotes() {
  if (!work_ || !work_->votes) return;
  for (auto it = early_votes_.begin(); it != early_votes_.end();) {
    auto [sender, mark, vote] = *it;
    const int from = RankOf(sender);
    if (options_.views.bug == RingBug::kNoFencing) {
      vote.view = peer_->view().number;
      vote.speeds.resize(peer_->view().size());
    }
    const bool taken = from >= 0 && mark == MarkOf(mark_) && work_->votes->Hear(from, vote);
    it = taken ? early_votes_.erase(it) : std::next(it);
  }
  for (const VoteTree::Send& send : work_->votes->TakeSends()) SendTo(send.to, send.vote);
  if (work_->reduced && work_->votes->complete()) FinishStep();
}

void RingNode::FinishStep() {
  const uint64_t mark = working_view_.Mark();
  const int64_t step = work_->step;
  const Sum sum = work_->sum;
  const bool learning = peer_->steps().learning();
  const GroupView view = working_view_;
  if (!peer_->FinishStep(mark, step, wires_.now())) return;
  if (!wires_.applies_early() || wires_.loop_bug() == RingBug::kBelieveEarly) Confirm(step);
  work_.reset();
  finished_in_[step] = view;
  if (finished_in_.size() > 64) finished_in_.erase(finished_in_.begin());
  if (learning) {
    Keep(view, step, sum);
  } else {
    Apply(view, step, sum);
  }
  if (peer_->view().Mark() == mark) StartStep();
}

void RingNode::Apply(const GroupView& view, int64_t step, const Sum& sum) {
  checker_.Applied(life(), view, step, weights_, sum);
  BeforeChange();
  weights_ = ApplySum(weights_, sum);
  history_[step] = weights_;
  if (history_.size() > 16) history_.erase(history_.begin());
  unconfirmed_[step] = {view, weights_};
  Confirm(confirmed_);
}

void RingNode::Confirm(int64_t step) {
  confirmed_ = std::max(confirmed_, step);
  while (!unconfirmed_.empty() && unconfirmed_.begin()->first <= confirmed_) {
    const auto& [first, how] = *unconfirmed_.begin();
    checker_.Committed(how.first, first, how.second);
    unconfirmed_.erase(unconfirmed_.begin());
  }
}

void RingNode::StartCopy() {
  const GroupView& view = peer_->view();
  DropCopy();
  history_.clear();
  unconfirmed_.clear();
  ++copies_;
  if (sources_.Begin(view, life())) CopyFrom(view.step);
}

void RingNode::CopyFrom(int64_t step) {
  ++copies_;
  sink_.emplace(step, kChunkBytes);
  AskForState();
}

void RingNode::AskForState() {
  const int source = RankOf(sources_.source());
  if (!sink_ || source < 0) return;
  for (const StateRequest& request : sink_->Want(2)) SendTo(source, request);
  wires_.After(index_, kAskAgain, [this, epoch = copies_] {
    if (peer_ && epoch == copies_ && sink_) AskForState();
  });
}

void RingNode::Keep(const GroupView& view, int64_t step, const Sum& sum) {
  kept_.Keep(step, {view, sum}, kept_.full() ? 0 : 1);
}

void RingNode::DropCopy() {
  sink_.reset();
  kept_.Clear();
  reached_ = -1;
}

bool RingNode::UseSnapshot() {
  if (!sink_) return false;
  // Under the planted bug it is taken for that of the step before.
  const int64_t last = wires_.loop_bug() == RingBug::kApplyAgain ? 1 : 0;
  if (sink_->step() >= 0) kept_.Began(sink_->step() - last);
  const int64_t finished = peer_->steps().finished();
  if (!sink_->complete() && sources_.InVain(finished, sink_->bytes(), wires_.now())) {
    kept_.Clear();  // No later snapshot can need steps up to here.
    if (sources_.Next(peer_->view(), life())) CopyFrom(finished);
    return false;
  }
  if (!sink_->complete() || sink_->step() > finished) return false;
  BeforeChange();
  weights_ = ByteReader(sink_->TakeSnapshot()).Get<Weights>();
  history_.clear();
  reached_ = sink_->step();
  history_[reached_] = weights_;
  const auto in = finished_in_.find(reached_);
  if (in != finished_in_.end()) unconfirmed_[reached_] = {in->second, weights_};
  sink_.reset();
  return true;
}

bool RingNode::CatchUp() {
  if (reached_ < 0 && !UseSnapshot()) return false;
  for (int applied = 0; !kept_.empty(); ++applied) {
    if (applied == kAppliedMax) return false;
    const auto [step, kept] = kept_.TakeFirst();
    Apply(kept.first, step, kept.second);
    reached_ = step;
  }
  DropCopy();
  Confirm(confirmed_);
  return true;
}

void RingNode::SendTo(int rank, std::variant<Part, Vote, StateRequest, StateChunk> body) {
  const GroupMember& to = peer_->view().members[rank];
  wires_.SendBulk(index_, to.address,
                  {life(), to.id, peer_->view().number, mark_, std::move(body)});
}

}  // namespace rubato

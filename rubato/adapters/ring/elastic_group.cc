#include "rubato/adapters/ring/elastic_group.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/control_loop.h"
#include "rubato/adapters/ring/reducer.h"
#include "rubato/adapters/ring/shared_slots.h"
#include "rubato/adapters/ring/state_exchange.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/ring/straggler.h"

namespace rubato {
namespace {

SwimOptions SwimFor(GroupNetwork network) {
  switch (network) {
    case GroupNetwork::kLoopback:
      return SwimOptions::Loopback();
    case GroupNetwork::kLan:
      return SwimOptions::Lan();
    case GroupNetwork::kWan:
      return SwimOptions::Wan();
  }
  return SwimOptions::Lan();
}

ViewOptions ViewsFor(const GroupOptions& options, const SwimOptions& swim) {
  ViewOptions views;
  views.quorum = options.quorum;
  views.retry = swim.probe_timeout / 4;
  // A worker without a core for a moment must not be dropped for it. On one machine the dead are
  // known by their processes; elsewhere silence may be all there is.
  const int patience = options.network == GroupNetwork::kLan ? 4 : 2;
  views.promise_timeout = swim.probe_period * patience;
  views.takeover = swim.probe_period * (patience + patience / 2);
  views.gather = swim.gossip_period;
  return views;
}

constexpr const char* kWires[] = {"fp32", "bf16", "fp16"};  // By WireFormat.

std::string ContractOf(const GroupOptions& options) {
  std::vector<size_t> sizes;
  for (const absl::Span<char> piece : options.state) sizes.push_back(piece.size());
  return absl::StrCat("name: ", options.name, "\nmicrobatches: ", options.microbatches,
                      "\nwire: ", kWires[static_cast<int>(options.wire)],
                      "\nbytes of state: ", absl::StrJoin(sizes, " + "), "\n",
                      options.early_apply ? "steps: applied early\n" : "", options.contract);
}

class Group : public ElasticGroup {
 public:
  explicit Group(GroupOptions options) : options_(std::move(options)) {}
  ~Group() override {
    if (exchange_) exchange_->Drop();
    if (control_) control_->Halt();
    reducer_.reset();
  }

  absl::Status Start();
  absl::StatusOr<StepPlan> BeginStep(absl::Duration timeout) override;
  absl::Status Allreduce(absl::Span<float> values) override;
  absl::Status AllreduceLast(absl::Span<float> values) override;
  void StartAllreduce(absl::Span<float> values) override;
  absl::Status Wait() override;
  void DoNotMeasure() override { measured_ = false; }
  absl::Status AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Barrier() override;
  absl::StatusOr<bool> Commit() override;
  int64_t step() const override { return applied_; }
  int64_t committed() const override { return committed_; }
  GroupView view() const override { return view_; }
  bool learning() const override { return learning_; }
  std::string address() const override { return absl::StrCat(self_.host, ":", self_.port); }
  ChangeTimes last_change() const override { return change_; }
  double pace() const override { return PaceOf(speeds_, view_.holders, rank_); }
  void Leave() override;
  void Obey(const ViewOrder& order) override;

 private:
  void Greet(const EdgeHello& hello, Fd socket);
  // Takes one event, if there is one within `timeout`; true if it decided the step under way.
  bool TakeEvent(absl::Duration timeout);
  void EnterView(const ControlLoop::Event& event);
  void EnterPlane();
  // The group has gone on without this life.
  void BeginAnew();
  void Measure();
  absl::StatusOr<bool> AwaitVerdict();
  void Finish(int64_t step);
  // Notes a buffer of the step; false, and the step has failed, if there is no view to reduce it
  // in.
  bool TakeBuffer(absl::Span<float> values);
  // Runs a collective on this thread, and notes how long it was waited for, and whether it failed.
  template <typename F>
  absl::Status Collect(F run);
  void AtBoundary();
  bool AllOnThisNode(const GroupView& view) const;
  // Whether those to join train the same, as soon as one of them answers.
  absl::Status CheckContract();

  GroupOptions options_;
  Endpoint self_;
  uint64_t group_ = 0;
  uint64_t lobby_ = 0;
  std::string contract_;
  bool contract_known_ = false;  // To be the same as that of the others.
  absl::Time ask_again_ = absl::InfinitePast();
  std::string unanswered_;  // Why it is not known.
  MemberId id_;
  GroupView view_;
  int rank_ = 0;
  bool denied_ = false;  // The plane could not be entered, and no death explains it.
  bool entered_ = false;
  bool learning_ = true;
  bool fenced_ = false;
  bool leaving_ = false;
  int64_t applied_ = -1;
  int64_t finished_ = -1;
  int64_t committed_ = -1;  // finished_, or the one before where votes come with the next step.
  bool decided_ = false;    // A verdict kFinish arrived for the step under way.
  ChangeTimes change_;

  std::vector<absl::Span<float>> buffers_;  // Those given to Allreduce in this step.
  bool failed_ = false;                     // One of them was not reduced: do not vote.
  bool sum_lost_ = false;                   // The vote rode, and the sum was not to be had.
  bool rode_ = false;                       // The votes came with the last of them,
  bool all_voted_ = false;                  // and stand.
  bool told_ = false;                       // The sum came with speeds; votes are yet to come.
  std::vector<Quota> quotas_;               // By rank.
  Quota quota_;
  absl::Time step_began_;
  absl::Duration waited_;  // For others, since then.
  bool measured_ = true;   // Whether the step tells this member's speed.
  SpeedMeter meter_;
  std::vector<float> speeds_;

  std::unique_ptr<StateExchange> exchange_;
  std::unique_ptr<SharedSlots> shared_;
  std::unique_ptr<TcpEdges> tcp_;
  DataPlane* plane_ = nullptr;
  std::unique_ptr<Reducer> reducer_;
  // Last, so that its thread ends first.
  mutable std::unique_ptr<ControlLoop> control_;
};

absl::Status Group::Start() {
  if (options_.microbatches < 1)
    return absl::InvalidArgumentError("microbatches must be at least 1");
  RUBATO_ASSIGN_OR_RETURN(self_, ParseEndpoint(options_.listen));
  for (const std::string& address : options_.join) {
    RUBATO_RETURN_IF_ERROR(ParseEndpoint(address).status());
  }
  RUBATO_ASSIGN_OR_RETURN(Sockets sockets, OpenSockets(self_));
  contract_ = ContractOf(options_);
  group_ = HashText(contract_, HashText(options_.secret, 0));
  lobby_ = HashText(options_.secret, 1);
  contract_known_ = options_.join.empty();
  exchange_ = std::make_unique<StateExchange>(options_.state, options_.apply, group_);
  ControlLoop::Options control;
  control.peer.swim = SwimFor(options_.network);
  control.peer.views = ViewsFor(options_, control.peer.swim);
  control.peer.group = group_;
  control.lobby = lobby_;
  control.peer.issued = options_.report != nullptr;
  control.peer.report_period = options_.report_period;
  RUBATO_RETURN_IF_ERROR(control.peer.Validate());
  std::random_device random;
  control.seed = Mix(static_cast<uint64_t>(random()) << 32 | random(), getpid());
  id_ = MemberId(static_cast<int64_t>(Mix(control.seed, 1) >> 1));
  self_.node = ThisNode();
  self_.pid = getpid();
  // The planes look at the attention of a loop that is yet to be made: it is handed over below.
  learning_ = !options_.join.empty() || control.peer.issued;
  applied_ = learning_ && !control.peer.issued ? -1 : options_.first_step;
  if (!learning_) finished_ = committed_ = applied_;
  control.report = options_.report;
  control.join = options_.join;
  control.step = options_.first_step;
  control.arrived = [this](const EdgeHello& hello, Fd socket) { Greet(hello, std::move(socket)); };
  control.prepare = [this](const Attention& attention) {
    if (options_.shared_memory) {
      if (auto slots = SharedSlots::Create(attention); slots.ok()) shared_ = *std::move(slots);
    }
    self_.memory_fd = shared_ ? shared_->memory_fd() : -1;
    tcp_ = std::make_unique<TcpEdges>(attention, group_, [this](MemberId member, bool refused) {
      control_->Call([&](Peer& peer, absl::Time now) {
        peer.ReportLost(member, refused ? LossReason::kRefused : LossReason::kSocket, now);
        if (!refused) peer.Complain(now);
        return 0;
      });
    });
    return self_;
  };
  reducer_ = std::make_unique<Reducer>(
      [this](absl::Span<float> values) { return plane_->Allreduce(values, options_.wire); });
  control_ = std::make_unique<ControlLoop>(std::move(control), std::move(sockets));
  return absl::OkStatus();
}

// On the control thread.
void Group::Greet(const EdgeHello& hello, Fd socket) {
  if (hello.kind == EdgeHello::kEdge)
    return tcp_->Arrive(MemberId(hello.from), MemberId(hello.to), std::move(socket));
  if (hello.kind == EdgeHello::kState) exchange_->Ask(hello, std::move(socket));
  if (hello.kind == EdgeHello::kContract) TellContract(socket, contract_);
}

bool Group::AllOnThisNode(const GroupView& view) const {
  for (const GroupMember& member : view.members) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(member.address);
    if (!endpoint.ok() || endpoint->node != self_.node || endpoint->memory_fd < 0) return false;
  }
  return shared_ != nullptr;
}

bool Group::TakeEvent(absl::Duration timeout) {
  const std::optional<ControlLoop::Event> event = control_->NextEvent(timeout);
  if (!event) return false;
  reducer_->Wait().IgnoreError();  // The view is no longer live: soon.
  switch (event->kind) {
    case Peer::Event::Kind::kFrozen:
      change_.noticed = event->at;
      entered_ = denied_ = false;
      return false;
    case Peer::Event::Kind::kView:
      EnterView(*event);
      return true;
    case Peer::Event::Kind::kFenced:
      BeginAnew();
      return true;
  }
  return false;
}

void Group::BeginAnew() {
  entered_ = denied_ = false;
  fenced_ = true;
  exchange_->Drop();
  if (leaving_) return;
  if (applied_ > committed_) applied_ = -1;  // What others may have redone is nobody's state.
  id_ = control_->StartNewLife(applied_);
  learning_ = true;
}

void Group::EnterView(const ControlLoop::Event& event) {
  // It was voted for, and this member's part of memory was overwritten before it had read the sum:
  // by a later view, without it.
  if (event.verdict == Verdict::kFinish && sum_lost_) return BeginAnew();
  change_.view = event.view.number;
  change_.agreed = event.at;
  change_.resumed = absl::InfinitePast();
  change_.redone = event.verdict == Verdict::kRedo;
  change_.losses = event.losses;
  // Who needs nobody else to agree is never seen to let go.
  if (change_.noticed < change_.entered) change_.noticed = change_.agreed;
  view_ = event.view;
  rank_ = view_.RankOf(id_);
  fenced_ = false;
  decided_ = event.verdict == Verdict::kFinish;
  if (decided_) Finish(view_.step);
  // What it had caught up with is not what the group goes on with.
  if (event.verdict == Verdict::kCopy && committed_ >= 0 && applied_ > committed_) applied_ = -1;
  finished_ = committed_ = view_.step;
  if (event.verdict == Verdict::kCopy) learning_ = true;
  if (learning_ && view_.Holds(id_)) {  // The group begins with this member's state.
    learning_ = false;
    applied_ = view_.step;
    exchange_->Drop();
  }
  speeds_.assign(view_.size(), 0.0f);
  plane_ = AllOnThisNode(view_) ? static_cast<DataPlane*>(shared_.get()) : tcp_.get();
  EnterPlane();
  if (denied_ && learning_) {
    // It lives, but its memory cannot be had. The others wait: come again as one without.
    control_->StopSharing();
    return BeginAnew();
  }
  change_.entered = ControlLoop::Now();
  if (event.verdict == Verdict::kCopy || (learning_ && !exchange_->Copies(view_))) {
    learning_ = true;
    exchange_->Begin(view_, id_);
  }
  if (options_.on_change) options_.on_change(view_);
}

void Group::EnterPlane() {
  const absl::Status entered = plane_->Enter(view_, rank_, id_);
  // Whoever cannot be reached has most likely just died: the next view is on its way.
  entered_ = entered.ok();
  denied_ = !entered.ok() && !absl::IsUnavailable(entered);
}

absl::Status Group::CheckContract() {
  const absl::Time now = ControlLoop::Now();
  if (contract_known_ || now < ask_again_) return absl::OkStatus();
  ask_again_ = now + absl::Seconds(1);
  for (const std::string& address : options_.join) {
    const absl::StatusOr<std::string> theirs =
        AskContract(address, lobby_, absl::Milliseconds(300));
    if (!theirs.ok()) {
      unanswered_ = absl::StrCat("; ", std::string(theirs.status().message()));
      continue;
    }
    unanswered_.clear();
    contract_known_ = *theirs == contract_;
    return CompareContracts(contract_, *theirs, address);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepPlan> Group::BeginStep(absl::Duration timeout) {
  const absl::Time deadline = ControlLoop::Now() + timeout;
  reducer_->Wait().IgnoreError();
  while (true) {
    while (TakeEvent(absl::ZeroDuration())) {
    }
    if (fenced_ && leaving_) return absl::CancelledError("this member has left the group");
    if (denied_) EnterPlane();  // Files or memory may have been short.
    if (entered_) {
      AtBoundary();
      const bool may = control_->Call([&](Peer& peer, absl::Time now) {
        return peer.StartStep(view_.number, finished_ + 1, now);
      });
      if (may) break;
    }
    if (view_.number == 0) RUBATO_RETURN_IF_ERROR(CheckContract());
    const absl::Duration left = deadline - ControlLoop::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no view to train in after ", absl::FormatDuration(timeout),
                       view_.number > 0 ? "; the last was " + view_.ToString() : unanswered_));
    }
    TakeEvent(std::min(left, absl::Milliseconds(200)));
  }
  buffers_.clear();
  decided_ = failed_ = rode_ = sum_lost_ = told_ = false;
  quotas_ = DealMicrobatches(options_.microbatches, speeds_, view_.holders);
  quota_ = quotas_[rank_];
  waited_ = absl::ZeroDuration();
  measured_ = true;
  step_began_ = ControlLoop::Now();
  return StepPlan{finished_ + 1, view_.number, quota_, rank_, view_.size()};
}

template <typename F>
absl::Status Group::Collect(F run) {
  const absl::Time began = ControlLoop::Now();
  absl::Status status = reducer_->Wait();
  if (status.ok()) status = entered_ ? run() : absl::AbortedError("there is no view");
  waited_ += ControlLoop::Now() - began;
  if (!status.ok()) failed_ = true;
  return status;
}

bool Group::TakeBuffer(absl::Span<float> values) {
  buffers_.push_back(values);
  if (quota_.size() == 0) std::fill(values.begin(), values.end(), 0.0f);
  failed_ = failed_ || !entered_;
  return !failed_;
}

absl::Status Group::Allreduce(absl::Span<float> values) {
  if (!TakeBuffer(values)) return absl::AbortedError("the view has ended");
  return Collect([&] { return plane_->Allreduce(values, options_.wire); });
}

absl::Status Group::AllreduceLast(absl::Span<float> values) {
  const bool rides = entered_ && plane_->carries_votes();
  if (!rides && !options_.early_apply) return Allreduce(values);
  if (!TakeBuffer(values)) return absl::AbortedError("the view has ended");
  Measure();
  if (!rides) {
    const absl::Status status = Collect([&] {
      return plane_->AllreduceAndTell(values, options_.wire, meter_.microbatches_per_second(),
                                      speeds_);
    });
    told_ = status.ok();
    return status;
  }
  const auto pledge = [&](std::function<bool()> withdraw) {
    return control_->Call([&](Peer& peer, absl::Time now) {
      return peer.Pledge(view_.number, finished_ + 1, std::move(withdraw));
    });
  };
  const absl::Status status = Collect([&]() -> absl::Status {
    RUBATO_ASSIGN_OR_RETURN(
        all_voted_, plane_->AllreduceAndVote(values, options_.wire,
                                             {meter_.microbatches_per_second(), &speeds_, pledge}));
    rode_ = true;
    return absl::OkStatus();
  });
  sum_lost_ = !status.ok();
  return absl::IsDataLoss(status) ? absl::AbortedError(status.message()) : status;
}

void Group::Measure() {
  const absl::Duration computed = ControlLoop::Now() - step_began_ - waited_;
  if (measured_) meter_.Record(quota_.size(), absl::ToDoubleSeconds(computed));
}

void Group::StartAllreduce(absl::Span<float> values) {
  if (TakeBuffer(values)) reducer_->Start(values);
}

absl::Status Group::Wait() {
  return Collect(
      [&] { return failed_ ? absl::AbortedError("the view has ended") : absl::OkStatus(); });
}

// Each subtree has a place of its own in one buffer, zero at all members but one, so that their sum
// moves it everywhere as it is; then everyone adds the subtrees up in the same order.
absl::Status Group::AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) {
  if (!TakeBuffer(sum)) return absl::AbortedError("the view has ended");
  std::vector<Subtree> subtrees;
  size_t first = 0;  // Of this member's.
  for (int rank = 0; rank < view_.size(); ++rank) {
    if (rank == rank_) first = subtrees.size();
    const std::vector<Subtree> whole =
        WholeSubtrees(options_.microbatches, quotas_[rank].begin, quotas_[rank].end);
    subtrees.insert(subtrees.end(), whole.begin(), whole.end());
  }
  const size_t piece = std::max<size_t>(1, (size_t{1} << 20) / subtrees.size());
  std::vector<float> places;
  for (size_t begin = 0; begin < sum.size(); begin += piece) {
    const size_t length = std::min(piece, sum.size() - begin);
    places.assign(subtrees.size() * length, 0.0f);
    std::vector<absl::Span<float>> parts;
    for (size_t i = 0; i < subtrees.size(); ++i) {
      parts.push_back(absl::MakeSpan(places).subspan(i * length, length));
    }
    for (size_t i = 0; i < mine.subtrees().size(); ++i) {
      RUBATO_CHECK(mine.subtrees()[i] == subtrees[first + i]);
      const absl::Span<const float> part = mine.sum(i).subspan(begin, length);
      std::copy(part.begin(), part.end(), parts[first + i].begin());
    }
    RUBATO_RETURN_IF_ERROR(
        Collect([&] { return plane_->Allreduce(absl::MakeSpan(places), WireFormat::kFp32); }));
    SumCanonical(subtrees, parts, options_.microbatches);
    std::copy(parts[0].begin(), parts[0].end(), sum.begin() + begin);
  }
  return absl::OkStatus();
}

absl::Status Group::Broadcast(absl::Span<char> bytes, int root) {
  return Collect([&] { return plane_->Broadcast(bytes, root); });
}

absl::Status Group::Barrier() {
  std::vector<float> speeds;
  return Collect([&] { return plane_->Vote(0, 0, speeds); });
}

absl::StatusOr<bool> Group::Commit() {
  const int64_t step = finished_ + 1;
  const absl::Status reduced = Wait();
  if (!reduced.ok() && !absl::IsAborted(reduced)) return reduced;
  if (!reduced.ok()) return AwaitVerdict();
  const auto may = [&](auto... what) {
    return entered_ && control_->Call([&](Peer& peer, absl::Time now) {
      return ((peer.*what)(view_.number, step, now) && ...);
    });
  };
  bool may_finish = false;
  if (told_) {
    // All have come to this sum, so all have applied the one before.
    committed_ = std::max(committed_, finished_);
    may_finish = may(&Peer::Vote, &Peer::FinishStep);
  } else {
    if (!rode_) {
      Measure();
      if (!may(&Peer::Vote)) return AwaitVerdict();
      const absl::Status voted = plane_->Vote(step, meter_.microbatches_per_second(), speeds_);
      if (!voted.ok() && !absl::IsAborted(voted)) return voted;
      all_voted_ = voted.ok();
    }
    may_finish = all_voted_ && may(&Peer::FinishStep);
  }
  if (!may_finish) return AwaitVerdict();
  Finish(step);
  if (!told_) committed_ = step;
  const bool resumed = committed_ > view_.step;  // Applied early, it is one step later.
  if (resumed && change_.resumed == absl::InfinitePast()) change_.resumed = ControlLoop::Now();
  return true;
}

// The view ended with the step half done: the next one says whether it counts.
absl::StatusOr<bool> Group::AwaitVerdict() {
  const absl::Time deadline = ControlLoop::Now() + options_.verdict_timeout;
  while (!TakeEvent(absl::Milliseconds(200))) {
    if (ControlLoop::Now() < deadline) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("whether step ", finished_ + 1, " counts is not known after ",
                     absl::FormatDuration(options_.verdict_timeout), ": too few members of ",
                     view_.ToString(), " can be reached"));
  }
  return std::exchange(decided_, false);
}

void Group::Finish(int64_t step) {
  finished_ = step;
  if (!learning_) {
    applied_ = step;
    if (options_.apply) options_.apply();
    return;
  }
  exchange_->Keep(step, buffers_);
}

// Between two steps, when the state is that after finished_.
void Group::AtBoundary() {
  if (!learning_) return exchange_->Serve(view_, id_, applied_);
  if (!exchange_->CatchUp(view_, id_, finished_)) return;
  const bool caught_up = control_->Call(
      [&](Peer& peer, absl::Time now) { return peer.CatchUp(view_.number, finished_, now); });
  applied_ = caught_up || finished_ <= committed_ ? finished_ : -1;
  if (caught_up) learning_ = false;  // Else its successor is on its way, and a new copy.
}

void Group::Obey(const ViewOrder& order) {
  control_->Call([&](Peer& peer, absl::Time now) {
    peer.Receive(order, now);
    return 0;
  });
}

void Group::Leave() {
  leaving_ = true;
  control_->Call([](Peer& peer, absl::Time now) {
    peer.Leave(now);
    return 0;
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ElasticGroup>> ElasticGroup::Open(GroupOptions options) {
  auto group = std::make_unique<Group>(std::move(options));
  RUBATO_RETURN_IF_ERROR(group->Start());
  return group;
}

}  // namespace rubato

#include "rubato/adapters/ring/elastic_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/control_loop.h"
#include "rubato/adapters/ring/group_settings.h"
#include "rubato/adapters/ring/lobby.h"
#include "rubato/adapters/ring/reducer.h"
#include "rubato/adapters/ring/shared_slots.h"
#include "rubato/adapters/ring/state_exchange.h"
#include "rubato/adapters/tls/keys.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/ring/straggler.h"

namespace rubato {
namespace {

// So often a member tries to open another's memory, at every BeginStep and a few times a second.
constexpr int kTriesMax = 10;

// One that copies the state adds nothing to a step, and makes up for what has passed in this part
// of it: the others are still computing then.
constexpr double kCatchUpPart = 0.25;

class Group : public ElasticGroup {
 public:
  explicit Group(GroupOptions options) : options_(std::move(options)) {}
  ~Group() override {
    if (control_) control_->Close();
    if (exchange_) exchange_->Drop();
    if (control_) control_->Halt();
    reducer_.reset();
  }

  absl::Status Start();
  absl::StatusOr<StepPlan> BeginStep(absl::Duration timeout) override;
  absl::Status Allreduce(absl::Span<float> values) override;
  absl::Status AllreduceLast(absl::Span<float> values) override {
    return ReduceLast(values, options_.wire);
  }
  absl::Status AllreduceLastExactly(absl::Span<float> values) override {
    return ReduceLast(values, WireFormat::kFp32);
  }
  void StartAllreduce(absl::Span<float> values) override;
  absl::Status Wait() override;
  void DoNotMeasure() override { measured_ = false; }
  absl::Status AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Barrier() override;
  absl::StatusOr<bool> Commit() override;
  int64_t step() const override { return applied_; }
  int64_t committed() const override { return committed_; }
  int partings() const override { return partings_; }
  int64_t parted_at() const override { return parted_at_; }
  GroupView view() const override { return view_; }
  bool learning() const override { return learning_; }
  std::string address() const override { return absl::StrCat(self_.host, ":", self_.port); }
  bool encrypted() const override { return tls_ != nullptr; }
  ChangeTimes last_change() const override { return change_; }
  double pace() const override { return PaceOf(speeds_, view_.holders, rank_); }
  void Leave() override;
  void SayFinished() override { control_->Finish(); }
  bool told_finished() const override { return control_->company().finished; }
  absl::Duration unheard() const override { return ControlLoop::Now() - control_->company().heard; }
  bool over() const override { return control_->company().Over(ControlLoop::Now()); }
  std::vector<Departure> missed() const override {
    return control_->Call([](Peer& peer, absl::Time) { return peer.Missed(); });
  }
  std::vector<Departure> TakeLostNewcomers() override {
    return control_->Call([](Peer& peer, absl::Time) { return peer.TakeLostNewcomers(); });
  }
  std::string stranger() const override { return HostPort(control_->company().stranger); }
  void Obey(const ViewOrder& order) override;

 private:
  const Endpoint& MakePlanes(const Attention& attention);
  void Greet(const EdgeHello& hello, std::unique_ptr<Stream> stream);
  // Takes one event, if there is one within `timeout`; true if it decided the step under way.
  bool TakeEvent(absl::Duration timeout);
  void EnterView(const ControlLoop::Event& event);
  void EnterPlane();
  void TryPlaneAgain();
  void BeginWithoutMemory();
  // The group has gone on without this life; after which step is found out here.
  void BeginAnew(Parting parting);
  void Measure();
  absl::StatusOr<bool> AwaitVerdict();
  void Finish(int64_t step);
  // Notes a buffer; false, and the step has failed, if there is no view to reduce it in.
  bool TakeBuffer(absl::Span<float> values);
  // Runs a collective on this thread, and notes how long it was waited for, and whether it failed.
  template <typename F>
  absl::Status Collect(F run);
  absl::Status ReduceInView(absl::Span<float> values, WireFormat format);
  absl::Status ReduceLast(absl::Span<float> values, WireFormat format);
  absl::Status AtBoundary();
  std::string WhyNoView(absl::Duration timeout) const;

  GroupOptions options_;
  Endpoint self_;
  uint64_t group_ = 0;
  std::string contract_;
  std::unique_ptr<Lobby> lobby_;
  absl::Time no_view_since_ = absl::InfiniteFuture();
  MemberId id_;
  GroupView view_;
  uint64_t mark_ = 0;  // Of the view.
  int rank_ = 0;
  bool denied_ = false;  // The plane could not be entered, and no death explains it.
  int tries_ = 0;        // Since.
  bool entered_ = false;
  bool learning_ = true;
  bool fenced_ = false;
  bool leaving_ = false;
  int64_t applied_ = -1;
  int64_t finished_ = -1;
  int64_t committed_ = -1;  // finished_, or the one before where votes come with the next step.
  int partings_ = 0;
  int64_t parted_at_ = -1;
  bool begun_ = false;    // A step, which Commit is to end.
  bool decided_ = false;  // A verdict kFinish arrived for the step under way.
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
  absl::Duration step_took_;  // The last, from there to its commit.
  absl::Duration waited_;     // For others, since then.
  bool measured_ = true;      // Whether the step tells this member's speed.
  SpeedMeter meter_;
  std::vector<float> speeds_;

  std::unique_ptr<TlsLinks> tls_;  // Null: nothing is encrypted.
  std::unique_ptr<EdgeNetwork> network_;
  std::unique_ptr<StateExchange> exchange_;
  std::unique_ptr<SharedSlots> shared_;
  std::unique_ptr<TcpEdges> tcp_;
  DataPlane* plane_ = nullptr;
  std::unique_ptr<Reducer> reducer_;
  // Last, so that its thread ends first.
  mutable std::unique_ptr<ControlLoop> control_;
};

absl::Status Group::Start() {
  if (options_.kept_bytes_max < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kept_bytes_max is ", options_.kept_bytes_max, ": it must not be negative"));
  }
  if (options_.microbatches < 1) return absl::InvalidArgumentError("microbatches is less than 1");
  RUBATO_ASSIGN_OR_RETURN(self_, ParseEndpoint(options_.listen));
  for (const std::string& address : options_.join) {
    RUBATO_RETURN_IF_ERROR(ParseEndpoint(address).status());
  }
  RUBATO_ASSIGN_OR_RETURN(Sockets sockets, OpenSockets(self_));
  contract_ = ContractOf(options_);
  group_ = HashText(contract_, HashText(options_.secret, 0));
  ControlLoop::Options control;
  if (options_.encrypt && !options_.secret.empty()) {
    tls_ = std::make_unique<TlsLinks>(options_.secret);
    control.datagrams = std::make_unique<SealedDatagrams>(DeriveKey(
        {.secret = options_.secret, .salt = contract_, .purpose = "rubato datagrams"}, 32));
  }
  if (!tls_ && !absl::StartsWith(self_.host, "127.") && self_.host != "localhost") {
    std::fprintf(stderr,
                 "rubato: what leaves %s can be read on the way: the group has no secret%s\n",
                 self_.host.c_str(), options_.secret.empty() ? "" : " in use (encrypt is off)");
  }
  control.tls = tls_.get();
  network_ = std::make_unique<SocketNetwork>(tls_.get());
  exchange_ = std::make_unique<StateExchange>(
      StateExchange::Options{options_.state, options_.apply, KeptBytesMax(options_),
                             options_.kept_folder, group_, tls_.get()});
  control.peer.swim = SwimFor(options_.network);
  control.peer.views = ViewsFor(options_, control.peer.swim);
  control.peer.group = group_;
  control.lobby = HashText(options_.secret, 1);
  // Three round trips, with TLS.
  const absl::Duration patience =
      options_.network == GroupNetwork::kWan ? absl::Seconds(2) : absl::Milliseconds(300);
  lobby_ = std::make_unique<Lobby>(
      Lobby::Options{options_.join, contract_, control.lobby, tls_.get(), patience});
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
  control.arrived = [this](const EdgeHello& hello, std::unique_ptr<Stream> stream) {
    Greet(hello, std::move(stream));
  };
  control.prepare = [this](const Attention& attention) { return MakePlanes(attention); };
  reducer_ = std::make_unique<Reducer>(
      [this](absl::Span<float> values) { return plane_->Allreduce(values, options_.wire); });
  control_ = std::make_unique<ControlLoop>(std::move(control), std::move(sockets));
  return absl::OkStatus();
}

const Endpoint& Group::MakePlanes(const Attention& attention) {
  if (options_.shared_memory) {
    if (auto slots = SharedSlots::Create(attention); slots.ok()) shared_ = *std::move(slots);
  }
  self_.memory_fd = shared_ ? shared_->memory_fd() : -1;
  const auto lost = [this](MemberId member, bool refused) {
    control_->Call([&](Peer& peer, absl::Time now) {
      peer.ReportLost(member, refused ? LossReason::kRefused : LossReason::kSocket, now);
      if (!refused) peer.Complain(now);
      return 0;
    });
  };
  tcp_ = std::make_unique<TcpEdges>(attention, group_, *network_, lost);
  return self_;
}

// On the control thread.
void Group::Greet(const EdgeHello& hello, std::unique_ptr<Stream> stream) {
  if (hello.kind == EdgeHello::kEdge) {
    TuneSocket(stream->fd());
    return tcp_->Arrive(MemberId(hello.from), MemberId(hello.to), std::move(stream));
  }
  if (hello.kind == EdgeHello::kState) exchange_->Ask(hello, std::move(stream));
  if (hello.kind == EdgeHello::kContract) TellContract(*stream, contract_);
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
      BeginAnew({.out = event->gone});
      return true;
    case Peer::Event::Kind::kDenied:
      BeginWithoutMemory();
      return true;
  }
  return false;
}

void Group::BeginAnew(Parting parting) {
  entered_ = denied_ = begun_ = false;
  fenced_ = true;
  exchange_->Drop();
  parted_at_ = control_->Call([](Peer& peer, absl::Time) { return peer.left_at(); });
  if (leaving_) return;
  ++partings_;
  if (applied_ > committed_) applied_ = -1;  // What others may have redone is nobody's state.
  id_ = control_->StartNewLife(applied_);
  learning_ = true;
  parting.step = parted_at_;
  if (options_.on_parting) options_.on_parting(parting);
}

void Group::EnterView(const ControlLoop::Event& event) {
  // It was voted for, and this member's part of memory was overwritten before it had read the sum:
  // by a later view, without it.
  if (event.verdict == Verdict::kFinish && sum_lost_) {
    return BeginAnew({.why = "the sum of its last step was gone before it had read it"});
  }
  change_.view = event.view.number;
  change_.agreed = event.at;
  change_.resumed = absl::InfinitePast();
  change_.redone = event.verdict == Verdict::kRedo;
  change_.losses = event.losses;
  change_.gone = event.gone;
  // Who needs nobody else to agree is never seen to let go.
  if (change_.noticed <= change_.entered) change_.noticed = change_.agreed;
  view_ = event.view;
  mark_ = view_.Mark();
  rank_ = view_.RankOf(id_);
  fenced_ = begun_ = false;
  decided_ = event.verdict == Verdict::kFinish;
  if (decided_) Finish(view_.step);
  // What it had applied, or caught up with, is not what the group goes on with.
  if (event.verdict == Verdict::kCopy && committed_ >= 0 && applied_ > committed_) applied_ = -1;
  finished_ = committed_ = view_.step;
  if (event.verdict == Verdict::kCopy && !std::exchange(learning_, true)) {
    ++partings_;
    parted_at_ = view_.step;
  }
  if (learning_ && view_.Holds(id_)) {  // The group begins with this member's state.
    learning_ = false;
    applied_ = view_.step;
    exchange_->Drop();
  }
  speeds_.assign(view_.size(), 0.0f);
  const bool shares = shared_ != nullptr && AllShareMemory(view_, self_.node);
  plane_ = shares ? static_cast<DataPlane*>(shared_.get()) : tcp_.get();
  EnterPlane();
  tries_ = 0;
  if (denied_ && learning_) return BeginWithoutMemory();
  change_.entered = ControlLoop::Now();
  if (event.verdict == Verdict::kCopy || (learning_ && !exchange_->Copies(view_))) {
    learning_ = true;
    exchange_->Begin(view_, id_);
  }
  if (options_.on_change) options_.on_change(view_);
}

// Someone lives whose memory cannot be had, or who cannot have this one's. The others wait: come
// again as one without, and all train over TCP.
void Group::BeginWithoutMemory() {
  control_->StopSharing();
  BeginAnew({.why = "its memory and another's could not be shared, so it comes again without"});
}

// Files or memory may have been short for a moment. If it stays so, the younger of the two comes
// again without memory to share.
void Group::TryPlaneAgain() {
  EnterPlane();
  if (!denied_ || ++tries_ < kTriesMax) return;
  if (shared_->denied() < rank_) return BeginWithoutMemory();
  control_->Call([&](Peer& peer, absl::Time now) {
    peer.Deny(view_.members[shared_->denied()].id, now);
    return 0;
  });
}

void Group::EnterPlane() {
  const absl::Status entered = plane_->Enter(view_, rank_, id_);
  // Whoever cannot be reached has most likely just died: the next view is on its way.
  entered_ = entered.ok();
  denied_ = !entered.ok() && !absl::IsUnavailable(entered);
}

// Whoever looks again and again wants to hear how long that has been, to the second.
std::string Group::WhyNoView(absl::Duration timeout) const {
  const absl::Duration waited = ControlLoop::Now() - no_view_since_;
  std::string why =
      absl::StrCat("no view to train in after ",
                   absl::FormatDuration(std::max(timeout, absl::Trunc(waited, absl::Seconds(1)))));
  if (view_.number > 0) {
    absl::StrAppend(&why, "; the last was ", view_.ToString(),
                    ": it goes on when enough of its members can be reached");
  } else if (options_.report != nullptr) {
    absl::StrAppend(&why, "; the master has not issued one");
  } else {
    why += lobby_->Why();
  }
  return why;
}

absl::StatusOr<StepPlan> Group::BeginStep(absl::Duration timeout) {
  const absl::Time deadline = ControlLoop::Now() + timeout;
  no_view_since_ = std::min(no_view_since_, ControlLoop::Now());
  reducer_->Wait().IgnoreError();
  while (true) {
    while (TakeEvent(absl::ZeroDuration())) {
    }
    if (fenced_ && leaving_) return absl::CancelledError("this member has left the group");
    if (denied_) TryPlaneAgain();
    if (entered_) {
      RUBATO_RETURN_IF_ERROR(AtBoundary());
      const bool may = control_->Call(
          [&](Peer& peer, absl::Time now) { return peer.StartStep(mark_, finished_ + 1, now); });
      if (may) break;
    }
    if (view_.number == 0) RUBATO_RETURN_IF_ERROR(lobby_->Ask(ControlLoop::Now()));
    const absl::Duration left = deadline - ControlLoop::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(WhyNoView(timeout));
    }
    TakeEvent(std::min(left, absl::Milliseconds(200)));
  }
  no_view_since_ = absl::InfiniteFuture();
  buffers_.clear();
  decided_ = failed_ = rode_ = sum_lost_ = told_ = false;
  quotas_ = DealMicrobatches(options_.microbatches, speeds_, view_.holders);
  quota_ = quotas_[rank_];
  waited_ = absl::ZeroDuration();
  measured_ = true;
  step_began_ = ControlLoop::Now();
  begun_ = true;
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
  return ReduceInView(values, options_.wire);
}

absl::Status Group::ReduceInView(absl::Span<float> values, WireFormat format) {
  if (!TakeBuffer(values)) return absl::AbortedError("the view has ended");
  return Collect([&] { return plane_->Allreduce(values, format); });
}

absl::Status Group::ReduceLast(absl::Span<float> values, WireFormat format) {
  const bool rides = entered_ && plane_->carries_votes();
  if (!rides && !options_.early_apply) return ReduceInView(values, format);
  if (!TakeBuffer(values)) return absl::AbortedError("the view has ended");
  Measure();
  if (!rides) {
    const absl::Status status = Collect([&] {
      return plane_->AllreduceAndTell(values, format, meter_.microbatches_per_second(), speeds_);
    });
    told_ = status.ok();
    return status;
  }
  const auto pledge = [&](std::function<bool()> withdraw) {
    return control_->Call([&](Peer& peer, absl::Time now) {
      return peer.Pledge(mark_, finished_ + 1, std::move(withdraw));
    });
  };
  const absl::Status status = Collect([&]() -> absl::Status {
    RUBATO_ASSIGN_OR_RETURN(
        all_voted_, plane_->AllreduceAndVote(values, format,
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

absl::Status Group::AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) {
  if (!TakeBuffer(sum)) return absl::AbortedError("the view has ended");
  CanonicalPlaces places(options_.microbatches, quotas_, rank_);
  for (size_t begin = 0; begin < sum.size(); begin += places.piece()) {
    const absl::Span<float> piece = sum.subspan(begin, places.piece());
    const absl::Span<float> buffer = places.Fill(mine, begin, piece.size());
    RUBATO_RETURN_IF_ERROR(Collect([&] { return plane_->Allreduce(buffer, WireFormat::kFp32); }));
    places.Sum(piece);
  }
  return absl::OkStatus();
}

absl::Status Group::Broadcast(absl::Span<char> bytes, int root) {
  RUBATO_RETURN_IF_ERROR(CheckRoot(root, view_));
  return Collect([&] { return plane_->Broadcast(bytes, root); });
}

absl::Status Group::Barrier() {
  std::vector<float> speeds;
  return Collect([&] { return plane_->Vote(0, 0, speeds); });
}

absl::StatusOr<bool> Group::Commit() {
  if (!begun_) return absl::FailedPreconditionError("Commit() without a BeginStep() before it");
  const int64_t step = finished_ + 1;
  const absl::Status reduced = Wait();
  if (!reduced.ok() && !absl::IsAborted(reduced)) return reduced;
  if (!reduced.ok()) return AwaitVerdict();
  const auto may = [&](auto... what) {
    return entered_ && control_->Call([&](Peer& peer, absl::Time now) {
      return ((peer.*what)(mark_, step, now) && ...);
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
  step_took_ = ControlLoop::Now() - step_began_;
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
  begun_ = false;
  if (!learning_) {
    applied_ = step;
    if (options_.apply) options_.apply();
    return;
  }
  exchange_->Keep(step, buffers_);
}

// Between two steps, when the state is that after finished_.
absl::Status Group::AtBoundary() {
  if (!learning_) {
    exchange_->Serve(view_, id_, applied_);
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> level =
      exchange_->CatchUp(view_, id_, finished_, step_took_ * kCatchUpPart);
  const int64_t reached = exchange_->reached();
  if (exchange_->torn()) applied_ = -1;
  if (reached >= 0) applied_ = reached <= committed_ ? reached : -1;
  if (!level.ok() || !*level) return level.status();
  const bool caught_up = control_->Call(
      [&](Peer& peer, absl::Time now) { return peer.CatchUp(mark_, finished_, now); });
  applied_ = caught_up || finished_ <= committed_ ? finished_ : -1;
  if (caught_up) learning_ = false;  // Else its successor is on its way, and a new copy.
  return absl::OkStatus();
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

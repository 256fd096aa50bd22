#include "rubato/adapters/ring/elastic_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/group_settings.h"
#include "rubato/adapters/ring/wired_group.h"
#include "rubato/adapters/tls/keys.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// One that copies the state adds nothing to a step, and makes up for what has passed in this part
// of it: the others are still computing then.
constexpr double kCatchUpPart = 0.25;

}  // namespace

absl::Status WiredGroup::Start() {
  RUBATO_RETURN_IF_ERROR(CheckOptions(options_));
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
  control.names = &names_;
  network_ = std::make_unique<SocketNetwork>(tls_.get(), LinkLease(options_), &names_);
  exchange_ = std::make_unique<StateExchange>(StateExchange::Options{
      options_.state, options_.apply, KeptBytesMax(options_), options_.kept_folder, group_,
      tls_.get(), LinkLease(options_), &names_});
  control.peer.swim = SwimFor(options_.network);
  control.peer.views = ViewsFor(options_, control.peer.swim);
  control.peer.group = group_;
  control.lobby = HashText(options_.secret, 1);
  // Three round trips, with TLS.
  const absl::Duration patience =
      options_.network == GroupNetwork::kWan ? absl::Seconds(2) : absl::Milliseconds(300);
  lobby_ = std::make_unique<Lobby>(
      Lobby::Options{options_.join, contract_, control.lobby, tls_.get(), patience, &names_});
  control.peer.issued = options_.report != nullptr;
  control.peer.report_period = options_.report_period;
  RUBATO_RETURN_IF_ERROR(control.peer.Validate());
  std::random_device random;
  control.seed = Mix(static_cast<uint64_t>(random()) << 32 | random(), getpid());
  id_ = MemberId(static_cast<int64_t>(Mix(control.seed, 1) >> 1));
  self_.node = ThisNode();
  if (!options_.machine.empty()) {
    self_.node = absl::StrCat(absl::Hex(HashText(options_.machine, HashText(self_.node, 0))));
  }
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

absl::StatusOr<StepPlan> WiredGroup::BeginStep(absl::Duration timeout) {
  if (begun_) RUBATO_RETURN_IF_ERROR(MayCall("BeginStep"));
  const absl::Time deadline = ControlLoop::Now() + timeout;
  no_view_since_ = std::min(no_view_since_, ControlLoop::Now());
  Heed(reducer_->Wait()).IgnoreError();
  while (true) {
    while (TakeEvent(absl::ZeroDuration())) {
    }
    if (fenced_ && leaving_) return absl::CancelledError("this member has left the group");
    RUBATO_RETURN_IF_ERROR(apart_);
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
  decided_ = failed_ = summed_ = rode_ = sum_lost_ = told_ = false;
  quotas_ = DealMicrobatches(options_.microbatches, speeds_, view_.holders);
  quota_ = quotas_[rank_];
  waited_ = absl::ZeroDuration();
  measured_ = true;
  step_began_ = ControlLoop::Now();
  begun_ = true;
  return StepPlan{finished_ + 1, view_.number, quota_, rank_, view_.size(), Computing(quotas_)};
}

template <typename F>
absl::Status WiredGroup::Collect(F run) {
  const absl::Time began = ControlLoop::Now();
  absl::Status status = reducer_->Wait();
  status.Update(apart_);
  if (status.ok()) status = entered_ ? run() : absl::AbortedError("there is no view");
  waited_ += ControlLoop::Now() - began;
  if (!status.ok()) failed_ = true;
  return Heed(std::move(status));
}

absl::Status WiredGroup::Heed(absl::Status status) {
  if (absl::IsInternal(status)) apart_ = status;
  return status;
}

absl::Status WiredGroup::MayCall(absl::string_view call) const {
  if (!begun_) {
    return absl::FailedPreconditionError(absl::StrCat(call, "() without a BeginStep() before it"));
  }
  if (summed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(call, "() after AllreduceLast(): Commit() must come first"));
  }
  return absl::OkStatus();
}

bool WiredGroup::TakeBuffer(absl::Span<float> values) {
  buffers_.push_back(values);
  if (quota_.size() == 0) std::fill(values.begin(), values.end(), 0.0f);
  failed_ = failed_ || !entered_;
  return !failed_;
}

absl::Status WiredGroup::Allreduce(absl::Span<float> values) {
  RUBATO_RETURN_IF_ERROR(MayCall("Allreduce"));
  return ReduceInView(values, options_.wire);
}

absl::Status WiredGroup::ReduceInView(absl::Span<float> values, WireFormat format) {
  if (!TakeBuffer(values)) return absl::AbortedError("the view has ended");
  return Collect([&] { return plane_->Allreduce(values, format); });
}

absl::Status WiredGroup::ReduceLast(absl::Span<float> values, WireFormat format) {
  RUBATO_RETURN_IF_ERROR(MayCall("AllreduceLast"));
  const bool rides = entered_ && plane_->carries_votes();
  const absl::Status status = rides || options_.early_apply ? ReduceWithVotes(values, format, rides)
                                                            : ReduceInView(values, format);
  summed_ = status.ok();
  return status;
}

absl::Status WiredGroup::ReduceWithVotes(absl::Span<float> values, WireFormat format, bool rides) {
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
    RUBATO_ASSIGN_OR_RETURN(all_voted_,
                            plane_->AllreduceAndVote(values, format,
                                                     {.step = finished_ + 1,
                                                      .speed = meter_.microbatches_per_second(),
                                                      .speeds = &speeds_,
                                                      .pledge = pledge}));
    rode_ = true;
    return absl::OkStatus();
  });
  sum_lost_ = !status.ok();
  return absl::IsDataLoss(status) ? absl::AbortedError(status.message()) : status;
}

void WiredGroup::Measure() {
  const absl::Duration computed = ControlLoop::Now() - step_began_ - waited_;
  if (measured_) meter_.Record(quota_.size(), absl::ToDoubleSeconds(computed));
}

absl::Status WiredGroup::StartAllreduce(absl::Span<float> values) {
  RUBATO_RETURN_IF_ERROR(MayCall("StartAllreduce"));
  if (TakeBuffer(values)) reducer_->Start(values);
  return absl::OkStatus();
}

absl::Status WiredGroup::Wait() {
  if (!begun_) return absl::OkStatus();  // Nothing was started.
  return Collect(
      [&] { return failed_ ? absl::AbortedError("the view has ended") : absl::OkStatus(); });
}

absl::Status WiredGroup::AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) {
  RUBATO_RETURN_IF_ERROR(MayCall("AllreduceCanonical"));
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

absl::Status WiredGroup::Broadcast(absl::Span<char> bytes, int root) {
  RUBATO_RETURN_IF_ERROR(MayCall("Broadcast"));
  RUBATO_RETURN_IF_ERROR(CheckRoot(root, view_));
  return Collect([&] { return plane_->Broadcast(bytes, root); });
}

absl::Status WiredGroup::Barrier() {
  RUBATO_RETURN_IF_ERROR(MayCall("Barrier"));
  std::vector<float> speeds;
  return Collect([&] { return plane_->Vote(0, 0, speeds); });
}

absl::StatusOr<bool> WiredGroup::Commit() {
  summed_ = false;  // One that cannot be decided may be begun again.
  RUBATO_RETURN_IF_ERROR(MayCall("Commit"));
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
      const absl::Status voted =
          Heed(plane_->Vote(step, meter_.microbatches_per_second(), speeds_));
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
absl::StatusOr<bool> WiredGroup::AwaitVerdict() {
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

void WiredGroup::Finish(int64_t step) {
  finished_ = step;
  begun_ = false;
  if (!learning_) {
    applied_ = step;
    if (!options_.apply || !options_.names_changes) exchange_->BeforeChange();
    if (options_.apply) options_.apply();
    return;
  }
  exchange_->Keep(step, buffers_);
}

// Between two steps, when the state is that after finished_.
absl::Status WiredGroup::AtBoundary() {
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

absl::StatusOr<std::unique_ptr<ElasticGroup>> ElasticGroup::Open(GroupOptions options) {
  auto group = std::make_unique<WiredGroup>(std::move(options));
  RUBATO_RETURN_IF_ERROR(group->Start());
  return group;
}

}  // namespace rubato

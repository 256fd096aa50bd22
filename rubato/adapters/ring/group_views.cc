// A member from one view to the next: what it hears of the group, the planes it reduces over, and
// the new life of one that the others have gone on without.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/group_settings.h"
#include "rubato/adapters/ring/wired_group.h"

namespace rubato {
namespace {

// So often a member tries to open another's memory, at every BeginStep and a few times a second.
constexpr int kTriesMax = 10;

}  // namespace

const Endpoint& WiredGroup::MakePlanes(const Attention& attention) {
  if (options_.shared_memory) {
    if (auto slots = SharedSlots::Create(attention); slots.ok()) shared_ = *std::move(slots);
  }
  self_.memory_fd = shared_ ? shared_->memory_fd() : -1;
  const auto lost = [this](MemberId member, LossReason how) {
    control_->Call([&](Peer& peer, absl::Time now) {
      // In a later view connections are others, and this member may be mended.
      if (!IsProof(how) && peer.view().Mark() != mark_) return 0;
      peer.ReportLost(member, how, now);
      if (!IsProof(how)) peer.Complain(now);
      return 0;
    });
  };
  tcp_ = std::make_unique<TcpEdges>(attention, group_, *network_, lost);
  machines_ = std::make_unique<MachinesPlane>(shared_.get(), *tcp_);
  return self_;
}

// On the control thread.
void WiredGroup::Greet(const EdgeHello& hello, std::unique_ptr<Stream> stream) {
  if (hello.kind == EdgeHello::kEdge) {
    TuneSocket(stream->fd());
    return tcp_->Arrive(MemberId(hello.from), MemberId(hello.to), std::move(stream));
  }
  if (hello.kind == EdgeHello::kState) exchange_->Ask(hello, std::move(stream));
  if (hello.kind == EdgeHello::kContract) TellContract(*stream, contract_, full_);
}

bool WiredGroup::TakeEvent(absl::Duration timeout) {
  const std::optional<ControlLoop::Event> event = control_->NextEvent(timeout);
  if (!event) return false;
  reducer_->Wait().IgnoreError();  // The view is no longer live: soon.
  apart_ = absl::OkStatus();
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

void WiredGroup::BeginAnew(Parting parting) {
  entered_ = denied_ = begun_ = false;
  fenced_ = true;
  exchange_->BeforeChange();  // A new life is given another state.
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

void WiredGroup::EnterView(const ControlLoop::Event& event) {
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
  full_ = view_.size() >= kMembersMax;
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
  plane_ = PlaneFor(view_);
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

// By the view alone, so that all take the same.
DataPlane* WiredGroup::PlaneFor(const GroupView& view) const {
  if (shared_ != nullptr && AllShareMemory(view, self_.node)) return shared_.get();
  if (MachinesOf(view).size() < view.members.size()) return machines_.get();
  return tcp_.get();
}

// Someone lives whose memory cannot be had, or who cannot have this one's. The others wait: come
// again as one without, who speaks TCP with them.
void WiredGroup::BeginWithoutMemory() {
  control_->StopSharing();
  BeginAnew({.why = "its memory and another's could not be shared, so it comes again without"});
}

// Files or memory may have been short for a moment. If it stays so, the younger of the two comes
// again without memory to share.
void WiredGroup::TryPlaneAgain() {
  EnterPlane();
  if (!denied_ || (++tries_ < kTriesMax && !denies_)) return;
  const int denied = plane_ == shared_.get() ? shared_->denied() : machines_->denied();
  if (denied < rank_) return BeginWithoutMemory();
  denies_ = true;  // It will most likely be the same with the next, for whom nobody need wait.
  control_->Call([&](Peer& peer, absl::Time now) {
    peer.Deny(view_.members[denied].id, now);
    return 0;
  });
}

void WiredGroup::EnterPlane() {
  const absl::Status entered = plane_->Enter(view_, rank_, id_);
  // Whoever cannot be reached has most likely just died: the next view is on its way.
  entered_ = entered.ok();
  denied_ = !entered.ok() && !absl::IsUnavailable(entered);
}

// Whoever looks again and again wants to hear how long that has been, to the second.
std::string WiredGroup::WhyNoView(absl::Duration timeout) const {
  const absl::Duration waited = ControlLoop::Now() - no_view_since_;
  std::string why =
      absl::StrCat("no view to train in after ",
                   absl::FormatDuration(std::max(timeout, absl::Trunc(waited, absl::Seconds(1)))));
  if (view_.number > 0) {
    absl::StrAppend(&why, "; the last was ", view_.ToString(),
                    fenced_ ? ": the others have gone on without this member, which asks to be let "
                              "in again; where two did not reach each other that takes 10 s or more"
                            : ": it goes on when enough of its members can be reached");
  } else if (options_.report != nullptr) {
    absl::StrAppend(&why, "; the master has not issued one");
  } else {
    why += lobby_->Why(std::min(unheard(), waited));
  }
  return why;
}

void WiredGroup::Obey(const ViewOrder& order) {
  control_->Call([&](Peer& peer, absl::Time now) {
    peer.Receive(order, now);
    return 0;
  });
}

void WiredGroup::Leave() {
  leaving_ = true;
  control_->Call([](Peer& peer, absl::Time now) {
    peer.Leave(now);
    return 0;
  });
}

}  // namespace rubato

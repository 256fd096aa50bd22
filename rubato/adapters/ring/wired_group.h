// One process as a member of an elastic group: what ElasticGroup::Open() gives.
//
//     views    group_views.cc     the planes it reduces over, events, a new view or a new life
//     steps    elastic_group.cc   begin, reduce, vote, apply
//
// The control thread decides (Peer), and this follows between two calls of the training thread,
// which owns all of it; Greet() and MakePlanes() alone run on the control thread.
#ifndef RUBATO_ADAPTERS_RING_WIRED_GROUP_H_
#define RUBATO_ADAPTERS_RING_WIRED_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rubato/adapters/ring/control_loop.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/adapters/ring/lobby.h"
#include "rubato/adapters/ring/machines_plane.h"
#include "rubato/adapters/ring/reducer.h"
#include "rubato/adapters/ring/shared_slots.h"
#include "rubato/adapters/ring/state_exchange.h"
#include "rubato/ring/straggler.h"

namespace rubato {

class WiredGroup : public ElasticGroup {
 public:
  explicit WiredGroup(GroupOptions options) : options_(std::move(options)) {}
  ~WiredGroup() override {
    if (control_) control_->Close();
    if (exchange_) exchange_->BeforeChange();  // The state may go with the caller.
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
  absl::Status StartAllreduce(absl::Span<float> values) override;
  absl::Status Wait() override;
  void DoNotMeasure() override { measured_ = false; }
  absl::Status AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Barrier() override;
  absl::StatusOr<bool> Commit() override;
  void BeforeChange(absl::Span<const char> bytes) override { exchange_->BeforeChange(bytes); }
  std::shared_ptr<StateSnapshot> TakeSnapshot() override {
    return exchange_->TakeSnapshot(applied_);
  }
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
  bool told_finished() const override { return control_->company().Finished(); }
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
  DataPlane* PlaneFor(const GroupView& view) const;
  void EnterPlane();
  void TryPlaneAgain();
  void BeginWithoutMemory();
  // The group has gone on without this life; after which step is found out here.
  void BeginAnew(Parting parting);
  void Measure();
  absl::StatusOr<bool> AwaitVerdict();
  void Finish(int64_t step);
  // FAILED_PRECONDITION if no step is under way, or its last sum is behind: then `call` would be
  // out of step with the others.
  absl::Status MayCall(absl::string_view call) const;
  // Notes a buffer; false, and the step has failed, if there is no view to reduce it in.
  bool TakeBuffer(absl::Span<float> values);
  // Runs a collective on this thread, and notes how long it was waited for, and whether it failed.
  template <typename F>
  absl::Status Collect(F run);
  // Notes it if the members do not make the same calls.
  absl::Status Heed(absl::Status status);
  absl::Status ReduceInView(absl::Span<float> values, WireFormat format);
  absl::Status ReduceWithVotes(absl::Span<float> values, WireFormat format, bool rides);
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
  std::atomic<bool> full_{false};
  int rank_ = 0;
  bool denied_ = false;  // The plane could not be entered, and no death explains it.
  int tries_ = 0;        // Since.
  bool denies_ = false;  // It was so before, and a younger one was told to come without.
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
  bool summed_ = false;                     // The last of them, so that Commit must come next.
  bool failed_ = false;                     // One of them was not reduced: do not vote.
  absl::Status apart_;                      // Why no more of this view comes to anything.
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

  Resolver names_;
  std::unique_ptr<TlsLinks> tls_;  // Null: nothing is encrypted.
  std::unique_ptr<EdgeNetwork> network_;
  std::unique_ptr<StateExchange> exchange_;
  std::unique_ptr<SharedSlots> shared_;
  std::unique_ptr<TcpEdges> tcp_;
  std::unique_ptr<MachinesPlane> machines_;  // Of the two above.
  DataPlane* plane_ = nullptr;
  std::unique_ptr<Reducer> reducer_;
  // Last, so that its thread ends first.
  mutable std::unique_ptr<ControlLoop> control_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_WIRED_GROUP_H_

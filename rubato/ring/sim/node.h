// One simulated process: a Peer, and a training loop around it that computes with hashes.
#ifndef RUBATO_RING_SIM_NODE_H_
#define RUBATO_RING_SIM_NODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "rubato/base/rng.h"
#include "rubato/ring/company.h"
#include "rubato/ring/kept_sums.h"
#include "rubato/ring/peer.h"
#include "rubato/ring/plan.h"
#include "rubato/ring/sim/checker.h"
#include "rubato/ring/state_copy.h"
#include "rubato/ring/vote_tree.h"

namespace rubato {

// Bytes of an exchange; `index` counts them for one step from one sender to one receiver.
struct Part {
  int64_t step = 0;
  int index = 0;
  Sum values;
};

// What goes over the bulk connections: in order of sending per step, never lost while both ends
// live, as TCP would have it; what was sent may arrive after its sender's death.
struct Bulk {
  MemberId from;
  MemberId to;        // The life it is meant for.
  uint64_t view = 0;  // The sender's.
  uint64_t mark = 0;
  std::variant<Part, Vote, StateRequest, StateChunk> body;
};

// Memory that all nodes see and that outlives them, as that of one machine does. What a member has
// to add to a step, its vote and the mark that says how far it has come are written one after the
// other, and its death may fall between any two. See adapters/ring/shared_slots.h.
class SharedMemory {
 public:
  using Ballot = std::pair<uint64_t, int64_t>;  // The mark of a view, and a step.

  void Write(const Ballot& ballot, MemberId member, Sum part) {
    parts_[ballot][member] = std::move(part);
  }
  void Vote(const Ballot& ballot, MemberId member) { votes_[ballot].insert(member); }
  // Writes over that of the view before.
  void Mark(const Ballot& ballot, MemberId member) { marks_[member] = ballot; }
  bool AllVoted(const Ballot& ballot, const GroupView& view) const;
  // Whether all have come so far, as one that waits sees it: by mark, or by vote.
  bool AllCame(const Ballot& ballot, const GroupView& view) const;
  Sum SumOf(const Ballot& ballot) const;
  // Whether all had voted; then it stands.
  bool Withdraw(const Ballot& ballot, const GroupView& view);
  bool AnyWithdrawn(const Ballot& ballot) const { return withdrawn_.contains(ballot); }

  RingBug bug = RingBug::kNone;

 private:
  std::map<Ballot, std::map<MemberId, Sum>> parts_;
  std::map<Ballot, std::set<MemberId>> votes_;
  std::map<MemberId, Ballot> marks_;
  std::set<Ballot> withdrawn_;
};

// How a loop comes to its end.
enum class LoopEnd : uint8_t {
  kDone,  // With the last step, which is committed.
  kTold,  // Others have it, and are gone: this one came too late for the state.
  kLost   // Nobody has been heard of for long, and this one has no state.
};

// The world as a node sees it.
class Wires {
 public:
  virtual ~Wires() = default;
  virtual void SendPacket(int from, const std::string& to, const Packet& packet) = 0;
  virtual void SendBulk(int from, const std::string& to, const Bulk& bulk) = 0;
  virtual void SendReport(int from,
                          const ViewReport& report) = 0;  // To the master.
  // Later, unless the node has died by then.
  virtual void After(int node, absl::Duration delay, std::function<void()> what) = 0;
  virtual absl::Time now() const = 0;
  // Null: data and votes go over the wires.
  virtual SharedMemory* memory() = 0;
  // Steps are applied early, and known to be committed with the next.
  virtual bool applies_early() const = 0;
  // One that is planted in the loops, not in their peers.
  virtual RingBug loop_bug() const = 0;
  // Wakes the members of `view` that wait for something in memory, sooner or later.
  virtual void Wake(const GroupView& view) = 0;
  // This life has ended, and with it the state: nobody else was there.
  virtual void Gone(MemberId life) = 0;
  // The step that training ends with; -1: it does not.
  virtual int64_t last_step() const = 0;
  // The loop of node `index`, still up, ends now.
  virtual void Ended(int index, LoopEnd how) = 0;
};

// A node's step under way.
struct Work {
  int64_t step = 0;
  Sum sum;
  std::vector<Exchange> plan;
  size_t stage = 0;
  bool sent = false;  // The stage's sending half is done.
  bool computed = false;
  bool reduced = false;
  bool pledged = false;  // Its part is in memory, or about to be.
  bool asked = false;    // The loop has waited too long for the view's word, and asked again.
  std::map<int, int> sent_to;
  std::map<int, int> received_from;
  std::optional<VoteTree> votes;
};

class RingNode {
 public:
  RingNode(int index, uint64_t seed, PeerOptions options, Wires& wires, RingChecker& checker);

  std::string address() const;
  // Starts the group; `others` are where to look for it should this node ever fall out.
  void Found(std::vector<std::string> others);
  void Join(std::vector<std::string> addresses);
  void Die();
  void Leave();
  void Receive(const Packet& packet);
  void Receive(const Bulk& bulk);
  void Receive(const ViewOrder& order);
  void ReportLost(MemberId member, bool proven);
  // What is under way from or to `member` in `view` has been held up for a lease.
  void ReportSilent(MemberId member, uint64_t view);
  void Look();  // There may be something new in memory.

  bool up() const { return peer_ != nullptr; }
  const Peer& peer() const { return *peer_; }
  // Since when its loop has been closing the group; InfiniteFuture: it is not.
  absl::Time closing_since() const { return closing_since_; }
  bool closing() const { return closing_since_ < absl::InfiniteFuture(); }
  const Company& company() const { return company_; }
  // In a view, and with what it takes to go on, even if the view has yet to call it a holder.
  bool HasState() const { return peer_->member() && !peer_->steps().learning(); }
  // Null while the node is down.
  MemberId life() const { return peer_ ? peer_->self().id : MemberId(); }
  Weights weights() const { return weights_; }

 private:
  void Begin(std::vector<std::string> seeds);
  void Settle();
  void Handle(const Peer::Event& event);
  void EnterView(const Peer::Event& event);
  void StartStep();
  void Compute();
  void Advance();
  void Reduced();
  // All steps up to this one can no longer be undone.
  void Confirm(int64_t step);
  void CastVotes();
  void Apply(const GroupView& view, int64_t step, const Sum& sum);
  void BeforeChange();  // Of the weights.
  std::vector<absl::Span<char>> State() {
    return {absl::MakeSpan(reinterpret_cast<char*>(&weights_), sizeof(weights_))};
  }
  void FinishStep();
  void Pledge();
  // One of several writes to memory, or what takes a while, a moment later.
  void Soon(std::function<void()> what, absl::Duration mean = absl::Milliseconds(2));
  void AskAgain();
  SharedMemory::Ballot ballot() const { return {working_view_.Mark(), work_->step}; }
  void StartCopy();
  // Of the state after `step`, or a later one.
  void CopyFrom(int64_t step);
  void AskForState();
  void Keep(const GroupView& view, int64_t step, const Sum& sum);
  // Between two steps: whether the snapshot is in place, and
  bool UseSnapshot();
  // whether the state is now that after the last step.
  bool CatchUp();
  void DropCopy();
  void ServeState(MemberId learner, const StateRequest& request);
  void ServeAskers();  // Between two steps.
  void ArmTimer();
  // Whether the loop has come to its end, and begins to close its group.
  bool Closes();
  // Now and then, while the loop waits: whether it waits in vain.
  void LookForCompany();
  void End(LoopEnd how);
  void SendTo(int rank, std::variant<Part, Vote, StateRequest, StateChunk> body);
  int RankOf(MemberId member) const { return peer_->view().RankOf(member); }
  uint64_t FenceOf(uint64_t view) const;
  uint64_t MarkOf(uint64_t mark) const;

  const int index_;
  const PeerOptions options_;
  Rng rng_;
  Wires& wires_;
  RingChecker& checker_;
  std::vector<std::string> seeds_;
  std::unique_ptr<Peer> peer_;
  uint64_t epoch_ = 0;  // Grows with every life and view: timers of the past do nothing.
  absl::Time timer_ = absl::InfiniteFuture();
  bool leaving_ = false;
  absl::Time closing_since_ = absl::InfiniteFuture();
  Company company_;  // Of all lives of a process.

  Weights weights_ = 0;
  std::map<int64_t, Weights> history_;
  std::map<int64_t, GroupView> finished_in_;  // Of the last steps that this life took part in.
  int64_t confirmed_ = -1;
  std::map<int64_t, std::pair<GroupView, Weights>> unconfirmed_;  // Applied since.
  int64_t believed_ = -1;
  GroupView working_view_;  // That of `work_`, kept for a verdict.
  uint64_t mark_ = 0;       // Of the view in use.
  std::optional<Work> work_;
  // By number and mark of the view, step, sender and count.
  std::map<std::tuple<uint64_t, uint64_t, int64_t, MemberId, int>, Sum> parts_;
  std::vector<std::tuple<MemberId, uint64_t, Vote>> early_votes_;  // With the mark of the view.

  std::map<MemberId, std::shared_ptr<StateSnapshot>> snapshots_;  // By learner.
  std::map<MemberId, std::pair<uint64_t, StateRequest>> askers_;  // With the mark of the view.
  std::optional<StateSink> sink_;
  SourceChoice sources_{absl::Seconds(2)};
  uint64_t copies_ = 0;                       // Begun so far: timers of earlier ones do nothing.
  KeptSums<std::pair<GroupView, Sum>> kept_;  // Of steps taken part in while copying.
  int64_t reached_ = -1;                      // See StateExchange::reached.
};

}  // namespace rubato

#endif  // RUBATO_RING_SIM_NODE_H_

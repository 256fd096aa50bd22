// A group of peers in a world that obeys a seed: packets are lost, delayed and doubled, links fall
// silent in one direction or both, nodes stop for a while, die and come back.
//
// Each node runs a real Peer and trains a model of one number: the real plan, vote tree, quotas and
// state copy run over the world's wires, and a RingChecker looks on after every event. The same
// seed gives the same run, to the last packet.
#ifndef RUBATO_RING_SIM_WORLD_H_
#define RUBATO_RING_SIM_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "rubato/base/rng.h"
#include "rubato/membership/view_authority.h"
#include "rubato/ring/sim/checker.h"
#include "rubato/ring/sim/node.h"

namespace rubato {

struct RingWorldOptions {
  uint64_t seed = 0;
  int nodes = 0;  // 0: two to seven, by the seed.
  absl::Duration faults_for = absl::Seconds(14);
  // After the faults, all must agree and train within this time.
  absl::Duration agree_within = absl::Seconds(25);
  Quorum quorum = Quorum::kMajority;
  bool master = false;   // One issues the views, and is cut off, stopped and
                         // restarted like the rest.
  bool orphans = false;  // With a master: it dies with the last holder, when another is level.
  bool severed = false;  // One link between two never heals: in the end one of them makes room.
  bool shared_memory = false;  // In place of connections: votes ride in the reduction.
  bool early_apply = false;    // Over connections, votes come with the next reduction.
  bool foundings = false;      // Without a master: one founds the group a second time.
  bool ends = false;           // Without a master: training has a last step, and loops end with it.
  bool tells_once = false;     // Planted bugs: see ViewOptions.
  bool half_agrees = false;
  RingBug bug = RingBug::kNone;
};

struct RingWorldResult {
  std::string violation;  // Empty if all was well.
  RingRule broken = RingRule::kNone;
  bool quorum_lost = false;  // Too many died for anyone to go on, as it must be.
  int64_t restarts = 0;      // Of the master.
  int64_t relearned = 0;     // Holders that were not level with the next view, and stayed.
  int64_t orphans = 0;       // Bulk data that arrived after its sender's end.
  int64_t struck = 0;        // The last holder and the master died at once, and left an heir.
  int64_t fell_back = 0;     // The master gave the state of a view up.
  int64_t foundings = 0;     // How often a group was founded.
  int64_t done = 0;          // Loops that ended with the last step,
  int64_t told = 0;          // that came too late for it, and were told,
  int64_t lost = 0;          // or were left with nothing,
  int64_t forsaken = 0;      // and who may wait for ever: those who ended could not reach them.
  int64_t committed = 0;
  uint64_t views = 0;
  int64_t events = 0;
  absl::Duration agreed_after;  // From the last fault; or until all had ended.
};

class RingWorld : public Wires {
 public:
  explicit RingWorld(RingWorldOptions options);
  ~RingWorld() override;

  // Runs until all is decided: a violation, a quorum lost, or agreement.
  RingWorldResult Run();

  // Wires.
  void SendPacket(int from, const std::string& to, const Packet& packet) override;
  void SendBulk(int from, const std::string& to, const Bulk& bulk) override;
  void SendReport(int from, const ViewReport& report) override;
  void After(int node, absl::Duration delay, std::function<void()> what) override;
  absl::Time now() const override { return now_; }
  SharedMemory* memory() override { return options_.shared_memory ? &memory_ : nullptr; }
  bool applies_early() const override { return options_.early_apply && !options_.shared_memory; }
  RingBug loop_bug() const override { return options_.bug; }
  void Wake(const GroupView& view) override;
  void Gone(MemberId life) override { gone_.insert(life); }
  int64_t last_step() const override { return last_step_; }
  void Ended(int index, LoopEnd how) override;

 private:
  struct Event {
    absl::Time time;
    uint64_t sequence = 0;
    int node = -1;  // Whose pause delays it; -1: nobody's.
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };

  void At(absl::Time time, int node, std::function<void()> what);
  void Step();
  void ScheduleFault();
  void CauseFault();
  void CauseDeath(int node);
  // Closed sockets: those that are connected notice at once, some with proof.
  void ShowDeath(int node, MemberId dead, bool proven);
  void FoundAgain();
  void EndFaults();
  bool Agreed() const;
  std::string Describe() const;
  // The foundings that live or lived, and whether nobody of them may go on, also if node `without`
  // died (-1: nobody).
  std::map<uint64_t, bool> LostFoundings(int without) const;
  // Whether that is so for one of them,
  bool QuorumLost(int without) const;
  // or for all.
  bool AllLost() const;
  uint64_t FoundingOf(const RingNode& node) const {
    return checker_.FoundingOf(node.peer().view());
  }
  // `node` goes for good, with the last step: who of its view lacks that step must be out of reach.
  void CheckGoing(const RingNode& node);
  // Whether this one, who holds the state, may be left without the last step.
  bool Forsaken(const RingNode& node) const;
  // All that is left are those who may wait for ever.
  bool AllEnded() const;
  // Whether all is decided, as far as this world goes.
  bool Decided() const;
  // Whether so few hold `view` that nobody may go on.
  bool TooFewHold(const GroupView& view, int without) const;
  // The master's node is the one behind the last.
  int master() const { return static_cast<int>(nodes_.size()); }
  void StartMaster();
  void StopMaster();
  void SettleMaster();
  void WakeMaster(absl::Time when);
  // Kills master and last holder if that leaves a learner that is level with them.
  void StrikeHolder();
  // What rubato::Master does with a view whose state is lost: it begins from a checkpoint.
  void FallBackIfBereft();
  std::set<MemberId> LevelLearners(const GroupView& view) const;
  void DeliverBulk(int from, int to, absl::Time sent, const Bulk& bulk);
  // Both ends find out that nothing moves, sooner or later.
  void ShowSilence(int from, int to, const Bulk& bulk);
  bool IsSevered(int a, int b) const { return severed_ == std::pair<int, int>(std::minmax(a, b)); }
  bool IsCut(int from, int to) const { return cut_[from][to] || IsSevered(from, to); }
  // Whether this one has made room for another, whom it does not reach, or learns where nobody but
  // that one could teach it.
  bool MadeRoom(int node) const;
  // Nobody is left but the two ends of the dead link, and no majority is asked for: each goes on.
  bool SplitForGood() const;
  // Whether what is under way arrives although its sender's life is over.
  bool OutlivesSender(const Bulk& bulk) const;
  int NodeOf(const std::string& address) const;
  absl::Duration Delay();

  const RingWorldOptions options_;
  Rng rng_;
  RingChecker checker_;
  SharedMemory memory_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t next_sequence_ = 0;
  int64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::vector<std::unique_ptr<RingNode>> nodes_;
  std::set<MemberId> gone_;  // Lives that ended in the middle of things, and what they held.
  std::unique_ptr<ViewAuthority> authority_;  // Null while the master is down.
  std::vector<GroupView> journal_;
  std::set<MemberId> exits_;                         // As its parent saw, and tells every master.
  std::set<MemberId> heirs_;                         // Level when the last holder died.
  absl::Time heirs_until_ = absl::InfiniteFuture();  // By then they must have been heard.
  uint64_t fell_back_ = 0;                           // The last view given up.
  int64_t struck_ = 0;
  int64_t falls_ = 0;
  absl::Time master_wake_ = absl::InfiniteFuture();
  int64_t restarts_ = 0;
  int64_t orphans_ = 0;
  std::vector<absl::Time> paused_until_;
  std::vector<std::vector<bool>> cut_;   // [from][to]
  std::pair<int, int> severed_{-1, -1};  // The lower first; none yet.
  double loss_ = 0;
  double duplication_ = 0;
  double slow_ = 0;  // How many packets take a long way round.
  bool faults_over_ = false;
  int64_t last_step_ = -1;
  std::map<int, LoopEnd> ended_;  // Nodes whose loops have; they do not come back.
  std::set<MemberId> forsaken_;   // Out of reach when another of their founding ended.
};

}  // namespace rubato

#endif  // RUBATO_RING_SIM_WORLD_H_

// One member of a group: detector, views and steps as one state machine.
//
// The owner hands in packets, the time, and what the training loop does; it takes out packets to
// send and events to act on. Nothing here blocks, sleeps or reads a clock, so the same object runs
// in ring/sim and over real sockets. Not thread-safe.
#ifndef RUBATO_RING_PEER_H_
#define RUBATO_RING_PEER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/base/rng.h"
#include "rubato/membership/issued_views.h"
#include "rubato/membership/swim.h"
#include "rubato/membership/views.h"
#include "rubato/membership/wire.h"
#include "rubato/ring/step_gate.h"

namespace rubato {

struct PeerOptions {
  SwimOptions swim;
  ViewOptions views;
  uint64_t group = 0;  // Packets of other groups are dropped.
  // A master issues the views: reports go to it, orders come from it, and gossip only detects.
  bool issued = false;
  absl::Duration report_period = absl::Milliseconds(500);  // A quarter of the master's lease.
  // One that closes stays for others who have yet to finish its last step, so long at most, and
  // asks them so often: a round trip, if they do.
  absl::Duration close_max = absl::Seconds(10);
  absl::Duration close_retry = absl::Milliseconds(20);
  RingBug bug = RingBug::kNone;  // Tests only: one of the peer's own.

  absl::Status Validate() const;
};

class Peer {
 public:
  Peer(GroupMember self, PeerOptions options, uint64_t seed);
  Peer(const Peer&) = delete;

  // Either starts a group of one whose weights are those after `step`, or offers the master to ...
  void Found(int64_t step, absl::Time now);
  // ... or joins the group that these addresses belong to; a master needs none. Its first event is
  // a view with kCopy.
  void Join(std::vector<std::string> addresses, absl::Time now);
  // Asks to go at the end of the running step; a kFenced event says that it may.
  void Leave(absl::Time now);
  // Says farewell at once; the others need not find out.
  void Farewell(absl::Time now);

  // The group has done what it was for. All who are known are told, newcomers and those who were
  // left behind too, now and with every packet from here: nobody shall wait for this group.
  void Finish(absl::Time now);

  // The loop takes no more steps. Who has finished a step and goes at once may leave others in
  // doubt about it: they hold its sum, but let go of the view when they miss this member, and may
  // be too few to agree on the next one. So it stays, and takes part in changes of view, until ...
  void Close(absl::Time now);
  // ... all members of the view are known to be as far as this one, or gone; or it was left behind,
  // or has stayed for close_max. At once where a master issues the views: it needs no majority.
  bool MayGo(absl::Time now) const;

  // This member may not open the memory of `member`, a younger one of its view: it shall come again
  // as one that shares none. Say it until it has gone.
  void Deny(MemberId member, absl::Time now);

  void Receive(const Packet& packet, absl::Time now);
  void Receive(const ViewOrder& order, absl::Time now);
  void Tick(absl::Time now);
  absl::Time next_wake() const;
  // See Swim::ReportLost.
  void ReportLost(MemberId member, LossReason reason, absl::Time now);

  // Members of the view who seem gone from here, while no other view is agreed on.
  std::vector<Departure> Missed() const;

  // Who came, and was silent for 25 probe periods before any view had it; each once. Views are told
  // of nobody's end who was in none. One that is back sooner was never lost, and one that comes
  // back later begins a new life.
  std::vector<Departure> TakeLostNewcomers() { return std::exchange(lost_newcomers_, {}); }

  // See ViewSource::Complain.
  void Complain(absl::Time now);

  // The training loop's side; each says whether it may go on. See StepGate.
  bool StartStep(uint64_t mark, int64_t step, absl::Time now);
  bool Vote(uint64_t mark, int64_t step, absl::Time now);
  bool Pledge(uint64_t mark, int64_t step, std::function<bool()> withdraw);
  bool FinishStep(uint64_t mark, int64_t step, absl::Time now);
  bool CatchUp(uint64_t mark, int64_t step, absl::Time now);

  const GroupMember& self() const { return swim_.self(); }
  const GroupView& view() const { return views_->view(); }
  bool member() const { return views_->member(); }
  bool holder() const { return member() && view().Holds(self().id); }
  bool frozen() const { return views_->frozen(); }
  bool fenced() const { return views_->fenced() || swim_.declared_gone(); }
  // See Views::parting; null if there is none.
  const GroupView* parting() const {
    return agreed_ != nullptr && agreed_->parting() ? &*agreed_->parting() : nullptr;
  }
  // Where another group of the same job and secret was last heard of, founded on its own; empty:
  // nowhere. The two have nothing to say to each other.
  const std::string& stranger() const { return stranger_; }
  // Which founding it belongs to, from its first view on; 0: to none yet, or a master issues views.
  uint64_t origin() const { return options_.bug == RingBug::kEndForAll ? 0 : origin_; }
  // The foundings that have done what they were for, as one of theirs said; 0 where a master
  // issues views.
  const std::set<uint64_t>& finished() const { return told_finished_; }
  // When one was last heard of whom this one could train with: of a member of some view; and, by
  // one that is in a view itself, of another who holds the state. InfinitePast: never.
  absl::Time heard(absl::Time now) const;
  int64_t left_at() const { return views_->left_at(); }
  const StepGate& steps() const { return steps_; }
  const Swim& swim() const { return swim_; }

  struct Event {
    enum class Kind : uint8_t {
      kFrozen,  // Stop what runs of the view; another is coming.
      kView,    // A view with this member in it begins; `verdict` on the step under way.
      kFenced,  // The group goes on without this life.
      kDenied   // An older one may not open this member's memory: begin anew, without.
    };
    Kind kind = Kind::kView;
    GroupView view;
    Verdict verdict = Verdict::kNothing;
    std::vector<Loss> losses;  // Seen from here when the view before was let go.
    // kView: those of the view before who are not in this one. kFenced: whom the view left out that
    // left out this life, itself among them; none if nobody has told (Views::left_out).
    std::vector<Departure> gone;
  };
  std::vector<Event> TakeEvents();

  struct Send {
    std::string to;
    Packet packet;
  };
  std::vector<Send> TakeSends();
  // For the master, if there is something to tell it.
  std::optional<ViewReport> TakeReport(absl::Time now);

 private:
  bool AnotherHolds() const;  // And seems to live.
  // Whether the sender belongs to another founding; if it asks for something it is told where this
  // one is.
  bool IsStranger(const Packet& packet);
  bool IsLevel(const GroupMember& member) const;
  bool AllLevel() const;
  // Whoever is not known to be, and says how far this one is. Packets are lost: again and again.
  void AskLevels(absl::Time now);
  // A refused packet is what proves the death of one on another machine with whom nobody had
  // business just then. With a master nobody proposes, so whoever has let go asks the others;
  // without one whoever knows of a death asks those older, who should propose and may be dead too.
  void AskWhoLives(absl::Time now);
  void BeginToAsk(absl::Time now);
  bool WaitsForOlder() const;
  Departure MissedSince(const GroupMember& member, const Loss& loss) const;
  // Those of `before` who are not in view().
  std::vector<Departure> Gone(const GroupView& before) const;
  // As far as they are known to this member.
  std::vector<Departure> LeftOut() const;
  void WatchNewcomers(absl::Time now);
  // Brings the parts into line after any of them moved.
  void Settle(absl::Time now);
  // If there is a new one: at once, for the steps must not miss any.
  void EnterView(absl::Time now);
  void Post(const std::string& to, Packet packet);

  const PeerOptions options_;
  Swim swim_;
  Views* agreed_ = nullptr;  // One of them is views_.
  IssuedViews* issued_ = nullptr;
  std::unique_ptr<ViewSource> views_;
  StepGate steps_;
  uint64_t entered_ = 0;      // The mark of the view in use,
  uint64_t origin_ = 0;       // and which founding it goes back to.
  uint64_t told_origin_ = 0;  // That of the packet that is being read.
  std::string stranger_;
  bool finished_ = false;
  absl::Time close_by_ = absl::InfiniteFuture();  // Set by Close.
  absl::Time ask_levels_ = absl::InfiniteFuture();
  absl::Time asking_since_;
  absl::Time ask_who_lives_ = absl::InfiniteFuture();  // Again,
  absl::Duration ask_pause_;                           // and then after so long.
  std::set<uint64_t> told_finished_;
  // How far the others say they are, and in which view, by its mark.
  std::map<MemberId, std::pair<uint64_t, int64_t>> levels_;
  std::map<MemberId, absl::Time> signs_;  // When each member of the view last said something,
  absl::Time together_;                   // and when all of them were last known to live.
  struct Newcomer {
    Departure departure;  // Should it be one.
    absl::Time dead_since = absl::InfiniteFuture();
  };
  std::map<MemberId, Newcomer> newcomers_;
  absl::Time mourn_ = absl::InfiniteFuture();  // When the first of the dead among them is lost.
  std::vector<Departure> lost_newcomers_;
  MemberId denied_;  // By this member, in the view in use.
  bool said_denied_ = false;
  absl::Time heard_ = absl::InfinitePast();  // A member of some view.
  bool said_frozen_ = false;
  bool said_fenced_ = false;
  GroupView in_use_;
  std::vector<Loss> losses_;  // Of the view in use.
  std::vector<Event> events_;
  std::vector<Send> sends_;
};

}  // namespace rubato

#endif  // RUBATO_RING_PEER_H_

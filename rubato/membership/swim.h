// Who seems to be alive: SWIM with suspicion, as a state machine.
//
//              probe unanswered            suspicion runs out
//     alive ────────────────────▶ suspect ───────────────────▶ dead
//       ▲                            │                           │
//       └──── a higher incarnation, which only the member itself can claim
//                                        gone (it left, or its process is proven to have ended)
//
// Each member probes one other a period; an unanswered probe is tried again through others, so
// that one bad link is not taken for a death. Rumours ride on probes and answers, and a full
// exchange now and then, also with the dead, mends what was missed. For one incarnation the
// order alive < suspect < dead decides between rumours; gone is final. Whom others take for dead is
// suspected here, for as long as a suspicion lasts: it may live on this side of a partition.
//
// Two members may disagree at any moment: this is a detector, and Views agrees on top of it.
// Not thread-safe: whoever owns the peer owns it.
#ifndef RUBATO_MEMBERSHIP_SWIM_H_
#define RUBATO_MEMBERSHIP_SWIM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "rubato/base/rng.h"
#include "rubato/membership/member.h"
#include "rubato/membership/swim_options.h"

namespace rubato {

enum class Health : uint8_t { kAlive, kSuspect, kDead, kGone };

// What one member says about another, or about itself.
struct Rumour {
  GroupMember member;
  Health health = Health::kAlive;
  uint32_t incarnation = 0;
};

struct SwimMessage {
  enum class Kind : uint8_t {
    kPing,         // Answer me with this sequence number.
    kAck,          // I am here; answers a ping, or hands on the answer of another.
    kPingRequest,  // Please ping `target` for me.
    kGossip,       // Nothing but rumours.
    kPush,         // All I know; tell me all you know.
    kPull          // All I know.
  };
  Kind kind = Kind::kGossip;
  GroupMember from;
  uint64_t sequence = 0;
  GroupMember
      target;  // For kPing too, so that whoever took over an address does not answer for it.
  std::vector<Rumour> rumours;
};

class Swim {
 public:
  // `self.id` must be new. `rng` orders the probes.
  Swim(GroupMember self, SwimOptions options, Rng rng);

  // Asks these addresses for the group, in turn, until StopSeeking(): those who answer may be
  // seeking it too. They are also tried now and then later, so that halves find each other.
  void Join(std::vector<std::string> addresses, absl::Time now);
  void StopSeeking() { seeking_ = false; }

  // `member` is known from elsewhere, as from a view; alive until shown otherwise.
  void Introduce(const GroupMember& member, absl::Time now);
  // The same, of a member of a view that begins here: who made it has heard of that member, perhaps
  // since it was held for dead here. So it is suspected instead, and asked at once.
  void Readmit(const GroupMember& member, absl::Time now);
  // Knows nobody any more, until somebody speaks or is introduced.
  void ForgetOthers();
  // These are not forgotten, however long they are dead: one that was only out of reach must be
  // found again, and its silence must not turn into the kGone of one that nobody knows.
  void Keep(std::set<MemberId> members) { kept_ = std::move(members); }

  void Receive(const SwimMessage& message, absl::Time now);
  // Does what is due. Call at `next_wake()`, or whenever convenient.
  void Tick(absl::Time now);
  absl::Time next_wake() const;

  // A connection to `member` broke. With `proven`, its process is known to have ended: it is gone
  // at once, for good. Otherwise it is probed now and suspected.
  void ReportLost(MemberId member, bool proven, absl::Time now);
  // Sends a packet to `member`, or to everyone known, the dead too: they may only sleep.
  void Greet(const GroupMember& member);
  void GreetAll();
  // Says farewell: others see this member as gone without suspecting it first.
  void Leave(absl::Time now);

  // kGone for an id never heard of, or forgotten: see knows().
  Health health(MemberId member) const;
  bool knows(MemberId member) const { return known_.contains(member); }
  // Who is at `address`, as far as is known: of all who were, the last to speak. Null: nobody.
  MemberId LifeAt(const std::string& address) const;
  // Neither dead nor gone, self included, by id.
  std::vector<GroupMember> Living() const;
  const GroupMember& self() const { return self_; }
  // Others say that this life has ended, and will not be told otherwise.
  bool declared_gone() const { return declared_gone_; }

  struct Send {
    std::string to;
    SwimMessage message;
  };
  std::vector<Send> TakeSends();
  // Whether Living() may have changed since the last call.
  bool TakeChanged();

 private:
  struct Known {
    GroupMember member;
    Health health = Health::kAlive;
    uint32_t incarnation = 0;
    absl::Time deadline = absl::InfiniteFuture();  // Of the suspicion, or of the memory.
    uint64_t spoke = 0;                            // How many packets had come by then.
    // A probe since the suspicion began: others suspect it, who may not reach it, and it has yet to
    // hear of that and refute it.
    bool answered = false;
  };
  struct Queued {
    Rumour rumour;
    int sent = 0;
  };
  struct Probe {
    GroupMember target;
    uint64_t sequence = 0;
    absl::Time ask_others;  // InfiniteFuture once asked.
    absl::Time give_up;
    bool reported = false;  // Begun since a connection to it broke.
  };
  struct Errand {  // A ping sent for someone else.
    GroupMember requester;
    uint64_t sequence = 0;
  };

  void Hear(const Rumour& rumour, absl::Time now);
  void HearAboutSelf(const Rumour& rumour);
  void SetHealth(Known& known, Health health, uint32_t incarnation, absl::Time now);
  void Spread(const Rumour& rumour);
  void SendTo(const std::string& address, SwimMessage message);
  void AttachRumours(SwimMessage& message);
  std::vector<Rumour> WholeTable() const;
  void StartProbe(absl::Time now);
  void BeginProbeOf(const GroupMember& target, absl::Time now);
  void AskOthers(absl::Time now);
  void Gossip();
  void PushPull();
  void ExpireSuspicions(absl::Time now);
  void ForgiveOwnSleep(absl::Time now);
  void MissProbe(const GroupMember& target, absl::Time now);
  std::vector<GroupMember> Others(bool with_dead) const;
  absl::Duration SuspicionTime() const;

  const GroupMember self_;
  const SwimOptions options_;
  Rng rng_;
  size_t next_push_;
  uint32_t incarnation_ = 0;
  bool leaving_ = false;
  bool seeking_ = false;
  bool declared_gone_ = false;
  bool changed_ = true;
  std::vector<std::string> seeds_;
  std::map<MemberId, Known> known_;  // Ordered, so that a seed replays. Self is not in it.
  std::set<MemberId> kept_;
  std::deque<Queued> queue_;     // News first, worn rumours last.
  std::vector<MemberId> round_;  // Whom this round of probes has still to visit.
  std::optional<Probe> probe_;
  std::map<uint64_t, Errand> errands_;
  uint64_t next_sequence_ = 1;
  uint64_t packets_ = 0;
  absl::Time last_tick_ = absl::InfinitePast();
  absl::Time next_probe_ = absl::InfinitePast();
  absl::Time next_gossip_ = absl::InfinitePast();
  absl::Time next_push_pull_ = absl::InfinitePast();
  std::vector<Send> sends_;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_SWIM_H_

#include "rubato/ring/peer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/ring/company.h"

namespace rubato {
namespace {

// Two peers whose packets reach each other at once, in a view together.
class PeerPairTest : public testing::Test {
 protected:
  PeerPairTest() {
    peers_[0].Found(0, now_);
    peers_[1].Join({"a"}, now_);
    for (int i = 0; i < 300 && !peers_[1].member(); ++i) Pass();
    for (int i = 0; i < 300 && !peers_[1].holder(); ++i) {
      if (i == 10) peers_[1].CatchUp(peers_[1].view().Mark(), peers_[1].steps().finished(), now_);
      Pass();
    }
  }
  void Pass() {
    now_ += absl::Milliseconds(10);
    for (Peer& peer : peers_) peer.Tick(now_);
    for (int turn = 0; turn < 8; ++turn) {
      for (Peer& peer : peers_) {
        for (const Peer::Send& send : peer.TakeSends()) {
          peers_[send.to == "a" ? 0 : 1].Receive(send.packet, now_);
        }
      }
    }
  }

  absl::Time now_ = absl::UnixEpoch();
  Peer peers_[2] = {Peer({MemberId(1), "a"}, {.swim = SwimOptions::Loopback()}, 7),
                    Peer({MemberId(2), "b"}, {.swim = SwimOptions::Loopback()}, 8)};
};

// The older of two needs nobody's consent to go on, and still says whom it lost and how.
TEST_F(PeerPairTest, TheOlderGoesOnAtOnceAndNamesTheLoss) {
  ASSERT_TRUE(peers_[1].holder());
  peers_[0].TakeEvents();
  peers_[0].ReportLost(MemberId(2), LossReason::kProcess, now_);
  const std::vector<Peer::Event> events = peers_[0].TakeEvents();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, Peer::Event::Kind::kView);
  EXPECT_EQ(events.back().view.size(), 1);
  ASSERT_EQ(events.back().losses.size(), 1u);
  EXPECT_EQ(events.back().losses[0], (Loss{MemberId(2), MemberId(1), LossReason::kProcess}));
  ASSERT_EQ(events.back().gone.size(), 1u);
  EXPECT_EQ(events.back().gone[0].member.id, MemberId(2));
  EXPECT_EQ(events.back().gone[0].loss, events.back().losses[0]);
  EXPECT_GT(events.back().gone[0].heard, now_ - absl::Seconds(1));
}

// What a peer says when it lets go is what the votes in memory came to.
TEST_F(PeerPairTest, TheOlderGoesOnWithTheSumThatAllVotedFor) {
  ASSERT_TRUE(peers_[1].holder());
  const uint64_t view = peers_[0].view().Mark();
  const int64_t step = peers_[0].steps().finished() + 1;
  ASSERT_TRUE(peers_[0].StartStep(view, step, now_));
  ASSERT_TRUE(peers_[0].Pledge(view, step, [] { return true; }));
  peers_[0].TakeEvents();
  peers_[0].ReportLost(MemberId(2), LossReason::kProcess, now_);
  const std::vector<Peer::Event> events = peers_[0].TakeEvents();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().view.step, step);
  EXPECT_EQ(events.back().verdict, Verdict::kFinish);
}

// Peers by their address; each packet arrives at once.
void PassAround(std::vector<std::pair<std::string, Peer*>> peers, absl::Time& now) {
  now += absl::Milliseconds(10);
  for (const auto& [address, peer] : peers) peer->Tick(now);
  for (int turn = 0; turn < 8; ++turn) {
    for (const auto& [from, peer] : peers) {
      for (const Peer::Send& send : peer->TakeSends()) {
        for (const auto& [to, other] : peers) {
          if (send.to == to) other->Receive(send.packet, now);
        }
      }
    }
  }
}

// Whoever is told of a view by another says what it saw itself, not what it heard.
TEST_F(PeerPairTest, WhoIsToldOfAViewNamesTheLossItSaw) {
  Peer third({MemberId(3), "c"}, {.swim = SwimOptions::Loopback()}, 9);
  Peer fourth({MemberId(4), "d"}, {.swim = SwimOptions::Loopback()}, 10);
  third.Join({"a"}, now_);
  fourth.Join({"a"}, now_);
  const auto all = [&](int passes) {
    for (int i = 0; i < passes; ++i) {
      PassAround({{"a", &peers_[0]}, {"b", &peers_[1]}, {"c", &third}, {"d", &fourth}}, now_);
    }
  };
  all(300);
  for (Peer* peer : {&third, &fourth}) {
    ASSERT_TRUE(peer->member());
    peer->CatchUp(peer->view().Mark(), peer->steps().finished(), now_);
    all(50);
  }
  ASSERT_EQ(peers_[1].view().size(), 4);
  third.TakeEvents();
  peers_[1].TakeEvents();
  peers_[1].ReportLost(MemberId(4), LossReason::kProcess, now_);
  third.ReportLost(MemberId(4), LossReason::kSocket, now_);
  for (int i = 0; i < 200; ++i) {
    PassAround({{"a", &peers_[0]}, {"b", &peers_[1]}, {"c", &third}}, now_);
  }
  for (Peer* peer : {&peers_[1], &third}) {
    const std::vector<Peer::Event> events = peer->TakeEvents();
    ASSERT_FALSE(events.empty());
    ASSERT_EQ(events.back().view.size(), 3);
    ASSERT_EQ(events.back().gone.size(), 1u);
    const LossReason saw = peer == &third ? LossReason::kSocket : LossReason::kProcess;
    EXPECT_EQ(events.back().gone[0].loss, (Loss{MemberId(4), peer->self().id, saw}));
  }
}

// One that came while a step ran, and died before any view had it, is named once by each.
TEST_F(PeerPairTest, ANewcomerThatDiesAtTheDoorIsNamed) {
  for (Peer& peer : peers_) peer.StartStep(peer.view().Mark(), peer.steps().finished() + 1, now_);
  Peer third({MemberId(3), "c"}, {.swim = SwimOptions::Loopback()}, 9);
  third.Join({"a"}, now_);
  for (int i = 0; i < 40; ++i) {
    PassAround({{"a", &peers_[0]}, {"b", &peers_[1]}, {"c", &third}}, now_);
  }
  for (int i = 0; i < 300; ++i) Pass();
  for (Peer& peer : peers_) EXPECT_TRUE(peer.TakeLostNewcomers().empty()) << "it may come back";
  for (int i = 0; i < 300; ++i) Pass();
  for (Peer& peer : peers_) {
    const std::vector<Departure> lost = peer.TakeLostNewcomers();
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].loss, (Loss{MemberId(3), peer.self().id, LossReason::kLease}));
    EXPECT_LT(lost[0].heard, now_ - absl::Seconds(2));
    EXPECT_TRUE(peer.TakeLostNewcomers().empty());
  }
}

// One that came seems dead for a moment, and comes in as the same life: nobody was lost. Away for
// longer it is told as lost, and must come as another.
TEST_F(PeerPairTest, ANewcomerThatIsBackInTimeWasNeverLost) {
  for (const int away : {200, 800}) {
    for (Peer& peer : peers_) peer.StartStep(peer.view().Mark(), peer.steps().finished() + 1, now_);
    const MemberId id(away);
    Peer third({id, "c"}, {.swim = SwimOptions::Loopback()}, 9);
    third.Join({"a"}, now_);
    const auto all = [&](int passes) {
      for (int i = 0; i < passes; ++i) {
        PassAround({{"a", &peers_[0]}, {"b", &peers_[1]}, {"c", &third}}, now_);
      }
    };
    all(20);
    ASSERT_TRUE(peers_[0].swim().knows(id));
    for (int i = 0; i < away; ++i) Pass();
    ASSERT_EQ(peers_[0].swim().health(id), Health::kDead);
    const size_t lost = away > 500 ? 1 : 0;
    for (Peer& peer : peers_) EXPECT_EQ(peer.TakeLostNewcomers().size(), lost);
    all(700);
    EXPECT_EQ(third.fenced(), lost == 1);
    for (Peer& peer : peers_) {
      EXPECT_TRUE(peer.TakeLostNewcomers().empty());
      EXPECT_EQ(peer.view().Contains(id), lost == 0);
    }
    third.Farewell(now_);
    all(100);
    ASSERT_EQ(peers_[0].view().size(), 2);
  }
}

// Whoever is resumed where a dead one was is found by those who still wait for that one. They are
// of another founding, and further: it must not believe that it was left behind by them.
TEST_F(PeerPairTest, OneResumedInADeadOnesPlaceIsNotTheirs) {
  ASSERT_TRUE(peers_[1].holder());
  peers_[1].ReportLost(MemberId(1), LossReason::kProcess, now_);
  Peer resumed({MemberId(3), "a"}, {.swim = SwimOptions::Loopback()}, 9);
  resumed.Found(0, now_);
  for (int i = 0; i < 1000; ++i) PassAround({{"a", &resumed}, {"b", &peers_[1]}}, now_);
  EXPECT_TRUE(resumed.holder());
  EXPECT_FALSE(resumed.frozen() || resumed.fenced());
  EXPECT_EQ(resumed.view().size(), 1);
  EXPECT_EQ(peers_[1].stranger(), "a") << "so that it can say where the others went";
}

// Two were founded from one job, and one who comes asks both: it joins one of them, and they do not
// come to know each other through it.
TEST_F(PeerPairTest, OneWhoAsksTwoGroupsJoinsOne) {
  ASSERT_TRUE(peers_[1].holder());
  Peer other({MemberId(3), "c"}, {.swim = SwimOptions::Loopback()}, 9);
  other.Found(0, now_);
  Peer newcomer({MemberId(4), "d"}, {.swim = SwimOptions::Loopback()}, 10);
  newcomer.Join({"b", "c"}, now_);
  for (int i = 0; i < 1500; ++i) {
    PassAround({{"a", &peers_[0]}, {"b", &peers_[1]}, {"c", &other}, {"d", &newcomer}}, now_);
  }
  EXPECT_TRUE(peers_[0].holder() && peers_[1].holder() && other.holder());
  ASSERT_TRUE(newcomer.member());
  const bool with_first = newcomer.view().Contains(MemberId(1));
  EXPECT_EQ(peers_[0].view().size(), with_first ? 3 : 2);
  EXPECT_EQ(peers_[1].view().size(), with_first ? 3 : 2);
  EXPECT_EQ(other.view().size(), with_first ? 1 : 2);
}

// The younger may not: the older may have gone on without it.
TEST_F(PeerPairTest, TheYoungerStandsStill) {
  ASSERT_TRUE(peers_[1].holder());
  peers_[1].TakeEvents();
  peers_[1].ReportLost(MemberId(1), LossReason::kProcess, now_);
  for (int i = 0; i < 500; ++i) {
    now_ += absl::Milliseconds(10);
    peers_[1].Tick(now_);
  }
  EXPECT_TRUE(peers_[1].frozen());
  EXPECT_EQ(peers_[1].view().size(), 2);
}

// Who has finished a step may go when the other has finished it too, or is gone.
TEST_F(PeerPairTest, WhoClosesWaitsUntilTheOtherIsLevel) {
  ASSERT_TRUE(peers_[1].holder());
  const uint64_t view = peers_[0].view().Mark();
  const int64_t step = peers_[0].steps().finished() + 1;
  const auto ask = [&] {
    peers_[0].Close(now_);
    for (int i : {0, 1}) {
      for (const Peer::Send& send : peers_[i].TakeSends()) peers_[1 - i].Receive(send.packet, now_);
    }
    return peers_[0].MayGo(now_);
  };
  EXPECT_TRUE(ask());
  for (Peer& peer : peers_) {
    ASSERT_TRUE(peer.StartStep(view, step, now_) && peer.Vote(view, step, now_));
  }
  ASSERT_TRUE(peers_[0].FinishStep(view, step, now_));
  EXPECT_FALSE(peers_[0].MayGo(now_));
  EXPECT_FALSE(ask());
  ASSERT_TRUE(peers_[1].FinishStep(view, step, now_));
  EXPECT_FALSE(peers_[0].MayGo(now_)) << "it has not heard so";
  EXPECT_TRUE(ask());
  EXPECT_TRUE(peers_[1].MayGo(now_)) << "who asks says how far it is";
  ASSERT_TRUE(peers_[0].StartStep(view, step + 1, now_) && peers_[0].Vote(view, step + 1, now_));
  ASSERT_TRUE(peers_[0].FinishStep(view, step + 1, now_));
  EXPECT_FALSE(ask());
  EXPECT_TRUE(peers_[0].MayGo(now_ + absl::Seconds(10))) << "nobody waits for ever";
  peers_[0].ReportLost(MemberId(2), LossReason::kProcess, now_);
  EXPECT_TRUE(peers_[0].MayGo(now_)) << "nobody waits for the dead";
}

// What is asked may be lost, and is asked again by the peer's own timer.
TEST_F(PeerPairTest, WhoClosesAsksUntilItIsAnswered) {
  ASSERT_TRUE(peers_[1].holder());
  const uint64_t view = peers_[0].view().Mark();
  const int64_t step = peers_[0].steps().finished() + 1;
  for (Peer& peer : peers_) {
    ASSERT_TRUE(peer.StartStep(view, step, now_) && peer.Vote(view, step, now_));
    ASSERT_TRUE(peer.FinishStep(view, step, now_));
  }
  peers_[0].Close(now_);
  peers_[0].TakeSends();
  EXPECT_LE(peers_[0].next_wake(), now_ + PeerOptions().close_retry);
  for (int i = 0; i < 3 && !peers_[0].MayGo(now_); ++i) Pass();
  EXPECT_TRUE(peers_[0].MayGo(now_));
}

// Under `quorum: any` both halves of a split may count alike, and a learner may go from one to the
// other: it takes no step of the first for one of the second, and copies the state anew.
TEST(PeerTest, TheOtherHalfOfASplitIsAnotherView) {
  PeerOptions options{.swim = SwimOptions::Loopback()};
  options.views.quorum = Quorum::kAny;
  Peer learner({MemberId(9), "i"}, options, 7);
  const absl::Time now = absl::UnixEpoch();
  const auto decide = [&](const GroupView& view) {
    ViewMessage message{.kind = ViewMessage::Kind::kDecide, .from = view.members[0], .number = 5};
    message.view = view;
    learner.Receive({.view = 4, .from = view.members[0], .body = message}, now);
    return learner.TakeEvents();
  };
  const GroupView one{4, {{MemberId(1), "a"}, {MemberId(9), "i"}}, 1, 7, 3};
  const GroupView other{4, {{MemberId(2), "b"}, {MemberId(3), "c"}, {MemberId(9), "i"}}, 2, 7, 3};
  ASSERT_EQ(decide(one).size(), 1u);
  ASSERT_TRUE(learner.StartStep(one.Mark(), 8, now));
  const std::vector<Peer::Event> events = decide(other);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].verdict, Verdict::kCopy);
  EXPECT_EQ(events[0].view, other);
  EXPECT_FALSE(learner.Vote(one.Mark(), 8, now)) << "a sum of the first half";
  EXPECT_FALSE(learner.CatchUp(one.Mark(), 7, now));
}

// Under `quorum: any` one that seemed dead goes on alone, is heard of, and dies: whoever was left
// behind by it holds all that is left of the state, and goes on with that.
TEST(PeerTest, WhoWasLeftBehindByTheDeadGoesOn) {
  absl::Time now = absl::UnixEpoch();
  PeerOptions any{.swim = SwimOptions::Loopback()};
  any.views.quorum = Quorum::kAny;
  Peer a({MemberId(1), "a"}, any, 7), b({MemberId(2), "b"}, any, 8);
  a.Found(0, now);
  b.Join({"a"}, now);
  for (int i = 0; i < 600 && !b.holder(); ++i) {
    if (i == 100) b.CatchUp(b.view().Mark(), b.steps().finished(), now);
    PassAround({{"a", &a}, {"b", &b}}, now);
  }
  ASSERT_TRUE(b.holder());
  b.ReportLost(MemberId(1), LossReason::kProcess, now);
  ASSERT_EQ(b.view().size(), 1);
  const ViewMessage told{.kind = ViewMessage::Kind::kDecide,
                         .from = b.self(),
                         .number = b.view().number,
                         .view = b.view()};
  a.Receive({.view = b.view().number, .mark = b.view().Mark(), .from = b.self(), .body = told},
            now);
  EXPECT_TRUE(a.frozen()) << "the other is further";
  a.ReportLost(MemberId(2), LossReason::kProcess, now);
  for (int i = 0; i < 600 && a.frozen(); ++i) PassAround({{"a", &a}}, now);
  EXPECT_FALSE(a.frozen() || a.fenced());
  EXPECT_TRUE(a.holder());
  EXPECT_EQ(a.view().size(), 1);
  EXPECT_GT(a.view().number, b.view().number) << "nobody takes it for the older half";
}

// One that copies the state is stopped in its step when all who hold it are gone: nobody else would
// end the view.
TEST(PeerTest, ALearnerDoesNotWaitForTheDead) {
  Peer learner({MemberId(9), "i"}, {.swim = SwimOptions::Loopback()}, 7);
  const absl::Time now = absl::UnixEpoch();
  const GroupView view{4, {{MemberId(1), "a"}, {MemberId(2), "b"}, {MemberId(9), "i"}}, 2, 7, 3};
  ViewMessage message{.kind = ViewMessage::Kind::kDecide, .from = view.members[0], .number = 5};
  message.view = view;
  learner.Receive({.view = 4, .from = view.members[0], .body = message}, now);
  ASSERT_TRUE(learner.member());
  learner.TakeEvents();
  learner.ReportLost(MemberId(1), LossReason::kProcess, now);
  EXPECT_TRUE(learner.TakeEvents().empty()) << "the other holder makes the next view";
  EXPECT_EQ(learner.heard(now + absl::Hours(1)), now + absl::Hours(1));
  learner.ReportLost(MemberId(2), LossReason::kProcess, now);
  const std::vector<Peer::Event> events = learner.TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Peer::Event::Kind::kFrozen);
  EXPECT_EQ(learner.heard(now + absl::Hours(1)), now);
}

// Of two who do not hear each other for a while the master lets in both: neither takes the other
// for dead in that view for what it believed before, and tells the master so.
TEST(PeerTest, WhatWasBelievedBeforeAViewIsAskedAgain) {
  const GroupMember self{MemberId(1), "a"}, other{MemberId(2), "b"};
  Peer peer(self, {.swim = SwimOptions::Loopback(), .issued = true}, 7);
  absl::Time now = absl::UnixEpoch();
  peer.Found(0, now);
  peer.Receive({.from = other, .body = SwimMessage{.from = other}}, now);
  for (int i = 0; i < 300; ++i) peer.Tick(now += absl::Milliseconds(10));
  ASSERT_EQ(peer.swim().health(other.id), Health::kDead);
  peer.TakeSends();
  peer.Receive(ViewOrder{.view = {1, {self, other}, 1, 0}}, now);
  ASSERT_TRUE(peer.member());
  const std::optional<ViewReport> report = peer.TakeReport(now);
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->lost.empty());
  bool asks = false;
  for (const Peer::Send& send : peer.TakeSends()) asks = asks || send.to == "b";
  EXPECT_TRUE(asks);
}

// One that founded a group, trained, and came to copy the state again has nothing left of what it
// offered: it says so, and enters no view that would begin with it.
TEST(PeerTest, AnOfferEndsWithTheFirstView) {
  const GroupMember self{MemberId(1), "a"}, other{MemberId(2), "b"};
  Peer peer(self, {.swim = SwimOptions::Loopback(), .issued = true}, 7);
  absl::Time now = absl::UnixEpoch();
  peer.Found(0, now);
  EXPECT_EQ(peer.TakeReport(now).value().offer, 0);
  const GroupView first{1, {self, other}, 2, 0};
  peer.Receive(ViewOrder{.view = first}, now);
  ASSERT_TRUE(peer.holder());
  EXPECT_EQ(peer.TakeReport(now).value().offer, -1);
  for (int64_t step : {1, 2}) {  // Early: the other may have the second or not.
    ASSERT_TRUE(peer.StartStep(first.Mark(), step, now) && peer.Vote(first.Mark(), step, now) &&
                peer.FinishStep(first.Mark(), step, now));
  }
  const GroupView second{2, {other, self}, 1, 1, first.Mark()};
  peer.Receive(ViewOrder{.view = second}, now);
  ASSERT_TRUE(peer.member() && peer.steps().learning());
  peer.Receive(ViewOrder{.view = {3, {self}, 1, 0, second.Mark()}}, now);
  EXPECT_TRUE(peer.fenced());
}

// With a master nobody proposes, whose question would show who else has died: so whoever lets go
// asks the others, again soon, and more and more seldom, until they have spoken or another view is
// there.
TEST(PeerTest, WhoLetsGoOfAnIssuedViewAsksWhoElseIsGone) {
  GroupView view{.number = 1, .holders = 5, .step = 0};
  for (int i = 0; i < 5; ++i) view.members.push_back({MemberId(1 + i), absl::StrCat("m", 1 + i)});
  Peer peer(view.members[0], {.swim = SwimOptions::Loopback(), .issued = true}, 7);
  absl::Time now = absl::UnixEpoch();
  peer.Found(0, now);
  peer.Receive(ViewOrder{.view = view}, now);
  const auto asked = [&] {
    std::set<std::string> all;
    for (const Peer::Send& send : peer.TakeSends()) all.insert(send.to);
    return all;
  };
  peer.Tick(now);
  asked();
  peer.ReportLost(MemberId(2), LossReason::kProcess, now);
  EXPECT_TRUE(peer.frozen());
  EXPECT_EQ(asked(), (std::set<std::string>{"m3", "m4", "m5"}));
  peer.Receive({.from = view.members[2], .body = SwimMessage{.from = view.members[2]}}, now);
  peer.ReportLost(MemberId(4), LossReason::kRefused, now);
  std::set<int> again;  // After so many milliseconds.
  for (int ms = 1; ms < 60; ++ms) {
    now += absl::Milliseconds(1);
    if (now >= peer.next_wake()) peer.Tick(now);
    if (asked().contains("m5")) again.insert(ms);
  }
  // Beside what gossip there is: an eighth of 60 ms, then twice that, and so on.
  for (const int ms : {8, 23, 53}) EXPECT_TRUE(again.contains(ms)) << ms;
}

// Without a master the oldest who lives proposes, and its question shows who else has died. Who is
// not the oldest, and knows of a death, asks those older: one of them may have died as well, and
// nobody else would find out so soon.
TEST(PeerTest, WhoWaitsForAnOlderOneAsksWhetherItLives) {
  std::vector<GroupMember> members;
  for (int i = 0; i < 6; ++i) members.push_back({MemberId(1 + i), absl::StrCat("m", 1 + i)});
  for (const int rank : {0, 3, 5}) {
    // It comes, and learns.
    GroupView first{.number = 1, .members = members, .holders = 5};
    std::swap(first.members[rank], first.members[5]);
    const GroupView view{2, members, 5, 0, first.Mark()};
    Peer peer(members[rank], {.swim = SwimOptions::Loopback()}, 7);
    absl::Time now = absl::UnixEpoch();
    const auto hear = [&](int from, ViewMessage::Kind kind, const GroupView& what) {
      const ViewMessage message{.kind = kind,
                                .from = members[from],
                                .number = 3,
                                .ballot = {1, members[from].id},
                                .view = what};
      peer.Receive({.from = members[from], .body = message}, now);
    };
    const auto asked = [&] {
      std::set<std::string> all;
      for (const Peer::Send& send : peer.TakeSends()) {
        if (std::holds_alternative<SwimMessage>(send.packet.body)) all.insert(send.to);
      }
      return all;
    };
    peer.Join({"m2"}, now);
    hear(1, ViewMessage::Kind::kDecide, first);
    if (rank < 5) peer.CatchUp(first.Mark(), 0, now);
    hear(1, ViewMessage::Kind::kDecide, view);
    ASSERT_EQ(peer.view(), view);
    ASSERT_EQ(peer.holder(), rank < 5);
    peer.Tick(now);
    asked();
    now += absl::Milliseconds(1);
    peer.ReportLost(MemberId(3), LossReason::kRefused, now);
    const std::set<std::string> older = {"m1", "m2"};
    EXPECT_EQ(asked(), rank == 3 ? older : std::set<std::string>()) << rank;
    if (rank != 3) continue;
    peer.ReportLost(MemberId(2), LossReason::kRefused, now);
    std::set<int> again;
    for (int ms = 1; ms < 60; ++ms) {
      now += absl::Milliseconds(1);
      if (now >= peer.next_wake()) peer.Tick(now);
      if (asked().contains("m1")) again.insert(ms);
      if (ms == 30) hear(0, ViewMessage::Kind::kPrepare, view);
    }
    for (const int ms : {8, 23}) EXPECT_TRUE(again.contains(ms)) << ms;
    EXPECT_FALSE(again.contains(53)) << "it has spoken, and proposes";
  }
}

// A holder that must copy the state anew has said once that it is level. That it is so again is
// news, though it may be at once.
TEST(PeerTest, WhoIsLevelAgainSaysSoAtOnce) {
  const GroupMember self{MemberId(1), "a"}, other{MemberId(2), "b"};
  Peer peer(self, {.swim = SwimOptions::Loopback(), .issued = true}, 7);
  absl::Time now = absl::UnixEpoch();
  peer.Join({}, now);
  const GroupView first{1, {other, self}, 1, 0};
  peer.Receive(ViewOrder{.view = first}, now);
  ASSERT_TRUE(peer.CatchUp(first.Mark(), 0, now));
  EXPECT_TRUE(peer.TakeReport(now).value().level);
  const GroupView second{2, {other, self}, 2, 0, first.Mark()};
  peer.Receive(ViewOrder{.view = second}, now);
  ASSERT_TRUE(peer.holder());
  ASSERT_TRUE(peer.TakeReport(now).value().level);
  const GroupView third{3, {other, self}, 1, 1, second.Mark()};
  peer.Receive(ViewOrder{.view = third}, now);
  ASSERT_TRUE(peer.member() && peer.steps().learning());
  EXPECT_FALSE(peer.TakeReport(now).value().level);
  ASSERT_TRUE(peer.CatchUp(third.Mark(), 1, now));
  const std::optional<ViewReport> report = peer.TakeReport(now);
  ASSERT_TRUE(report.has_value()) << "it waits for the time of the next report";
  EXPECT_TRUE(report->level);
}

// Whoever still waits for the group is told that it has ended: one that never got in, too.
TEST_F(PeerPairTest, WhoHasFinishedSaysSo) {
  Peer newcomer({MemberId(3), "c"}, {.swim = SwimOptions::Loopback()}, 9);
  EXPECT_EQ(newcomer.heard(now_), absl::InfinitePast());
  newcomer.Join({"a"}, now_);
  const auto deliver = [&](Peer& from, Peer& to, const std::string& address) {
    for (const Peer::Send& send : from.TakeSends()) {
      if (send.to == address) to.Receive(send.packet, now_);
    }
  };
  deliver(newcomer, peers_[0], "a");
  deliver(peers_[0], newcomer, "c");
  EXPECT_EQ(newcomer.heard(now_), now_) << "one that is in a view";
  EXPECT_TRUE(newcomer.finished().empty());
  peers_[0].Finish(now_);
  const std::vector<Peer::Send> recording = peers_[0].TakeSends();
  const auto repeat = [&](Peer& to, const std::string& address) {
    for (const Peer::Send& send : recording) {
      if (send.to == address) to.Receive(send.packet, now_);
    }
  };
  repeat(peers_[1], "b");
  repeat(newcomer, "c");
  EXPECT_TRUE(peers_[1].finished().contains(peers_[1].origin()));
  EXPECT_TRUE(newcomer.finished().contains(peers_[0].origin()));
  // The same words to a later life at that address are of another time.
  Peer later({MemberId(4), "c"}, {.swim = SwimOptions::Loopback()}, 10);
  later.Join({"a"}, now_);
  repeat(later, "c");
  EXPECT_TRUE(later.finished().empty());
  // It is told, too, if it asks while the group is there.
  deliver(later, peers_[0], "a");
  deliver(peers_[0], later, "c");
  EXPECT_TRUE(later.finished().contains(peers_[0].origin()));
}

// A newcomer hears one group end, and is let in by another of the same job: that one has not ended,
// however silent it is, in this life of the newcomer or in the next.
TEST_F(PeerPairTest, TheEndOfOneFoundingIsNotThatOfAnother) {
  Peer other({MemberId(3), "c"}, {.swim = SwimOptions::Loopback()}, 9);
  Peer newcomer({MemberId(4), "d"}, {.swim = SwimOptions::Loopback()}, 10);
  Company company;
  const auto is_over = [&](const Peer& life) {
    company.Note(life, now_);
    return company.Over(now_ + absl::Seconds(4));
  };
  peers_[0].Finish(now_);
  newcomer.Join({"a"}, now_);
  for (const Peer::Send& send : newcomer.TakeSends()) peers_[0].Receive(send.packet, now_);
  for (const Peer::Send& send : peers_[0].TakeSends()) {
    if (send.to == "d") newcomer.Receive(send.packet, now_);
  }
  EXPECT_TRUE(is_over(newcomer)) << "it belongs to neither yet";
  other.Found(0, now_);
  newcomer.Join({"c"}, now_);
  for (int i = 0; i < 300 && !newcomer.member(); ++i) {
    PassAround({{"c", &other}, {"d", &newcomer}}, now_);
  }
  ASSERT_TRUE(newcomer.member());
  newcomer.ReportLost(MemberId(3), LossReason::kProcess, now_);
  EXPECT_FALSE(is_over(newcomer));
  const Peer next_life({MemberId(5), "d"}, {.swim = SwimOptions::Loopback()}, 11);
  EXPECT_FALSE(is_over(next_life)) << "what it has copied is still the other's";
}

}  // namespace
}  // namespace rubato

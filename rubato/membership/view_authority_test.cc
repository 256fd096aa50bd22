#include "rubato/membership/view_authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rubato/membership/views_testing.h"

namespace rubato {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// A master, and members who say what the test makes them say.
class Court {
 public:
  explicit Court(GroupView last = {}, AuthorityOptions options = {})
      : authority(options, std::move(last), now) {}

  void Newcomer(int id, int64_t offer = -1) {
    Send({.from = M(id), .progress = {-1, -1, -1}, .offer = offer});
  }
  // Says that it is well, but does not hear these.
  void Misses(int id, std::vector<int> others) {
    ViewReport report{.from = M(id), .view = authority.view().number};
    report.progress = {100, 100, 100, true};
    for (int other : others) {
      report.lost.push_back({MemberId(other), MemberId(id), LossReason::kLease});
    }
    Send(report);
  }
  void LetsGo(int id, int64_t applied, int64_t voted, std::vector<Loss> lost = {}) {
    ViewReport report{.from = M(id), .view = authority.view().number, .let_go = true};
    report.urgent = true;
    report.progress = {.finished = applied, .applied = applied, .voted = voted};
    report.lost = std::move(lost);
    Send(report);
  }
  void Send(const ViewReport& report) { EXPECT_TRUE(authority.Receive(report, now).ok()); }
  void RunFor(absl::Duration time) {
    for (const absl::Time end = now + time; now < end; now += absl::Milliseconds(10)) {
      authority.Tick(now);
    }
  }
  // Whom the orders under way tell to let go.
  std::vector<int64_t> Told() {
    std::vector<int64_t> told;
    for (const ViewAuthority::Send& send : authority.TakeOrders()) {
      if (send.order.let_go) told.push_back(send.to.id.value());
    }
    return told;
  }

  absl::Time now = absl::UnixEpoch();
  ViewAuthority authority;
};

TEST(ViewAuthorityTest, TheFirstToOfferAStateFoundsTheGroup) {
  Court court;
  court.Newcomer(7);
  court.RunFor(absl::Milliseconds(300));
  EXPECT_EQ(court.authority.view().number, 0) << "nobody has a state";
  court.Newcomer(3, /*offer=*/40);
  court.Newcomer(9, /*offer=*/40);
  court.RunFor(absl::Milliseconds(300));
  EXPECT_EQ(court.authority.view().holders, 1);
  EXPECT_EQ(court.authority.view().members[0], M(3));
  EXPECT_EQ(court.authority.view().step, 40);
  EXPECT_TRUE(court.authority.TakeDecisions().at(0).founded);
}

// Seven of eight die at once; the last goes on as soon as all are known to be dead.
TEST(ViewAuthorityTest, TheLastOfEightGoesOn) {
  Court court(ViewOf(5, {0, 1, 2, 3, 4, 5, 6, 7}, 8, 100));
  for (int i = 0; i < 7; ++i) court.authority.Died(MemberId(i), court.now);
  EXPECT_EQ(court.authority.view().number, 5) << "the last has not let go";
  EXPECT_THAT(court.Told(), Contains(7));
  court.LetsGo(7, 120, 121);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {7}, 1, 121))
      << "it holds the sum of step 121";
  const std::vector<ViewAuthority::Decision> decided = court.authority.TakeDecisions();
  ASSERT_EQ(decided.size(), 1);
  ASSERT_EQ(decided[0].losses.size(), 7);
  EXPECT_EQ(decided[0].losses[0], (Loss{MemberId(0), MemberId(), LossReason::kExit}));
}

// Nobody goes on without a member who may still be training: its silence must last.
TEST(ViewAuthorityTest, TheSilentAreWaitedForAsLongAsTheirLease) {
  Court court(ViewOf(5, {0, 1, 2}, 3, 100));
  court.LetsGo(0, 100, 100, {{MemberId(2), MemberId(0), LossReason::kProcess}});
  court.RunFor(absl::Seconds(1));
  EXPECT_EQ(court.authority.view().number, 5) << "member-1 may still hold the view";
  court.LetsGo(0, 100, 100);
  court.RunFor(absl::Seconds(1.5));
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {0}, 1, 100));
  const auto losses = court.authority.TakeDecisions().at(0).losses;
  EXPECT_THAT(losses, ElementsAre(Loss{MemberId(1), MemberId(), LossReason::kSilent},
                                  Loss{MemberId(2), MemberId(0), LossReason::kProcess}));
}

// A master cut off from all its workers must not found a second group beside them.
TEST(ViewAuthorityTest, SilenceOfAllIsNoProof) {
  Court court(ViewOf(5, {0, 1}, 2, 100));
  for (int i = 0; i < 100; ++i) {
    court.Newcomer(9, /*offer=*/0);
    court.RunFor(absl::Milliseconds(100));
  }
  EXPECT_EQ(court.authority.view().number, 5);
  EXPECT_FALSE(court.authority.bereft());
  court.authority.Died(MemberId(0), court.now);
  court.authority.Died(MemberId(1), court.now);
  EXPECT_TRUE(court.authority.bereft() || court.authority.view().number == 6);
  court.RunFor(absl::Milliseconds(100));
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {9}, 1, 0));
}

// The only holder dies when a learner has just caught up, and holds the sum of the step under way:
// nothing is lost, though no newcomer's state would do.
TEST(ViewAuthorityTest, ALevelLearnerInheritsTheState) {
  Court court(ViewOf(5, {0, 1, 2}, 1, 100));
  court.authority.RequireOffer(1000);
  court.Send({.from = M(1), .view = 5, .progress = {119, 119, 119}});
  EXPECT_TRUE(court.authority.HasHeir());
  court.authority.Died(MemberId(0), court.now);
  EXPECT_TRUE(court.authority.bereft());
  court.LetsGo(2, -1, 120);
  court.Newcomer(9, /*offer=*/50);
  court.LetsGo(1, 119, 120);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {1, 2, 9}, 1, 120))
      << court.authority.view().ToString();
}

// Of two learners who do not hear each other, the one that can follow the dead holder stays.
TEST(ViewAuthorityTest, ABrokenLinkDoesNotCostTheHeir) {
  Court court(ViewOf(5, {0, 1, 2}, 1, 100));
  court.authority.RequireOffer(1000);
  court.authority.Died(MemberId(0), court.now);
  const std::vector<Loss> lost = {{MemberId(1), MemberId(2), LossReason::kLease}};
  court.LetsGo(2, -1, 100, lost);
  court.RunFor(absl::Seconds(1));
  court.LetsGo(2, 100, 100, lost);
  court.LetsGo(1, -1, 100);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {2}, 1, 100))
      << court.authority.view().ToString();
}

// A restarted master hears of the last holder's death before anybody reports: whoever learns may be
// level, and has a lease to say so.
TEST(ViewAuthorityTest, ALearnerIsWaitedForBeforeTheStateIsGivenUp) {
  Court court(ViewOf(5, {0, 1, 2}, 1, 100));
  court.authority.Died(MemberId(0), court.now);
  court.Newcomer(9, /*offer=*/0);
  court.LetsGo(2, -1, 120);
  court.RunFor(absl::Seconds(1.9));
  EXPECT_TRUE(court.authority.AwaitsHeir());
  EXPECT_EQ(court.authority.view().number, 5);
  court.LetsGo(1, 119, 120);
  EXPECT_FALSE(court.authority.AwaitsHeir());
  EXPECT_EQ(court.authority.view().number, 6);
  EXPECT_TRUE(court.authority.view().Holds(MemberId(1)));
  EXPECT_EQ(court.authority.view().step, 120);
}

// One that let go at the end of a step becomes level after that, and then the only holder dies:
// what it said first is not its last word.
TEST(ViewAuthorityTest, WhoHasLetGoMayBeLevelYet) {
  Court court(ViewOf(5, {0, 1}, 1, 100));
  court.LetsGo(1, -1, 120);
  court.authority.Died(MemberId(0), court.now);
  court.Newcomer(9, /*offer=*/0);
  court.RunFor(absl::Seconds(1));
  EXPECT_TRUE(court.authority.AwaitsHeir());
  ASSERT_EQ(court.authority.view().number, 5);
  court.LetsGo(1, 120, 120);
  EXPECT_EQ(court.authority.view().number, 6);
  EXPECT_EQ(court.authority.view().step, 120);
  EXPECT_TRUE(court.authority.view().Holds(MemberId(1)));
}

TEST(ViewAuthorityTest, NobodyIsWaitedForWithoutHopeOrEnd) {
  Court court(ViewOf(5, {0, 1, 2}, 1, 100));
  EXPECT_FALSE(court.authority.AwaitsHeir()) << "a holder lives";
  court.RunFor(absl::Seconds(1));
  court.authority.Died(MemberId(1), court.now);
  court.authority.Died(MemberId(0), court.now);
  EXPECT_TRUE(court.authority.AwaitsHeir());
  court.RunFor(absl::Seconds(1.9));
  EXPECT_TRUE(court.authority.AwaitsHeir()) << "member-2 is out, but only for its silence";
  court.RunFor(absl::Seconds(0.2));
  EXPECT_FALSE(court.authority.AwaitsHeir());
  Court other(ViewOf(5, {0, 1}, 1, 100));
  other.authority.Died(MemberId(1), other.now);
  other.authority.Died(MemberId(0), other.now);
  EXPECT_FALSE(other.authority.AwaitsHeir()) << "everyone is dead";
}

TEST(ViewAuthorityTest, ALearnerThatIsNotLevelInheritsNothing) {
  Court court(ViewOf(5, {0, 1}, 1, 100));
  court.authority.RequireOffer(1000);
  court.Send({.from = M(1), .view = 5, .progress = {119, -1, 119}});
  EXPECT_FALSE(court.authority.HasHeir());
  court.authority.Died(MemberId(0), court.now);
  court.LetsGo(1, -1, 120);
  court.RunFor(absl::Milliseconds(300));
  EXPECT_EQ(court.authority.view().number, 5);
}

// One that let go while it copied, and is level since, said so first: the report from before that
// comes last, and takes nothing back.
TEST(ViewAuthorityTest, AnOlderReportDoesNotDisinherit) {
  Court court(ViewOf(5, {0, 1, 2}, 1, 100));
  court.authority.Died(MemberId(0), court.now);
  court.LetsGo(1, 120, 120);
  court.LetsGo(1, -1, 120);
  EXPECT_TRUE(court.authority.HasHeir());
  court.LetsGo(2, -1, 120);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {1, 2}, 1, 120))
      << court.authority.view().ToString();
}

// What one offered before it was in a view, its weights are no more: only a newcomer's will do.
TEST(ViewAuthorityTest, AMemberFoundsNothing) {
  Court court(ViewOf(5, {0, 1}, 1, 100));
  court.authority.Died(MemberId(0), court.now);
  ViewReport learner{.from = M(1), .view = 5, .let_go = true};
  learner.progress = {100, -1, 100};
  learner.offer = 40;
  for (int i = 0; i < 3; ++i) {
    court.Send(learner);
    court.RunFor(absl::Seconds(1));
  }
  EXPECT_FALSE(court.authority.AwaitsHeir());
  EXPECT_EQ(court.authority.view().number, 5);
  court.Newcomer(9, /*offer=*/0);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {9, 1}, 1, 0))
      << court.authority.view().ToString();
}

TEST(ViewAuthorityTest, APlannedChangeWaitsForTheEndOfTheStep) {
  Court court(ViewOf(5, {0}, 1, 100));
  court.authority.TakeOrders();
  court.Newcomer(4);
  court.RunFor(absl::Milliseconds(120));
  uint64_t asked = 0;
  for (const auto& send : court.authority.TakeOrders()) asked = send.order.sequence;
  ViewReport working{.from = M(0), .view = 5, .progress = {120, 120, 120, true}, .answers = asked};
  court.Send(working);
  const std::vector<ViewAuthority::Send> orders = court.authority.TakeOrders();
  ASSERT_EQ(orders.size(), 1);
  EXPECT_TRUE(orders[0].order.let_go);
  EXPECT_EQ(orders[0].order.after_step, 121);
  working.progress = {121, 121, 121};
  working.let_go = true;
  court.Send(working);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {0, 4}, 1, 121));
}

// After which step all are told to let go for member 1, who wants to leave, when they take `rate`
// steps a second, and the answers come 20 ms after the question; and the last step by then.
std::pair<int64_t, int64_t> LeavesAfter(double rate) {
  Court court(ViewOf(5, {0, 1}, 2, 100));
  uint64_t asked = 0;
  const auto report = [&](bool leaving) {
    const auto step =
        100 + static_cast<int64_t>(rate * absl::ToDoubleSeconds(court.now - absl::UnixEpoch()));
    for (int id : {0, 1}) {
      ViewReport told{.from = M(id), .view = 5, .leaving = leaving && id == 1};
      told.progress = {step, step, step, true};
      told.answers = asked;
      court.Send(told);
    }
    return step;
  };
  report(/*leaving=*/false);
  court.RunFor(absl::Milliseconds(400));
  report(/*leaving=*/true);
  court.authority.TakeOrders();
  court.RunFor(absl::Milliseconds(120));
  for (const auto& send : court.authority.TakeOrders()) asked = send.order.sequence;
  const int64_t step = report(/*leaving=*/true);
  const std::vector<ViewAuthority::Send> orders = court.authority.TakeOrders();
  EXPECT_EQ(orders.size(), 2);
  return {orders.empty() ? -1 : orders[0].order.after_step, step};
}

// While an order travels they train on: one for a step that is over would cost them the next.
TEST(ViewAuthorityTest, AFastGroupIsToldAheadOfTime) {
  const auto [after, step] = LeavesAfter(200);
  EXPECT_GE(after, step + 1 + 4) << "they take 4 steps in 20 ms";
  EXPECT_LE(after, step + 20) << "and nobody wants to wait";
  const auto [slow_after, slow_step] = LeavesAfter(5);
  EXPECT_EQ(slow_after, slow_step + 2);
}

// Most reports tell of no new step where steps are long. Nothing is redone for a change then: it is
// set for the end of the step that runs, and that is waited for.
TEST(ViewAuthorityTest, LongStepsAreNotTakenForFastOnes) {
  Court court(ViewOf(5, {0, 1}, 2, 100));
  uint64_t asked = 0;
  int64_t step = 100;
  const auto report = [&](bool leaving) {
    step = 100 + (court.now - absl::UnixEpoch()) / absl::Seconds(4);
    for (int id : {0, 1}) {
      ViewReport told{.from = M(id), .view = 5, .leaving = leaving && id == 1};
      told.progress = {step, step, step, true};
      told.answers = asked;
      court.Send(told);
    }
    court.RunFor(absl::Milliseconds(500));
  };
  for (int i = 0; i < 25; ++i) report(/*leaving=*/false);
  court.authority.TakeOrders();
  report(/*leaving=*/true);
  for (const auto& send : court.authority.TakeOrders()) asked = send.order.sequence;
  report(/*leaving=*/true);
  const std::vector<ViewAuthority::Send> orders = court.authority.TakeOrders();
  ASSERT_FALSE(orders.empty());
  EXPECT_EQ(orders[0].order.after_step, step + 1);
  for (int i = 0; i < 13; ++i) report(/*leaving=*/true);
  for (const auto& send : court.authority.TakeOrders()) {
    ASSERT_GT(send.order.after_step, 0) << "the step is interrupted";
  }
}

// A and B both talk to the master but not to each other: the younger makes room.
TEST(ViewAuthorityTest, ABrokenLinkCostsTheYounger) {
  Court court(ViewOf(5, {0, 1, 2}, 3, 100));
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(court.Told(), IsEmpty()) << "it may be for a moment";
    court.Misses(0, {1});
    court.Misses(1, {});
    court.Misses(2, {});
    court.RunFor(absl::Milliseconds(300));
  }
  EXPECT_THAT(court.Told(), Contains(1));
  court.LetsGo(0, 100, 100, {{MemberId(1), MemberId(0), LossReason::kLease}});
  court.LetsGo(1, 100, 100);
  court.LetsGo(2, 100, 100);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {0, 2}, 2, 100));
}

// Others vouch for both, and no byte goes from one to the other: once may be an accident. Whoever
// makes room is not let in again at once, though it comes under another id.
TEST(ViewAuthorityTest, ADeadLinkCostsTheYoungerTheSecondTime) {
  Court court(ViewOf(5, {0, 1, 2}, 3, 100));
  const auto complain = [&](LossReason how) {
    court.LetsGo(0, 100, 100, {{MemberId(1), MemberId(0), how}});
    court.LetsGo(1, 100, 100);
    court.LetsGo(2, 100, 100);
  };
  complain(LossReason::kSocket);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {0, 1, 2}, 3, 100));
  complain(LossReason::kLink);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(7, {0, 2}, 2, 100));
  const auto decided = court.authority.TakeDecisions();
  EXPECT_THAT(decided.back().losses,
              ElementsAre(Loss{MemberId(1), MemberId(0), LossReason::kLink}));
  court.authority.TakeOrders();
  const ViewReport next_life{.from = {MemberId(9), "m1"}, .progress = {-1, -1, -1}};
  court.Send(next_life);
  court.RunFor(absl::Milliseconds(300));
  EXPECT_THAT(court.authority.TakeOrders(), IsEmpty()) << "nobody is asked where it is";
  for (int i = 0; i < 20; ++i) {
    court.Misses(0, {});
    court.Misses(2, {});
    court.RunFor(absl::Milliseconds(500));
  }
  EXPECT_THAT(court.authority.TakeOrders(), IsEmpty());
  court.Send(next_life);
  court.RunFor(absl::Milliseconds(300));
  EXPECT_THAT(court.authority.TakeOrders(), testing::Not(IsEmpty()));
}

// One that others take for dead makes room as well, but that may be a mistake: it is let in again
// after as long as the first time, however often it was made.
TEST(ViewAuthorityTest, WhoOnlySeemsDeadIsNotKeptOutLonger) {
  Court court(ViewOf(5, {0, 1}, 2, 100));
  for (int life = 1; life <= 3; ++life) {
    const GroupView before = court.authority.view();
    const MemberId mistaken = before.members[1].id;
    const Loss seeming = {mistaken, MemberId(0), LossReason::kLease};
    for (int i = 0; i < 4; ++i) {
      court.Misses(0, {static_cast<int>(mistaken.value())});
      court.Send({.from = before.members[1], .view = before.number, .progress = {100, 100, 100}});
      court.RunFor(absl::Milliseconds(300));
    }
    court.Send({.from = before.members[1],
                .view = before.number,
                .let_go = true,
                .progress = {100, 100, 100}});
    court.LetsGo(0, 100, 100, {seeming});
    ASSERT_EQ(court.authority.view().size(), 1) << "life " << life;
    court.now += absl::Seconds(11);
    court.Misses(0, {});
    court.Send({.from = {MemberId(10 + life), "m1"}, .progress = {-1, -1, -1}});
    court.RunFor(absl::Milliseconds(300));
    court.LetsGo(0, 100, 100);
    ASSERT_EQ(court.authority.view().size(), 2) << "life " << life;
  }
}

// Gossip misses a frozen worker within a second or two, whatever the lease. With a long one it is
// given at least half of it, and if it wakes up by then nobody has lost anything.
TEST(ViewAuthorityTest, ALongLeaseIsPatience) {
  Court court(ViewOf(5, {0, 1}, 2, 100), {.lease = absl::Seconds(30)});
  const auto wait = [&](absl::Duration time, bool misses) {
    for (const absl::Time end = court.now + time; court.now < end;) {
      court.Misses(0, misses ? std::vector<int>{1} : std::vector<int>{});
      court.RunFor(absl::Seconds(1));
    }
  };
  court.Misses(1, {});
  wait(absl::Seconds(14), /*misses=*/true);
  EXPECT_THAT(court.Told(), IsEmpty());
  wait(absl::Seconds(2), /*misses=*/false);
  EXPECT_THAT(court.Told(), IsEmpty()) << "it has been heard again";
  court.Misses(1, {});
  court.authority.TakeOrders();
  wait(absl::Seconds(14), /*misses=*/true);
  EXPECT_THAT(court.Told(), IsEmpty());
  wait(absl::Seconds(2), /*misses=*/true);
  EXPECT_THAT(court.Told(), Contains(0));
  court.LetsGo(0, 100, 100, {{MemberId(1), MemberId(0), LossReason::kLease}});
  court.RunFor(absl::Milliseconds(300));
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {0}, 1, 100));
}

TEST(ViewAuthorityTest, AViewNewerThanTheJournalIsRefused) {
  Court court(ViewOf(5, {0}, 1, 100));
  const ViewReport report{.from = M(0), .view = 7};
  EXPECT_EQ(court.authority.Receive(report, court.now).code(),
            absl::StatusCode::kFailedPrecondition);
}

// The last two want to go: the older sees the other off, then goes itself.
TEST(ViewAuthorityTest, AllMayLeave) {
  Court court(ViewOf(5, {0, 1}, 2, 100));
  for (int i : {0, 1}) {
    ViewReport report{.from = M(i), .view = 5, .let_go = true, .leaving = true};
    report.progress = {100, 100, 100};
    court.Send(report);
  }
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(6, {0}, 1, 100));
  ViewReport last{.from = M(0), .view = 6, .let_go = true, .leaving = true};
  last.progress = {100, 100, 100};
  court.Send(last);
  EXPECT_EQ(Plain(court.authority.view()), ViewOf(7, {}, 0, 100));
}

}  // namespace
}  // namespace rubato

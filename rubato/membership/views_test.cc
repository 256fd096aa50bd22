#include "rubato/membership/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "rubato/membership/views_testing.h"

namespace rubato {
namespace {

TEST(ViewsTest, ADeathMakesANewViewWithinTwoRoundTrips) {
  Assembly assembly(4);
  assembly.Bury(2);
  assembly[0].Tick(assembly.now);
  for (int i = 0; i < 5; ++i) assembly.Deliver();
  for (int i : {0, 1, 3}) EXPECT_EQ(Plain(assembly[i].view()), ViewOf(2, {0, 1, 3}, 3, 0)) << i;
}

// The proposer dies when only itself and one other have accepted: whoever comes next must finish
// the very same view, dead proposer and all, before it can make a better one.
TEST(ViewsTest, AnAcceptedViewOutlivesItsProposer) {
  Assembly assembly(5);
  assembly.Bury(4);
  assembly[0].Tick(assembly.now);
  assembly.Deliver();  // Prepares.
  assembly.Deliver();  // Promises; the proposer now sends its view.
  assembly.Deliver({ViewMessage::Kind::kAccepted});
  assembly.Bury(0);
  std::vector<GroupView> seen;
  for (int i = 0; i < 200; ++i) {
    assembly.RunFor(absl::Milliseconds(10));
    const GroupView now = Plain(assembly[1].view());
    if (seen.empty() || !(seen.back() == now)) seen.push_back(now);
  }
  EXPECT_THAT(seen,
              ::testing::ElementsAre(ViewOf(2, {0, 1, 2, 3}, 4, 0), ViewOf(3, {1, 2, 3}, 3, 0)));
}

// One that seems to live but does not answer is waited for, but not for long: then a majority goes
// on without it.
TEST(ViewsTest, ASilentMemberIsWaitedForUntilThePromiseTimeout) {
  const ViewOptions options = {.promise_timeout = absl::Milliseconds(300)};
  Assembly assembly(5, options);
  assembly.Bury(4);
  assembly.down.insert(3);  // And no detector says so.
  assembly.RunFor(options.promise_timeout - absl::Milliseconds(20));
  for (int i : {0, 1, 2}) EXPECT_EQ(assembly[i].view().number, 1u) << i;
  EXPECT_TRUE(assembly[1].frozen()) << "it has promised";
  assembly.RunFor(absl::Milliseconds(60));
  for (int i : {0, 1, 2}) EXPECT_EQ(Plain(assembly[i].view()), ViewOf(2, {0, 1, 2}, 3, 0)) << i;
}

// One that dies with the question unread shows it when it is asked again, as its port refuses: soon
// at first, and less and less often if it only is slow.
TEST(ViewsTest, WhoDoesNotAnswerIsAskedAgainSoon) {
  const ViewOptions options = {.promise_timeout = absl::Milliseconds(300),
                               .retry = absl::Milliseconds(80)};
  Assembly assembly(5, options);
  assembly.Bury(4);
  assembly.down.insert(3);
  assembly[0].Tick(assembly.now);
  assembly.Deliver();
  assembly.Deliver();
  std::vector<int64_t> asked;
  for (int ms = 1; ms < 300; ++ms) {
    assembly.now += absl::Milliseconds(1);
    if (assembly.now < assembly[0].next_wake()) continue;
    assembly[0].Tick(assembly.now);
    for (const Views::Send& send : assembly[0].TakeSends()) {
      ASSERT_THAT(send.to, ::testing::AnyOf("m3", "m4")) << "the others have answered";
      if (send.to == "m3") asked.push_back(ms);
    }
  }
  EXPECT_THAT(asked, ::testing::ElementsAre(10, 30, 70, 150, 230));
}

// Learners who catch up together share one change; the last of them, or one alone, waits for
// nobody.
TEST(ViewsTest, WhoIsLevelWaitsOnlyForOthersWhoCopy) {
  for (const int learners : {1, 2}) {
    Assembly assembly(3, {.gather = absl::Milliseconds(100)}, /*holders=*/3 - learners);
    assembly[2].SetProgress({.finished = 0, .applied = 0, .voted = 0}, assembly.now);
    assembly[2].SetCaughtUp(true);
    assembly[2].Tick(assembly.now);
    while (assembly.Deliver()) {
    }
    EXPECT_EQ(assembly[0].view().number, learners == 1 ? 2u : 1u);
    assembly.RunFor(absl::Milliseconds(200));
    EXPECT_EQ(assembly[0].view().number, 2u);
    EXPECT_TRUE(assembly[1].view().Holds(MemberId(2))) << assembly[1].view();
  }
}

// While a group has no room nobody proposes to let anyone in: that would go on for as long as one
// waits.
TEST(ViewsTest, AFullGroupIsLeftInPeace) {
  for (const int members : {kMembersMax - 1, kMembersMax}) {
    GroupView view = ViewOf(1, {}, members, 0);
    for (int i = 0; i < members; ++i) view.members.push_back(M(i));
    absl::Time now = absl::UnixEpoch();
    Swim swim(M(0), SwimOptions(), Rng(1));
    for (int i = 1; i <= members; ++i) swim.Introduce(M(i), now);  // The last is a newcomer.
    Views views(swim, {}, Rng(2));
    views.Adopt(view, now);
    for (int i = 0; i < 20; ++i) views.Tick(now += absl::Milliseconds(50));
    EXPECT_EQ(views.TakeSends().empty(), members == kMembersMax) << members;
  }
}

// The only one who holds the state cannot go: no view could do without it, so none is made.
TEST(ViewsTest, TheOnlyHolderAsksInVain) {
  Assembly assembly(2, {}, /*holders=*/1);
  assembly[0].SetLeaving();
  assembly.RunFor(absl::Seconds(3));
  EXPECT_EQ(assembly[0].view().number, 1u);
  assembly.Level(1);
  assembly.RunFor(absl::Seconds(3));
  EXPECT_EQ(assembly[1].view().members, std::vector<GroupMember>{M(1)});
  EXPECT_TRUE(assembly[0].fenced());
}

// A shorter one resumes sooner; one that answers within it is not dropped.
TEST(ViewsTest, WhoAnswersBeforeThePromiseTimeoutStays) {
  for (const bool in_time : {true, false}) {
    const ViewOptions options = {.promise_timeout = absl::Milliseconds(200)};
    Assembly assembly(5, options);
    assembly.Bury(4);
    assembly.down.insert(3);
    assembly.RunFor(absl::Milliseconds(in_time ? 100 : 240));
    assembly.down.erase(3);
    assembly.RunFor(absl::Milliseconds(90));
    const std::vector<int> members = in_time ? std::vector<int>{0, 1, 2, 3} : std::vector{0, 1, 2};
    EXPECT_EQ(Plain(assembly[0].view()), ViewOf(2, members, in_time ? 4 : 3, 0))
        << assembly[0].view().ToString();
  }
}

// Too few have answered when the time is over: the proposer asks again with a higher ballot, and
// again, until a majority is there.
TEST(ViewsTest, WithoutAMajorityThePromiseTimeoutAsksAnew) {
  Assembly assembly(5);
  assembly.Bury(4);
  for (size_t silent : {1, 2, 3}) assembly.down.insert(silent);
  assembly.RunFor(absl::Seconds(2));
  EXPECT_EQ(assembly[0].view().number, 1u);
  for (size_t silent : {1, 2, 3}) assembly.down.erase(silent);
  assembly.RunFor(absl::Milliseconds(500));
  EXPECT_EQ(Plain(assembly[0].view()), ViewOf(2, {0, 1, 2, 3}, 4, 0))
      << assembly[0].view().ToString();
}

TEST(ViewsTest, AMinorityStandsStill) {
  Assembly assembly(4);
  assembly.Bury(0);
  assembly.Bury(1);
  assembly.RunFor(absl::Seconds(20));
  EXPECT_EQ(assembly[2].view().number, 1u);
  EXPECT_TRUE(assembly[2].frozen());
}

// Of two halves at most one may go on: the one with the oldest.
TEST(ViewsTest, TheHalfWithTheOldestGoesOn) {
  Assembly assembly(4);
  assembly.Bury(2);
  assembly.Bury(3);
  assembly.RunFor(absl::Seconds(2));
  EXPECT_EQ(Plain(assembly[0].view()), ViewOf(2, {0, 1}, 2, 0)) << assembly[0].view().ToString();
  assembly.Bury(1);
  assembly.RunFor(absl::Seconds(2));
  EXPECT_EQ(Plain(assembly[0].view()), ViewOf(3, {0}, 1, 0)) << assembly[0].view().ToString();
}

// A member that can do nothing but wait sleeps meanwhile.
TEST(ViewsTest, WhoCannotGoOnDoesNotSpin) {
  Assembly assembly(5);
  for (int i : {0, 1, 2}) assembly.Bury(i);
  assembly.RunFor(absl::Seconds(20));
  for (int i : {3, 4}) {
    EXPECT_TRUE(assembly[i].frozen());
    assembly[i].Tick(assembly.now);
    EXPECT_GT(assembly[i].next_wake(), assembly.now) << i;
  }
}

TEST(ViewsTest, WithQuorumAnyTheLastOneGoesOn) {
  Assembly assembly(4, {.quorum = Quorum::kAny});
  for (int i : {0, 1, 2}) assembly.Bury(i);
  assembly.RunFor(absl::Seconds(2));
  EXPECT_EQ(assembly[3].view().members, std::vector<GroupMember>{M(3)});
}

// Two who each needed nobody else may propose at once: one number, the same members, two views. A
// packet shows it to the one, which tells its own, and one of the two gives way.
TEST(ViewsTest, WithQuorumAnyTwoViewsOfTheSameMembersAreToldApart) {
  Assembly assembly(3, {.quorum = Quorum::kAny});
  const GroupView mine = assembly[0].view();
  assembly[0].TakeSends();
  assembly[0].HearNumber(M(1), mine.number, mine.Mark(), assembly.now);
  EXPECT_TRUE(assembly[0].TakeSends().empty()) << "the very same";
  GroupView other = mine;
  other.holders = 2;
  assembly[0].HearNumber(M(1), other.number, other.Mark(), assembly.now);
  const std::vector<Views::Send> told = assembly[0].TakeSends();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].to, "m1");
  EXPECT_EQ(told[0].message.kind, ViewMessage::Kind::kDecide);
  EXPECT_EQ(*told[0].message.view, mine);
  assembly[0].Adopt(other, assembly.now);
  EXPECT_EQ(assembly[0].view(), mine) << "more of its members hold the state";
  EXPECT_FALSE(assembly[0].fenced());
  other = mine;
  other.parent ^= 1;
  const bool gives_way = other.Mark() < mine.Mark();
  assembly[0].Adopt(other, assembly.now);
  EXPECT_EQ(assembly[0].fenced(), gives_way) << "nothing but their marks tells them apart";
}

// Whoever is left behind hears which of its steps the others have.
TEST(ViewsTest, WhoIsLeftKnowsWhereTheOthersWentOn) {
  Assembly assembly(3);
  EXPECT_EQ(assembly[2].left_at(), -1);
  GroupView next = ViewOf(2, {0, 1}, 2, 5);
  next.parent = assembly[2].view().Mark();
  assembly[2].Adopt(next, assembly.now);
  EXPECT_EQ(assembly[2].left_at(), 5);
  assembly[2].Adopt(ViewOf(3, {0, 1}, 2, 9), assembly.now);
  EXPECT_EQ(assembly[2].left_at(), 5) << "the first that it hears of";
}

// Where any quorum will do, those who went on without one may die: then nobody has, and what it is
// told of a later parting counts.
TEST(ViewsTest, WhoOutlivesThoseWhoLeftItWasNotLeft) {
  Assembly assembly(2, {.quorum = Quorum::kAny});
  GroupView next = ViewOf(2, {1}, 1, 5);
  next.parent = assembly[0].view().Mark();
  assembly[0].Adopt(next, assembly.now, {{MemberId(0), MemberId(1), LossReason::kLease}});
  ASSERT_TRUE(assembly[0].parting().has_value());
  EXPECT_EQ(assembly[0].left_at(), 5);
  EXPECT_EQ(assembly[0].left_out().size(), 1u);
  assembly.Bury(1);
  assembly.RunFor(absl::Seconds(2));
  EXPECT_FALSE(assembly[0].fenced());
  EXPECT_EQ(assembly[0].view().members, std::vector<GroupMember>{M(0)});
  EXPECT_EQ(assembly[0].left_at(), -1);
  EXPECT_TRUE(assembly[0].left_out().empty());
}

// Where any quorum will do, a learner that has the whole state goes on with it when all holders are
// dead; the others copy it from there. Under a majority nobody may.
TEST(ViewsTest, ALearnerThatIsLevelInherits) {
  for (const Quorum quorum : {Quorum::kAny, Quorum::kMajority}) {
    Assembly assembly(4, {.quorum = quorum}, /*holders=*/1);
    for (int i : {1, 2}) {
      assembly[i].SetProgress({.finished = 7, .applied = -1, .voted = 7}, assembly.now);
    }
    assembly[3].SetProgress({.finished = 7, .applied = 7, .voted = 7}, assembly.now);
    assembly.Bury(0);
    assembly.RunFor(absl::Seconds(10));
    if (quorum == Quorum::kMajority) {
      for (int i : {1, 2, 3}) EXPECT_EQ(assembly[i].view().number, 1u) << i;
      continue;
    }
    EXPECT_TRUE(assembly[3].view().Holds(MemberId(3))) << assembly[3].view().ToString();
    EXPECT_EQ(assembly[3].view().step, 7);
    EXPECT_EQ(assembly[3].view().size(), 3);
    for (int i : {1, 2}) {
      EXPECT_EQ(assembly[i].view(), assembly[3].view()) << i;
      EXPECT_FALSE(assembly[i].fenced()) << i;
    }
  }
}

// With a view come the reasons for which others are not in it any more, also to those who saw
// nothing themselves.
TEST(ViewsTest, AllAreToldWhyOneIsGone) {
  Assembly assembly(4);
  assembly[0].NoteLoss(MemberId(3), LossReason::kProcess);
  assembly.Bury(3);
  assembly.RunFor(absl::Seconds(1));
  const Loss died = {MemberId(3), MemberId(0), LossReason::kProcess};
  for (const int i : {0, 1, 2}) EXPECT_THAT(assembly[i].gone(), testing::ElementsAre(died)) << i;
  assembly[1].SetLeaving();
  assembly.RunFor(absl::Seconds(1));
  const Loss left = {MemberId(1), MemberId(0), LossReason::kLeft};
  for (const int i : {0, 2}) EXPECT_THAT(assembly[i].gone(), testing::ElementsAre(left)) << i;
}

// One that slept through several views hears which of them left it out, whom else, and why; not
// who died later.
TEST(ViewsTest, WhoComesBackIsToldWhyItWasLeftOut) {
  Assembly assembly(6);
  assembly[0].NoteLoss(MemberId(4), LossReason::kLease);
  assembly[0].NoteLoss(MemberId(5), LossReason::kProcess);
  assembly.Bury(4);
  assembly.Bury(5);
  assembly.RunFor(absl::Seconds(1));
  assembly[0].NoteLoss(MemberId(3), LossReason::kProcess);
  assembly.Bury(3);
  assembly.RunFor(absl::Seconds(1));
  ASSERT_EQ(assembly[1].view().number, 3u);
  assembly.down.erase(4);
  assembly[4].HearNumber(M(1), 3, 0, assembly.now);
  for (int i = 0; i < 3; ++i) assembly.Deliver();
  EXPECT_TRUE(assembly[4].fenced());
  EXPECT_THAT(assembly[4].left_out(),
              testing::ElementsAre(Loss{MemberId(4), MemberId(0), LossReason::kLease},
                                   Loss{MemberId(5), MemberId(0), LossReason::kProcess}));
}

// Whoever proposes acts on a wish when it comes, not when its next timer runs out.
TEST(ViewsTest, AWishWaitsForNoTimer) {
  const ViewOptions options;
  Assembly assembly(3, options);
  assembly[1].SetLeaving();
  assembly[1].Tick(assembly.now);
  assembly.Deliver();
  EXPECT_LE(assembly[0].next_wake(), assembly.now + options.gather);
}

// A planned change lets the running step end; only then does anyone let go of the view.
TEST(ViewsTest, WhoLeavesWaitsForTheEndOfTheStep) {
  Assembly assembly(3);
  const StepProgress in_step_1{.finished = 0, .applied = 0, .voted = 0, .working = true};
  for (int i = 0; i < 3; ++i) assembly[i].SetProgress(in_step_1, assembly.now);
  assembly[1].SetLeaving();
  assembly.RunFor(absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(assembly[i].frozen());
  const StepProgress after_step_1{.finished = 1, .applied = 1, .voted = 1};
  for (int i = 0; i < 3; ++i) assembly[i].SetProgress(after_step_1, assembly.now);
  assembly.RunFor(absl::Milliseconds(100));
  EXPECT_EQ(Plain(assembly[0].view()), ViewOf(2, {0, 2}, 2, 1)) << assembly[0].view().ToString();
  EXPECT_TRUE(assembly[1].fenced());
}

// Where a step takes as long as the patience for its end, nobody waits for a second one; but for
// this one, though it should take a while longer than those before.
TEST(ViewsTest, WhoLeavesWaitsForNoSecondLongStep) {
  Assembly assembly(3);
  const auto finish = [&](int64_t step, bool working) {
    for (int i = 0; i < 3; ++i) {
      assembly[i].SetProgress(
          {.finished = step, .applied = step, .voted = step, .working = working}, assembly.now);
    }
  };
  for (int64_t step = 0; step < 3; ++step) {
    finish(step, true);
    assembly.RunFor(absl::Seconds(4));
  }
  assembly[1].SetLeaving();
  assembly.RunFor(absl::Seconds(6));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(assembly[i].frozen()) << i;
  finish(3, false);
  assembly.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(assembly[1].fenced());
  EXPECT_EQ(assembly[0].view().step, 3);
}

// Whoever proposes may be a step behind the others: nobody lets go in the midst of a step for that.
TEST(ViewsTest, WhoLeavesInterruptsNobodyWhoIsAhead) {
  Assembly assembly(3);
  const auto in_step = [&](int member, int64_t step) {
    assembly[member].SetProgress(
        {.finished = step - 1, .applied = step - 1, .voted = step - 1, .working = true},
        assembly.now);
  };
  int64_t step = 1;
  for (; step <= 10; ++step) {  // Steps of 200 ms; a packet has 60.
    for (int i = 0; i < 3; ++i) in_step(i, step);
    assembly.RunFor(absl::Milliseconds(200));
  }
  in_step(1, step);
  in_step(2, step);  // 0, the oldest, is still to finish the step before.
  assembly[1].SetLeaving();
  assembly.RunFor(absl::Milliseconds(150));
  for (; !assembly[1].fenced(); ++step) {
    ASSERT_LT(step, 20);
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(assembly[i].frozen()) << i << " in step " << step;
      in_step(i, step);
    }
    assembly.RunFor(absl::Milliseconds(200));
    // All finish it at once; whoever lets go now has nothing to lose.
    const StepProgress rest{.finished = step, .applied = step, .voted = step};
    for (int i = 0; i < 3; ++i) assembly[i].SetProgress(rest, assembly.now);
    while (assembly.Deliver()) {
    }
  }
  EXPECT_EQ(assembly[0].view().step, step - 1);
  EXPECT_EQ(assembly[0].view().size(), 2);
}

// The oldest decides a view without itself, and its word of that is lost: the other, who is no
// majority of the old view, would wait for ever, were the oldest not to say it again before it
// goes.
TEST(ViewsTest, WhoIsOutSaysSoUntilItIsHeard) {
  Assembly assembly(2);
  for (int i : {0, 1}) {
    assembly[i].SetProgress({.finished = 5, .applied = 5, .voted = 5}, assembly.now);
  }
  assembly[0].SetLeaving();
  assembly[1].Complain();
  assembly[1].Tick(assembly.now);
  for (int i = 0; i < 6; ++i) assembly.Deliver({ViewMessage::Kind::kDecide});
  ASSERT_TRUE(assembly[0].parting().has_value()) << "it wants to go";
  EXPECT_TRUE(assembly[0].frozen());
  EXPECT_FALSE(assembly[0].fenced()) << "nobody else knows";
  EXPECT_EQ(assembly[1].view().number, 1u);
  assembly.RunFor(absl::Milliseconds(200));
  EXPECT_EQ(Plain(assembly[1].view()), ViewOf(2, {1}, 1, 5)) << assembly[1].view().ToString();
  EXPECT_TRUE(assembly[0].fenced());
}

// One of those who go on is not enough where two of them must agree on the next view.
TEST(ViewsTest, WhoIsOutIsHeardByAMajorityOfTheNextView) {
  Assembly assembly(4);
  for (int i : {0, 1}) {
    assembly[i].SetLeaving();
    assembly[i].Tick(assembly.now);
  }
  while (assembly.Deliver()) {
  }
  assembly[2].Complain();
  assembly[2].Tick(assembly.now);
  while (!assembly[0].parting()) ASSERT_TRUE(assembly.Deliver());
  assembly.down.insert(2);
  assembly.RunFor(absl::Milliseconds(200));
  EXPECT_EQ(Plain(assembly[3].view()), ViewOf(2, {2, 3}, 2, 0)) << assembly[3].view().ToString();
  EXPECT_TRUE(assembly[0].parting()) << "3 is no majority without 2, the oldest that goes on";
  assembly.down.erase(2);
  assembly.RunFor(absl::Milliseconds(200));
  EXPECT_EQ(assembly[2].view(), assembly[3].view());
  for (int i : {0, 1}) EXPECT_TRUE(assembly[i].fenced()) << i;
}

// Steps are applied early, and one dies when one of the others has a step that two lack: that one
// stays, and copies the state anew. It tells who missed the change, though it needs nobody's state.
TEST(ViewsTest, WhoIsNotLevelStaysAndLearns) {
  Assembly assembly(4);
  assembly[0].SetProgress({.finished = 5, .applied = 5, .voted = 5}, assembly.now);
  for (int i : {1, 2}) {
    assembly[i].SetProgress({.finished = 4, .applied = 4, .voted = 4}, assembly.now);
  }
  assembly.Bury(3);
  assembly[0].Tick(assembly.now);
  while (assembly[0].view().number == 1) ASSERT_TRUE(assembly.Deliver());
  EXPECT_EQ(Plain(assembly[0].view()), ViewOf(2, {1, 2, 0}, 2, 4)) << assembly[0].view().ToString();
  EXPECT_FALSE(assembly[0].fenced());
  while (assembly.Deliver({ViewMessage::Kind::kDecide})) {
  }
  ASSERT_EQ(assembly[1].view().number, 1u) << "the word of it was lost";
  assembly[1].HearNumber(M(0), 2, 0, assembly.now);
  while (assembly.Deliver()) {
  }
  EXPECT_EQ(assembly[1].view(), assembly[0].view());
  // One that has missed that view has missed what came of its state: it begins anew.
  GroupView later = ViewOf(3, {1, 0, 2}, 2, 4);
  later.parent = assembly[0].view().Mark();
  assembly[2].Adopt(later, assembly.now);
  EXPECT_TRUE(assembly[2].fenced());
}

// One that is left out reaches one of the two who go on, and not the older, whose word would do. It
// need not: the other knows of both.
TEST(ViewsTest, WhoIsLeftOutMayHearOfItFromOneOfThem) {
  Assembly assembly(3);
  GroupView next = ViewOf(2, {0, 1}, 2, 0);
  next.parent = assembly[0].view().Mark();
  for (int i : {0, 1, 2}) assembly[i].Adopt(next, assembly.now);
  assembly.down.insert(0);
  assembly.RunFor(absl::Seconds(5));
  EXPECT_TRUE(assembly[2].parting().has_value()) << "it may be the only one who knows";
  EXPECT_FALSE(assembly[2].fenced());
  assembly[1].HearNumber(M(0), 2, assembly[0].view().Mark(), assembly.now);
  assembly.RunFor(absl::Seconds(5));
  EXPECT_TRUE(assembly[2].fenced());
}

// A holder that applied a step alone and missed the change cannot go on as if nothing happened.
TEST(ViewsTest, WhoMissedTheChangeIsFenced) {
  Assembly assembly(3);
  assembly.Bury(2);
  assembly.RunFor(absl::Seconds(1));
  assembly.down.clear();
  assembly[2].HearNumber(M(0), 2, 0, assembly.now);
  for (int i = 0; i < 3; ++i) assembly.Deliver();
  EXPECT_TRUE(assembly[2].fenced());
}

}  // namespace
}  // namespace rubato

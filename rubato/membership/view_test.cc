#include "rubato/membership/view.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "rubato/membership/views_testing.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

TEST(NextViewTest, KeepsTheOldestFirstAndTheFurthestStep) {
  const GroupView old = ViewOf(4, {5, 1, 9, 7}, 3, 10);
  const GroupView next = NextView(
      old, {.standings = {{M(1), 11, 11}, {M(5), 10, 11}}, .keep = {M(7)}, .newcomers = {M(2)}});
  EXPECT_EQ(Plain(next), ViewOf(5, {5, 1, 7, 2}, 2, 11)) << next.ToString();
}

TEST(NextViewTest, ALearnerHoldsTheStateOnceItIsLevel) {
  const GroupView old = ViewOf(4, {5, 7, 8}, 1, 10);
  const GroupView next = NextView(
      old,
      {.standings = {{M(5), 12, 12}, {M(8), 11, 12}, {M(7), -1, 12}}, .keep = {M(5), M(7), M(8)}});
  EXPECT_EQ(Plain(next), ViewOf(5, {5, 8, 7}, 2, 12)) << next.ToString();
}

// Before the first step, one that has nothing at all must not be taken for one step behind.
TEST(NextViewTest, ALearnerWithoutAStateIsNeverLevel) {
  const GroupView next = NextView(ViewOf(2, {5, 7}, 1, 0),
                                  {.standings = {{M(5), 0, 0}, {M(7), -1, 0}}, .keep = {M(7)}});
  EXPECT_EQ(Plain(next), ViewOf(3, {5, 7}, 1, 0)) << next.ToString();
}

// Nobody has finished step 5, but all survivors hold its sum: it need not be computed again.
TEST(NextViewTest, AStepThatAllHoldIsFinished) {
  const GroupView next =
      NextView(ViewOf(2, {1, 2, 3}, 3, 3), {.standings = {{M(1), 4, 5}, {M(3), 4, 5}}});
  EXPECT_EQ(Plain(next), ViewOf(3, {1, 3}, 2, 5)) << next.ToString();
}

TEST(NextViewTest, WhoLeavesStillTellsHowFarItCame) {
  const GroupView next =
      NextView(ViewOf(2, {1, 2}, 2, 3),
               {.standings = {{M(1), 4, 4}, {M(2), 3, 4}}, .leaving = {MemberId(1)}});
  EXPECT_EQ(Plain(next), ViewOf(3, {2}, 1, 4)) << next.ToString();
}

// A view of more could be told to nobody.
TEST(NextViewTest, HasNoMoreMembersThanAPacketHolds) {
  std::vector<int> ids;
  for (int i = 0; i < kMembersMax - 1; ++i) ids.push_back(i);
  const GroupView old = ViewOf(2, ids, 1, 3);
  ViewChange change{.standings = {{M(0), 4, 4}}, .newcomers = {M(5001), M(5002), M(5003)}};
  for (const GroupMember& member : old.members) change.keep.push_back(member);
  const GroupView next = NextView(old, change);
  EXPECT_EQ(next.size(), kMembersMax);
  EXPECT_TRUE(next.Contains(MemberId(5001)));
  EXPECT_TRUE(DecodeGroupView(EncodeGroupView(next)).ok());
}

// Two have applied step 5 before it was known to stay, and the third lacks its sum: nobody can be
// asked to undo or to guess, so the view goes on with the state of the more of them, and the others
// learn it.
TEST(NextViewTest, OfThoseWhoPartedTheMoreGoOn) {
  const GroupView old = ViewOf(2, {1, 2, 3}, 3, 3);
  const auto next = [&](std::vector<Standing> standings, std::set<MemberId> leaving) {
    return Plain(NextView(old, {.standings = std::move(standings), .leaving = leaving}));
  };
  const Standing ahead[] = {{M(1), 5, 5}, {M(2), 5, 5}, {M(3), 5, 5}};
  const Standing behind[] = {{M(1), 4, 4}, {M(2), 4, 4}, {M(3), 4, 4}};
  EXPECT_EQ(next({ahead[0], ahead[1], behind[2]}, {}), ViewOf(3, {1, 2, 3}, 2, 5));
  EXPECT_EQ(next({ahead[0], behind[1], behind[2]}, {}), ViewOf(3, {2, 3, 1}, 2, 4));
  EXPECT_EQ(next({behind[0], ahead[1]}, {}), ViewOf(3, {2, 1}, 1, 5))
      << "nothing is redone in vain";
  // One who holds the sum and has not applied it can go either way.
  EXPECT_EQ(next({{M(1), 4, 5}, ahead[1], behind[2]}, {}), ViewOf(3, {1, 2, 3}, 2, 5));
  EXPECT_EQ(next({{M(1), 4, 5}, behind[1], behind[2]}, {}), ViewOf(3, {1, 2, 3}, 3, 4));
  // Whoever goes takes its state along.
  EXPECT_EQ(next({ahead[0], ahead[1], behind[2]}, {MemberId(1), MemberId(2)}),
            ViewOf(3, {3}, 1, 4));
}

}  // namespace
}  // namespace rubato

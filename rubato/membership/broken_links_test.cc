#include "rubato/membership/broken_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

MemberId Id(int i) { return MemberId(i); }

GroupView ViewOf(uint64_t number, std::vector<int> ids, int holders) {
  GroupView view{.number = number, .holders = holders};
  for (int id : ids) view.members.push_back({Id(id), absl::StrCat("m", id)});
  return view;
}

// Once is an accident; twice is the link; and what was long ago is forgotten.
TEST(BrokenLinksTest, TheSecondComplaintCounts) {
  BrokenLinks links;
  absl::Time now = absl::UnixEpoch();
  const GroupView first = ViewOf(3, {0, 1, 2}, 3), second = ViewOf(4, {0, 1, 2}, 3);
  links.Complain(first, Id(0), Id(1), now);
  links.Complain(first, Id(1), Id(0), now);
  EXPECT_THAT(links.Of(first), IsEmpty()) << "both ends have noticed one accident";
  links.Complain(second, Id(0), Id(2), now);
  EXPECT_THAT(links.Of(second), IsEmpty()) << "another pair";
  links.Complain(second, Id(1), Id(0), now);
  EXPECT_THAT(links.Of(second), ElementsAre(Pair(Id(0), Id(1))));
  EXPECT_THAT(links.Of(ViewOf(5, {0, 1, 2}, 3)), IsEmpty()) << "nobody complains there";
  now += absl::Minutes(2);
  links.Complain(ViewOf(5, {0, 1, 2}, 3), Id(0), Id(2), now);
  EXPECT_THAT(links.Of(ViewOf(5, {0, 1, 2}, 3)), IsEmpty());
}

// Its next life has the same address; each time that it must go it waits longer.
TEST(BrokenLinksTest, WhoMadeRoomWaits) {
  BrokenLinks links;
  absl::Time now = absl::UnixEpoch();
  const GroupMember next_life{Id(7), "m1"};
  links.LeaveOut({Id(1), "m1"}, /*broken=*/true, now);
  EXPECT_TRUE(links.MustWait(next_life, now + absl::Seconds(9)));
  EXPECT_FALSE(links.MustWait({Id(2), "m2"}, now + absl::Seconds(9)));
  now += absl::Seconds(11);
  EXPECT_FALSE(links.MustWait(next_life, now));
  links.LeaveOut(next_life, /*broken=*/true, now);
  EXPECT_TRUE(links.MustWait(next_life, now + absl::Seconds(19)));
}

// A mistake may be made twice, and says nothing of a link.
TEST(BrokenLinksTest, WhoOnlySeemedDeadDoesNotWaitLonger) {
  BrokenLinks links;
  absl::Time now = absl::UnixEpoch();
  const GroupMember member{Id(1), "m1"};
  for (bool broken : {false, false, true}) {
    links.LeaveOut(member, broken, now);
    EXPECT_TRUE(links.MustWait(member, now + absl::Seconds(9)));
    EXPECT_FALSE(links.MustWait(member, now + absl::Seconds(10)));
    now += absl::Seconds(11);
  }
  links.LeaveOut(member, /*broken=*/true, now);
  EXPECT_TRUE(links.MustWait(member, now + absl::Seconds(19)));
}

TEST(BrokenLinksTest, AsFewAsCanBeMakeRoom) {
  const GroupView view = ViewOf(3, {5, 6, 7, 8}, 3);
  const auto holds = [&](MemberId id) { return view.Holds(id); };
  EXPECT_THAT(ThinOut(view, {}, holds), IsEmpty());
  EXPECT_THAT(ThinOut(view, {{Id(5), Id(6)}}, holds), ElementsAre(Id(6))) << "the younger";
  EXPECT_THAT(ThinOut(view, {{Id(5), Id(6)}, {Id(5), Id(7)}}, holds), ElementsAre(Id(5)))
      << "whoever has most broken links";
  EXPECT_THAT(ThinOut(view, {{Id(5), Id(8)}, {Id(5), Id(7)}}, holds), ElementsAre(Id(7), Id(8)))
      << "whoever learns, before any holder";
}

}  // namespace
}  // namespace rubato

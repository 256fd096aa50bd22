#include "rubato/adapters/ring/group_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rubato/ring/plan.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GroupView ViewOf(const std::vector<std::string>& addresses) {
  GroupView view;
  for (const std::string& address : addresses) {
    view.members.push_back({MemberId(static_cast<int64_t>(view.members.size()) + 1), address});
  }
  view.holders = view.size();
  return view;
}

// What no group can be made with is named, with what it is. A founder without a state once ended
// its process, as a bug.
TEST(GroupOptionsTest, WhatCannotBeIsNamed) {
  const auto error = [](GroupOptions options) {
    const absl::StatusOr<std::unique_ptr<ElasticGroup>> group =
        ElasticGroup::Open(std::move(options));
    return absl::IsInvalidArgument(group.status()) ? std::string(group.status().message()) : "none";
  };
  const auto report = [](const ViewReport&) {};
  EXPECT_EQ(error({.microbatches = 0}), "microbatches is 0: a step needs at least 1");
  EXPECT_EQ(error({.kept_bytes_max = -5}), "kept_bytes_max is -5: it must not be negative");
  EXPECT_THAT(error({.first_step = -1}), HasSubstr("first_step is -1: it is the step that"));
  EXPECT_THAT(error({.join = {"127.0.0.1:1"}, .first_step = -2}), HasSubstr("first_step is -2: "));
  EXPECT_EQ(error({.report = report, .report_period = absl::ZeroDuration()}),
            "report_period is 0: it must be above 0");
  EXPECT_EQ(error({.join = {"127.0.0.1:1"}, .first_step = -1}), "none") << "who joins needs none";
  EXPECT_EQ(error({.report = report, .first_step = -1}), "none") << "the master says who has one";
}

TEST(RingOrderTest, MembersOfOneMachineStandTogether) {
  const auto order = [](const std::vector<std::string>& addresses) {
    return RingOrder(ViewOf(addresses));
  };
  EXPECT_THAT(order({}), ElementsAre());
  EXPECT_THAT(order({"a:1;n;1;4", "a:2;n;2;4", "a:3;n;3;4"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(order({"a:1;n;1;4", "b:1;m;1;4", "a:2;n;2;4", "b:2;m;2;4"}), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(order({"a:1;n;1;4", "b:1;m;1;4", "a:2;o;2;-1", "a:3;n;3;4"}), ElementsAre(0, 3, 2, 1))
      << "one without rights is next to those of its machine";
  EXPECT_THAT(order({"a:1;n;1;4", "c:1;m;1;4", "b:1;n;2;4", "b:2;o;2;4"}), ElementsAre(0, 2, 3, 1))
      << "a machine with two addresses";
  EXPECT_THAT(order({"a:1", "b:1", "a:2"}), ElementsAre(0, 2, 1)) << "nodes that are not known";
  EXPECT_THAT(order({"?", "?", "?"}), ElementsAre(0, 1, 2)) << "nothing is";
}

TEST(MachinesTest, AreThoseWhoShareMemory) {
  const auto machines = [](const std::vector<std::string>& addresses) {
    return MachinesOf(ViewOf(addresses));
  };
  using Ranks = std::vector<std::vector<int>>;
  EXPECT_EQ(machines({}), Ranks({}));
  EXPECT_EQ(machines({"a:1;n;1;4", "a:2;n;2;4"}), Ranks({{0, 1}}));
  EXPECT_EQ(machines({"a:1;n;1;4", "b:1;m;1;4", "a:2;n;2;4", "b:2;m;2;4", "a:3;n;3;4"}),
            Ranks({{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(machines({"a:1;n;1;-1", "a:2;n;2;4", "a:3;n;3;4", "a:4;n;4;-1"}),
            Ranks({{0}, {1, 2}, {3}}))
      << "who shares none is by itself";
  EXPECT_EQ(machines({"a:1", "a:2", "?"}), Ranks({{0}, {1}, {2}})) << "nothing is known";
}

// A build that sums in another order is told so, and not let in.
TEST(ContractTest, NamesTheOrderOfSums) {
  EXPECT_THAT(ContractOf({}), HasSubstr("\norder of sums: machine by machine, in memory first\n"
                                        "calls: named to each other\n"));
}

// The elements that leave their machine in one sum of `elements`, for members as in `view`.
int64_t Crossing(const GroupView& view, Algorithm algorithm, int64_t elements, bool in_order) {
  const std::vector<int> order = RingOrder(view);
  const auto machine = [&](int seat) {
    return view.members[in_order ? order[seat] : seat].address.substr(0, 1);
  };
  int64_t crossing = 0;
  for (int seat = 0; seat < view.size(); ++seat) {
    for (const Exchange& stage : MakePlan(algorithm, seat, view.size(), elements)) {
      if (stage.send_to < 0 || machine(stage.send_to) == machine(seat)) continue;
      crossing += stage.send.size();
    }
  }
  return crossing;
}

// Two machines of four, whose members came in turns. Each must hear the other's sum: twice the
// elements in all is the least.
TEST(RingOrderTest, LittleCrossesTheNetwork) {
  const GroupView view = ViewOf({"a:1;n;1;4", "b:1;m;1;4", "a:2;n;2;4", "b:2;m;2;4", "a:3;n;3;4",
                                 "b:3;m;3;4", "a:4;n;4;4", "b:4;m;4;4"});
  constexpr int64_t kElements = 800;
  // A ring goes over two of its eight links; by age, over all.
  EXPECT_EQ(Crossing(view, Algorithm::kRing, kElements, true), 2 * 2 * kElements * 7 / 8);
  EXPECT_EQ(Crossing(view, Algorithm::kRing, kElements, false), 8 * 2 * kElements * 7 / 8);
  EXPECT_EQ(Crossing(view, Algorithm::kHalving, kElements, true), 2 * kElements);
  EXPECT_EQ(Crossing(view, Algorithm::kTree, kElements, true), 2 * kElements);
}

}  // namespace
}  // namespace rubato

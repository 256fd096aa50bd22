#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "rubato/base/rng.h"
#include "rubato/ring/plan.h"
#include "rubato/ring/quota.h"
#include "rubato/ring/state_copy.h"
#include "rubato/ring/step_gate.h"
#include "rubato/ring/vote_tree.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;

// Runs the plans of all ranks over queues; each stage waits for what it needs.
std::vector<std::vector<double>> RunPlans(Algorithm algorithm, int size, int64_t elements) {
  std::vector<std::vector<double>> buffers;
  std::vector<std::vector<Exchange>> plans;
  for (int rank = 0; rank < size; ++rank) {
    buffers.emplace_back(elements, 1 << rank);
    plans.push_back(MakePlan(algorithm, rank, size, elements));
  }
  std::map<std::pair<int, int>, std::deque<std::vector<double>>> wires;
  std::vector<size_t> at(size, 0);
  std::vector<bool> sent(size, false);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < size; ++rank) {
      if (at[rank] == plans[rank].size()) continue;
      const Exchange& stage = plans[rank][at[rank]];
      auto& buffer = buffers[rank];
      if (!sent[rank] && stage.send_to >= 0) {
        wires[{rank, stage.send_to}].emplace_back(buffer.begin() + stage.send.begin,
                                                  buffer.begin() + stage.send.end);
      }
      sent[rank] = true;
      if (stage.receive_from >= 0) {
        auto& wire = wires[{stage.receive_from, rank}];
        if (wire.empty()) continue;
        EXPECT_EQ(static_cast<int64_t>(wire.front().size()), stage.receive.size());
        for (int64_t i = 0; i < stage.receive.size(); ++i) {
          double& to = buffer[stage.receive.begin + i];
          to = (stage.reduce ? to : 0) + wire.front()[i];
        }
        wire.pop_front();
      }
      ++at[rank];
      sent[rank] = false;
      moved = true;
    }
  }
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(at[rank], plans[rank].size()) << "stuck";
  return buffers;
}

TEST(PlanTest, EveryRankEndsWithTheWholeSum) {
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kHalving, Algorithm::kTree}) {
    for (int size = 1; size <= 9; ++size) {
      for (int64_t elements : {0, 1, 5, 64}) {
        for (const auto& buffer : RunPlans(algorithm, size, elements)) {
          EXPECT_EQ(buffer, std::vector<double>(elements, (1 << size) - 1))
              << size << " ranks, " << elements << " elements";
        }
      }
    }
  }
}

TEST(PlanTest, SmallBuffersTakeTheTree) {
  EXPECT_EQ(ChooseAlgorithm(1 << 10, 4), Algorithm::kTree);
  EXPECT_EQ(ChooseAlgorithm(1 << 20, 4), Algorithm::kHalving);
  EXPECT_EQ(ChooseAlgorithm(64 << 20, 8), Algorithm::kRing);
}

// Nobody sees all votes before all have voted, and then everyone does, with everyone's speed.
TEST(VoteTreeTest, AllOrNobody) {
  for (int size = 1; size <= 9; ++size) {
    for (int last = 0; last < size; ++last) {
      std::vector<VoteTree> trees;
      for (int rank = 0; rank < size; ++rank) trees.emplace_back(7, 3, rank, size);
      const auto deliver = [&] {
        for (bool moved = true; moved;) {
          moved = false;
          for (int rank = 0; rank < size; ++rank) {
            for (const VoteTree::Send& send : trees[rank].TakeSends()) {
              EXPECT_TRUE(trees[send.to].Hear(rank, send.vote));
              moved = true;
            }
          }
        }
      };
      for (int rank = 0; rank < size; ++rank) {
        if (rank != last) trees[rank].Cast(static_cast<float>(rank + 1));
      }
      deliver();
      for (const VoteTree& tree : trees) EXPECT_FALSE(tree.complete());
      trees[last].Cast(static_cast<float>(last + 1));
      deliver();
      for (const VoteTree& tree : trees) {
        EXPECT_TRUE(tree.complete());
        for (int rank = 0; rank < size; ++rank) EXPECT_EQ(tree.speeds()[rank], rank + 1);
      }
    }
  }
}

TEST(VoteTreeTest, VotesOfOtherViewsAndStepsAreRefused) {
  VoteTree tree(7, 3, 0, 2);
  EXPECT_FALSE(tree.Hear(1, {6, 3, false, {0, 0}}));
  EXPECT_FALSE(tree.Hear(1, {7, 2, false, {0, 0}}));
  EXPECT_FALSE(tree.Hear(1, {7, 3, true, {0, 0}})) << "the root has no parent";
  EXPECT_FALSE(tree.Hear(1, {7, 3, false, {0}})) << "of a view of another size";
  EXPECT_TRUE(tree.Hear(1, {7, 3, false, {0, 0}}));
}

// Votes of those further down count in what their parents say; the last word is passed on once.
TEST(VoteTreeTest, OnlyNeighboursAreHeard) {
  const std::vector<float> speeds(4, 0);
  VoteTree root(7, 3, 0, 4);
  EXPECT_FALSE(root.Hear(3, {7, 3, false, speeds}));
  VoteTree middle(7, 3, 2, 4);
  EXPECT_FALSE(middle.Hear(1, {7, 3, true, speeds})) << "not its parent";
  EXPECT_TRUE(middle.Hear(0, {7, 3, true, speeds}));
  EXPECT_FALSE(middle.Hear(0, {7, 3, true, speeds}));
  EXPECT_EQ(middle.TakeSends().size(), 1u);
}

TEST(QuotaTest, Deals) {
  const auto shares = [](int count, std::vector<float> speeds, int holders) {
    std::vector<int> sizes;
    for (const Quota& quota : DealMicrobatches(count, speeds, holders)) {
      sizes.push_back(quota.size());
    }
    return sizes;
  };
  EXPECT_THAT(shares(8, {0, 0, 0}, 3), ElementsAre(3, 3, 2));
  EXPECT_THAT(shares(8, {2, 1, 1}, 3), ElementsAre(4, 2, 2));
  EXPECT_THAT(shares(8, {2, 1, 0}, 3), ElementsAre(3, 2, 3)) << "unmeasured counts as the mean";
  EXPECT_THAT(shares(8, {5, 5, 9}, 2), ElementsAre(4, 4, 0)) << "a learner gets none";
  EXPECT_THAT(shares(2, {1, 1, 1}, 3), ElementsAre(1, 1, 0));
  EXPECT_THAT(shares(4, {1000, 1, 1}, 3), ElementsAre(2, 1, 1)) << "the slowest is still measured";
  EXPECT_THAT(shares(3, {4, 1, 1, 0}, 4), ElementsAre(1, 1, 0, 1)) << "too few: one each";
  EXPECT_THAT(shares(2, {1, 3, 2}, 3), ElementsAre(0, 1, 1)) << "the fastest";
  EXPECT_THAT(shares(0, {1}, 1), ElementsAre(0));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(shares(8, {kInfinity, 3, 1}, 3), ElementsAre(3, 4, 1)) << "no speed";
  EXPECT_THAT(shares(8, {NAN, 3, 1}, 3), ElementsAre(3, 4, 1)) << "nor is that one";
}

// How many compute follows from the numbers alone: by it a batch may grow, and its rate.
TEST(QuotaTest, AsManyComputeAsCan) {
  Rng rng(2);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> speeds(1 + rng.Below(32));
    for (float& speed : speeds) speed = rng.Chance(0.2) ? 0 : rng.Chance(0.2) ? 1000 : 1;
    const int holders = 1 + static_cast<int>(rng.Below(speeds.size()));
    const int count = static_cast<int>(rng.Below(40));
    ASSERT_EQ(Computing(DealMicrobatches(count, speeds, holders)), std::min(count, holders))
        << count << " to " << holders;
  }
}

TEST(QuotaTest, TheGlobalBatchIsConstant) {
  Rng rng(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> speeds(1 + rng.Below(16));
    for (float& speed : speeds) speed = rng.Chance(0.2) ? 0 : rng.Exponential(1);
    const int holders = 1 + static_cast<int>(rng.Below(speeds.size()));
    const int count = static_cast<int>(rng.Below(100));
    int next = 0;
    for (const Quota& quota : DealMicrobatches(count, speeds, holders)) {
      ASSERT_GE(quota.size(), 0);
      ASSERT_TRUE(quota.size() == 0 || quota.begin == next);
      next += quota.size();
    }
    ASSERT_EQ(next, count);
  }
}

// One odd step is not taken for a change of speed, three are.
TEST(SpeedMeterTest, SlownessShowsAfterThreeSteps) {
  SpeedMeter meter;
  EXPECT_EQ(meter.microbatches_per_second(), 0);
  meter.Record(10, 1);
  EXPECT_FLOAT_EQ(meter.microbatches_per_second(), 10);
  meter.Record(0, 1);
  meter.Record(10, 0);
  EXPECT_FLOAT_EQ(meter.microbatches_per_second(), 10) << "nothing was measured";
  meter.Record(10, 2);
  EXPECT_GT(meter.microbatches_per_second(), 8);
  for (int i = 0; i < 2; ++i) meter.Record(10, 2);
  EXPECT_LT(meter.microbatches_per_second(), 7);
}

// A vote that rides in the reduction is settled when its member lets go of the view: as a vote if
// all had voted by then, as none if not. Whoever finished the step has nothing left to settle.
class PledgeTest : public testing::Test {
 protected:
  PledgeTest() {
    gate_.Found(4);
    gate_.Enter(view_, MemberId(1));
  }
  bool Pledge(bool all_voted) {
    return gate_.Start(view_.Mark(), 5, false) &&
           gate_.Pledge(view_.Mark(), 5, false, [this, all_voted] {
             ++withdrawn_;
             return all_voted;
           });
  }
  // The view that follows, beginning at `step`.
  Verdict Go(int64_t step) {
    const GroupView next{2, {{MemberId(1), "a"}}, 1, step, view_.Mark()};
    return gate_.Enter(next, MemberId(1));
  }
  const GroupView view_{1, {{MemberId(1), "a"}, {MemberId(2), "b"}}, 2, 4, 0};
  StepGate gate_;
  int withdrawn_ = 0;
};

TEST_F(PledgeTest, StandsIfAllHadVoted) {
  ASSERT_TRUE(Pledge(true));
  EXPECT_EQ(gate_.progress().voted, 4) << "not before it is known";
  EXPECT_TRUE(gate_.Settle());
  EXPECT_EQ(gate_.progress().voted, 5);
  EXPECT_EQ(Go(5), Verdict::kFinish);
  EXPECT_EQ(withdrawn_, 1);
}

TEST_F(PledgeTest, IsTakenBackIfNot) {
  ASSERT_TRUE(Pledge(false));
  EXPECT_FALSE(gate_.Start(view_.Mark(), 5, false)) << "the vote is out";
  EXPECT_FALSE(gate_.Settle());
  EXPECT_FALSE(gate_.Settle()) << "once";
  EXPECT_EQ(withdrawn_, 1);
  EXPECT_EQ(Go(4), Verdict::kRedo);
}

TEST_F(PledgeTest, IsOverWithTheStep) {
  ASSERT_TRUE(Pledge(false));
  ASSERT_TRUE(gate_.Finish(view_.Mark(), 5, false));
  EXPECT_FALSE(gate_.Settle());
  EXPECT_EQ(withdrawn_, 0);
  EXPECT_FALSE(gate_.Pledge(view_.Mark(), 6, /*frozen=*/true, nullptr))
      << "whoever let go votes no more";
}

// Whoever has let go of its view starts nothing, votes for nothing and applies nothing; nor does
// anyone for another view, or another step than the next.
TEST(StepGateTest, RefusesWhatIsNotTheNextStepOfItsView) {
  const GroupView view{1, {{MemberId(1), "a"}}, 1, 4, 0};
  const uint64_t mark = view.Mark();
  using Call = std::function<bool(StepGate&, uint64_t mark, int64_t step, bool frozen)>;
  const Call start = [](StepGate& gate, uint64_t m, int64_t s, bool f) {
    return gate.Start(m, s, f);
  };
  const Call vote = [](StepGate& gate, uint64_t m, int64_t s, bool f) {
    return gate.Vote(m, s, f);
  };
  const Call finish = [](StepGate& gate, uint64_t m, int64_t s, bool f) {
    return gate.Finish(m, s, f);
  };
  const Call pledge = [](StepGate& gate, uint64_t m, int64_t s, bool f) {
    return gate.Pledge(m, s, f, [] { return false; });
  };
  for (const std::vector<Call>& calls :
       {std::vector<Call>{start, vote, finish}, {start, pledge, finish}}) {
    StepGate gate;
    gate.Found(4);
    gate.Enter(view, MemberId(1));
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_FALSE(calls[i](gate, mark, 5, /*frozen=*/true)) << i;
      EXPECT_FALSE(calls[i](gate, mark ^ 1, 5, false)) << i;
      EXPECT_FALSE(calls[i](gate, mark, 4, false)) << i;
      EXPECT_FALSE(calls[i](gate, mark, 6, false)) << i;
      EXPECT_EQ(gate.progress().finished, 4);
      EXPECT_TRUE(calls[i](gate, mark, 5, false)) << i;
    }
    EXPECT_EQ(gate.progress().applied, 5);
  }
}

// Copying takes time, in which the view may end and the next one begin elsewhere: what was copied
// is the state after a step that the group then redoes.
TEST(StepGateTest, CatchesUpWithItsOwnViewAlone) {
  const GroupView view{1, {{MemberId(1), "a"}, {MemberId(2), "b"}}, 1, 4, 0};
  StepGate gate;
  gate.Enter(view, MemberId(2));
  const uint64_t mark = view.Mark();
  ASSERT_TRUE(gate.Start(mark, 5, false) && gate.Vote(mark, 5, false));
  ASSERT_TRUE(gate.Finish(mark, 5, false));
  EXPECT_TRUE(gate.learning()) << "it has nothing to apply the sum to";
  const GroupView next{2, view.members, 1, 4, view.Mark()};
  ASSERT_EQ(gate.Enter(next, MemberId(2)), Verdict::kCopy);
  EXPECT_FALSE(gate.CatchUp(mark, 5));
  EXPECT_FALSE(gate.CatchUp(next.Mark(), 5));
  EXPECT_LT(gate.progress().applied, 0) << "it holds nothing that the group has";
  EXPECT_TRUE(gate.CatchUp(next.Mark(), 4));
  EXPECT_EQ(gate.progress().applied, 4);
}

}  // namespace
}  // namespace rubato

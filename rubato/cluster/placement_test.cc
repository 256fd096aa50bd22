#include "rubato/cluster/placement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;

Placement Make(absl::string_view spec) { return Placement(*ParseClusterShorthand(spec)); }

TEST(PlacementTest, BestFitFillsTheFullestNodeThatSuffices) {
  Placement placement = Make("n2g8");
  ASSERT_TRUE(placement.Apply({{JobId(0), 0, 4}, {JobId(1), 0, 2}}).ok());
  ASSERT_TRUE(placement.Apply({{JobId(2), 0, 2}}).ok());
  EXPECT_THAT(placement.Gpus(JobId(2)), ElementsAre(6, 7));  // Node 1 stays whole.
  EXPECT_EQ(placement.SpanOf(JobId(2)), Span::kSocket);
  ASSERT_TRUE(placement.Apply({{JobId(3), 0, 8}}).ok());
  EXPECT_EQ(placement.free_gpus(0), 0);
  EXPECT_TRUE(placement.Check().ok());
}

TEST(PlacementTest, GrowsAndShrinksInPlace) {
  Placement placement = Make("n2g8");
  ASSERT_TRUE(placement.Apply({{JobId(0), 0, 2}}).ok());
  auto grown = placement.Apply({{JobId(0), 0, 8}});
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(grown->migrations, 0);
  auto shrunk = placement.Apply({{JobId(0), 0, 1}});
  ASSERT_TRUE(shrunk.ok());
  EXPECT_EQ(shrunk->migrations, 0);
  EXPECT_THAT(shrunk->changed, ElementsAre(JobId(0)));
  EXPECT_THAT(placement.Gpus(JobId(0)), ElementsAre(0));
}

// Two half-empty nodes have eight GPUs free between them; a job of eight makes one whole by
// moving one job, not two.
TEST(PlacementTest, MovesTheLeastToMakeABlock) {
  Placement placement = Make("n2g8");
  ASSERT_TRUE(
      placement.Apply({{JobId(0), 0, 4}, {JobId(1), 0, 4}, {JobId(2), 0, 2}, {JobId(3), 0, 2}})
          .ok());
  ASSERT_TRUE(placement.Apply({{JobId(1), 0, 0}, {JobId(3), 0, 0}}).ok());
  const auto change = placement.Apply({{JobId(4), 0, 8}});
  ASSERT_TRUE(change.ok());
  EXPECT_EQ(change->migrations, 1);
  EXPECT_THAT(change->changed, ElementsAre(JobId(2), JobId(4)));
  EXPECT_EQ(placement.SpanOf(JobId(4)), Span::kSocket);
  EXPECT_TRUE(placement.Check().ok());
}

TEST(PlacementTest, RefusesMoreThanThereIsAndChangesNothing) {
  Placement placement = Make("n1g4");
  ASSERT_TRUE(placement.Apply({{JobId(0), 0, 2}}).ok());
  EXPECT_EQ(placement.Apply({{JobId(0), 0, 1}, {JobId(1), 0, 4}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(placement.Gpus(JobId(0)).size(), 2u);
}

TEST(PlacementTest, AFailedNodeTakesItsJobsAlong) {
  Placement placement = Make("n2g4");
  ASSERT_TRUE(placement.Apply({{JobId(0), 0, 8}}).ok());
  EXPECT_THAT(placement.FailNode(1), ElementsAre(JobId(0)));
  EXPECT_EQ(placement.alive_gpus(0), 4);
  EXPECT_FALSE(placement.Apply({{JobId(0), 0, 8}}).ok());
  EXPECT_TRUE(placement.Apply({{JobId(0), 0, 4}}).ok());
  placement.RepairNode(1);
  EXPECT_EQ(placement.free_gpus(0), 4);
  EXPECT_TRUE(placement.Check().ok());
}

TEST(PlacementTest, OddSizesScatterOverFewNodes) {
  Placement placement = Make("n4g8");
  ASSERT_TRUE(placement.Apply({{JobId(0), 0, 3}, {JobId(1), 0, 13}}).ok());
  EXPECT_EQ(placement.SpanOf(JobId(0)), Span::kSocket);
  EXPECT_EQ(placement.Gpus(JobId(1)).size(), 13u);
  EXPECT_TRUE(placement.Check().ok());
}

// Whatever powers of two come and go, a job that fits is never spread wider than it must be.
TEST(PlacementTest, RandomBuddiesStayTight) {
  Rng rng(7);
  Placement placement = Make("n16g8");
  std::map<JobId, int> sizes;
  for (int step = 0; step < 3000; ++step) {
    const JobId job(static_cast<int64_t>(rng.Below(40)));
    const int size = rng.Chance(0.3) ? 0 : 1 << rng.Below(7);
    int used = 0;
    for (const auto& [other, n] : sizes) used += other == job ? 0 : n;
    if (used + size > 128) continue;
    sizes[job] = size;
    ASSERT_TRUE(placement.Apply({{job, 0, size}}).ok());
    ASSERT_TRUE(placement.Check().ok());
    for (const auto& [other, n] : sizes) {
      ASSERT_EQ(static_cast<int>(placement.Gpus(other).size()), n);
      if (n <= 8) {
        ASSERT_LE(placement.SpanOf(other), Span::kNode);
      }
    }
  }
}

}  // namespace
}  // namespace rubato

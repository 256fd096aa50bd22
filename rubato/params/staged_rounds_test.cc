#include "rubato/params/staged_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::IsEmpty;

// A batch's push over memory of its own: one dense weight, one table of dim 1.
struct Gradient {
  int64_t begin = 0;
  int64_t records = 10;
  std::vector<float> dense;
  std::vector<uint64_t> ids;
  std::vector<float> values;
  double rate = 1;

  PushRequest Request() const {
    PushRequest request;
    request.key = {.epoch = 0, .task = begin, .begin = begin, .end = begin + 10};
    request.records = records;
    request.rate = rate;
    if (records == 0) return request;
    request.dense = dense;
    request.tables = {{.ids = ids, .gradients = values}};
    return request;
  }
};

std::vector<float> Floats(absl::Span<const float> span) { return {span.begin(), span.end()}; }
std::vector<uint64_t> Ids(absl::Span<const uint64_t> span) { return {span.begin(), span.end()}; }

TEST(StagedRoundsTest, TheMeanOfARoundDoesNotDependOnTheOrderOfArrival) {
  const std::vector<Gradient> batches = {
      {.begin = 0, .dense = {0.1f}, .ids = {7, 8}, .values = {0.3f, 1}},
      {.begin = 10, .dense = {0.7f}, .ids = {9, 7}, .values = {5, 0.9f}},
      {.begin = 20, .dense = {1e-3f}, .ids = {7}, .values = {1e-4f}}};
  std::vector<size_t> order = {0, 1, 2};
  std::vector<float> dense, values;
  do {
    StagedRounds rounds;
    for (const size_t i : order) rounds.Stage(0, batches[i].Request());
    const StagedRounds::Merged& merged = rounds.Merge();
    EXPECT_EQ(merged.samples, 30);
    ASSERT_EQ(merged.request.tables.size(), 1);
    EXPECT_THAT(Ids(merged.request.tables[0].ids), ElementsAre(7, 8, 9));
    if (dense.empty()) {
      dense = Floats(merged.request.dense);
      values = Floats(merged.request.tables[0].gradients);
    }
    EXPECT_EQ(dense, Floats(merged.request.dense));  // To the bit.
    EXPECT_EQ(values, Floats(merged.request.tables[0].gradients));
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_THAT(dense, ElementsAre(FloatEq(0.267f)));
  EXPECT_THAT(values, ElementsAre(FloatEq(0.40003333f), FloatEq(1 / 3.f), FloatEq(5 / 3.f)));
}

// A batch may have nothing for this server and still count: its records are part of the mean.
TEST(StagedRoundsTest, ABatchWithoutIdsHereCountsInTheMean) {
  StagedRounds rounds;
  rounds.Stage(0, Gradient{.begin = 0, .records = 30, .ids = {7}, .values = {1}}.Request());
  rounds.Stage(0, Gradient{.begin = 10, .records = 10}.Request());
  EXPECT_THAT(Floats(rounds.Merge().request.tables[0].gradients), ElementsAre(0.75f));
}

// All of its rows were malformed: there is no gradient anywhere.
TEST(StagedRoundsTest, ABatchWithoutRecordsDoesNotCount) {
  StagedRounds rounds;
  const Gradient batch = {.begin = 0, .dense = {0.3f}, .ids = {7}, .values = {0.1f}};
  rounds.Stage(0, batch.Request());
  rounds.Stage(0, Gradient{.begin = 10, .records = 0}.Request());
  const StagedRounds::Merged& merged = rounds.Merge();
  EXPECT_EQ(merged.samples, 20);
  EXPECT_THAT(Floats(merged.request.dense), ElementsAre(0.3f));
  EXPECT_THAT(Floats(merged.request.tables[0].gradients), ElementsAre(0.1f));
  rounds.Stage(1, Gradient{.begin = 20, .records = 0}.Request());
  EXPECT_THAT(rounds.Merge().request.tables, IsEmpty());
}

TEST(StagedRoundsTest, RoundsAreMergedInTheirOrder) {
  StagedRounds rounds;
  rounds.Stage(1, Gradient{.begin = 10, .dense = {2}, .rate = 0.5}.Request());
  rounds.Stage(0, Gradient{.begin = 0, .dense = {1}}.Request());
  EXPECT_GT(rounds.bytes(), 0);
  EXPECT_THAT(Floats(rounds.Merge().request.dense), ElementsAre(1));
  EXPECT_EQ(rounds.merged(), 1);
  const PushRequest second = rounds.Merge().request;
  EXPECT_THAT(Floats(second.dense), ElementsAre(2));
  EXPECT_EQ(second.rate, 0.5);
  EXPECT_TRUE(rounds.empty());
  EXPECT_EQ(rounds.bytes(), 0);
}

TEST(StagedRoundsDeathTest, ABatchIsStagedOnceAndNeverTooLate) {
  StagedRounds rounds;
  const Gradient batch = {.begin = 0, .dense = {1}};
  rounds.Stage(0, batch.Request());
  EXPECT_DEATH(rounds.Stage(0, batch.Request()), "");
  rounds.Merge();
  EXPECT_DEATH(rounds.Stage(0, batch.Request()), "");
}

}  // namespace
}  // namespace rubato

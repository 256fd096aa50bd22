#include "rubato/params/staged_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "rubato/params/partition.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

// One dense slice of one weight, one table of dim 1.
StagedGradient Gradient(int64_t round, int64_t begin, int64_t records, std::vector<float> dense,
                        std::vector<uint64_t> ids, std::vector<float> values) {
  StagedGradient gradient;
  gradient.round = round;
  gradient.key = {.epoch = 0, .task = begin, .begin = begin, .end = begin + 10};
  gradient.records = records;
  if (!dense.empty()) gradient.dense[0] = std::move(dense);
  gradient.tables = {{std::move(ids), std::move(values)}};
  return gradient;
}

TEST(StagedRoundsTest, TheMeanOfARoundDoesNotDependOnTheOrderOfArrival) {
  const std::vector<StagedGradient> batches = {Gradient(0, 0, 10, {0.1f}, {7, 8}, {0.3f, 1}),
                                               Gradient(0, 10, 10, {0.7f}, {9, 7}, {5, 0.9f}),
                                               Gradient(0, 20, 10, {1e-3f}, {7}, {1e-4f})};
  std::vector<size_t> order = {0, 1, 2};
  std::vector<float> dense, values;
  do {
    StagedRounds rounds;
    for (const size_t i : order) rounds.Add(batches[i]);
    const StagedRounds::Merged merged = rounds.Merge(0, AllPartitions());
    EXPECT_EQ(merged.samples, 30);
    ASSERT_EQ(merged.gradient.tables.size(), 1u);
    EXPECT_THAT(merged.gradient.tables[0].ids, ElementsAre(7, 8, 9));
    if (dense.empty()) {
      dense = merged.gradient.dense.at(0);
      values = merged.gradient.tables[0].gradients;
    }
    EXPECT_EQ(dense, merged.gradient.dense.at(0));  // To the bit.
    EXPECT_EQ(values, merged.gradient.tables[0].gradients);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_THAT(dense, ElementsAre(FloatEq(0.267f)));
  EXPECT_THAT(values, ElementsAre(FloatEq(0.40003333f), FloatEq(1 / 3.f), FloatEq(5 / 3.f)));
}

// The learning rate falls with an evaluation, which may come between two batches of a round.
TEST(StagedRoundsTest, TheLowerRateIsThatOfTheRound) {
  for (const int64_t lower : {0, 10, 20}) {
    StagedRounds rounds;
    for (const int64_t begin : {0, 10, 20}) {
      StagedGradient gradient = Gradient(0, begin, 10, {1}, {7}, {1});
      gradient.rate = begin == lower ? 0.25 : 0.5;
      rounds.Add(std::move(gradient));
    }
    EXPECT_EQ(rounds.Merge(0, AllPartitions()).gradient.rate, 0.25) << lower;
  }
}

// A batch may have nothing for this server and still count: its records are part of the mean.
TEST(StagedRoundsTest, ABatchWithoutIdsHereCountsInTheMean) {
  StagedRounds rounds;
  rounds.Add(Gradient(0, 0, 30, {}, {7}, {1}));
  rounds.Add(Gradient(0, 10, 10, {}, {}, {}));
  EXPECT_THAT(rounds.Merge(0, AllPartitions()).gradient.tables[0].gradients, ElementsAre(0.75f));
}

// All of its rows were malformed: there is no gradient anywhere.
TEST(StagedRoundsTest, ABatchWithoutRecordsDoesNotCount) {
  StagedRounds rounds;
  rounds.Add(Gradient(0, 0, 10, {0.3f}, {7}, {0.1f}));
  rounds.Add(Gradient(0, 10, 0, {}, {}, {}));
  const StagedRounds::Merged merged = rounds.Merge(0, AllPartitions());
  EXPECT_EQ(merged.samples, 20);
  EXPECT_THAT(merged.gradient.dense.at(0), ElementsAre(0.3f));
  EXPECT_THAT(merged.gradient.tables[0].gradients, ElementsAre(0.1f));
}

TEST(StagedRoundsTest, WhatBelongsToPartitionsIsMergedApart) {
  StagedRounds rounds;
  std::vector<uint64_t> ids(1000);
  std::iota(ids.begin(), ids.end(), 1);
  rounds.Add(Gradient(0, 0, 10, {1, 2}, ids, std::vector<float>(ids.size(), 1)));
  rounds.Add(Gradient(0, 10, 10, {3, 4}, ids, std::vector<float>(ids.size(), 3)));
  IntervalSet low, high;
  low.Add(0, 500);
  high.Add(500, kPartitions);
  const StagedGradient first = rounds.Merge(0, low).gradient;
  const StagedGradient second = rounds.Merge(0, high).gradient;
  EXPECT_EQ(first.dense.size() + second.dense.size(), 1u);
  EXPECT_GT(first.tables[0].ids.size(), 300u);
  EXPECT_EQ(first.tables[0].ids.size() + second.tables[0].ids.size(), ids.size());
  for (const float value : first.tables[0].gradients) EXPECT_EQ(value, 2);
  // What went to another server and came back is there once.
  std::vector<StagedGradient> gone;
  rounds.Visit([&](const StagedGradient& gradient) { gone.push_back(gradient.Of(high)); });
  rounds.Forget(high);
  EXPECT_EQ(rounds.Merge(0, AllPartitions()).gradient.tables[0].ids.size(),
            first.tables[0].ids.size());
  for (StagedGradient& gradient : gone) rounds.Add(std::move(gradient));
  EXPECT_EQ(rounds.Merge(0, high).gradient.tables[0].gradients, second.tables[0].gradients);
  EXPECT_EQ(rounds.ids(0), 2000u);
  rounds.DropBefore(1);
  EXPECT_TRUE(rounds.empty());
  EXPECT_EQ(rounds.bytes(), 0);
  EXPECT_EQ(rounds.ids(0), 0u);
}

// A checkpoint keeps what is there at its cut, whatever comes of it meanwhile.
TEST(StagedRoundsTest, WhatSomebodyKeepsStaysAsItWas) {
  StagedRounds rounds;
  rounds.Add(Gradient(0, 0, 10, {1}, {7}, {2}));
  const std::vector<StagedRounds::Staged> kept = rounds.All();
  ASSERT_EQ(kept.size(), 1u);
  const std::string before = kept[0]->Encode();
  rounds.Add(Gradient(0, 0, 10, {}, {8}, {3}));  // The same batch's part of other partitions.
  EXPECT_THAT(rounds.All()[0]->tables[0].ids, ElementsAre(7, 8));
  rounds.Forget(AllPartitions());
  EXPECT_THAT(rounds.All()[0]->tables[0].ids, ElementsAre());
  rounds.DropBefore(1);
  EXPECT_TRUE(rounds.empty());
  EXPECT_EQ(rounds.bytes(), 0);
  EXPECT_EQ(kept[0]->Encode(), before);
}

TEST(StagedRoundsTest, BytesComeBackOrAreRefused) {
  const StagedGradient gradient = Gradient(3, 10, 8, {1, 2}, {7, 8}, {0.5f, 0.25f});
  const std::string bytes = gradient.Encode();
  const absl::StatusOr<StagedGradient> back = StagedGradient::Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->Encode(), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(StagedGradient::Decode(bytes.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(StagedGradient::Decode(bytes + "x").ok());
}

}  // namespace
}  // namespace rubato

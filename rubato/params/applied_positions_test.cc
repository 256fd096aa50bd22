#include "rubato/params/history.h"

#include <gtest/gtest.h>

#include "rubato/base/rng.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

int64_t Counted(const AppliedPositions& applied) {
  int64_t count = 0;
  for (const auto& [epoch, set] : applied.by_epoch()) count += set.size();
  return count;
}

// However often a position is said to be applied, and after a journey as bytes.
TEST(HistoryTest, SamplesAreThePositionsOfAllEpochs) {
  Rng rng(1);
  History history{.partitions = AllPartitions()};
  for (int i = 0; i < 2000; ++i) {
    const auto begin = static_cast<int64_t>(rng.Below(5000));
    history.applied.Add(static_cast<int64_t>(rng.Below(30)), begin,
                        begin + 1 + static_cast<int64_t>(rng.Below(20)));
  }
  EXPECT_GT(history.samples(), 10000);
  EXPECT_EQ(history.samples(), Counted(history.applied));
  std::string bytes;
  ByteWriter writer(bytes);
  PutHistories(writer, {history});
  ByteReader reader(bytes);
  const auto back = GetHistories(reader);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)[0].samples(), history.samples());
  EXPECT_TRUE((*back)[0].SamePast(history));
  History other = history;
  other.applied.Add(30, 0, 1);
  EXPECT_FALSE(other.SamePast(history));
}

// Every push asks; a job of few records has many epochs.
TEST(HistoryTest, AskingForSamplesCostsTheSameAfterAnyNumberOfEpochs) {
  History history{.partitions = AllPartitions()};
  for (int64_t epoch = 0; epoch < 200'000; ++epoch) history.applied.Add(epoch, 0, 8);
  int64_t sum = 0;
  for (int push = 0; push < 20'000; ++push) sum += history.samples();  // Minutes, if counted anew.
  EXPECT_EQ(sum, int64_t{20'000} * 200'000 * 8);
}

}  // namespace
}  // namespace rubato

// How much a move does at a time, while requests wait: no more, however long rows are and however
// many there are.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/params/move.h"
#include "rubato/params/plain_model.h"
#include "rubato/params/record_list.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

std::map<std::string, std::string> StateOf(const Shard& shard) {
  std::map<std::string, std::string> all;
  shard.VisitState(
      [&](const std::string& name, absl::string_view bytes) { all.emplace(name, bytes); });
  return all;
}

// What changes after it was sent goes in parts of like bytes, however long rows are: all of it
// again and again beside pushes, and the last of it while they wait.
TEST(MoveStepsTest, LongRowsThatChangeGoInManySteps) {
  constexpr uint64_t kRows = 1500;
  constexpr int64_t kDim = 4096;
  SystemMemory memory(/*huge_pages=*/false);
  Shard giver(memory, {.server = 0, .servers = 1, .rows_max = 1 << 16});
  Shard receiver(memory, {.server = 1, .servers = 1, .rows_max = 1 << 16});
  Declaration model = PlainModel(0, kDim);
  giver.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(giver.Declare(EncodeDeclaration(model, {}), nullptr).ok());
  std::vector<uint64_t> ids(kRows);
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  const std::vector<float> gradients(kRows * kDim, 1.0f);
  int64_t pushes = 0;
  const auto push = [&] {
    PushRequest request{
        .key = {.begin = pushes, .end = pushes + 1}, .worker = WorkerId(1), .view = 1};
    ++pushes;
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    ASSERT_TRUE(giver.Push(split.body(0).view(), nullptr).ok());
  };
  push();
  PartitionMap map = PartitionMap::Even(1);
  MoveSender sender(giver, {.number = 1, .from = 0, .to = 1, .partitions = AllPartitions()}, 1);
  const auto take = [&](const std::vector<MoveRecord>& records) {
    size_t bytes = 0;
    for (const auto& [kind, body] : records) {
      bytes += body.size();
      const absl::Status status = receiver.Arrive(kind, body, nullptr);
      EXPECT_TRUE(status.ok()) << status;
    }
    return bytes;
  };
  int steps = 0;
  for (; steps < 2000; ++steps) {
    const std::vector<MoveRecord> records = sender.Step();
    if (records.empty()) break;
    ASSERT_LT(take(records), 2'200'000u) << steps;
    if (steps % 20 == 19) push();  // Faster than they are sent.
  }
  EXPECT_LT(steps, 1500);
  push();
  for (; !sender.finished(); ++steps) ASSERT_LT(take(sender.Finish()), 1'300'000u) << steps;
  EXPECT_EQ(sender.rows_sent_last(), static_cast<int64_t>(kRows));
  map.Move(AllPartitions(), 1);
  ASSERT_TRUE(receiver.SetMap(map, nullptr).ok());
  EXPECT_TRUE(StateOf(receiver) == StateOf(giver));
}

// A receiver that has no room is asked ever more rarely; one that only wants it anew, at once.
TEST(MoveStepsTest, WhoIsRefusedComesBackLater) {
  SystemMemory memory(/*huge_pages=*/false);
  Shard giver(memory, {.server = 0, .servers = 1, .rows_max = 1 << 16});
  MoveSource source(giver, 1);
  MoveOrder order = {.number = 1, .from = 0, .to = 1, .partitions = AllPartitions()};
  source.SetOrder(order);
  const absl::Duration usual = source.pause();
  EXPECT_LE(usual, absl::Milliseconds(50));
  source.Refused(absl::AbortedError("begin anew"));
  EXPECT_EQ(source.pause(), usual);
  EXPECT_EQ(source.refused(), "");
  absl::Duration before = usual;
  for (int time = 0; time < 100; ++time) {
    source.Refused(absl::ResourceExhaustedError("table deep: no room"));
    source.Lost();
    EXPECT_GE(source.pause(), std::max(before, absl::Milliseconds(500)));
    EXPECT_LE(source.pause(), absl::Seconds(30));
    before = source.pause();
  }
  EXPECT_EQ(before, absl::Seconds(30));
  EXPECT_EQ(source.refused(), "table deep: no room");
  source.SetOrder(order);  // The same, again.
  EXPECT_EQ(source.pause(), before);
  order.number = 2;
  source.SetOrder(order);
  EXPECT_EQ(source.pause(), usual);
  EXPECT_EQ(source.refused(), "");
}

// So is what came with an attempt that broke off: the next one is asked to wait.
TEST(MoveStepsTest, WhatBrokeOffIsRemovedBitByBit) {
  constexpr uint64_t kRows = 30000;
  SystemMemory memory(/*huge_pages=*/false);
  Shard giver(memory, {.server = 0, .servers = 1, .rows_max = 1 << 20});
  Shard receiver(memory, {.server = 1, .servers = 1, .rows_max = 1 << 20});
  RecordList log;
  giver.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(giver.Declare(EncodeDeclaration(PlainModel(0, 1), {}), nullptr).ok());
  std::vector<uint64_t> ids(kRows);
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  const std::vector<float> gradients(kRows, 1.0f);
  PushRequest request{.key = {.begin = 0, .end = 1}, .worker = WorkerId(1), .view = 1};
  request.tables = {{ids, gradients}};
  PushSplit split;
  split.Encode(request, PartitionMap::Even(1));
  ASSERT_TRUE(giver.Push(split.body(0).view(), nullptr).ok());
  int waits = 0;
  for (int64_t attempt = 1; attempt <= 2; ++attempt) {
    MoveSender sender(giver, {.number = 1, .from = 0, .to = 1, .partitions = AllPartitions()},
                      attempt);
    while (!sender.finished()) {
      if (attempt == 1 && receiver.rows() == static_cast<int64_t>(kRows)) break;
      for (const auto& [kind, body] : sender.Finish()) {
        absl::Status status;
        do {
          const int64_t before = receiver.rows();
          status = receiver.Arrive(kind, body, &log);
          ASSERT_TRUE(status.ok() || absl::IsAborted(status)) << status;
          ASSERT_LE(before - receiver.rows(), 4096);
          waits += !status.ok();
          ASSERT_LT(waits, 100);
        } while (!status.ok());
      }
    }
  }
  EXPECT_GE(waits, 7);
  EXPECT_EQ(receiver.arrived(), AllPartitions());
  Shard again(memory, receiver.options());
  ASSERT_TRUE(log.ReplayInto(again).ok());
  PartitionMap map = PartitionMap::Even(1);
  map.Move(AllPartitions(), 1);
  for (Shard* shard : {&receiver, &again}) ASSERT_TRUE(shard->SetMap(map, nullptr).ok());
  EXPECT_TRUE(StateOf(receiver) == StateOf(giver));
  EXPECT_TRUE(again.Export() == receiver.Export());
}

// Rows that were handed over are removed some thousand at a time, whatever a partition has.
TEST(MoveStepsTest, WhatWentIsRemovedBitByBit) {
  constexpr size_t kRows = 30000;
  SystemMemory memory(/*huge_pages=*/false);
  Shard giver(memory, {.server = 0, .servers = 512, .rows_max = 1 << 20});
  Declaration model = PlainModel(0, 1);
  giver.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(giver.Declare(EncodeDeclaration(model, {}), nullptr).ok());
  std::vector<uint64_t> ids;  // Of the two partitions that it has.
  while (ids.size() < 2 * kRows) {
    const uint64_t id = Mix(ids.size());
    ids.push_back(IdOf(PointOf(id) % FirstPoint(2)));
  }
  const std::vector<float> gradients(ids.size(), 1.0f);
  PushRequest request{.key = {.begin = 0, .end = 1}, .worker = WorkerId(1), .view = 1};
  request.tables = {{ids, gradients}};
  PushSplit split;
  PartitionMap map = PartitionMap::Even(512);
  split.Encode(request, map);
  ASSERT_TRUE(giver.Push(split.body(0).view(), nullptr).ok());
  map.Move(map.PartitionsOf(0), 1);
  ASSERT_TRUE(giver.SetMap(map, nullptr).ok());
  int times = 1;
  for (int64_t before = giver.rows(); giver.Tidy(); ++times) {
    ASSERT_LE(before - giver.rows(), 4096) << times;
    before = giver.rows();
    EXPECT_FALSE(giver.settled());
    ASSERT_LT(times, 100);
  }
  EXPECT_GE(times, 14);
  EXPECT_EQ(giver.rows(), 0);
  EXPECT_TRUE(giver.settled());
}

}  // namespace
}  // namespace rubato

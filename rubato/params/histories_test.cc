// What a server has of each partition: one that owns others refuses what is not its own, and one
// that has partitions of two pasts reads each as of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/move.h"
#include "rubato/params/plain_model.h"
#include "rubato/params/shard.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// Two servers with a row for each of some ids, from the first push on.
class HistoriesTest : public testing::Test {
 protected:
  explicit HistoriesTest(PushMode mode = PushMode::kAsync, int64_t dense = 0) : dense_(dense) {
    Declaration model = PlainModel(dense, /*dim=*/1);
    model.mode = mode;
    model.optimizer = {.name = "sgd", .learning_rate = 0.5, .weight_decay = 0.25};
    for (int64_t server = 0; server < 2; ++server) {
      auto& shard = shards_.emplace_back(std::make_unique<Shard>(
          memory_, ShardOptions{.server = server, .servers = 2, .rows_max = 1 << 10}));
      shard->SetView(1, {WorkerId(1)});
      RUBATO_CHECK_OK(
          shard->Declare(EncodeDeclaration(model, DenseSlices(dense, map_, server)), nullptr));
    }
    for (uint64_t id = 0; id < 50; ++id) ids_.push_back(id);
    for (int64_t server = 0; server < 2; ++server) RUBATO_CHECK_OK(Push(server, ids_).status());
    ++pushes_;
  }

  absl::StatusOr<PushOutcome> Push(int64_t server, const std::vector<uint64_t>& ids,
                                   int64_t part = -1) {
    const std::vector<float> gradients(ids.size(), -2);
    const std::vector<float> dense(static_cast<size_t>(dense_), -2);
    PushRequest request = {
        .key = {.begin = pushes_, .end = pushes_ + 1}, .worker = WorkerId(1), .view = 1};
    request.records = 1;
    request.round = request.rounds = pushes_;
    request.tables = {{ids, gradients}};
    request.dense = dense;
    PushSplit split;
    split.Encode(request, map_);
    return Of(server).Push(split.body(part < 0 ? server : part).view(), nullptr);
  }
  // What `server` says when it is asked for what map_ gives to `part`; the rows of others stay 0.
  absl::StatusOr<std::vector<float>> Pull(int64_t server, int64_t part) {
    std::vector<float> rows(ids_.size());
    PullSplit split;
    split.Encode({.tables = {{ids_, absl::MakeSpan(rows)}}}, map_);
    Buffer reply;
    const absl::Status status = Of(server).Pull(split.body(part).view(), &reply);
    if (!status.ok()) return status;
    RUBATO_CHECK_OK(split.Scatter(part, reply.view()));
    return rows;
  }
  // All that one server has goes to the other.
  void Move(int64_t from, int64_t to) {
    const MoveOrder order = {
        .number = ++moves_, .from = from, .to = to, .partitions = map_.PartitionsOf(from)};
    MoveSender sender(Of(from), order, 1);
    while (!sender.finished()) {
      for (const auto& [kind, body] : sender.Finish()) {
        RUBATO_CHECK_OK(Of(to).Arrive(kind, body, nullptr));
      }
    }
    map_.Move(order.partitions, to);
    for (const auto& shard : shards_) RUBATO_CHECK_OK(shard->SetMap(map_, nullptr));
  }
  Shard& Of(int64_t server) { return *shards_[static_cast<size_t>(server)]; }

  SystemMemory memory_{/*huge_pages=*/false};
  PartitionMap map_ = PartitionMap::Even(2);
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<uint64_t> ids_;
  const int64_t dense_;
  int64_t pushes_ = 0, moves_ = 0;
};

// As from a client that cuts requests by another map and believes it is this one.
TEST_F(HistoriesTest, IdsOfAnotherServerAreRefused) {
  const std::string before = Of(0).Export();
  const absl::Status pushed = Push(/*server=*/0, ids_, /*part=*/1).status();
  EXPECT_EQ(pushed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(pushed.message(), HasSubstr("table table: ids of another server"));
  EXPECT_TRUE(Of(0).Export() == before);
  const absl::Status pulled = Pull(/*server=*/0, /*part=*/1).status();
  EXPECT_EQ(pulled.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(pulled.message(), HasSubstr("table table: ids of another server"));
}

// Server 0 has had five pushes more. What comes from server 1 has not missed them: it reads as it
// did there, and what was here before reads as it did here.
TEST_F(HistoriesTest, WhatIsOfTwoPastsIsReadAsOfItsOwn) {
  for (int n = 0; n < 5; ++n, ++pushes_) ASSERT_TRUE(Push(0, {}).ok());
  const std::vector<float> own = *Pull(0, 0), theirs = *Pull(1, 1);
  Move(1, 0);
  ASSERT_EQ(Of(0).histories().size(), 2u);
  const std::vector<float> all = *Pull(0, 0);
  for (size_t i = 0; i < ids_.size(); ++i) {
    const bool is_own = own[i] != 0;
    EXPECT_EQ(all[i], is_own ? own[i] : theirs[i]) << ids_[i];
    EXPECT_FLOAT_EQ(all[i], is_own ? std::pow(0.875f, 5) : 1.0f) << ids_[i];
  }
}

// What one record lost on its way would have brought, the records behind it do not hide.
TEST_F(HistoriesTest, NothingArrivesWithAGap) {
  MoveSender sender(Of(1), {.number = 1, .from = 1, .to = 0, .partitions = map_.PartitionsOf(1)},
                    /*attempt=*/1);
  std::vector<MoveRecord> records;
  while (!sender.finished()) {
    for (MoveRecord& record : sender.Finish()) records.push_back(std::move(record));
  }
  ASSERT_GT(records.size(), 3u);  // The beginning, rows, the end.
  ASSERT_TRUE(Of(0).Arrive(records[0].first, records[0].second, nullptr).ok());
  for (size_t i = 2; i < records.size(); ++i) {
    const absl::Status status = Of(0).Arrive(records[i].first, records[i].second, nullptr);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
  }
  EXPECT_TRUE(Of(0).arrived().empty());
}

// The master sees to it that none moves while a checkpoint is cut. Should one all the same, the
// giver begins anew, and the file is no worse for it.
TEST_F(HistoriesTest, ACheckpointGoesFirst) {
  MoveSender sender(Of(1), {.number = 1, .from = 1, .to = 0, .partitions = map_.PartitionsOf(1)},
                    /*attempt=*/1);
  const MoveRecord begin = sender.Finish().front();
  {
    CheckpointWriter writer(Of(0), {.version = 1, .servers = 2});
    EXPECT_TRUE(absl::IsAborted(Of(0).Arrive(begin.first, begin.second, nullptr)));
  }
  EXPECT_TRUE(Of(0).Arrive(begin.first, begin.second, nullptr).ok());
}

class StagedHistoriesTest : public HistoriesTest {
 protected:
  StagedHistoriesTest() : HistoriesTest(PushMode::kSync) {}
};

// Gradients that wait for their round go with their partitions, and nothing of them stays behind to
// be met when these come back.
TEST_F(StagedHistoriesTest, WhatComesBackWithinARoundCountsOnce) {
  Move(0, 1);
  Move(1, 0);
  ASSERT_TRUE(Of(0).Whole(1).ok());
  ASSERT_EQ(Of(0).rows(), std::ssize(ids_));
  EXPECT_EQ(*Pull(0, 0), std::vector<float>(ids_.size(), 1));
}

// A slice of the dense weights on each server.
class HybridHistoriesTest : public HistoriesTest {
 protected:
  HybridHistoriesTest() : HistoriesTest(PushMode::kHybrid, 2 * kDenseSliceFloats) {}
};

// A server that has heard that the round is whole gets partitions from one that has not. But for
// that they have the same past, and must not be taken for one.
TEST_F(HybridHistoriesTest, WhatHasYetToMoveByARoundMovesByIt) {
  ASSERT_TRUE(Of(0).Whole(1).ok());
  Move(1, 0);
  ASSERT_EQ(Of(0).histories().size(), 1u);
  int64_t slices = 0;
  Of(0).VisitState([&](const std::string& name, absl::string_view state) {
    if (!absl::StartsWith(name, "dense")) return;
    ++slices;
    std::vector<float> weights(state.size() / sizeof(float));
    std::memcpy(weights.data(), state.data(), state.size());
    EXPECT_EQ(weights, std::vector<float>(kDenseSliceFloats, 1)) << name;
  });
  EXPECT_EQ(slices, 2);
}

}  // namespace
}  // namespace rubato

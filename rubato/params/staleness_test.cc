// A push that was computed from weights some steps ago, and what its staleness leaves of the rate.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "rubato/params/checkpoint.h"
#include "rubato/params/plain_model.h"
#include "rubato/params/shard.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

constexpr int64_t kDense = 3;
constexpr size_t kDim = 2;

class StalenessTest : public testing::Test {
 protected:
  std::unique_ptr<Shard> Make(bool scale, PushMode mode = PushMode::kAsync) {
    Declaration model = PlainModel(kDense, kDim);
    model.mode = mode;
    model.scale_stale = scale;
    auto shard = std::make_unique<Shard>(memory_, ShardOptions{.rows_max = 1 << 10});
    shard->SetView(1, {WorkerId(1)});
    declared_ = shard->Declare(EncodeDeclaration(model, {{0, kDense}}), &log_);
    return shard;
  }
  // Moves everything by -1 times what is left of the rate; `pulled` steps were applied before.
  void Push(Shard& shard, int64_t pulled, double rate = 1) {
    const std::vector<uint64_t> ids = {5, 9};
    const std::vector<float> gradients(ids.size() * kDim, 1), dense(kDense, 1);
    PushRequest request{.key = {.begin = pushes_, .end = pushes_ + 1},
                        .worker = WorkerId(1),
                        .view = 1,
                        .rate = rate};
    ++pushes_;
    request.tables = {{ids, gradients}};
    request.dense = dense;
    request.pulled = {&pulled, 1};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    ASSERT_EQ(*shard.Push(split.body(0).view(), &log_), PushOutcome::kApplied);
  }
  // What all weights are, if they are one and the same.
  static float Weight(const Shard& shard) {
    std::vector<float> all;
    shard.VisitState([&](const std::string&, absl::string_view state) {
      const auto* floats = reinterpret_cast<const float*>(state.data());
      all.insert(all.end(), floats, floats + state.size() / sizeof(float));
    });
    EXPECT_EQ(all.size(), kDense + 2 * kDim);
    for (const float weight : all) EXPECT_EQ(weight, all[0]);
    return all[0];
  }

  SystemMemory memory_{/*huge_pages=*/false};
  StringSink log_;
  absl::Status declared_;
  int64_t pushes_ = 0;
};

TEST_F(StalenessTest, TheRateFallsWithTheStepsAPushIsBehind) {
  const auto shard = Make(/*scale=*/true);
  ASSERT_TRUE(declared_.ok());
  float expected = 0;
  const auto push = [&](int64_t pulled, double moves, double rate = 1) {
    Push(*shard, pulled, rate);
    expected -= static_cast<float>(moves);
    ASSERT_EQ(Weight(*shard), expected);
  };
  push(0, 1);              // As fresh as can be.
  push(0, 1.0 / 2);        // One behind.
  push(2, 1);              // Fresh again: the push before leaves nothing behind.
  push(0, 1.0 / 4);        // Three behind.
  push(3, 1.0 / 4, 0.5);   // One behind, and the rate has fallen.
  push(-1, 1.0 / 2, 0.5);  // Who knows how far: not at all.
  push(99, 1);             // Nor is there weight from the future.
  EXPECT_EQ(shard->counters().staleness_max, 3);

  Shard replayed(memory_, {.rows_max = 1 << 10});
  ASSERT_TRUE(ReadRecords("push.log", log_.bytes(), [&](RecordKind kind, absl::string_view body) {
                return replayed.Replay(kind, body);
              }).ok());
  EXPECT_EQ(replayed.Export(), shard->Export());
}

// A row that was in no batch for a while is caught up with at the rate of the steps it missed, as a
// pull shows it, however stale the push that brings it back: only that push is scaled.
TEST_F(StalenessTest, WhatARowMissedIsNoneOfThePushsStaleness) {
  for (const char* optimizer :
       {"sgd", "adamw", "adagrad", "rowwise_adagrad", "adam", "dense_adam", "amsgrad", "rmsprop"}) {
    Declaration model = PlainModel(kDense, kDim);
    model.scale_stale = true;
    model.optimizer = {.name = optimizer, .learning_rate = 0.1};
    model.optimizer.weight_decay = 0.1;
    Shard shard(memory_, {.rows_max = 1 << 10});
    shard.SetView(1, {WorkerId(1)});
    ASSERT_TRUE(shard.Declare(EncodeDeclaration(model, {{0, kDense}}), nullptr).ok());
    const auto push = [&](uint64_t id, float gradient, int64_t pulled) {
      const std::vector<uint64_t> ids = {id};
      const std::vector<float> gradients(kDim, gradient);
      PushRequest request{
          .key = {.begin = pushes_, .end = pushes_ + 1}, .worker = WorkerId(1), .view = 1};
      ++pushes_;
      request.tables = {{ids, gradients}};
      request.pulled = {&pulled, 1};
      PushSplit split;
      split.Encode(request, PartitionMap::Even(1));
      ASSERT_EQ(*shard.Push(split.body(0).view(), nullptr), PushOutcome::kApplied);
    };
    const auto pull = [&] {
      const std::vector<uint64_t> ids = {5};
      std::vector<float> row(kDim);
      PullSplit split;
      split.Encode({.tables = {{ids, absl::MakeSpan(row)}}}, PartitionMap::Even(1));
      Buffer reply;
      EXPECT_TRUE(shard.Pull(split.body(0).view(), &reply).ok());
      EXPECT_TRUE(split.Scatter(0, reply.view()).ok());
      return row[0];
    };
    push(5, -1, 0);
    int64_t steps = 1;
    for (; steps <= 100; ++steps) push(9, 1, steps);
    const float seen = pull();
    // So stale that the update itself is next to nothing: its own momentum and decay included.
    for (; steps <= 5000; ++steps) push(9, 1, steps);
    const float before = pull();
    EXPECT_LT(std::abs(before), std::abs(seen));
    push(5, 0, 0);
    EXPECT_NEAR(pull(), before, 1e-3 * std::abs(before) + 1e-4) << optimizer;
  }
}

// A bound on it: what is further behind is refused, and nothing else of it happens.
TEST_F(StalenessTest, WhatIsTooFarBehindIsRefused) {
  Declaration model = PlainModel(kDense, kDim);
  model.tolerance = 3;
  Shard shard(memory_, {.rows_max = 1 << 10});
  shard.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(shard.Declare(EncodeDeclaration(model, {{0, kDense}}), &log_).ok());
  const auto push = [&](int64_t batch, int64_t pulled) {
    const std::vector<float> dense(kDense, 1);
    PushRequest request{
        .key = {.begin = batch, .end = batch + 1}, .worker = WorkerId(1), .view = 1};
    request.dense = dense;
    request.pulled = {&pulled, 1};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    return *shard.Push(split.body(0).view(), &log_);
  };
  for (int64_t batch = 0; batch < 4; ++batch) ASSERT_EQ(push(batch, batch), PushOutcome::kApplied);
  EXPECT_EQ(push(3, 0), PushOutcome::kDuplicate);  // There already, so of no age.
  const std::string state = shard.Export();
  EXPECT_EQ(push(4, 0), PushOutcome::kStale);
  EXPECT_EQ(shard.Export(), state);
  EXPECT_EQ(push(4, 1), PushOutcome::kApplied);
  EXPECT_EQ(push(5, -1), PushOutcome::kApplied);  // Nobody knows.
  EXPECT_EQ(shard.counters().stale, 1);
  EXPECT_EQ(shard.counters().staleness_max, 3);

  Shard replayed(memory_, {.rows_max = 1 << 10});
  ASSERT_TRUE(ReadRecords("push.log", log_.bytes(), [&](RecordKind kind, absl::string_view body) {
                return replayed.Replay(kind, body);
              }).ok());
  EXPECT_EQ(replayed.Export(), shard.Export());

  // A job that goes on with more workers may allow more.
  model.tolerance = 10;
  ASSERT_TRUE(shard.Declare(EncodeDeclaration(model, {{0, kDense}}), nullptr).ok());
  EXPECT_EQ(push(6, 0), PushOutcome::kApplied);
}

TEST_F(StalenessTest, ItIsIgnoredUnlessAskedFor) {
  const auto shard = Make(/*scale=*/false);
  for (int push = 1; push <= 4; ++push) {
    Push(*shard, 0);
    EXPECT_EQ(Weight(*shard), -push);
  }
}

TEST_F(StalenessTest, RoundsHaveNoUseForIt) {
  Make(/*scale=*/true, PushMode::kSync);
  EXPECT_FALSE(declared_.ok());
  Make(/*scale=*/false, PushMode::kSync);
  EXPECT_TRUE(declared_.ok());
}

}  // namespace
}  // namespace rubato

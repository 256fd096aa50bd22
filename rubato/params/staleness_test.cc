// A push that was computed from weights some steps ago, and what its staleness leaves of the rate.
#include <gtest/gtest.h>

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

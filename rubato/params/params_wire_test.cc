// What travels between workers and servers, in each of its formats.
#include "rubato/params/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "rubato/base/rng.h"
#include "rubato/net/frame.h"
#include "rubato/params/shard.h"

namespace rubato {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A log in memory.
class Log : public RecordSink {
 public:
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    // Copied to an aligned place, as it would be read back.
    bodies.emplace_back(std::vector<uint64_t>(body.size() / 8 + 1), body.size());
    std::memcpy(bodies.back().first.data(), body.data(), body.size());
    kinds.push_back(kind);
    return absl::OkStatus();
  }
  void ReplayInto(Shard& shard) const {
    for (size_t i = 0; i < kinds.size(); ++i) {
      const auto* bytes = reinterpret_cast<const char*>(bodies[i].first.data());
      EXPECT_TRUE(shard.Replay(kinds[i], {bytes, bodies[i].second}).ok());
    }
  }
  std::vector<RecordKind> kinds;
  std::vector<std::pair<std::vector<uint64_t>, size_t>> bodies;
};

class WireTest : public testing::TestWithParam<WireFormat> {
 protected:
  static constexpr int64_t kDense = 3 * kDenseSliceFloats + 37, kServers = 3;
  static constexpr size_t kDeep = 5, kIds = 2500;

  WireTest() {
    for (int64_t s = 0; s < kServers; ++s) {
      shards_.push_back(std::make_unique<Shard>(memory_, Options(s)));
      shards_.back()->SetView(1, {WorkerId(1)});
      EXPECT_TRUE(shards_.back()->Declare(Declared(s), &logs_.emplace_back()).ok());
    }
    Rng rng(11);
    for (size_t i = 0; i < kIds; ++i) ids_.push_back(Mix(i));
    for (auto* values : {&deep_, &wide_, &dense_}) {
      values->resize(values == &deep_ ? kIds * kDeep : values == &wide_ ? kIds : kDense);
      for (float& value : *values) value = static_cast<float>(rng.Normal());
    }
  }
  static ShardOptions Options(int64_t server) {
    return {.server = server, .servers = kServers, .rows_max = 1 << 16};
  }
  static std::string Declared(int64_t server) {
    Declaration model;
    model.signature.dense_size = kDense;
    model.signature.tables.resize(2);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = kDeep;
    model.signature.tables[1].name = "wide";
    model.signature.tables[1].dim = 1;
    model.optimizer = {.name = "sgd", .learning_rate = 1};
    model.dense.assign(kDense, 0.5f);
    return EncodeDeclaration(model, DenseSlices(kDense, PartitionMap::Even(kServers), server));
  }
  std::vector<absl::StatusOr<PushOutcome>> Push(int64_t n, absl::Span<const int64_t> pulled = {}) {
    PushRequest request;
    request.key = {.begin = n, .end = n + 1};
    request.worker = WorkerId(1);
    request.view = 1;
    request.tables = {{ids_, deep_}, {ids_, wide_}};
    request.dense = dense_;
    request.pulled = pulled;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(kServers), GetParam());
    std::vector<absl::StatusOr<PushOutcome>> outcomes;
    for (int64_t s = 0; s < kServers; ++s) {
      const auto i = static_cast<size_t>(s);
      outcomes.push_back(shards_[i]->Push(split.body(s).view(), &logs_[i]));
    }
    return outcomes;
  }
  struct Weights {
    std::vector<float> deep, wide, dense;
    std::vector<int64_t> steps;
    friend bool operator==(const Weights&, const Weights&) = default;
  };
  Weights Pull(const std::vector<std::unique_ptr<Shard>>& shards, WireFormat format) {
    Weights out{std::vector<float>(kIds * kDeep), std::vector<float>(kIds),
                std::vector<float>(kDense), std::vector<int64_t>(kServers)};
    PullSplit split;
    split.Encode({.tables = {{ids_, absl::MakeSpan(out.deep)}, {ids_, absl::MakeSpan(out.wide)}},
                  .dense = absl::MakeSpan(out.dense),
                  .steps = &out.steps},
                 PartitionMap::Even(kServers), format);
    for (int64_t s = 0; s < kServers; ++s) {
      Buffer reply;
      EXPECT_TRUE(shards[static_cast<size_t>(s)]->Pull(split.body(s).view(), &reply).ok());
      EXPECT_TRUE(split.Scatter(s, reply.view()).ok());
    }
    return out;
  }
  // How far a number may be from itself after one journey.
  static double Error() {
    return GetParam() == WireFormat::kFp32 ? 0 : GetParam() == WireFormat::kBf16 ? 0x1p-8 : 0x1p-11;
  }
  static void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted) {
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_LE(std::abs(got[i] - wanted[i]), std::abs(wanted[i]) * Error() + 1e-7) << i;
    }
  }

  SystemMemory memory_{/*huge_pages=*/false};
  std::vector<std::unique_ptr<Shard>> shards_;
  std::deque<Log> logs_;
  std::vector<uint64_t> ids_;
  std::vector<float> deep_, wide_, dense_;
};

// A push rounds gradients once, a pull weights once, and only on the way: what the server holds is
// the same whoever looks.
TEST_P(WireTest, RoundsNoMoreThanTheFormatDoes) {
  const Weights before = Pull(shards_, WireFormat::kFp32);
  ExpectNear(Pull(shards_, GetParam()).deep, before.deep);
  ExpectNear(Pull(shards_, GetParam()).dense, before.dense);
  for (const auto& outcome : Push(0)) EXPECT_EQ(*outcome, PushOutcome::kApplied);
  const Weights after = Pull(shards_, WireFormat::kFp32);
  for (size_t i = 0; i < deep_.size(); ++i) {
    const double moved = double{before.deep[i]} - after.deep[i];
    ASSERT_NEAR(moved, deep_[i], std::abs(deep_[i]) * Error() + 1e-6) << i;
  }
  ExpectNear(Pull(shards_, GetParam()).wide, after.wide);
}

// The log holds what was received, so a server that comes back has the same bits.
TEST_P(WireTest, AReplayGivesTheSameBits) {
  for (int64_t n = 0; n < 4; ++n) {
    for (const auto& outcome : Push(n)) ASSERT_EQ(*outcome, PushOutcome::kApplied);
    for (float& value : deep_) value *= 0.7f;
  }
  std::vector<std::unique_ptr<Shard>> back;
  for (int64_t s = 0; s < kServers; ++s) {
    back.push_back(std::make_unique<Shard>(memory_, Options(s)));
    logs_[static_cast<size_t>(s)].ReplayInto(*back.back());
    EXPECT_EQ(back.back()->Export(), shards_[static_cast<size_t>(s)]->Export());
  }
  EXPECT_TRUE(Pull(back, WireFormat::kFp32) == Pull(shards_, WireFormat::kFp32));
}

TEST_P(WireTest, WhatIsNotFiniteIsRefusedInEveryFormat) {
  const std::string state = shards_[0]->Export();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    deep_.assign(deep_.size(), bad);
    for (const auto& outcome : Push(0)) {
      EXPECT_TRUE(absl::IsOutOfRange(outcome.status()));
      EXPECT_THAT(std::string(outcome.status().message()),
                  AllOf(HasSubstr("worker-1"), HasSubstr("table deep: gradient is ")));
    }
  }
  EXPECT_EQ(shards_[0]->counters().not_finite, 2);
  // A client sees it coming, in whatever form, wherever it is.
  const auto finite = [&] {
    PushRequest request;
    request.tables = {{ids_, deep_}, {ids_, wide_}};
    request.dense = dense_;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1), GetParam());
    return split.finite(0);
  };
  EXPECT_FALSE(finite());
  deep_.assign(deep_.size(), 1e5f);
  EXPECT_EQ(finite(), GetParam() != WireFormat::kFp16);
  deep_.assign(deep_.size(), 1);
  EXPECT_TRUE(finite());
  for (float* place : {&deep_.back(), &wide_.back(), &dense_.back()}) {
    const float was = std::exchange(*place, std::numeric_limits<float>::infinity());
    EXPECT_FALSE(finite());
    *place = was;
  }
  // Of several servers it is the one that would get it.
  const PartitionMap map = PartitionMap::Even(kServers);
  for (const size_t i : {size_t{0}, size_t{817}, size_t{820}, kIds - 1}) {
    const float was = std::exchange(deep_[i * kDeep + 3], std::numeric_limits<float>::quiet_NaN());
    PushRequest request;
    request.tables = {{ids_, deep_}, {ids_, wide_}};
    PushSplit split;
    split.Encode(request, map, GetParam());
    for (int64_t s = 0; s < kServers; ++s) {
      EXPECT_EQ(split.finite(s), s != map.ServerOf(PointOf(ids_[i]))) << i << ", server " << s;
    }
    deep_[i * kDeep + 3] = was;
    split.Recode(PartitionMap::Even(2));
    EXPECT_FALSE(split.finite(0) && split.finite(1));
  }
  // Too large for fp16 alone: infinite on arrival, so refused, and the remedy is named.
  deep_.assign(deep_.size(), 1e5f);
  const auto outcome = Push(0)[0];
  if (GetParam() == WireFormat::kFp16) {
    EXPECT_TRUE(absl::IsOutOfRange(outcome.status()));
    EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("params.wire: bf16"));
    EXPECT_EQ(shards_[0]->Export(), state);
  } else {
    EXPECT_EQ(*outcome, PushOutcome::kApplied);
  }
}

// Bodies of half the size, and none that names another format is taken.
TEST_P(WireTest, HalvesAreHalfAsLong) {
  PushRequest request;
  request.tables = {{ids_, deep_}, {}};
  PushSplit split;
  split.Encode(request, PartitionMap::Even(1), GetParam());
  const auto size = static_cast<double>(split.body(0).size());
  EXPECT_NEAR(size, kIds * (8.0 + kDeep * WireBytes(GetParam())), 200);
  DecodedPush push;
  EXPECT_TRUE(DecodePush(split.body(0).view(), &push).ok());
  EXPECT_EQ(push.format, GetParam());
  split.Encode(request, PartitionMap::Even(1), static_cast<WireFormat>(7));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodePush(split.body(0).view(), &push)));
}

// A push that is split anew says the same of its age, also to servers that came since the pull.
TEST_P(WireTest, AnotherMapMakesAPushNoYounger) {
  const std::vector<int64_t> pulled = {7, -1, 5};
  PushRequest request;
  request.tables = {{ids_, deep_}, {}};
  request.pulled = pulled;
  PushSplit split;
  split.Encode(request, PartitionMap::Even(3), GetParam());
  const auto told = [&](int64_t server) {
    DecodedPush push;
    EXPECT_TRUE(DecodePush(split.body(server).view(), &push).ok());
    return push.pulled;
  };
  EXPECT_EQ(told(0), 7);
  EXPECT_EQ(told(1), 5);
  EXPECT_EQ(told(2), 5);
  split.Recode(PartitionMap::Even(4));
  EXPECT_EQ(told(0), 7);
  EXPECT_EQ(told(2), 5);
  EXPECT_EQ(told(3), 5);
  split.Recode(PartitionMap::Even(1));
  EXPECT_EQ(told(0), 7);
}

// A pull that is split anew hears of as many servers as there are then.
TEST_P(WireTest, APullHearsFromEveryServerThatItAsks) {
  Push(0);
  std::vector<float> rows(kIds * kDeep);
  std::vector<int64_t> steps = {42};
  PullSplit split;
  split.Encode({.tables = {{ids_, absl::MakeSpan(rows)}, {}}, .steps = &steps},
               PartitionMap::Even(1), GetParam());
  EXPECT_EQ(steps, std::vector<int64_t>{-1});
  split.Recode(PartitionMap::Even(kServers));
  for (int64_t s = 0; s < kServers; ++s) {
    Buffer reply;
    ASSERT_TRUE(shards_[static_cast<size_t>(s)]->Pull(split.body(s).view(), &reply).ok());
    ASSERT_TRUE(split.Scatter(s, reply.view()).ok());
  }
  EXPECT_EQ(steps, std::vector<int64_t>(kServers, 1));
}

// Between a worker's pull and its push two others were applied: that is how stale it is.
TEST_P(WireTest, StalenessIsCountedInSteps) {
  const std::vector<int64_t> pulled = Pull(shards_, GetParam()).steps;
  EXPECT_EQ(pulled, std::vector<int64_t>(kServers, 0));
  Push(0);
  Push(1, pulled);
  Push(2, pulled);
  EXPECT_EQ(shards_[1]->counters().stale_pushes, 2);
  EXPECT_EQ(shards_[1]->counters().staleness_sum, 3);
  EXPECT_EQ(shards_[1]->counters().staleness_max, 2);
  EXPECT_EQ(Pull(shards_, GetParam()).steps, std::vector<int64_t>(kServers, 3));
}

INSTANTIATE_TEST_SUITE_P(Formats, WireTest,
                         testing::Values(WireFormat::kFp32, WireFormat::kBf16, WireFormat::kFp16),
                         [](const auto& info) { return WireFormatName(info.param); });

// Sees whether a push has asked for the shard alone by the time it is logged, and reads beside it.
class Witness : public RecordSink, public PushTurn {
 public:
  void Write() override { alone = true; }
  absl::Status Append(RecordKind kind, absl::string_view) override {
    if (kind != RecordKind::kPush) return absl::OkStatus();
    alone_when_logged = alone;
    before = shard->Export();
    return result;
  }
  const Shard* shard = nullptr;
  absl::Status result;
  bool alone = false, alone_when_logged = false;
  std::string before;
};

// A push is checked and logged while pulls go on; only then does it need the shard for itself. In
// rounds it may have to move the weights before it is logged.
TEST(PushTest, PullsNeedNotWaitForTheLog) {
  for (const PushMode mode : {PushMode::kAsync, PushMode::kSync, PushMode::kHybrid}) {
    SystemMemory memory(/*huge_pages=*/false);
    Shard shard(memory, {.rows_max = 1 << 12});
    shard.SetView(1, {WorkerId(1)});
    Declaration model;
    model.mode = mode;
    model.signature.tables.resize(1);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = 1;
    ASSERT_TRUE(shard.Declare(EncodeDeclaration(model, {}), nullptr).ok());
    const std::vector<uint64_t> ids = {3, 4};
    const std::vector<float> gradients = {1, 2};
    PushRequest request{.key = {.begin = 0, .end = 1}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1), WireFormat::kFp32);
    Witness witness;
    witness.shard = &shard;
    const std::string untouched = shard.Export();
    const auto push = [&] {
      witness.alone = false;
      DecodedPush decoded;
      EXPECT_TRUE(DecodePush(split.body(0).view(), &decoded).ok());
      return shard.Push(decoded, split.body(0).view(), &witness, witness);
    };

    witness.result = absl::ResourceExhaustedError("the disk is full");
    EXPECT_EQ(push().status(), witness.result);
    EXPECT_EQ(shard.Export(), untouched);
    witness.result = absl::OkStatus();
    EXPECT_EQ(*push(), PushOutcome::kApplied);
    EXPECT_EQ(witness.alone_when_logged, mode != PushMode::kAsync);
    EXPECT_EQ(witness.before, untouched);
    EXPECT_TRUE(witness.alone);
    EXPECT_NE(shard.Export(), untouched);
    EXPECT_EQ(*push(), PushOutcome::kDuplicate);  // And counted, which others may read meanwhile.
    EXPECT_TRUE(witness.alone);
    EXPECT_EQ(shard.counters().duplicates, 1);
  }
}

// Of a push that is too large, smaller batches make all smaller but the dense gradients.
TEST(WireLimitsTest, APushTellsWhatOnlyMoreServersMakeSmaller) {
  const std::vector<float> dense(1 << 16);
  PushRequest request{.key = {.begin = 0, .end = 1}, .worker = WorkerId(1), .view = 1};
  request.dense = dense;
  for (const auto& [format, bytes] :
       {std::pair{WireFormat::kFp32, size_t{4}}, {WireFormat::kBf16, size_t{2}}}) {
    for (const int64_t servers : {1, 2}) {
      PushSplit split;
      split.Encode(request, PartitionMap::Even(servers), format);
      size_t all = 0;
      for (int64_t s = 0; s < servers; ++s) {
        all += split.dense_bytes(s);
        EXPECT_LT(split.body(s).size() - split.dense_bytes(s), 1000u);
      }
      EXPECT_EQ(all, dense.size() * bytes);
    }
  }
  EXPECT_EQ(WayToFit(1001, 1000), "use more servers, which share the dense weights");
  EXPECT_EQ(WayToFit(1000, 1000), "lower batch_size");
}

// A pull may ask for more than a frame holds: few bytes of ids, but long rows.
TEST(WireLimitsTest, APullOfMoreThanAReplyHoldsIsRefused) {
  SystemMemory memory(/*huge_pages=*/false);
  Shard shard(memory, {.rows_max = 1 << 10});
  Declaration model;
  model.signature.tables.resize(1);
  model.signature.tables[0].name = "long";
  model.signature.tables[0].dim = 65536;
  ASSERT_TRUE(shard.Declare(EncodeDeclaration(model, {}), nullptr).ok());
  const std::vector<uint64_t> ids(5000, 1);
  // Says that rows are long without having room for them.
  float room = 0;
  PullSplit split;
  split.Encode({.tables = {{ids, absl::MakeSpan(&room, ids.size() * 65536)}}},
               PartitionMap::Even(1));
  Buffer reply;
  const absl::Status status = shard.Pull(split.body(0).view(), &reply);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower batch_size"));
}

}  // namespace
}  // namespace rubato

#include "rubato/params/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rubato/base/rng.h"
#include "rubato/net/frame.h"
#include "rubato/params/shard.h"

namespace rubato {
namespace {

class StringSink : public RecordSink {
 public:
  StringSink() {
    const FileHeaderBytes header = EncodeFileHeader();
    bytes.assign(header.data(), header.size());
  }
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    const RecordHeaderBytes header = EncodeRecordHeader(kind, body);
    bytes.append(header.data(), header.size());
    bytes.append(body.data(), body.size());
    bytes.resize(Padded(bytes.size()));
    return absl::OkStatus();
  }
  std::string bytes;
};

// Two servers that hold a model of dense weights and one table, after a few pushes of Adam with
// decay: rows with state of every kind.
class WeightsTest : public testing::Test {
 protected:
  static constexpr int64_t kDense = 70, kServers = 2;

  void SetUp() override {
    model_.signature.dense_size = kDense;
    model_.signature.tables = {{.name = "deep", .dim = 4}};
    model_.optimizer = {.name = "adam", .learning_rate = 0.1, .weight_decay = 0.01};
    model_.seed = 7;
    model_.dense.assign(kDense, 0.5f);
    for (int64_t s = 0; s < kServers; ++s) {
      shards_.push_back(
          std::make_unique<Shard>(memory_, ShardOptions{.server = s, .servers = kServers}));
      shards_.back()->SetView(1, {WorkerId(1)});
      const std::string body =
          EncodeDeclaration(model_, DenseSlices(kDense, shards_.back()->map(), s));
      ASSERT_TRUE(shards_.back()->Declare(body, nullptr).ok());
    }
    for (int64_t batch = 0; batch < 20; ++batch) Push(batch);
  }

  void Push(int64_t batch) {
    Rng rng(static_cast<uint64_t>(batch));
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < 300; ++id) {
      if (rng.Below(4) == 0) ids.push_back(Mix(id));
    }
    std::vector<float> rows(ids.size() * 4), dense(kDense);
    for (auto* values : {&rows, &dense}) {
      for (float& g : *values) g = static_cast<float>(rng.Normal());
    }
    PushRequest request{.key = {.begin = batch * 8, .end = batch * 8 + 8},
                        .worker = WorkerId(1),
                        .view = 1,
                        .tables = {{ids, rows}},
                        .dense = dense};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(kServers));
    for (int64_t s = 0; s < kServers; ++s) {
      ASSERT_EQ(*shards_[static_cast<size_t>(s)]->Push(split.body(s).view(), nullptr),
                PushOutcome::kApplied);
    }
  }

  void Visit(WeightsSink& sink) {
    for (const auto& shard : shards_) ASSERT_TRUE(shard->VisitWeights(sink).ok());
  }

  SystemMemory memory_{/*huge_pages=*/false};
  Declaration model_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// What a worker would be told, to the bit: rows with decay that is due, and rows nobody pushed.
TEST_F(WeightsTest, FrozenWeightsReadAsAPullDoes) {
  FrozenWeights frozen;
  Visit(frozen);
  ASSERT_TRUE(frozen.Finish().ok());
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 400; ++id) ids.push_back(Mix(id));
  std::vector<float> pulled(ids.size() * 4), read(ids.size() * 4), dense(kDense);
  PullRequest request{.tables = {{ids, absl::MakeSpan(pulled)}}, .dense = absl::MakeSpan(dense)};
  PullSplit split;
  split.Encode(request, PartitionMap::Even(kServers));
  for (int64_t s = 0; s < kServers; ++s) {
    Buffer reply;
    ASSERT_TRUE(shards_[static_cast<size_t>(s)]->Pull(split.body(s).view(), &reply).ok());
    ASSERT_TRUE(split.Scatter(s, reply.view()).ok());
  }
  frozen.table(0).Gather(ids, read.data());
  EXPECT_EQ(read, pulled);
  EXPECT_EQ(frozen.dense(), dense);
}

TEST_F(WeightsTest, AFileHoldsTheSameWeights) {
  StringSink file;
  WeightsWriter writer(file);
  Visit(writer);
  ASSERT_TRUE(writer.Finish().ok());
  FrozenWeights direct, read;
  Visit(direct);
  ASSERT_TRUE(ReadWeights("weights.bin", file.bytes, read).ok());
  EXPECT_EQ(read.checksum(), direct.checksum());
  EXPECT_EQ(read.rows(), direct.rows());
  EXPECT_EQ(writer.rows(), std::vector<int64_t>{direct.rows()});
}

TEST_F(WeightsTest, NoRowMayComeTwice) {
  FrozenWeights frozen;
  Visit(frozen);
  ASSERT_TRUE(shards_[1]->VisitWeights(frozen).ok());
  const absl::Status status = frozen.Finish();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), testing::HasSubstr("two rows for id"));
}

TEST_F(WeightsTest, DamageIsNoticedWhereverItIs) {
  StringSink file;
  WeightsWriter writer(file);
  Visit(writer);
  ASSERT_TRUE(writer.Finish().ok());
  const auto read = [](std::string bytes) {
    FrozenWeights weights;
    return ReadWeights("weights.bin", bytes, weights);
  };
  for (size_t at = 0; at < file.bytes.size(); at += 61) {
    std::string damaged = file.bytes;
    damaged[at] ^= 0x10;
    EXPECT_FALSE(read(damaged).ok()) << at;
    EXPECT_FALSE(read(file.bytes.substr(0, at)).ok()) << at;
  }
}

TEST_F(WeightsTest, ShardsOfAnotherModelAreRefused) {
  FrozenWeights frozen;
  Visit(frozen);
  Declaration other = model_;
  other.seed = 8;
  EXPECT_TRUE(absl::IsFailedPrecondition(frozen.Begin(other)));
  FrozenWeights half;
  ASSERT_TRUE(shards_[1]->VisitWeights(half).ok());  // Has no dense weights.
  EXPECT_TRUE(absl::IsDataLoss(half.Finish()));
}

}  // namespace
}  // namespace rubato

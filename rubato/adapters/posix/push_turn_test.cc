// While one push moves its rows the next is checked and logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/base/shared_mutex.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/memory.h"
#include "rubato/params/shard.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

class Counter : public RecordSink {
 public:
  absl::Status Append(RecordKind, absl::string_view) override {
    if (++appended_ == 2) second_.set_value();
    return absl::OkStatus();
  }
  int appended() const { return appended_; }
  std::future<void> second() { return second_.get_future(); }

 private:
  int appended_ = 0;  // In its turn alone.
  std::promise<void> second_;
};

// As the server's lock gives it. `passed` runs after the turn was passed on, before any row moves;
// `asked` when it is known whether the push before has ended.
class Turn : public PushTurn {
 public:
  Turn(SharedMutex& mu, std::function<void()> passed, std::function<void()> asked = nullptr)
      : lock_(mu), passed_(std::move(passed)), asked_(std::move(asked)) {}
  bool Alone() override {
    const bool alone = lock_.alone();
    if (const auto asked = std::exchange(asked_, nullptr)) asked();
    return alone;
  }
  void Write() override { lock_.Write(); }
  void PassOn() override {
    lock_.PassOn();
    if (passed_) passed_();
  }

 private:
  TurnLock lock_;
  const std::function<void()> passed_;
  std::function<void()> asked_;
};

class PushTurnTest : public testing::Test {
 protected:
  PushTurnTest() { Begin(1 << 10); }

  void Begin(uint64_t rows_max) {
    shard_.emplace(memory_, ShardOptions{.rows_max = rows_max});
    shard_->SetView(1, {WorkerId(1)});
    Declaration model;
    model.signature.tables.resize(1);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = 1;
    EXPECT_TRUE(shard_->Declare(EncodeDeclaration(model, {}), nullptr).ok());
  }

  // A push for positions [n, n + 1) of the ids from `first` on.
  absl::StatusOr<PushOutcome> Push(int64_t n, uint64_t first, std::function<void()> passed,
                                   int64_t count = 3, std::function<void()> asked = nullptr) {
    std::vector<uint64_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), first);
    const std::vector<float> gradients(ids.size(), 1.0f);
    PushRequest request{.key = {.begin = n, .end = n + 1}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1), WireFormat::kFp32);
    DecodedPush push;
    EXPECT_TRUE(DecodePush(split.body(0).view(), &push).ok());
    Turn turn(mu_, std::move(passed), std::move(asked));
    return shard_->Push(push, split.body(0).view(), &log_, turn);
  }

  SystemMemory memory_{/*huge_pages=*/false};
  std::optional<Shard> shard_;
  SharedMutex mu_;
  Counter log_;
};

// The first does not move a row before the second is in the log: for ever, if that had to wait.
TEST_F(PushTurnTest, TheNextIsLoggedWhileRowsMove) {
  std::future<void> second_logged = log_.second();
  absl::StatusOr<PushOutcome> second;
  std::thread other;
  const auto first = Push(0, 100, [&] {
    EXPECT_EQ(shard_->rows(), 0);
    other = std::thread([&] { second = Push(1, 101, nullptr); });
    second_logged.wait();
    EXPECT_EQ(shard_->rows(), 0);
  });
  other.join();
  EXPECT_EQ(*first, PushOutcome::kApplied);
  EXPECT_EQ(*second, PushOutcome::kApplied);
  EXPECT_EQ(shard_->rows(), 4);
  EXPECT_EQ(shard_->histories()[0].steps, 2);
}

// What is logged and not yet in the rows is known all the same.
TEST_F(PushTurnTest, ASecondOfTheSameBatchIsADuplicateMeanwhile) {
  absl::StatusOr<PushOutcome> second;
  std::thread other;
  const auto first =
      Push(0, 100, [&] { other = std::thread([&] { second = Push(0, 100, nullptr); }); });
  other.join();
  EXPECT_EQ(*first, PushOutcome::kApplied);
  EXPECT_EQ(*second, PushOutcome::kDuplicate);
  EXPECT_EQ(log_.appended(), 1);
}

// The first may make as many rows as it has ids, so the second waits to see how many it made. One
// for which there is no room then is not in the log.
TEST_F(PushTurnTest, RoomIsCountedWithWhatIsNotMadeYet) {
  const int64_t room = 9 - 3;
  for (const int64_t ids : {room, room + 1}) {
    Begin(9);
    ASSERT_TRUE(Push(0, 100, nullptr).ok());
    absl::StatusOr<PushOutcome> second;
    std::thread other;
    const int logged = log_.appended();
    std::promise<void> asked;
    const auto first = Push(1, 100, [&] {
      other = std::thread(
          [&] { second = Push(2, 200, nullptr, ids, [&asked] { asked.set_value(); }); });
      asked.get_future().wait();  // The second finds the first at work.
    });
    other.join();
    EXPECT_TRUE(first.ok());
    EXPECT_EQ(absl::IsResourceExhausted(second.status()), ids > room) << second.status();
    EXPECT_EQ(log_.appended(), logged + (ids > room ? 1 : 2));
    EXPECT_EQ(shard_->rows(), ids > room ? 3 : 9);
  }
}

// ---- many at once ----

// Keeps what is appended. Now and then the disk is full.
class KeptLog : public RecordSink {
 public:
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    if (++asked_ % 7 == 0) return absl::ResourceExhaustedError("disk full");
    records_.emplace_back(kind, std::string(body));
    return absl::OkStatus();
  }
  const std::vector<std::pair<RecordKind, std::string>>& records() const { return records_; }

 private:
  int64_t asked_ = 0;
  std::vector<std::pair<RecordKind, std::string>> records_;
};

// A model in which all hangs on the order of the pushes: rows that go, ids that are only counted,
// decay that is caught up with, changing rates, and rates by staleness.
Declaration OrderedModel() {
  Declaration model;
  model.signature.dense_size = 40;
  model.dense.assign(40, 0.5f);
  model.signature.tables.resize(2);
  model.signature.tables[0].name = "deep";
  model.signature.tables[0].dim = 4;
  model.signature.tables[0].rows = RowsSpec{.ttl_steps = 12, .capacity = 60};
  model.signature.tables[1].name = "wide";
  model.signature.tables[1].dim = 1;
  model.signature.tables[1].rows = RowsSpec{.admit_count = 2, .admit_probability = 0.8};
  model.optimizer.name = "adam";
  model.optimizer.weight_decay = 0.1;
  model.scale_stale = true;
  return model;
}

class ManyPushersTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr int64_t kBatches = 120, kPushers = 4;

  ManyPushersTest() : shard_(Fresh()) {
    RUBATO_CHECK_OK(shard_->Declare(EncodeDeclaration(OrderedModel(), {{0, 40}}), &log_));
    shard_->SetView(1, {WorkerId(1)});
  }
  std::unique_ptr<Shard> Fresh() {
    return std::make_unique<Shard>(memory_, ShardOptions{.rows_max = 1 << 10});
  }

  PushOutcome PushOnce(int64_t n) {
    Rng rng(GetParam() * 1000 + static_cast<uint64_t>(n));
    std::vector<uint64_t> ids(20);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = i * 6 + rng.Below(6);
    std::vector<float> gradients(ids.size() * 4), dense(40);
    for (float& g : gradients) g = static_cast<float>(rng.Below(9)) - 4;
    for (float& g : dense) g = static_cast<float>(rng.Below(9)) - 4;
    int64_t steps = 0;
    {
      ReaderLock lock(mu_);
      steps = shard_->histories()[0].steps;
    }
    const std::vector<int64_t> pulled = {steps};
    PushRequest request{.key = {.begin = n * 8, .end = n * 8 + 8}, .worker = WorkerId(1)};
    request.view = 1;
    request.rate = n % 10 < 5 ? 1 : 0.5;
    request.tables = {{ids, gradients},
                      {ids, absl::MakeConstSpan(gradients).subspan(0, ids.size())}};
    request.dense = dense;
    request.pulled = pulled;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1), WireFormat::kFp32);
    DecodedPush push;
    RUBATO_CHECK_OK(DecodePush(split.body(0).view(), &push));
    while (true) {
      Turn turn(mu_, nullptr);
      const auto outcome = shard_->Push(push, split.body(0).view(), &log_, turn);
      if (outcome.ok()) return *outcome;
      EXPECT_TRUE(absl::IsResourceExhausted(outcome.status())) << outcome.status();
    }
  }

  // What the first `count` records of the log make of a server.
  std::string Replayed(size_t count) {
    const std::unique_ptr<Shard> shard = Fresh();
    for (size_t i = 0; i < count; ++i) {
      RUBATO_CHECK_OK(shard->Replay(log_.records()[i].first, log_.records()[i].second));
    }
    return shard->Export();
  }

  SystemMemory memory_{/*huge_pages=*/false};
  std::unique_ptr<Shard> shard_;
  SharedMutex mu_;
  KeptLog log_;
};

// Each batch comes from two of them. Checkpoints are cut and written meanwhile; what lies in one,
// and in the end in the server, is what the log says up to there.
TEST_P(ManyPushersTest, WhatTheyLeaveIsWhatTheLogSays) {
  struct Cut {
    size_t records = 0;
    StringSink file;
  };
  std::vector<Cut> cuts;
  std::atomic<int64_t> applied = 0, running = kPushers;
  std::vector<std::thread> pushers;
  for (int64_t p = 0; p < kPushers; ++p) {
    pushers.emplace_back([&, p] {
      for (int64_t n = p % 2; n < kBatches; n += 2) {
        applied += PushOnce(n) == PushOutcome::kApplied;
      }
      --running;
    });
  }
  while (running > 0) {
    Cut cut;
    std::optional<CheckpointWriter> writer;
    {
      WriterLock lock(mu_);
      cut.records = log_.records().size();
      writer.emplace(*shard_, CheckpointName{.version = 1, .first_segment = 1});
    }
    for (bool last = false; !last;) {
      ReaderLock lock(mu_);
      last = *writer->Step(cut.file);
    }
    WriterLock lock(mu_);
    writer.reset();
    if (cuts.empty() || cuts.back().records != cut.records) cuts.push_back(std::move(cut));
  }
  for (std::thread& pusher : pushers) pusher.join();
  EXPECT_EQ(applied, kBatches);
  EXPECT_EQ(log_.records().size(), 1 + kBatches);  // The declaration, too.
  EXPECT_EQ(shard_->counters().duplicates, kBatches);
  EXPECT_GT(shard_->counters().rows_evicted, 0);
  EXPECT_TRUE(shard_->Export() == Replayed(log_.records().size()));
  for (const Cut& cut : cuts) {
    const std::unique_ptr<Shard> restored = Fresh();
    ASSERT_TRUE(RestoreChain(*restored, {{"checkpoint", cut.file.bytes()}}).ok());
    EXPECT_TRUE(restored->Export() == Replayed(cut.records)) << "cut at record " << cut.records;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ManyPushersTest, testing::Range<uint64_t>(0, 10));

}  // namespace
}  // namespace rubato

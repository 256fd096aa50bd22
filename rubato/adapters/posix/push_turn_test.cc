// While one push moves its rows the next is checked and logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <optional>
#include <thread>

#include "rubato/base/shared_mutex.h"
#include "rubato/params/memory.h"
#include "rubato/params/shard.h"

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

// As the server's lock gives it. `passed` runs after the turn was passed on, before any row moves.
class Turn : public PushTurn {
 public:
  Turn(SharedMutex& mu, std::function<void()> passed) : lock_(mu), passed_(std::move(passed)) {}
  bool Alone() override { return lock_.alone(); }
  void Write() override { lock_.Write(); }
  void PassOn() override {
    lock_.PassOn();
    if (passed_) passed_();
  }

 private:
  TurnLock lock_;
  const std::function<void()> passed_;
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
                                   int64_t count = 3) {
    std::vector<uint64_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), first);
    const std::vector<float> gradients(ids.size(), 1.0f);
    PushRequest request{.key = {.begin = n, .end = n + 1}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1), WireFormat::kFp32);
    DecodedPush push;
    EXPECT_TRUE(DecodePush(split.body(0).view(), &push).ok());
    Turn turn(mu_, std::move(passed));
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
  Begin(9);
  ASSERT_TRUE(Push(0, 100, nullptr).ok());
  const int64_t room = 9 - 1 - 3;  // The index keeps one.
  for (const int64_t ids : {room, room + 1}) {
    absl::StatusOr<PushOutcome> second;
    std::thread other;
    const int logged = log_.appended();
    const auto first = Push(2 * ids, 100, [&] {
      other = std::thread([&] { second = Push(2 * ids + 1, 100, nullptr, ids); });
    });
    other.join();
    EXPECT_TRUE(first.ok());
    EXPECT_EQ(absl::IsResourceExhausted(second.status()), ids > room) << second.status();
    EXPECT_EQ(log_.appended(), logged + (ids > room ? 1 : 2));
    EXPECT_EQ(shard_->rows(), room);
  }
}

}  // namespace
}  // namespace rubato

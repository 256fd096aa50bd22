// A table that is nearly full: what does not fit is refused, by a server that goes on; what was
// taken finds its room, whatever comes in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/move.h"
#include "rubato/params/partition.h"
#include "rubato/params/plain_model.h"
#include "rubato/params/record_list.h"
#include "rubato/params/shard.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

constexpr size_t kRowsMax = 100;

struct Rules {
  PushMode mode = PushMode::kSync;
  int64_t ttl_steps = 0;
  int64_t tolerance = 0;
};

// One of some servers, with its log.
class Server {
 public:
  explicit Server(const Rules& rules, int64_t id = 0, int64_t servers = 1)
      : rules_(rules), id_(id), map_(PartitionMap::Even(servers)) {
    shard_ = Fresh();
    Declaration model = PlainModel(/*dense=*/0, /*dim=*/1);
    model.mode = rules.mode;
    model.tolerance = rules.tolerance;
    model.rows.ttl_steps = rules.ttl_steps;
    RUBATO_CHECK_OK(shard_->Declare(EncodeDeclaration(model, {}), &log_));
  }

  std::unique_ptr<Shard> Fresh() {
    auto shard = std::make_unique<Shard>(
        memory_, ShardOptions{.server = id_, .servers = map_.servers(), .rows_max = kRowsMax});
    shard->SetView(1, {WorkerId(1)});
    return shard;
  }

  // The first `count` ids from `first` on that are this server's.
  std::vector<uint64_t> Ids(uint64_t first, size_t count) const {
    std::vector<uint64_t> ids;
    const IntervalSet owned = map_.PartitionsOf(id_);
    for (uint64_t id = first; ids.size() < count; ++id) {
      if (owned.Contains(PartitionOf(PointOf(id)))) ids.push_back(id);
    }
    return ids;
  }
  // Batch `number`, which is of the round of that number, from weights after `rounds` of them.
  absl::Status Push(int64_t number, const std::vector<uint64_t>& ids, int64_t rounds) {
    const std::vector<float> gradients(ids.size(), 1.0f);
    PushRequest request{
        .key = {.begin = number, .end = number + 1}, .worker = WorkerId(1), .view = 1};
    request.records = 1;
    request.round = number;
    request.rounds = rounds;
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, map_);
    return shard_->Push(split.body(id_).view(), &log_).status();
  }
  absl::Status Push(int64_t number, const std::vector<uint64_t>& ids) {
    return Push(number, ids, number);
  }
  // Rounds from `number` on that bring one id, until the others are old.
  int64_t Rest(int64_t number) {
    for (int64_t n = 0; n < 8; ++n) RUBATO_CHECK_OK(Push(number++, Ids(1, 1)));
    RUBATO_CHECK_OK(shard_->Whole(number));
    return number;
  }
  absl::Status Arrive(const MoveRecord& record) {
    return shard_->Arrive(record.first, record.second, &log_);
  }
  // All partitions are this server's.
  absl::Status OwnAll() {
    map_.Move(map_.PartitionsOf(1 - id_), id_);
    return shard_->SetMap(map_, &log_);
  }
  // What comes back after a death is what was there.
  void ExpectReplayed(int64_t rounds) {
    const std::unique_ptr<Shard> replayed = Fresh();
    const absl::Status status = log_.ReplayInto(*replayed);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(replayed->Whole(rounds).ok());
    EXPECT_EQ(replayed->rows(), shard_->rows());
    EXPECT_EQ(replayed->Export(), shard_->Export());
  }
  Shard& shard() { return *shard_; }
  const RecordList& log() const { return log_; }
  const PartitionMap& map() const { return map_; }

 private:
  SystemMemory memory_{/*huge_pages=*/false};
  const Rules rules_;
  const int64_t id_;
  PartitionMap map_;
  RecordList log_;
  std::unique_ptr<Shard> shard_;
};

// All that one server has to hand over, as another attempt.
std::vector<MoveRecord> AllOf(Server& giver, int64_t from, int64_t attempt) {
  MoveSender sender(
      giver.shard(),
      {.number = 1, .from = from, .to = 1 - from, .partitions = giver.map().PartitionsOf(from)},
      attempt);
  std::vector<MoveRecord> all;
  while (!sender.finished()) {
    for (MoveRecord& record : sender.Finish()) all.push_back(std::move(record));
  }
  return all;
}

// Until the first that is refused.
absl::Status Take(Server& receiver, const std::vector<MoveRecord>& records) {
  for (const MoveRecord& record : records) {
    const absl::Status status = receiver.Arrive(record);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// ---- rounds ----

// Numbers of rows that went are rows to be had, also by a gradient that waits while a checkpoint
// begins.
TEST(RoomOfARoundTest, ACheckpointThatBeginsMeanwhileTakesNone) {
  Server server({.ttl_steps = 2});
  ASSERT_TRUE(server.Push(0, server.Ids(1000, 60)).ok());
  const int64_t round = server.Rest(1);  // The 60 go.
  ASSERT_EQ(server.shard().rows(), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(server.Push(round, server.Ids(2000, 100))));
  ASSERT_TRUE(server.Push(round, server.Ids(2000, 99)).ok());
  const CheckpointWriter writer(server.shard(), {.version = 1, .first_segment = 1});
  ASSERT_TRUE(server.shard().Whole(round + 1).ok());
  EXPECT_EQ(server.shard().rows(), 100);
}

TEST(RoomOfARoundTest, ComesBackWithEveryRowThatGoes) {
  Server server({.ttl_steps = 2});
  int64_t round = 0;
  for (uint64_t n = 1; n <= 5; ++n) {
    ASSERT_TRUE(server.Push(round, server.Ids(1000 * n, 90)).ok());
    round = server.Rest(round + 1);
    ASSERT_EQ(server.shard().rows(), 1);
  }
}

// What is staged is in the memory of nobody else: rows that come from another server must leave
// room for it.
TEST(RoomOfARoundTest, PartitionsThatArriveTakeNone) {
  Server giver({}, 0, 2), receiver({}, 1, 2);
  ASSERT_TRUE(giver.Push(0, giver.Ids(1, 50)).ok());
  ASSERT_TRUE(giver.shard().Whole(1).ok());
  ASSERT_TRUE(receiver.Push(0, receiver.Ids(1, 60)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Take(receiver, AllOf(giver, 0, 1))));
  ASSERT_TRUE(receiver.shard().Whole(1).ok());
  EXPECT_EQ(receiver.shard().rows(), 60);
}

// Nor may a gradient that arrives count on room that is another's, or lose its own.
TEST(RoomOfARoundTest, GradientsThatArriveHaveTheirs) {
  Server giver({}, 0, 2), receiver({}, 1, 2), full({}, 1, 2);
  ASSERT_TRUE(giver.Push(0, giver.Ids(1, 50)).ok());
  ASSERT_TRUE(full.Push(0, full.Ids(1, 51)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Take(full, AllOf(giver, 0, 1))));

  ASSERT_TRUE(Take(receiver, AllOf(giver, 0, 1)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(receiver.Push(0, receiver.Ids(1, 51))));
  ASSERT_TRUE(receiver.Push(0, receiver.Ids(1, 50)).ok());
  PartitionMap map = receiver.map();
  map.Move(map.PartitionsOf(0), 1);
  ASSERT_TRUE(receiver.shard().SetMap(map, nullptr).ok());
  ASSERT_TRUE(receiver.shard().Whole(1).ok());
  EXPECT_EQ(receiver.shard().rows(), 100);
}

// With a tolerance two rounds may wait that bring the same ids; each has them once when it is
// applied. A log replays although it hears later that they are whole.
TEST(RoomOfARoundTest, ALogThatFittedReplays) {
  Server server({.tolerance = 2});
  ASSERT_TRUE(server.Push(0, server.Ids(1, 40), 0).ok());
  ASSERT_TRUE(server.Push(1, server.Ids(1, 40), 0).ok());
  ASSERT_TRUE(server.shard().Whole(2).ok());
  ASSERT_TRUE(server.Push(2, server.Ids(1000, 60), 0).ok());
  const std::unique_ptr<Shard> replayed = server.Fresh();
  ASSERT_TRUE(server.log().ReplayInto(*replayed).ok());
  for (Shard* shard : {&server.shard(), replayed.get()}) ASSERT_TRUE(shard->Whole(3).ok());
  EXPECT_EQ(replayed->rows(), 100);
  EXPECT_EQ(replayed->Export(), server.shard().Export());
}

// A round that is whole lets old rows go, and what arrives takes their room. The log says that it
// was whole before that came.
TEST(RoomOfARoundTest, AMoveIntoTheRoomOfRowsThatWentReplays) {
  const Rules rules = {.ttl_steps = 2};
  Server giver(rules, 0, 2), receiver(rules, 1, 2);
  for (int64_t n = 0; n < 3; ++n) {
    ASSERT_TRUE(giver.Push(n, giver.Ids(1, n < 2 ? 1 : 50)).ok());
    ASSERT_TRUE(receiver.Push(n, receiver.Ids(1, n < 1 ? 60 : 1)).ok());
  }
  for (Server* server : {&giver, &receiver}) ASSERT_TRUE(server->shard().Whole(3).ok());
  ASSERT_EQ(receiver.shard().rows(), 1);
  ASSERT_TRUE(Take(receiver, AllOf(giver, 0, 1)).ok());
  receiver.ExpectReplayed(3);
  ASSERT_TRUE(receiver.OwnAll().ok());
  EXPECT_EQ(receiver.shard().rows(), 51);
  receiver.ExpectReplayed(3);
}

// While partitions arrive no rows go. One that would have gone, and is pushed to then, has its
// weights still, also in a replay that hears of that round when the move is over.
TEST(RoomOfARoundTest, RowsThatStayedForAMoveStayInAReplay) {
  const Rules rules = {.ttl_steps = 2};
  Server giver(rules, 0, 2), receiver(rules, 1, 2);
  const std::vector<uint64_t> old = receiver.Ids(1000, 10);
  for (int64_t n = 0; n < 4; ++n) ASSERT_TRUE(giver.Push(n, giver.Ids(1, 1)).ok());
  const std::vector<MoveRecord> records = AllOf(giver, 0, 1);  // The last round waits there.
  ASSERT_TRUE(receiver.Push(0, old).ok());
  ASSERT_TRUE(receiver.Push(1, receiver.Ids(1, 1)).ok());
  ASSERT_TRUE(receiver.Arrive(records.front()).ok());
  ASSERT_TRUE(receiver.Push(2, receiver.Ids(1, 1)).ok());
  ASSERT_TRUE(receiver.Push(3, old).ok());
  ASSERT_TRUE(receiver.shard().Whole(4).ok());
  ASSERT_EQ(receiver.shard().rows(), 11);
  ASSERT_TRUE(Take(receiver, {records.begin() + 1, records.end()}).ok());
  ASSERT_TRUE(receiver.OwnAll().ok());
  receiver.ExpectReplayed(4);
}

// A log of another server, or a damaged one, may hold what never fitted: that is an error of the
// log, not the end of the process.
TEST(RoomOfARoundTest, ALogThatNeverFittedIsRefused) {
  Server server({}), other({});
  ASSERT_TRUE(server.Push(0, server.Ids(1, 60)).ok());
  ASSERT_TRUE(other.Push(0, {}).ok());
  ASSERT_TRUE(other.Push(1, other.Ids(1000, 60)).ok());
  ASSERT_TRUE(other.Push(2, {}).ok());
  RecordList both = server.log();
  for (const size_t record : {2, 3}) both.records.push_back(other.log().records[record]);
  const std::unique_ptr<Shard> replayed = server.Fresh();
  EXPECT_TRUE(absl::IsResourceExhausted(both.ReplayInto(*replayed)));
}

// ---- tables ----

// An id that has its row takes no room, however full the table is.
TEST(RoomTest, IdsThatAreThereNeedNone) {
  for (const PushMode mode : {PushMode::kAsync, PushMode::kSync}) {
    Server server({.mode = mode});
    ASSERT_TRUE(server.Push(0, server.Ids(1, 100)).ok());
    ASSERT_TRUE(server.Push(1, server.Ids(1, 100)).ok());
    EXPECT_TRUE(absl::IsResourceExhausted(server.Push(2, server.Ids(100, 2))));
    ASSERT_TRUE(server.Push(2, server.Ids(1, 50)).ok());
    ASSERT_TRUE(server.shard().Whole(3).ok());
    EXPECT_EQ(server.shard().rows(), 100);
    const std::unique_ptr<Shard> replayed = server.Fresh();
    ASSERT_TRUE(server.log().ReplayInto(*replayed).ok());
    ASSERT_TRUE(replayed->Whole(3).ok());
    EXPECT_EQ(replayed->Export(), server.shard().Export());
  }
}

// The first attempt of a move that broke off does not stand in the way of the second.
TEST(RoomTest, AMoveThatBeginsAnewNeedsItOnce) {
  Server giver({.mode = PushMode::kAsync}, 0, 2), receiver({.mode = PushMode::kAsync}, 1, 2);
  ASSERT_TRUE(giver.Push(0, giver.Ids(1, 60)).ok());
  std::vector<MoveRecord> first = AllOf(giver, 0, 1);
  first.pop_back();
  ASSERT_TRUE(Take(receiver, first).ok());
  ASSERT_TRUE(Take(receiver, AllOf(giver, 0, 2)).ok());
  EXPECT_EQ(receiver.shard().rows(), 60);
}

// Nor if the second finds no room: what is left of the first is gone all the same, rows go again
// for their age, and the log says so.
TEST(RoomTest, AMoveThatIsRefusedLetsRowsGo) {
  const Rules rules = {.mode = PushMode::kAsync, .ttl_steps = 2};
  Server giver(rules, 0, 2), receiver(rules, 1, 2);
  const std::vector<uint64_t> old = receiver.Ids(1000, 10);
  ASSERT_TRUE(receiver.Push(0, old).ok());
  ASSERT_TRUE(giver.Push(0, giver.Ids(1, 30)).ok());
  std::vector<MoveRecord> first = AllOf(giver, 0, 1);
  first.pop_back();
  ASSERT_TRUE(Take(receiver, first).ok());
  ASSERT_TRUE(giver.Push(1, giver.Ids(1, 95)).ok());
  ASSERT_TRUE(absl::IsResourceExhausted(Take(receiver, AllOf(giver, 0, 2))));
  ASSERT_EQ(receiver.shard().rows(), 10);
  for (int64_t n = 1; n < 3; ++n) ASSERT_TRUE(receiver.Push(n, receiver.Ids(1, 1)).ok());
  ASSERT_EQ(receiver.shard().rows(), 1);
  ASSERT_TRUE(receiver.Push(3, old).ok());
  receiver.ExpectReplayed(0);
}

// Beside a checkpoint a number may be another row's by the time its first row is due: the file
// holds that one, as it was at the cut, and not the newcomer.
TEST(RoomTest, NumbersAreUsedAgainBesideACheckpoint) {
  for (const bool delta : {false, true}) {
    Server server({.mode = PushMode::kAsync, .ttl_steps = 2});
    std::vector<std::string> files;
    const auto write = [&](CheckpointWriter& writer) {
      StringSink file;
      while (!*writer.Step(file)) {
      }
      writer.Published();
      files.push_back(file.bytes());
    };
    int64_t number = 0;
    ASSERT_TRUE(server.Push(number++, server.Ids(1000, 30)).ok());
    if (delta) {
      CheckpointWriter writer(server.shard(), {.version = 1, .first_segment = 1});
      write(writer);
    }
    ASSERT_TRUE(server.Push(number++, server.Ids(2000, 30)).ok());
    ASSERT_TRUE(server.Push(number++, server.Ids(3000, 30)).ok());  // The first 30 go.
    ASSERT_EQ(server.shard().rows(), 60);
    const std::string before = server.shard().Export();
    CheckpointName name{.version = 2, .first_segment = 2};
    if (delta) name.base = name.base_segment = 1;
    CheckpointWriter writer(server.shard(), name);
    for (uint64_t n = 4; n < 8; ++n) {
      ASSERT_TRUE(server.Push(number++, server.Ids(1000 * n, 30)).ok());
    }
    ASSERT_EQ(server.shard().rows(), 60);
    write(writer);
    const std::unique_ptr<Shard> restored = server.Fresh();
    std::vector<CheckpointFile> chain;
    for (const std::string& bytes : files) chain.push_back({"server.ckpt", bytes});
    const absl::Status status = RestoreChain(*restored, chain);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(restored->Export(), before);
  }
}

}  // namespace
}  // namespace rubato

// Rows that should have gone while partitions moved go bit by bit afterwards; and which of them are
// left after any push is the same in a log's replay, and after a checkpoint in the midst of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/move.h"
#include "rubato/params/record_list.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

constexpr uint64_t kLateMax = 3;
constexpr size_t kIds = 30;  // Of a push.
// With one push, or a round of two: what became due, what was touched, and a few on each server.
constexpr int64_t kGoneMax = 2 * kIds + 2 * kIds + 4 * kLateMax;

// Two servers, each with its log; in modes sync and hybrid a round has two gradients.
class TwoServers {
 public:
  TwoServers(uint64_t seed, PushMode mode, const RowsSpec& rows)
      : rng_(seed), mode_(mode), map_(PartitionMap::Even(2)) {
    Declaration model;
    model.signature.tables = {{.name = "t", .dim = 2}};
    model.optimizer = {.name = "adam"};
    model.rows = rows;
    model.mode = mode;
    model.tolerance = mode == PushMode::kAsync ? 0 : 2;
    for (int64_t s = 0; s < 2; ++s) {
      One& one = all_.emplace_back();
      one.shard = Fresh(s);
      const std::string body = EncodeDeclaration(model, DenseSlices(0, map_, s));
      RUBATO_CHECK_OK(one.shard->Declare(body, &one.log));
    }
  }

  void Push() {
    std::set<uint64_t> some;
    const uint64_t newest = 500 + 10 * static_cast<uint64_t>(pushes_);
    while (some.size() < kIds) some.insert(Mix(newest - rng_.Below(400)));
    const std::vector<uint64_t> ids(some.begin(), some.end());
    const std::vector<float> gradients(2 * kIds, static_cast<float>(pushes_ % 5) - 2);
    const int64_t round = mode_ == PushMode::kAsync ? 0 : pushes_ / 2;
    PushRequest request{.key = {.begin = pushes_ * 8, .end = pushes_ * 8 + 8},
                        .worker = WorkerId(1),
                        .view = 1,
                        .records = 8,
                        .round = round,
                        .rounds = std::max<int64_t>(round - 1, 0)};
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, map_);
    ++pushes_;
    for (size_t s = 0; s < all_.size(); ++s) {
      One& one = all_[s];
      const auto outcome = one.shard->Push(split.body(static_cast<int64_t>(s)).view(), &one.log);
      RUBATO_CHECK(outcome.ok() && *outcome == PushOutcome::kApplied);
      // A pull may bring the word of a round that is whole, of which the log hears later.
      if (mode_ != PushMode::kAsync && rng_.Chance(0.5)) {
        RUBATO_CHECK_OK(one.shard->Whole(pushes_ / 2));
      }
    }
  }

  // A tenth of the partitions goes from one to the other, while pushes go on.
  void Move(int64_t from, int pushes) {
    MoveOrder order = {.number = ++moves_, .from = from, .to = 1 - from};
    for (int64_t p = 0; p < kPartitions; ++p) {
      if (map_.OwnerOf(p) == from && p % 10 == 0) order.partitions.Add(p, p + 1);
    }
    One& receiver = all_[static_cast<size_t>(order.to)];
    {
      MoveSender sender(*all_[static_cast<size_t>(from)].shard, order, /*attempt=*/1);
      const auto send = [&](const std::vector<MoveRecord>& records) {
        for (const auto& [kind, body] : records) {
          RUBATO_CHECK_OK(receiver.shard->Arrive(kind, body, &receiver.log));
        }
      };
      send(sender.Step());
      for (int push = 0; push < pushes; ++push) Push();
      for (std::vector<MoveRecord> some; !(some = sender.Step()).empty();) send(some);
      while (!sender.finished()) send(sender.Finish());
    }
    map_.Move(order.partitions, order.to);
    for (One& one : all_) {
      const int64_t before = one.shard->counters().rows_evicted;
      RUBATO_CHECK_OK(one.shard->SetMap(map_, &one.log));
      EXPECT_LE(one.shard->counters().rows_evicted - before, kGoneMax);
    }
  }

  // Full, and the log begins anew.
  void Checkpoint() {
    for (size_t s = 0; s < all_.size(); ++s) {
      StringSink file;
      CheckpointWriter writer(
          *all_[s].shard, {.version = ++version_, .server = static_cast<int64_t>(s), .servers = 2});
      while (!*writer.Step(file)) {
      }
      all_[s].file = file.bytes();
      all_[s].log.records.clear();
    }
  }

  // What the disk of each gives is what it holds, once it knows of as many rounds.
  void ExpectSameFromDisk() {
    for (size_t s = 0; s < all_.size(); ++s) {
      One& one = all_[s];
      const auto again = Fresh(static_cast<int64_t>(s));
      if (!one.file.empty()) RUBATO_CHECK_OK(RestoreChain(*again, {{"file", one.file}}));
      RUBATO_CHECK_OK(one.log.ReplayInto(*again));
      RUBATO_CHECK_OK(again->Whole(one.shard->rounds()));
      ASSERT_TRUE(again->Export() == one.shard->Export()) << "server " << s << ", push " << pushes_;
      EXPECT_EQ(again->counters().rows_evicted, one.shard->counters().rows_evicted);
    }
  }

  int64_t evicted(size_t s) const { return all_[s].shard->counters().rows_evicted; }
  Rng& rng() { return rng_; }

 private:
  struct One {
    std::unique_ptr<Shard> shard;
    std::string file;
    RecordList log;  // Since.
  };
  std::unique_ptr<Shard> Fresh(int64_t server) {
    auto shard = std::make_unique<Shard>(
        memory_,
        ShardOptions{.server = server, .servers = 2, .rows_max = 1 << 14, .late_max = kLateMax});
    shard->SetView(1, {WorkerId(1)});
    return shard;
  }

  Rng rng_;
  const PushMode mode_;
  SystemMemory memory_{/*huge_pages=*/false};
  PartitionMap map_;
  std::vector<One> all_;
  int64_t pushes_ = 0, moves_ = 0, version_ = 0;
};

TEST(LateRowsTest, GoBitByBitAndAlikeInEveryReplay) {
  const RowsSpec rules[] = {{.ttl_steps = 6},
                            {.capacity = 120},
                            {.ttl_steps = 9, .capacity = 150},
                            {.admit_count = 2, .ttl_steps = 7}};
  int64_t late_steps = 0;
  for (uint64_t seed = 0; seed < 36; ++seed) {
    const auto mode = static_cast<PushMode>(seed % 3);
    TwoServers servers(seed, mode, rules[seed / 3 % std::size(rules)]);
    for (int push = 0; push < 40; ++push) servers.Push();
    for (int move = 0; move < 4; ++move) {
      servers.Move(move % 2, /*pushes=*/24);
      const bool saves = servers.rng().Chance(0.5);
      for (int push = 0; push < 20; ++push) {
        const int64_t before = servers.evicted(0) + servers.evicted(1);
        servers.Push();
        const int64_t gone = servers.evicted(0) + servers.evicted(1) - before;
        late_steps += gone > 0;
        ASSERT_LE(gone, kGoneMax) << seed << ", " << push;
        if (push == 5 && saves) servers.Checkpoint();
        if (push % 4 == 1) servers.ExpectSameFromDisk();
      }
    }
  }
  EXPECT_GT(late_steps, 1000);
}

}  // namespace
}  // namespace rubato

// Partitions that move between real servers over real sockets, while clients push and servers die.
// Destroying a server leaves on disk what a SIGKILL there would.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/base/rng.h"
#include "rubato/master/partition_loads.h"
#include "rubato/master/rebalance.h"

namespace rubato {
namespace {

constexpr int64_t kDense = 9000;  // Three slices.
constexpr uint64_t kIds = 500;
constexpr int64_t kPushers = 3;

class MovesTest : public testing::Test {
 protected:
  MovesTest() {
    for (size_t s = 0; s < 3; ++s) Live(s);
  }

  // A (new) life of server `s`, which hears from the master before it serves.
  void Live(size_t s) {
    servers_.resize(3);
    servers_[s].reset();
    // The third begins with nothing.
    ParamsServerOptions options = TestServerOptions(root_, static_cast<int64_t>(s), 2);
    if (s == 2) options.rows_max = third_rows_max_;
    auto server = ParamsServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    servers_[s] = *std::move(server);
    Tell(s);
  }
  std::vector<std::string> Addresses() {
    std::vector<std::string> addresses;
    for (size_t s = 0; s < 3; ++s) addresses.push_back(absl::StrCat("unix:", root_, "/s", s));
    return addresses;
  }
  void Tell(size_t s) {
    servers_[s]->SetMap(view_, map_, move_, Addresses());
    std::vector<WorkerId> workers;
    for (int64_t w = 1; w <= kPushers; ++w) workers.push_back(WorkerId(w));
    servers_[s]->SetView(view_, workers);
  }
  void TellAll() {
    ++view_;
    for (size_t s = 0; s < 3; ++s) Tell(s);
  }
  std::unique_ptr<ParamsClient> Connect() {
    auto client = StartTestClient(2);
    client->SetServers(Addresses());
    return client;
  }
  // Hands some partitions over; whom `rng` picks dies on the way.
  void Move(int64_t from, int64_t to, double share, Rng& rng) {
    const IntervalSet owned = map_.PartitionsOf(from);
    move_ = {.number = ++moves_, .from = from, .to = to};
    for (const Interval& run : owned.Intervals()) {
      for (int64_t p = run.begin; p < run.end; ++p) {
        if (rng.Chance(share)) move_.partitions.Add(p, p + 1);
      }
    }
    if (move_.partitions.empty()) return;
    TellAll();
    const bool kills = rng.Chance(0.5);
    if (kills) {
      absl::SleepFor(absl::Microseconds(rng.Below(3000)));
      Live(static_cast<size_t>(rng.Chance(0.5) ? from : to));
      ++kills_;
    }
    const absl::Time patience = absl::Now() + absl::Seconds(120);
    while (servers_[static_cast<size_t>(from)]->moved() != move_.number) {
      ASSERT_LT(absl::Now(), patience);
      absl::SleepFor(absl::Milliseconds(1));
    }
    map_.Move(move_.partitions, to);
    move_ = {};
    if (rng.Chance(0.3)) {  // One dies without having heard of it.
      ++kills_;
      Live(static_cast<size_t>(rng.Chance(0.5) ? from : to));
    }
    TellAll();
  }

  // As the master would have it, nobody dying.
  void HandOver(MoveOrder order) {
    order.number = ++moves_;
    move_ = order;
    TellAll();
    const absl::Time patience = absl::Now() + absl::Seconds(120);
    while (servers_[static_cast<size_t>(order.from)]->moved() != order.number) {
      ASSERT_LT(absl::Now(), patience);
      absl::SleepFor(absl::Milliseconds(1));
    }
    map_.Move(order.partitions, order.to);
    move_ = {};
    TellAll();
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  uint64_t third_rows_max_ = ParamsServerOptions().rows_max;
  PartitionMap map_ = PartitionMap::Even(2);
  MoveOrder move_;
  int64_t moves_ = 0, view_ = 1, kills_ = 0;
  std::vector<std::unique_ptr<ParamsServer>> servers_;
};

// Every push subtracts 1 from every weight, so what is missing or doubled shows.
TEST_F(MovesTest, NoPushIsLostOrDoubledWhileEverythingMoves) {
  const Declaration model = TestSums(kDense, 2);
  std::vector<uint64_t> ids(kIds);
  for (uint64_t id = 0; id < kIds; ++id) ids[id] = id;
  const std::vector<float> ones(kIds * 2, 1.0f), dense(kDense, 1.0f);

  auto client = Connect();
  const absl::Status declared = Await<absl::Status>(
      [&](std::function<void(absl::Status)> done) { client->Declare(model, done); });
  ASSERT_TRUE(declared.ok()) << declared;
  std::atomic<bool> stop = false;
  std::atomic<int64_t> pushed = 0;
  std::vector<std::thread> pushers;
  for (int64_t w = 1; w <= kPushers; ++w) {
    pushers.emplace_back([&, w] {
      const auto mine = Connect();
      for (int64_t n = 0; !stop; ++n) {
        PushRequest request{.key = {.epoch = w, .begin = n, .end = n + 1},
                            .worker = WorkerId(w),
                            .view = 1,
                            .tables = {{ids, ones}},
                            .dense = dense};
        const auto outcome = Await<absl::StatusOr<PushOutcome>>(
            [&](std::function<void(absl::StatusOr<PushOutcome>)> done) {
              mine->Push(request, done);
            });
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        ++pushed;
      }
    });
  }
  Rng rng(11);
  for (int round = 0; round < 24; ++round) {
    const auto from = static_cast<int64_t>(rng.Below(3));
    Move(from, (from + 1 + static_cast<int64_t>(rng.Below(2))) % 3, 0.3, rng);
    if (HasFatalFailure()) break;
  }
  stop = true;
  for (std::thread& pusher : pushers) pusher.join();

  std::vector<float> rows(kIds * 2), weights(kDense);
  const absl::Status pulled = Await<absl::Status>([&](std::function<void(absl::Status)> done) {
    client->Pull({.tables = {{ids, absl::MakeSpan(rows)}}, .dense = absl::MakeSpan(weights)}, done);
  });
  ASSERT_TRUE(pulled.ok()) << pulled;
  const auto expected = -static_cast<float>(pushed.load());
  EXPECT_EQ(rows, std::vector<float>(kIds * 2, expected));
  EXPECT_EQ(weights, std::vector<float>(kDense, expected));
  for (const auto& server : servers_) EXPECT_EQ(server->Stats().uneven, 0);
  std::cout << pushed << " pushes, " << map_.number() << " moves, " << kills_ << " deaths\n";
  EXPECT_GT(map_.number(), 10);
  EXPECT_GT(kills_, 5);
  EXPECT_GT(pushed.load(), kPushers);
}

// An id of every partition, and forty of those from 10 to 29.
std::vector<uint64_t> IdsOfHotPartitions() {
  std::vector<uint64_t> ids;
  for (int64_t p = 0; p < kPartitions; ++p) {
    const uint64_t many = p >= 10 && p < 30 ? 40 : 1;
    for (uint64_t n = 0; n < many; ++n) ids.push_back(IdOf(FirstPoint(p) + n));
  }
  return ids;
}

// Twenty hot partitions on the first of two servers. By what the two tell, and no more, half of
// that goes to the second, as many others come back, and then nothing is left to be done. Pushes go
// on all the while, and none is lost or doubled.
TEST_F(MovesTest, WhatServersTellMakesThemEquallyBusy) {
  const Declaration model = TestSums(0, 1);
  auto client = Connect();
  const absl::Status declared = Await<absl::Status>(
      [&](std::function<void(absl::Status)> done) { client->Declare(model, done); });
  ASSERT_TRUE(declared.ok()) << declared;
  const std::vector<uint64_t> ids = IdsOfHotPartitions();
  std::atomic<bool> stop = false;
  int64_t pushed = 0;  // The pusher's, until it has ended.
  std::thread pusher([&] {
    const auto mine = Connect();
    const std::vector<float> ones(ids.size(), 1.0f);
    for (; !stop; ++pushed) {
      const PushRequest request{.key = {.begin = pushed, .end = pushed + 1},
                                .worker = WorkerId(1),
                                .view = 1,
                                .tables = {{ids, ones}}};
      const auto outcome = Await<absl::StatusOr<PushOutcome>>(
          [&](std::function<void(absl::StatusOr<PushOutcome>)> done) {
            mine->Push(request, done);
          });
      ASSERT_TRUE(outcome.ok()) << outcome.status();
    }
  });
  const absl::Cleanup join = [&] {
    stop = true;
    if (pusher.joinable()) pusher.join();
  };
  std::vector<float> rows(ids.size());
  const auto pull = [&] {
    const absl::Status pulled = Await<absl::Status>([&](std::function<void(absl::Status)> done) {
      client->Pull({.tables = {{ids, absl::MakeSpan(rows)}}}, done);
    });
    EXPECT_TRUE(pulled.ok()) << pulled;
  };
  const auto measure = [&] {  // Forty requests, by what came to each server.
    PartitionLoads loads;
    for (const size_t s : {0u, 1u}) servers_[s]->TakeLoad();  // Of before.
    for (int n = 0; n < 40; ++n) pull();
    for (int64_t s = 0; s < 2; ++s) {
      loads.Add(map_, s, servers_[static_cast<size_t>(s)]->TakeLoad(), absl::Seconds(10));
    }
    return loads;
  };
  int64_t moved = 0;
  for (int turn = 0; turn < 10; ++turn) {
    const PartitionLoads loads = measure();
    const auto next = NextBusyMove(map_, 2, loads.known(), {.keys_min = 0});
    if (turn > 0 && !next.has_value()) break;
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->order.from, 0);
    ASSERT_NO_FATAL_FAILURE(HandOver(next->order));
    moved += next->order.partitions.size();
    while (const auto even = NextMove(map_, 2, loads.known())) {
      ASSERT_NO_FATAL_FAILURE(HandOver(*even));
    }
  }
  EXPECT_FALSE(NextBusyMove(map_, 2, measure().known(), {.keys_min = 0}).has_value());
  EXPECT_NEAR(static_cast<double>(moved), 10, 4);
  int64_t hot = 0;
  for (int64_t p = 10; p < 30; ++p) hot += map_.OwnerOf(p) == 1;
  EXPECT_NEAR(static_cast<double>(hot), 10, 4);
  EXPECT_EQ(map_.PartitionsOf(0).size(), 512);
  stop = true;
  pusher.join();
  pull();
  EXPECT_EQ(rows, std::vector<float>(ids.size(), -static_cast<float>(pushed)));
  EXPECT_GT(pushed, 0);
}

// One without room for what it is to have says so, and is asked again now and then, until it has.
TEST_F(MovesTest, AReceiverWithoutRoomIsNotPressed) {
  third_rows_max_ = 10;
  Live(2);
  TellAll();
  auto client = Connect();
  const Declaration model = TestSums(kDense, 2);
  const absl::Status declared = Await<absl::Status>(
      [&](std::function<void(absl::Status)> done) { client->Declare(model, done); });
  ASSERT_TRUE(declared.ok()) << declared;
  std::vector<uint64_t> ids(kIds);
  for (uint64_t id = 0; id < kIds; ++id) ids[id] = id;
  const std::vector<float> ones(kIds * 2, 1.0f), dense(kDense, 1.0f);
  const PushRequest request{.key = {.begin = 0, .end = 1},
                            .worker = WorkerId(1),
                            .view = view_,
                            .tables = {{ids, ones}},
                            .dense = dense};
  const auto outcome = Await<absl::StatusOr<PushOutcome>>(
      [&](std::function<void(absl::StatusOr<PushOutcome>)> done) { client->Push(request, done); });
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  move_ = {.number = ++moves_, .from = 0, .to = 2, .partitions = map_.PartitionsOf(0)};
  TellAll();
  const absl::Time patience = absl::Now() + absl::Seconds(60);
  while (servers_[0]->Stats().move_refused.empty()) {
    ASSERT_LT(absl::Now(), patience);
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(absl::StrContains(servers_[0]->Stats().move_refused, "may pass 10"))
      << servers_[0]->Stats().move_refused;
  EXPECT_EQ(servers_[0]->moved(), 0);
  third_rows_max_ = ParamsServerOptions().rows_max;
  Live(2);
  TellAll();
  while (servers_[0]->moved() != move_.number) {
    ASSERT_LT(absl::Now(), patience);
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace
}  // namespace rubato

// Servers that are busier than others, and what the master does about it.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/master/fake_job.h"
#include "rubato/master/rebalance.h"

namespace rubato {
namespace {

using Loads = std::vector<double>;

double LoadOf(const PartitionMap& map, int64_t server, const Loads& loads) {
  double sum = 0;
  for (int64_t p = 0; p < kPartitions; ++p) {
    if (map.OwnerOf(p) == server) sum += loads[static_cast<size_t>(p)];
  }
  return sum;
}
// In means.
double Busiest(const PartitionMap& map, int64_t servers, const Loads& loads) {
  double most = 0;
  for (int64_t s = 0; s < servers; ++s) most = std::max(most, LoadOf(map, s, loads));
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  return most * static_cast<double>(servers) / all;
}
// Moves until there is nothing to move; how many times that was for load.
int64_t Settle(PartitionMap& map, int64_t servers, const Loads& loads) {
  for (int64_t times = 0; times < 200; ++times) {
    while (const auto even = NextMove(map, servers, loads)) map.Move(even->partitions, even->to);
    const auto busy = NextBusyMove(map, servers, loads, {});
    if (!busy.has_value()) return times;
    EXPECT_GT(busy->times_mean, 1.25);
    EXPECT_LE(busy->order.partitions.size(), kMovePartitionsMax);
    EXPECT_EQ(busy->order.partitions.Intersect(map.PartitionsOf(busy->order.from)),
              busy->order.partitions);
    map.Move(busy->order.partitions, busy->order.to);
  }
  ADD_FAILURE() << "moves without end";
  return -1;
}
// 1,000 keys a second each, but for those of [begin, end).
Loads HotRange(int64_t begin, int64_t end, double load) {
  Loads loads(kPartitions, 1000);
  std::fill(loads.begin() + begin, loads.begin() + end, load);
  return loads;
}

TEST(BusyTest, NothingMovesWithoutNeed) {
  const PartitionMap map = PartitionMap::Even(2);
  EXPECT_FALSE(NextBusyMove(map, 2, {}, {}).has_value());
  EXPECT_FALSE(NextBusyMove(map, 2, Loads(kPartitions), {}).has_value());
  EXPECT_FALSE(NextBusyMove(map, 2, HotRange(0, 0, 0), {}).has_value());
  EXPECT_FALSE(NextBusyMove(map, 2, HotRange(0, 100, 3000), {}).has_value());  // 1.16 means.
  EXPECT_TRUE(NextBusyMove(map, 2, HotRange(0, 100, 9000), {}).has_value());
  EXPECT_FALSE(NextBusyMove(map, 3, HotRange(0, 100, 9000), {}).has_value());  // Numbers first.
  EXPECT_FALSE(NextBusyMove(PartitionMap::Even(1), 1, HotRange(0, 9, 1e6), {}).has_value());
  Loads few = HotRange(0, 100, 9000);
  for (double& load : few) load /= 100;
  EXPECT_FALSE(NextBusyMove(map, 2, few, {}).has_value());  // Hardly anything to do.
}

// Half of what is too much goes, in one order, and as much in number comes back.
TEST(BusyTest, ASkewIsMended) {
  for (const int64_t servers : {2, 3, 5, 8}) {
    PartitionMap map = PartitionMap::Even(servers);
    const Loads loads = HotRange(20, 60, 40000);
    EXPECT_GT(Busiest(map, servers, loads), 1.25);
    EXPECT_LE(Settle(map, servers, loads), 2 * servers) << servers;
    EXPECT_LE(Busiest(map, servers, loads), 1.25) << servers;
    for (int64_t s = 0; s < servers; ++s) {
      EXPECT_NEAR(static_cast<double>(map.PartitionsOf(s).size()), 1024.0 / servers, 1);
    }
  }
}

// One partition that is busier than the gap is wide would only take the burden along.
TEST(BusyTest, ASingleHotPartitionStays) {
  PartitionMap map = PartitionMap::Even(2);
  const Loads loads = HotRange(7, 8, 600000);
  EXPECT_EQ(Settle(map, 2, loads), 0);
  // It goes once that leaves the others enough to do.
  Loads more = loads;
  std::fill(more.begin() + 100, more.begin() + 110, 50000);
  EXPECT_EQ(Settle(map, 2, more), 1);
  EXPECT_EQ(map.OwnerOf(7), 1);
  EXPECT_LT(Busiest(map, 2, more), 1.1);
}

// Whatever the loads: for fixed ones there is a last move, and none makes things worse.
TEST(BusyTest, EveryPlanEnds) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const auto servers = static_cast<int64_t>(2 + rng.Below(11));
    Loads loads(kPartitions);
    for (double& load : loads) {
      const double u = 1 - rng.Uniform();
      load = rng.Chance(0.1) ? 0 : 1000 / u / (seed % 2 == 0 ? u : 1);  // Few are most of it.
    }
    PartitionMap map = PartitionMap::Even(servers);
    const double before = Busiest(map, servers, loads);
    Settle(map, servers, loads);
    EXPECT_LE(Busiest(map, servers, loads), before * 1.0001) << seed;
  }
}

// New servers take over load as they take over partitions, not the idlest of them.
TEST(BusyTest, ANewServerGetsItsShareOfTheLoad) {
  Rng rng(3);
  Loads loads(kPartitions);
  for (double& load : loads) load = 500 + 500 / (1 - rng.Uniform() * 0.98);
  PartitionMap map = PartitionMap::Even(2);
  while (const auto move = NextMove(map, 3, loads)) map.Move(move->partitions, move->to);
  EXPECT_LT(Busiest(map, 3, loads), 1.1);
}

TEST(PartitionLoadsTest, TheMeanOfTheLastSeconds) {
  PartitionLoads loads;
  const PartitionMap map = PartitionMap::Even(2);
  const std::vector<int64_t> keys(kPartitions, 200);
  for (int second = 0; second < 6; ++second) {
    EXPECT_TRUE(loads.known().empty());
    loads.Add(map, 0, keys, absl::Seconds(1));
  }
  EXPECT_TRUE(loads.known().empty());  // The other server has told nothing.
  loads.Add(map, 1, keys, absl::Seconds(5));
  ASSERT_FALSE(loads.known().empty());
  EXPECT_NEAR(loads.known()[0], 200, 1e-9);
  EXPECT_NEAR(loads.known()[1023], 40, 1e-9);
  loads.Add(map, 1, {}, absl::Seconds(1));  // Of another release.
  for (int second = 0; second < 20; ++second) loads.Add(map, 1, keys, absl::Seconds(2));
  EXPECT_NEAR(loads.known()[1023], 100, 2);
  EXPECT_NEAR(loads.known()[0], 200, 1e-9);
  loads.Forget();
  EXPECT_TRUE(loads.known().empty());
}

// ---- the master's part ----

// Two servers with a model, whose partitions are as busy as the test says.
class BusyJob : public FakeJob {
 public:
  explicit BusyJob(bool rebalance = true) : FakeJob(Options(rebalance)) {
    JoinServers();
    JoinWorker(0);
    const Task first = Lease(0).task;
    Commit(0, first, first.begin + 5);
  }
  // Everyone tells what came in that second, and what it has handed over.
  void Second() {
    int64_t written = 0;
    for (int64_t id = 0; id < 2; ++id) {
      const ServerMember& member = master->members().servers()[static_cast<size_t>(id)];
      const MoveOrder move = master->view().move;
      std::vector<int64_t> told(kPartitions);
      for (int64_t p = 0; p < kPartitions; ++p) {
        const auto at = static_cast<size_t>(p);
        if (map().OwnerOf(p) == id) told[at] = static_cast<int64_t>(loads[at]);
      }
      written = Done(master->Heartbeat(ServerHeartbeat{.server = ServerId(id),
                                                       .incarnation = member.incarnation,
                                                       .view = master->view().number,
                                                       .applied = disks[static_cast<size_t>(id)],
                                                       .checkpointed = checkpointed,
                                                       .log_bytes = log_bytes[0],
                                                       .moved = id == move.from ? move.number : 0,
                                                       .load = told,
                                                       .load_period = absl::Seconds(1)},
                                       now))
                    .checkpoint_wanted;
      if (!causes["partitions_moved"].empty()) whys.insert(causes["partitions_moved"]);
    }
    checkpointed = std::max(checkpointed, written);
    Beat(0);
    Pass(absl::Seconds(1));
  }
  void Seconds(int seconds) {
    for (int i = 0; i < seconds; ++i) Second();
  }
  const PartitionMap& map() const { return master->view().map; }
  bool Moved() const { return map().number() > 0 || master->view().move.number > 0; }

  Loads loads = HotRange(20, 60, 40000);
  std::set<std::string> whys;

 private:
  static MasterOptions Options(bool rebalance) {
    MasterOptions options = SmallJob();
    options.job.params.rebalance = rebalance;
    options.job.workers.start = 1;
    return options;
  }
};

// Not for a moment's sake: after nine seconds partitions go, others come back, and that is all.
TEST(BusyJobTest, SkewedLoadIsSharedAndThenStays) {
  BusyJob job;
  job.Seconds(8);
  EXPECT_FALSE(job.Moved());
  job.Second();
  EXPECT_EQ(job.master->view().move.from, 0);
  job.Open();  // The journal has what is under way, and why.
  job.Seconds(60);
  EXPECT_EQ(job.map().number(), 2);
  EXPECT_EQ(job.map().PartitionsOf(0).size(), 512);
  EXPECT_LT(Busiest(job.map(), 2, job.loads), 1.05);
  // 40 x 40,000 + 472 x 1,000 keys a second, and 512 x 1,000.
  EXPECT_EQ(job.whys, (std::set<std::string>{"server 0 had 1.60 times the mean load",
                                             "in return for busier ones"}));
}

// A log that grows faster than checkpoints are written has one after the other, and nothing moves
// while one is cut: what has been too busy for long goes in the moment between two.
TEST(BusyJobTest, CheckpointsWithoutEndDoNotKeepLoadWhereItIs) {
  BusyJob job;
  job.log_bytes[0] = 2 * job.options.job.checkpoint.log_bytes;
  job.Seconds(8);
  EXPECT_FALSE(job.Moved());
  EXPECT_GE(job.checkpointed, 4);
  job.Seconds(4);
  EXPECT_TRUE(job.Moved());
  job.Seconds(60);
  EXPECT_EQ(job.map().number(), 2);
  EXPECT_LT(Busiest(job.map(), 2, job.loads), 1.05);
  EXPECT_GE(job.checkpointed, 20);  // Nor does one keep the other waiting.
}

TEST(BusyJobTest, NothingMovesUnlessItShall) {
  BusyJob job(/*rebalance=*/false);
  job.Seconds(60);
  EXPECT_FALSE(job.Moved());
}

// What becomes busy later is shared later: not before the last change has had its time.
TEST(BusyJobTest, ThereIsTimeBetweenChanges) {
  BusyJob job;
  job.Seconds(13);
  EXPECT_EQ(job.map().number(), 2);
  for (int64_t p = 0; p < kPartitions; ++p) {
    job.loads[static_cast<size_t>(p)] = job.map().OwnerOf(p) == 1 && p % 16 == 0 ? 40000 : 1000;
  }
  job.Seconds(24);
  EXPECT_EQ(job.map().number(), 2);
  EXPECT_GT(Busiest(job.map(), 2, job.loads), 1.25);
  job.Seconds(20);
  EXPECT_EQ(job.map().number(), 4);
  EXPECT_LT(Busiest(job.map(), 2, job.loads), 1.25);
}

// While a server is away the others are idle, which says nothing.
TEST(BusyJobTest, CountsBeginAnewWhenAServerComesBack) {
  BusyJob job;
  job.Seconds(8);
  job.Exit(Role::kServer, 1, 1, 0, SIGKILL);
  job.Second();
  job.JoinServer(1, 2);
  job.Seconds(8);
  EXPECT_FALSE(job.Moved());
  job.Seconds(4);
  EXPECT_TRUE(job.Moved());
}

}  // namespace
}  // namespace rubato

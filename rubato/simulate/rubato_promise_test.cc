// Admitted means met, whatever arrives: random clusters, curves and jobs, every plan checked.
#include "gtest/gtest.h"
#include "rubato/simulate/fake_world.h"

namespace rubato {
namespace {

// How many arrivals, ends and resizes to see; the build says so.
constexpr int64_t kEvents = RUBATO_EVENTS;

TEST(RubatoPromiseTest, NobodyAdmittedIsLate) {
  int64_t events = 0, decisions = 0, admitted = 0, refused = 0;
  int mixed = 0, mixed_cooling = 0;  // Worlds with several pools, and those with a cooldown too.
  uint64_t seed = 0;
  for (; events < kEvents; ++seed) {
    RandomWorld world(seed);
    const auto result = world.Run();
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.status();
    ASSERT_EQ(LateHard(world.workload(), *result), 0)
        << "seed " << seed << ", cooldown " << world.options().cooldown_s << ", pauses "
        << (world.options().overhead == Overhead::kMoved) << ", pools "
        << world.workload().cluster.pools.size();
    events += result->jobs + result->completed + result->rescales;
    decisions += result->decisions;
    admitted += result->admitted;
    refused += result->refused;
    const bool several = world.workload().cluster.pools.size() > 1;
    mixed += several ? 1 : 0;
    mixed_cooling += several && world.options().cooldown_s > 0 ? 1 : 0;
  }
  printf(
      "%ld events, %ld decisions in %ld worlds (%d of several pools, %d with a cooldown too), "
      "%ld jobs admitted, %ld refused\n",
      static_cast<long>(events), static_cast<long>(decisions), static_cast<long>(seed), mixed,
      mixed_cooling, static_cast<long>(admitted), static_cast<long>(refused));
  EXPECT_GT(mixed, static_cast<int>(seed) / 4);
  EXPECT_GT(mixed_cooling, static_cast<int>(seed) / 16);
  EXPECT_GT(admitted, refused / 4);
  EXPECT_GT(refused, 0);
}

// With a node in reserve, the loss of one is survived by nearly all; without, it is not. Two at
// once remain too many.
TEST(RubatoPromiseTest, AReserveKeepsPromisesThroughFailures) {
  int64_t admitted = 0, late = 0, unprotected = 0, failures = 0;
  const int worlds = kEvents >= 1'000'000 ? 150 : 20;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(worlds); ++seed) {
    for (const bool reserve : {true, false}) {
      RandomWorld world(seed);
      world.options().failures_per_node_day = 50;
      world.options().repair_s = 60;
      int node = 0;
      for (const Node& n : world.workload().cluster.nodes) node = std::max(node, n.gpus);
      world.options().reserve_gpus = reserve ? node : 0;
      const auto result = world.Run();
      ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.status();
      (reserve ? late : unprotected) += LateHard(world.workload(), *result);
      if (!reserve) continue;
      admitted += result->admitted;
      failures += result->failures;
    }
  }
  printf("%ld failures: %ld of %ld admitted jobs late with a reserve, %ld without\n",
         static_cast<long>(failures), static_cast<long>(late), static_cast<long>(admitted),
         static_cast<long>(unprotected));
  EXPECT_GT(failures, 4 * worlds);
  EXPECT_GT(unprotected, worlds / 6);
  EXPECT_LE(late * 10, unprotected);
}

}  // namespace
}  // namespace rubato

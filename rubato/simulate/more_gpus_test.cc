// More GPUs over a whole trace. One decision never refuses more for having them (rubato_test); over
// time no policy can promise it that answers at once, admits a job which is alone and keeps its
// word. What can be asked is that it stays rare and small.
#include <map>

#include "gtest/gtest.h"
#include "rubato/simulate/fake_world.h"

namespace rubato {
namespace {

// The argument itself: a giant that only the larger cluster can serve, and then a crowd that both
// could serve. Whoever answers at once, admits a job that is alone and keeps its word refuses one
// on the smaller cluster, and the whole crowd on the larger.
TEST(MoreGpusTest, OverATraceNobodyCanPromiseIt) {
  const Curve wide({{16, 16}}), narrow({{1, 1}});
  const auto refused = [&](const char* cluster) {
    Workload workload;
    workload.cluster = *ParseClusterShorthand(cluster);
    workload.trace.jobs.push_back(
        {.iterations = 16 * 950, .deadline_s = 1000, .deadline = DeadlineKind::kHard});
    workload.curves.push_back({&wide});
    for (int i = 0; i < 8; ++i) {
      workload.trace.jobs.push_back(
          {.submit_s = 10, .iterations = 800, .deadline_s = 1000, .deadline = DeadlineKind::kHard});
      workload.curves.push_back({&narrow});
    }
    return Simulate(workload, **MakePolicy("rubato"), {})->refused;
  };
  EXPECT_EQ(refused("n1g8"), 1);
  EXPECT_EQ(refused("n2g8"), 8);
}

struct Tally {
  int worlds = 0, more = 0, by_jobs = 0, worst = 0;
  int64_t refused = 0, refused_then = 0;
  uint64_t worst_seed = 0;
};

int64_t Refused(RandomWorld& world, uint64_t seed) {
  const auto result = world.Run();
  EXPECT_TRUE(result.ok()) << "seed " << seed << ": " << result.status();
  EXPECT_EQ(LateHard(world.workload(), *result), 0) << "seed " << seed;
  return result->refused;
}

// The same of the world as it was drawn, which every comparison asks for.
int64_t RefusedAsDrawn(uint64_t seed) {
  static std::map<uint64_t, int64_t>& known = *new std::map<uint64_t, int64_t>();
  if (const auto at = known.find(seed); at != known.end()) return at->second;
  RandomWorld world(seed);
  return known[seed] = Refused(world, seed);
}

Tally Compare(const RandomWorld::Growth& growth, uint64_t worlds) {
  Tally tally;
  for (uint64_t seed = 0; seed < worlds; ++seed) {
    RandomWorld large(seed, growth);
    const int64_t before = RefusedAsDrawn(seed), after = Refused(large, seed);
    const int more = static_cast<int>(after - before);
    ++tally.worlds;
    tally.refused += before;
    tally.refused_then += after;
    tally.more += more > 0 ? 1 : 0;
    tally.by_jobs += std::max(0, more);
    if (more > tally.worst) {
      tally.worst = more;
      tally.worst_seed = seed;
    }
  }
  printf(
      "%d worlds: %ld refused, then %ld; more in %d of them, by %d jobs in all, by %d at most "
      "(seed %lu)\n",
      tally.worlds, static_cast<long>(tally.refused), static_cast<long>(tally.refused_then),
      tally.more, tally.by_jobs, tally.worst, static_cast<unsigned long>(tally.worst_seed));
  return tally;
}

TEST(MoreGpusTest, TwiceTheNodesSeldomRefuseMore) {
  const Tally tally = Compare({.times = 2}, 200);
  EXPECT_LT(tally.refused_then * 5, tally.refused * 4);
  EXPECT_LE(tally.more * 20, tally.worlds);      // Worlds,
  EXPECT_LE(tally.by_jobs * 50, tally.refused);  // and jobs.
}

TEST(MoreGpusTest, ANodeMoreSeldomRefusesMore) {
  const Tally tally = Compare({.extra_nodes = 1}, 200);
  EXPECT_LT(tally.refused_then * 10, tally.refused * 9);
  EXPECT_LE(tally.more * 10, tally.worlds);
  EXPECT_LE(tally.by_jobs * 15, tally.refused);
}

}  // namespace
}  // namespace rubato

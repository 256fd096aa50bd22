// One elastic job under faults of every kind: see world.h for what happens, checker.h for what
// must hold all the same.
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Plays a seed again, for the reader of a failing test.
void PrintStory(WorldOptions options) {
  options.narrate = true;
  World world(options);
  world.Run();
  for (size_t i = 0; i < world.story().size() && i < 200; ++i) {
    std::cerr << world.story()[i] << "\n";
  }
}

// What the schedules went through, in all: a quiet simulation proves nothing.
struct Toll {
  int64_t master_restarts = 0, workers_lost = 0, servers_lost = 0, fenced = 0, recomputed = 0;
  int64_t checkpoints = 0, evaluations = 0;
};

// The first violation among the seeds [0, count), or nothing.
std::string FirstViolation(uint64_t count, PlantedBug bug, Toll* toll = nullptr) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    WorldOptions options = RandomSchedule(seed);
    options.bug = bug;
    World world(options);
    world.Run();
    if (!world.violation().empty()) {
      if (bug == PlantedBug::kNone) PrintStory(options);
      return world.violation();
    }
    if (toll == nullptr) continue;
    const Snapshot& result = world.result();
    toll->master_restarts += result.master_restarts;
    toll->workers_lost += result.workers_lost;
    toll->servers_lost += result.servers_lost;
    toll->fenced += result.fenced_pushes;
    toll->recomputed += result.records_recomputed;
    toll->checkpoints += result.checkpoint;
    toll->evaluations += static_cast<int64_t>(result.evaluations.size());
  }
  return "";
}

TEST(SimulatedJobTest, EverySeedCommitsEverythingExactlyOnce) {
  Toll toll;
  EXPECT_EQ(FirstViolation(RUBATO_SIM_SEEDS, PlantedBug::kNone, &toll), "");
  std::cout << RUBATO_SIM_SEEDS << " schedules: " << toll.master_restarts << " masters, "
            << toll.workers_lost << " workers and " << toll.servers_lost << " servers lost, "
            << toll.fenced << " pushes fenced, " << toll.recomputed << " records recomputed, "
            << toll.checkpoints << " checkpoints, " << toll.evaluations << " evaluations\n";
  EXPECT_GT(toll.master_restarts, RUBATO_SIM_SEEDS / 10);
  EXPECT_GT(toll.workers_lost, RUBATO_SIM_SEEDS / 2);
  EXPECT_GT(toll.servers_lost, RUBATO_SIM_SEEDS / 10);
  EXPECT_GT(toll.fenced, RUBATO_SIM_SEEDS / 100);
  EXPECT_GT(toll.recomputed, RUBATO_SIM_SEEDS);
  EXPECT_GT(toll.checkpoints, RUBATO_SIM_SEEDS);
  EXPECT_GT(toll.evaluations, RUBATO_SIM_SEEDS / 2);
}

TEST(SimulatedJobTest, ASeedReplaysEventByEvent) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World first(RandomSchedule(seed)), second(RandomSchedule(seed));
    first.Run();
    second.Run();
    EXPECT_EQ(first.events(), second.events());
    EXPECT_EQ(first.result().view, second.result().view);
  }
}

TEST(SimulatedJobTest, TheCheckerSeesAServerThatAppliesTwice) {
  EXPECT_THAT(FirstViolation(200, PlantedBug::kServerAppliesTwice), HasSubstr("twice"));
}

TEST(SimulatedJobTest, TheCheckerSeesAServerThatForgetsItsLog) {
  EXPECT_THAT(FirstViolation(200, PlantedBug::kServerForgetsItsLog), HasSubstr("seed"));
}

TEST(SimulatedJobTest, TheCheckerSeesAServerThatIgnoresFencing) {
  EXPECT_THAT(FirstViolation(500, PlantedBug::kServerIgnoresFencing),
              HasSubstr("had lost the task"));
}

TEST(SimulatedJobTest, TheCheckerSeesAWorkerThatCommitsTooEarly) {
  EXPECT_THAT(FirstViolation(200, PlantedBug::kWorkerCommitsTooEarly), HasSubstr("committed"));
}

TEST(SimulatedJobTest, TheCheckerSeesADiskThatLosesTheJournal) {
  EXPECT_THAT(FirstViolation(200, PlantedBug::kDiskLosesJournal),
              AnyOf(HasSubstr("a restarted master"), HasSubstr("went back")));
}

}  // namespace
}  // namespace rubato

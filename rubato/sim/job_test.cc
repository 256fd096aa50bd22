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

// The first violation among the seeds [0, count), or nothing.
std::string FirstViolation(uint64_t count, PlantedBug bug) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    WorldOptions options = RandomSchedule(seed);
    options.bug = bug;
    World world(options);
    world.Run();
    if (world.violation().empty()) continue;
    if (bug == PlantedBug::kNone) PrintStory(options);
    return world.violation();
  }
  return "";
}

TEST(SimulatedJobTest, EverySeedCommitsEverythingExactlyOnce) {
  EXPECT_EQ(FirstViolation(RUBATO_SIM_SEEDS, PlantedBug::kNone), "");
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
  EXPECT_THAT(FirstViolation(200, PlantedBug::kDiskLosesJournal), HasSubstr("a restarted master"));
}

}  // namespace
}  // namespace rubato

// Servers that die and come back with less than they acknowledged: what they lost is trained again,
// and in the end every partition has every record once, and nothing twice.
#include <iostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

struct Toll {
  int64_t cut = 0, taken_back = 0, jobs = 0, restarts = 0;
};

// The first violation among the seeds [0, count), or nothing.
std::string FirstViolation(uint64_t count, PlantedBug bug, Toll* toll = nullptr) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    WorldOptions options = RandomLosses(seed);
    options.bug = bug;
    options.narrate = bug == PlantedBug::kNone;
    World world(options);
    world.Run();
    if (!world.violation().empty()) {
      for (const std::string& line : world.story()) std::cerr << line << "\n";
      return world.violation();
    }
    if (toll == nullptr) continue;
    toll->cut += world.logs_cut();
    toll->taken_back += world.result().records_taken_back;
    toll->jobs += world.result().records_taken_back > 0;
    toll->restarts += world.result().master_restarts;
  }
  return "";
}

TEST(SimulatedLossesTest, WhatAServerLostIsTrainedAgainAndCountsOnce) {
  Toll toll;
  EXPECT_EQ(FirstViolation(RUBATO_LOSS_SEEDS, PlantedBug::kNone, &toll), "");
  std::cout << RUBATO_LOSS_SEEDS << " jobs: " << toll.cut << " logs cut, " << toll.taken_back
            << " records taken back in " << toll.jobs << " jobs, " << toll.restarts
            << " masters lost\n";
  EXPECT_GT(toll.cut, RUBATO_LOSS_SEEDS / 5);
  EXPECT_GT(toll.jobs, RUBATO_LOSS_SEEDS / 8);
  EXPECT_GT(toll.taken_back, RUBATO_LOSS_SEEDS);
}

TEST(SimulatedLossesTest, TheCheckSeesAServerThatAppliesTwice) {
  EXPECT_NE(FirstViolation(60, PlantedBug::kServerAppliesTwice), "");
}

TEST(SimulatedLossesTest, TheCheckSeesAWorkerThatCommitsTooEarly) {
  EXPECT_NE(FirstViolation(60, PlantedBug::kWorkerCommitsTooEarly), "");
}

}  // namespace
}  // namespace rubato

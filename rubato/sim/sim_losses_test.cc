// Servers that die and come back with less than they acknowledged: what they lost is trained again,
// and in the end every partition has every record once, and nothing twice.
#include <algorithm>
#include <iostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

struct Toll {
  int64_t cut = 0, taken_back = 0, jobs = 0, restarts = 0, back = 0, failed = 0;
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

// In modes sync and hybrid all go back to a checkpoint. A loss before the first of them, or where
// they are not of one round, fails the job, and is the only thing that may.
TEST(SimulatedLossesTest, AllGoBackToACheckpointOfOneRound) {
  Toll toll;
  for (uint64_t seed = 0; seed < RUBATO_LOSS_SEEDS; ++seed) {
    WorldOptions options = RandomReturns(seed);
    options.narrate = true;
    World world(options);
    world.Run();
    toll.cut += world.logs_cut();
    const auto goes_back = [](const std::string& line) {
      return line.find("all servers go back") != std::string::npos;
    };
    toll.back += std::count_if(world.story().begin(), world.story().end(), goes_back);
    if (world.violation().find("cannot train them again") != std::string::npos) {
      ++toll.failed;
    } else if (!world.violation().empty()) {
      for (const std::string& line : world.story()) std::cerr << line << "\n";
      FAIL() << "seed " << seed << ": " << world.violation();
    }
  }
  std::cout << RUBATO_LOSS_SEEDS << " jobs: " << toll.cut << " logs cut, " << toll.back
            << " times all went back, " << toll.failed << " jobs had nothing to go back to\n";
  EXPECT_GT(toll.back, RUBATO_LOSS_SEEDS / 10);
  EXPECT_LT(toll.failed, RUBATO_LOSS_SEEDS / 5);
}

TEST(SimulatedLossesTest, TheCheckSeesAServerThatAppliesTwice) {
  EXPECT_NE(FirstViolation(60, PlantedBug::kServerAppliesTwice), "");
}

TEST(SimulatedLossesTest, TheCheckSeesAWorkerThatCommitsTooEarly) {
  EXPECT_NE(FirstViolation(60, PlantedBug::kWorkerCommitsTooEarly), "");
}

}  // namespace
}  // namespace rubato

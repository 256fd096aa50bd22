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
  int64_t cut = 0, taken_back = 0, jobs = 0, restarts = 0, back = 0, failed = 0, damaged = 0,
          midway = 0;
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

// No version is of one round and can be read by all.
bool NothingToGoBackTo(const World& world) {
  const std::string& violation = world.violation();
  const auto says = [&](const char* why) { return violation.find(why) != std::string::npos; };
  return says("there is no checkpoint to go back to") ||
         says("is not of one round on all servers") ||
         (world.files_damaged() > 0 && says("has less on that server, and none before it is kept"));
}

// In modes sync and hybrid all go back to a checkpoint, or to one before it if somebody's file is
// damaged. A loss before the first of them, or where they are not of one round, fails the job, and
// is the only thing that may.
TEST(SimulatedLossesTest, AllGoBackToACheckpointOfOneRound) {
  Toll toll;
  for (uint64_t seed = 0; seed < RUBATO_LOSS_SEEDS; ++seed) {
    WorldOptions options = RandomReturns(seed);
    options.narrate = true;
    World world(options);
    world.Run();
    toll.cut += world.logs_cut();
    toll.damaged += world.files_damaged();
    const auto died = world.deaths().find("writing a checkpoint");
    toll.midway += died == world.deaths().end() ? 0 : died->second;
    const auto goes_back = [](const std::string& line) {
      return line.find("all servers go back") != std::string::npos;
    };
    toll.back += std::count_if(world.story().begin(), world.story().end(), goes_back);
    if (NothingToGoBackTo(world)) {
      ++toll.failed;
    } else if (!world.violation().empty()) {
      for (const std::string& line : world.story()) std::cerr << line << "\n";
      FAIL() << "seed " << seed << ": " << world.violation();
    }
  }
  std::cout << RUBATO_LOSS_SEEDS << " jobs: " << toll.cut << " logs cut, " << toll.back
            << " times all went back, " << toll.damaged << " files damaged, " << toll.midway
            << " servers lost after a cut, " << toll.failed << " jobs had nothing to go back to\n";
  EXPECT_GT(toll.back, RUBATO_LOSS_SEEDS / 10);
  EXPECT_GT(toll.damaged, RUBATO_LOSS_SEEDS / 100);
  EXPECT_GT(toll.midway, RUBATO_LOSS_SEEDS / 15);
  EXPECT_LT(toll.failed, RUBATO_LOSS_SEEDS / 5);
}

TEST(SimulatedLossesTest, TheCheckSeesAServerThatAppliesTwice) {
  EXPECT_NE(FirstViolation(60, PlantedBug::kServerAppliesTwice), "");
}

// A server died with a batch that it alone had acknowledged, and its worker counts it all the same:
// the round is whole by the ledger and not on that server.
TEST(SimulatedLossesTest, TheCheckSeesAWorkerThatForgetsItsLease) {
  std::string violation;
  for (uint64_t seed = 0; seed < 450 && violation.empty(); ++seed) {
    WorldOptions options = RandomReturns(seed);
    options.bug = PlantedBug::kWorkerForgetsItsLease;
    World world(options);
    world.Run();
    if (!NothingToGoBackTo(world)) violation = world.violation();
  }
  EXPECT_THAT(violation, testing::HasSubstr("rounds are whole, and has"));
}

TEST(SimulatedLossesTest, TheCheckSeesAWorkerThatCommitsTooEarly) {
  EXPECT_NE(FirstViolation(60, PlantedBug::kWorkerCommitsTooEarly), "");
}

}  // namespace
}  // namespace rubato

// Servers with real shards that come, go, hand partitions to each other and die at every step of
// it: in the end every weight is what the acknowledged pushes add up to, one after the other.
#include <iostream>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/sim/world.h"

namespace rubato {
namespace {

using testing::HasSubstr;

struct Toll {
  int64_t kills = 0, moves = 0, busy_moves = 0, scaled = 0, checkpoints = 0;
  std::map<std::string, int64_t> deaths;
};

// The first violation among the seeds [0, count), or nothing.
std::string FirstViolation(uint64_t count, PlantedBug bug, Toll* toll = nullptr) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    WorldOptions options = RandomMoves(seed);
    options.bug = bug;
    options.narrate = bug == PlantedBug::kNone;
    World world(options);
    world.Run();
    if (!world.violation().empty()) {
      for (size_t i = 0; i < world.story().size(); ++i) std::cerr << world.story()[i] << "\n";
      return world.violation();
    }
    if (toll == nullptr) continue;
    toll->moves += world.moves();
    toll->busy_moves += world.busy_moves();
    toll->checkpoints += world.result().checkpoint;
    toll->scaled += world.result().servers_scaled.to > 0;
    for (const auto& [doing, deaths] : world.deaths()) {
      toll->deaths[doing] += deaths;
      toll->kills += doing == "master, in a move" ? 0 : deaths;
    }
  }
  return "";
}

TEST(SimulatedMovesTest, WhoeverDiesWhenTheWeightsAreThoseOfASerialReplay) {
  Toll toll;
  EXPECT_EQ(FirstViolation(RUBATO_MOVE_SEEDS, PlantedBug::kNone, &toll), "");
  std::cout << RUBATO_MOVE_SEEDS << " jobs: " << toll.kills << " servers killed, " << toll.moves
            << " moves, " << toll.busy_moves << " of them for load, " << toll.scaled
            << " jobs with another number of servers, " << toll.checkpoints << " checkpoints\n";
  for (const auto& [doing, deaths] : toll.deaths) {
    std::cout << deaths << " died " << (doing.empty() ? "between moves" : doing) << "\n";
  }
  EXPECT_GT(toll.kills, RUBATO_MOVE_SEEDS * 5 / 4);  // 500 and more, but for sanitized builds.
  EXPECT_GT(toll.moves, RUBATO_MOVE_SEEDS);
  EXPECT_GT(toll.busy_moves, RUBATO_MOVE_SEEDS / 20);
  EXPECT_GT(toll.checkpoints, RUBATO_MOVE_SEEDS);
  // At every step of a move: docs/design/0003-servers.md has them in a table. The few jobs of a
  // sanitized build need not meet all.
  for (const char* doing : {"copying", "sending the rest", "handing over", "receiving",
                            "taking over", "writing a checkpoint", "master, in a move"}) {
    EXPECT_GE(toll.deaths[doing], RUBATO_MOVE_SEEDS < 100 ? 0 : 1 + RUBATO_MOVE_SEEDS / 100)
        << doing;
  }
}

TEST(SimulatedMovesTest, ASeedReplaysEventByEvent) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    World first(RandomMoves(seed)), second(RandomMoves(seed));
    first.Run();
    second.Run();
    EXPECT_EQ(first.events(), second.events());
    EXPECT_EQ(first.moves(), second.moves());
  }
}

TEST(SimulatedMovesTest, TheCheckSeesALogThatIsForgotten) {
  EXPECT_THAT(FirstViolation(50, PlantedBug::kServerForgetsItsLog), HasSubstr("seed"));
}

TEST(SimulatedMovesTest, TheCheckSeesAReceiverThatDoesNotLog) {
  EXPECT_THAT(FirstViolation(50, PlantedBug::kReceiverDoesNotLog), HasSubstr("seed"));
}

TEST(SimulatedMovesTest, TheCheckSeesPushesThatAreTakenWhileTheRestIsHandedOver) {
  EXPECT_THAT(FirstViolation(200, PlantedBug::kServerPushesOnWhileItHandsOver), HasSubstr("seed"));
}

TEST(SimulatedMovesTest, TheCheckSeesAWorkerThatCommitsTooEarly) {
  EXPECT_THAT(FirstViolation(50, PlantedBug::kWorkerCommitsTooEarly), HasSubstr("seed"));
}

}  // namespace
}  // namespace rubato

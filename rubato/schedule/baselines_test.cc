// One small scene for every baseline that its neighbours would play differently.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/schedule/fake_curves.h"
#include "rubato/schedule/fake_view.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;

// A floor above what was asked for, above a fair share and above the peak: everyone honours it or
// waits, and nobody starves on an empty cluster. (Decide holds every plan against CheckPlan.)
TEST(FloorTest, NoPolicyGivesLess) {
  const Curve falling({{1, 1}, {2, 2}, {4, 1.5}});
  for (const std::string& policy : PolicyNames()) {
    FakeView alone(8);
    JobView& only = alone.AddHard(Doubling(), 10, 1000);
    only.floor_gpus = 4;
    EXPECT_GE(alone.Gpus(policy)[0], 4) << policy;
    FakeView past_peak(8);
    past_peak.AddHard(falling, 10, 1000).floor_gpus = 3;
    EXPECT_EQ(past_peak.Gpus(policy)[0], 4) << policy;
    FakeView full(8);
    for (int i = 0; i < 5; ++i) full.AddHard(Doubling(), 100, 2000).floor_gpus = 4;
    const std::vector<int> gpus = full.Gpus(policy);
    EXPECT_EQ(std::count(gpus.begin(), gpus.end(), 0),
              5 - std::count(gpus.begin(), gpus.end(), 4) - std::count(gpus.begin(), gpus.end(), 8))
        << policy;
    EXPECT_GE(*std::max_element(gpus.begin(), gpus.end()), 4) << policy;
  }
}

TEST(FifoElasticTest, NobodyWaitsWhileAGpuIsFree) {
  FakeView world(8);
  world.Add(Doubling()).asked_gpus = 4;
  world.Add(Doubling()).asked_gpus = 8;
  EXPECT_THAT(world.Gpus("fifo-elastic"), ElementsAre(4, 4));
  EXPECT_THAT(world.Gpus("fifo"), ElementsAre(4, 0));
}

TEST(TiresiasTest, WhoHadLeastComesFirst) {
  FakeView world(8);
  JobView& old = world.Add(Doubling());
  old.asked_gpus = old.gpus = 8;
  old.gpu_seconds = 4000;
  world.Add(Doubling()).asked_gpus = 8;
  EXPECT_THAT(world.Gpus("tiresias"), ElementsAre(0, 8));
  EXPECT_DOUBLE_EQ(world.Decide("tiresias").wake_s, 3250.0 / 8);  // When the second falls too.
}

TEST(GandivaTest, TurnsChangeEveryMinute) {
  FakeView world(8);
  JobView& first = world.Add(Doubling());
  first.asked_gpus = first.gpus = 8;
  first.ran_s = 30;
  world.Add(Doubling()).asked_gpus = 8;
  EXPECT_THAT(world.Gpus("gandiva"), ElementsAre(8, 0));
  EXPECT_DOUBLE_EQ(world.Decide("gandiva").wake_s, 30);
  FakeView later(8);
  JobView& again = later.Add(Doubling());
  again.asked_gpus = again.gpus = 8;
  again.ran_s = 60;
  later.Add(Doubling()).asked_gpus = 8;
  EXPECT_THAT(later.Gpus("gandiva"), ElementsAre(0, 8));
}

TEST(ThemisTest, WhoIsFurthestBehindItsShareComesFirst) {
  FakeView world(8);
  world.raw().now_s = 1000;
  JobView& fresh = world.Add(Doubling());
  fresh.asked_gpus = 8;
  fresh.submitted_s = 990;
  JobView& starved = world.Add(Doubling());
  starved.asked_gpus = 8;
  starved.submitted_s = 0;
  EXPECT_THAT(world.Gpus("themis"), ElementsAre(0, 8));
}

TEST(OptimusTest, GpusGoWhereTheyShortenMost) {
  FakeView world(8);
  world.Add(Flat());
  world.Add(Doubling());
  EXPECT_THAT(world.Gpus("optimus"), ElementsAre(4, 4));
  FakeView crowded(3);
  for (int i = 0; i < 4; ++i) crowded.Add(Doubling());
  EXPECT_THAT(crowded.Gpus("optimus"), ElementsAre(1, 1, 1, 0));
}

// Two jobs alike but for their length: optimus feeds the long one, pollux both.
TEST(PolluxTest, SpeedupsAreWeighedNotLengths) {
  FakeView world(8);
  world.Add(Doubling());
  JobView& longer = world.Add(Doubling());
  longer.iterations = longer.remaining = 1000;
  EXPECT_THAT(world.Gpus("pollux"), ElementsAre(4, 4));
  EXPECT_EQ(world.Gpus("optimus")[1], 4);
}

// Both need the whole cluster for a lease; only one can wait that long.
TEST(ChronusTest, TheProgrammeKeepsBothDeadlines) {
  FakeView world(8);
  world.raw().slot_s = 60;
  world.AddHard(Doubling(), 8 * 60, 500).asked_gpus = 8;
  world.AddHard(Doubling(), 8 * 60, 60).asked_gpus = 8;
  EXPECT_THAT(world.Gpus("chronus"), ElementsAre(0, 8));
  EXPECT_DOUBLE_EQ(world.Decide("chronus").wake_s, 60);
}

TEST(EdfAdmissionTest, RefusesWhoWouldMakeAnotherLate) {
  FakeView world(8);
  JobView& first = world.AddHard(Doubling(), 80, 10.5);
  first.admitted = true;
  world.AddHard(Doubling(), 8, 5);  // Sooner, and in its way.
  world.AddHard(Doubling(), 8, 30);
  EXPECT_THAT(world.Gpus("edf-capped-admission"), ElementsAre(8, -1, 0));
  EXPECT_THAT(world.Gpus("edf"), ElementsAre(0, 8, 0));
}

// One hopeless arrival sinks its companions in the artifact; the paper's algorithm takes them one
// by one.
TEST(ElasticflowTest, ArrivalsStandAloneExceptInTheArtifact) {
  FakeView world(8);
  world.AddHard(Doubling(), 1000, 10);
  world.AddHard(Doubling(), 40, 10);
  EXPECT_THAT(world.Gpus("elasticflow"), ElementsAre(-1, 8));
  EXPECT_THAT(world.Gpus("elasticflow-artifact"), ElementsAre(-1, -1));
}

TEST(ElasticflowTest, SharesFirstThenGrowthWhereItCostsLeast) {
  FakeView world(8);
  world.AddHard(Flat(), 10, 10);      // One GPU is just enough; more is waste.
  world.AddHard(Doubling(), 40, 20);  // Two are enough; more cost nothing.
  EXPECT_THAT(world.Gpus("elasticflow"), ElementsAre(4, 4));
  EXPECT_EQ(world.Gpus("elasticflow-artifact")[0], 4);
}

}  // namespace
}  // namespace rubato

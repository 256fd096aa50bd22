#include "rubato/simulate/scenario.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

SimulationResult Play(const Scenario& scenario, absl::string_view policy,
                      Overhead overhead = Overhead::kMoved) {
  auto result = Simulate(scenario.workload, **MakePolicy(policy),
                         {.overhead = overhead, .record_pieces = true});
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

// The published experiment: about 1300 s with gangs, 1100 s elastic, and nobody waits.
TEST(ScenarioTest, TwoJobsEndSoonerWhenTheyShare) {
  const Scenario scenario = *MakeScenario("two-jobs");
  const ScenarioFigures gang = MeasureScenario(scenario, Play(scenario, scenario.policies[0]));
  EXPECT_NEAR(gang.end_s, 1300, 20);
  EXPECT_GT(gang.waited_s, 300);
  const ScenarioFigures elastic = MeasureScenario(scenario, Play(scenario, scenario.policies[1]));
  EXPECT_LE(elastic.end_s, 1100);
  EXPECT_EQ(elastic.waited_s, 0);
  EXPECT_GT(elastic.utilisation, gang.utilisation);
}

// Without overhead it can be worked out by hand: the second job has 145 CPUs until the first ends
// at 634 s, then all its 175.
TEST(ScenarioTest, TwoJobsByHand) {
  const Scenario scenario = *MakeScenario("two-jobs");
  const SimulationResult r = Play(scenario, "fifo-elastic", Overhead::kNone);
  EXPECT_DOUBLE_EQ(r.job_results[0].end_s, 634);
  EXPECT_DOUBLE_EQ(r.job_results[1].end_s, 634 + (634.0 * 175 - 334 * 145) / 175);
}

TEST(ScenarioTest, TrainingFillsWhatTheServiceLeaves) {
  const Scenario scenario = *MakeScenario("colocate");
  const SimulationResult elastic = Play(scenario, scenario.policies[1]);
  const ScenarioFigures figures = MeasureScenario(scenario, elastic);
  EXPECT_GT(figures.utilisation, 0.9);
  EXPECT_GT(elastic.utilisation, 0.9);
  EXPECT_EQ(figures.waited_s, 0);
  // The service is never made to wait, and training gives back as the load rises.
  int least = 320, most = 0;
  for (const Piece& piece : elastic.pieces) {
    const TraceJob& job = scenario.workload.trace.jobs[static_cast<size_t>(piece.job.value())];
    if (job.model != "training") continue;
    least = std::min(least, piece.gpus);
    most = std::max(most, piece.gpus);
  }
  EXPECT_LE(least, 112);
  EXPECT_GE(most, 240);
  EXPECT_EQ(elastic.met, elastic.deadline_jobs);
  for (const JobResult& job : elastic.job_results) EXPECT_EQ(job.start_s, job.submit_s);

  const ScenarioFigures gang = MeasureScenario(scenario, Play(scenario, scenario.policies[0]));
  EXPECT_LT(gang.utilisation, figures.utilisation - 0.1);
  EXPECT_GT(gang.end_s, 1.3 * figures.end_s);
}

// A column is 100 s. In the seventh the first job ends, having held 34 of them.
TEST(ScenarioTest, ThePlotShowsWhoHeldWhat) {
  const Scenario scenario = *MakeScenario("two-jobs");
  const SimulationResult r = Play(scenario, "fifo-elastic", Overhead::kNone);
  EXPECT_EQ(PlotUtilisation(scenario.workload, r, {.columns = 13, .rows = 4, .end_s = 1300}),
            "       |   ▒▒▒       \n"
            "       |   ▒▒▒▒      \n"
            "       |██████▒▒▒▒   \n"
            "       |███████▒▒▒   \n"
            "     0 +-------------\n"
            "        0 s    1300 s\n"
            "        █ job 1   ▒ job 2   \n");
}

TEST(ScenarioTest, UnknownOnesAreNamed) {
  EXPECT_THAT(MakeScenario("three-jobs").status().message(), HasSubstr("two-jobs, colocate"));
}

}  // namespace
}  // namespace rubato

#include "rubato/simulate/simulator.h"

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// One iteration a second on one GPU, without loss up to 16; and one that stops gaining at 4.
class SimulatorTest : public testing::Test {
 protected:
  SimulatorTest() {
    book_.Add("linear", 1024, "A100", Curve({{1, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 16}}));
    book_.Add("curved", 1024, "A100", Curve({{1, 1}, {2, 1.5}, {4, 2}}));
  }
  void Job(double submit_s, double iterations, double deadline_s, int gpus,
           const std::string& model = "linear") {
    TraceJob job{.name = std::to_string(trace_.jobs.size()),
                 .submit_s = submit_s,
                 .iterations = iterations,
                 .model = model,
                 .batch_size = 1024,
                 .deadline_s = deadline_s,
                 .asked_gpus = gpus};
    if (deadline_s < kNever) job.deadline = DeadlineKind::kHard;
    trace_.jobs.push_back(job);
  }
  SimulationResult Run(absl::string_view policy, absl::string_view cluster,
                       SimulateOptions options = {}) {
    const auto workload = Bind(trace_, *ParseClusterShorthand(cluster), book_, "A100");
    EXPECT_TRUE(workload.ok()) << workload.status();
    auto result = Simulate(*workload, **MakePolicy(policy), options);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  CurveBook book_;
  Trace trace_{.name = "test"};
};

TEST_F(SimulatorTest, EndsAreExactWithoutOverhead) {
  Job(0, 100, kNever, 4);
  Job(10, 100, kNever, 4);
  Job(10, 30, kNever, 8);
  const SimulationResult r = Run("fifo", "n1g8", {.overhead = Overhead::kNone});
  EXPECT_DOUBLE_EQ(r.job_results[0].end_s, 25);
  EXPECT_DOUBLE_EQ(r.job_results[1].end_s, 35);
  EXPECT_DOUBLE_EQ(r.job_results[2].start_s, 35);  // The gang waits for both.
  EXPECT_DOUBLE_EQ(r.job_results[2].end_s, 38.75);
  EXPECT_DOUBLE_EQ(r.makespan_s, 38.75);
  EXPECT_NEAR(r.gpu_hours_used * 3600, 100 + 100 + 30, 1e-9);
  EXPECT_EQ(r.rescale_seconds, 0);
}

// Two GPUs on two nodes are half as fast as two on one. Deadlines are promised on the slower.
TEST_F(SimulatorTest, GpusFarApartAreSlower) {
  Curve apart({{1, 1}, {2, 2}});
  apart.Limit(2, Span::kRack, 1.2);
  book_.Add("apart", 1024, "A100", apart);
  Job(0, 120, kNever, 2, "apart");
  const SimulateOptions free{.overhead = Overhead::kNone};
  EXPECT_DOUBLE_EQ(Run("fifo", "n1g2", free).job_results[0].end_s, 60);
  EXPECT_DOUBLE_EQ(Run("fifo", "n2g1", free).job_results[0].end_s, 100);
  trace_.jobs.clear();
  Job(0, 120, 90, 2, "apart");
  EXPECT_EQ(Run("rubato", "n2g1", free).refused, 1);
}

// 8 GPUs, so a first start costs 2 + 2 x (log2 n + 1) seconds; the second job of the same size
// finds the same GPUs known to each other, and pays only the base.
TEST_F(SimulatorTest, MovedJobsPayTheFormulaAndKnownSetsLess) {
  Job(0, 80, kNever, 8);
  Job(0, 80, kNever, 8);
  const SimulationResult r = Run("fifo", "n1g8");
  EXPECT_DOUBLE_EQ(r.job_results[0].end_s, 10 + 10);
  EXPECT_DOUBLE_EQ(r.job_results[1].end_s, 20 + 2 + 10);
  EXPECT_DOUBLE_EQ(r.rescale_seconds, 12);
}

TEST_F(SimulatorTest, EdfPreemptsAndAnArrivalIsSeenAtOnce) {
  Job(0, 80, 100, 8);
  Job(5, 40, 50, 8);
  const SimulationResult r = Run("edf", "n1g8", {.overhead = Overhead::kNone});
  EXPECT_DOUBLE_EQ(r.job_results[1].end_s, 10);
  EXPECT_DOUBLE_EQ(r.job_results[0].end_s, 15);
  EXPECT_EQ(r.met, 2);
  EXPECT_EQ(r.deadline_ratio, 1);
  EXPECT_EQ(r.late_admitted, 0);
}

TEST_F(SimulatorTest, AMissedSoftDeadlineIsNoBrokenPromise) {
  Job(0, 800, 50, 8);  // A hundred seconds at best.
  trace_.jobs.back().deadline = DeadlineKind::kSoft;
  const SimulationResult r = Run("rubato", "n1g8");
  EXPECT_EQ(r.refused, 0);
  EXPECT_EQ(r.late_soft, 1);
  EXPECT_EQ(r.late_admitted, 0);
  EXPECT_EQ(r.deadline_ratio, 0);
}

TEST_F(SimulatorTest, ElasticflowOverheadChargesTheUntouchedToo) {
  Job(0, 80, kNever, 4);
  Job(5, 4, kNever, 4);
  const SimulationResult moved = Run("fifo", "n1g8");
  const SimulationResult charged = Run("fifo", "n1g8", {.overhead = Overhead::kElasticflow});
  EXPECT_DOUBLE_EQ(moved.job_results[0].end_s, 8 + 20);
  EXPECT_GT(charged.job_results[0].end_s, moved.job_results[0].end_s);
}

TEST_F(SimulatorTest, FailedNodesDelayButLoseNothing) {
  for (int i = 0; i < 20; ++i) Job(i * 100, 20000, kNever, 8);
  const SimulationResult calm = Run("fifo", "n4g8");
  const SimulationResult rough =
      Run("fifo", "n4g8", {.failures_per_node_day = 5, .repair_s = 1800, .seed = 3});
  EXPECT_EQ(rough.completed, 20);
  EXPECT_GT(rough.failures, 0);
  EXPECT_GT(rough.makespan_s, calm.makespan_s);
  const SimulationResult again =
      Run("fifo", "n4g8", {.failures_per_node_day = 5, .repair_s = 1800, .seed = 3});
  EXPECT_EQ(again.makespan_s, rough.makespan_s);
}

TEST_F(SimulatorTest, UnknownModelsAndBadOptionsAreRefusedClearly) {
  Job(0, 1, kNever, 1, "gpt9");
  const auto bound = Bind(trace_, *ParseClusterShorthand("n1g8"), book_, "A100");
  EXPECT_THAT(bound.status().message(),
              HasSubstr("job 0: no profile of gpt9 with batch size 1024"));
  trace_.jobs.clear();
  Job(0, 1, kNever, 1);
  trace_.jobs[0].floor_gpus = 16;
  trace_.jobs[0].line = 7;
  EXPECT_THAT(Bind(trace_, *ParseClusterShorthand("n1g8"), book_, "A100").status().message(),
              HasSubstr("test:7: job 0: linear runs on no number of GPUs"));
  trace_.jobs[0].floor_gpus = 0;
  const auto workload = Bind(trace_, *ParseClusterShorthand("n1g8"), book_, "A100");
  EXPECT_THAT(Simulate(*workload, **MakePolicy("fifo"), {.slot_s = 0}).status().message(),
              HasSubstr("slot"));
}

// A GPU comes with its share of its node's CPUs and memory; where that is too little a job does not
// run, and what no spec tells is enough.
TEST_F(SimulatorTest, WorkersNeedCpusAndMemoryToo) {
  book_.Add("linear", 1024, "T4", Curve({{1, 0.5}, {8, 4}}));
  const ClusterSpec cluster = *BuildCluster(
      {{.gpus_per_node = 8, .cpus_per_node = 32, .memory_gb_per_node = 512, .gpu_type = "A100"},
       {.gpus_per_node = 8, .cpus_per_node = 64, .memory_gb_per_node = 256, .gpu_type = "T4"}});
  struct Case {
    double cpus, memory_gb;
    bool a100, t4;
  };
  Job(0, 80, kNever, 8);
  for (const Case& c : {Case{0, 0, true, true}, Case{4, 32, true, true}, Case{4.5, 32, false, true},
                        Case{4, 33, true, false}, Case{8, 0, false, true},
                        Case{8.5, 0, false, false}, Case{5, 33, false, false}}) {
    trace_.jobs[0].cpus_per_gpu = c.cpus;
    trace_.jobs[0].memory_gb_per_gpu = c.memory_gb;
    const auto workload = Bind(trace_, cluster, book_, "");
    if (!c.a100 && !c.t4) {
      EXPECT_THAT(workload.status().message(),
                  HasSubstr(absl::StrFormat("job 0: cpu_per_gpu is %g", c.cpus)));
      continue;
    }
    ASSERT_TRUE(workload.ok()) << workload.status();
    EXPECT_EQ(workload->curves[0][0] != nullptr, c.a100) << c.cpus;
    EXPECT_EQ(workload->curves[0][1] != nullptr, c.t4) << c.cpus;
    const auto result = Simulate(*workload, **MakePolicy("fifo"), {.overhead = Overhead::kNone});
    EXPECT_DOUBLE_EQ(result->makespan_s, c.a100 ? 10 : 20);
    EXPECT_TRUE(Bind(trace_, *ParseClusterShorthand("n1g8"), book_, "A100").ok());
  }
}

// Random jobs under every policy, with failures and a cooldown: no plan breaks a promise, and
// nobody uses more than there is.
TEST_F(SimulatorTest, EveryPolicyKeepsEveryPromise) {
  for (const std::string& policy : PolicyNames()) {
    const int jobs = policy == "chronus" ? 60 : 150;  // Its programmes take long where many wait.
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Rng rng(seed);
      trace_.jobs.clear();
      double t = 0;
      for (int i = 0; i < jobs; ++i) {
        t += rng.Chance(0.2) ? 0 : rng.Exponential(40);
        const double work = rng.Uniform(10, 3000);
        Job(t, work, rng.Chance(0.2) ? kNever : t + work * rng.Uniform(0.05, 1.5),
            1 << rng.Below(5), rng.Chance(0.5) ? "linear" : "curved");
      }
      const SimulationResult r = Run(policy, "n4g8",
                                     {.slot_s = 240,
                                      .cooldown_s = seed == 1 ? 60.0 : 0.0,
                                      .failures_per_node_day = seed == 2 ? 20.0 : 0.0,
                                      .repair_s = 600,
                                      .seed = seed});
      EXPECT_EQ(r.admitted + r.refused, jobs) << policy;
      EXPECT_EQ(r.completed, r.admitted) << policy;
      EXPECT_LE(r.utilisation, 1) << policy;
    }
  }
}

}  // namespace
}  // namespace rubato

#include "rubato/simulate/artifact/artifact.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/simulate/artifact/fill.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

class ArtifactTest : public testing::Test {
 protected:
  ArtifactTest() {
    book_.Add("concave", 1024, "A100", Curve({{1, 1}, {2, 1.9}, {4, 3.4}, {8, 5.5}, {16, 6}}));
    book_.Add("peaked", 1024, "A100", Curve({{1, 2}, {2, 3}, {4, 4}, {8, 3}, {16, 2}}));
  }
  void AddJob(double submit_s, double iterations, double deadline_s, int gpus,
              const std::string& model = "concave") {
    TraceJob job{.name = std::to_string(trace_.jobs.size()),
                 .submit_s = submit_s,
                 .iterations = iterations,
                 .model = model,
                 .batch_size = 1024,
                 .deadline_s = deadline_s,
                 .asked_gpus = gpus};
    if (deadline_s < kNever) job.deadline = DeadlineKind::kHard;
    job.duration_s = std::ceil(iterations / book_.Find(model, 1024, "A100")->Rate(gpus));
    trace_.jobs.push_back(job);
  }
  absl::StatusOr<SimulationResult> Run(absl::string_view policy, absl::string_view cluster) {
    const auto workload = Bind(trace_, *ParseClusterShorthand(cluster), book_, "A100");
    return SimulateArtifact(*workload, policy, {.overhead = Overhead::kElasticflow});
  }

  CurveBook book_;
  Trace trace_{.name = "test"};
};

// A lone job of 60 iterations on 16 GPUs at its cap: 10 s of work rounded up to a slot of 60, and
// 2 + 2 x 5 s of overhead on top; the log still says ten.
TEST_F(ArtifactTest, ALoneJobGrowsToItsPeak) {
  AddJob(0, 60, 1000, 1);
  const auto result = Run("elasticflow-artifact", "n2g8");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->met, 1);
  EXPECT_DOUBLE_EQ(result->job_results[0].end_s, 10);
  EXPECT_DOUBLE_EQ(result->rescale_seconds, 2 + 2 * 5);
}

// EDF goes past the peak of the curve, its capped sister does not.
TEST_F(ArtifactTest, EdfScalesPastThePeak) {
  AddJob(0, 80, 1000, 1, "peaked");
  EXPECT_DOUBLE_EQ(Run("edf", "n2g8")->job_results[0].end_s, 40);
  EXPECT_DOUBLE_EQ(Run("edf-capped", "n2g8")->job_results[0].end_s, 20 + 2 + 2 * 3);
}

// Arrivals closer than a slot are tested together, and the hopeless one sinks the other.
TEST_F(ArtifactTest, MergedArrivalsFallTogetherUnlessMended) {
  AddJob(0, 6, 500, 1);
  AddJob(5, 100000, 100, 1);
  AddJob(6, 6, 500, 1);
  const auto shipped = Run("elasticflow-artifact", "n2g8");
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  EXPECT_EQ(shipped->met, 1);
  EXPECT_EQ(shipped->refused, 2);
  const auto mended = Run("elasticflow", "n2g8");
  EXPECT_EQ(mended->met, 2);
  EXPECT_EQ(mended->refused, 1);
}

// A random trace under every loop: all jobs are accounted for, runs repeat, and the figures are
// those of the build that agreed with every recorded run of the public simulator.
TEST_F(ArtifactTest, FiguresStay) {
  Rng rng(11);
  double t = 0;
  for (int i = 0; i < 200; ++i) {
    t += rng.Chance(0.3) ? 0 : std::floor(rng.Exponential(300));
    const double work = std::floor(rng.Uniform(100, 8000));
    // One draw a line: the order in which arguments are evaluated is the compiler's own.
    const std::string model = rng.Chance(0.6) ? "concave" : "peaked";
    const int gpus = 1 << rng.Below(5);
    const bool best_effort = rng.Chance(0.15);
    const double deadline_s = best_effort ? kNever : t + std::floor(work * rng.Uniform(0.2, 1.5));
    AddJob(t, work, deadline_s, gpus, model);
  }
  const std::map<std::string, int> met = {
      {"elasticflow-artifact", 163},
      {"elasticflow", 168},
      {"edf", 13},
      {"edf-capped", 168},
      {"edf-admission", 98},
      {"edf-capped-admission", 168},
      {"tiresias", 111},
      {"gandiva", 60},
  };
  for (const auto& [policy, expected] : met) {
    const auto result = Run(policy, "n4g8");
    ASSERT_TRUE(result.ok()) << policy << ": " << result.status();
    EXPECT_EQ(result->completed + result->refused, 200) << policy;
    EXPECT_LE(result->utilisation, 1) << policy;
    EXPECT_EQ(result->met, expected) << policy;
    EXPECT_EQ(Run(policy, "n4g8")->jct_s.mean, result->jct_s.mean) << policy;
  }
}

TEST_F(ArtifactTest, SaysWhatThePublicCodeDoesNotKnow) {
  AddJob(0, 60, 1000, 1);
  EXPECT_THAT(Run("edf", "n2g8:A100+n1g4:A100").status().message(), HasSubstr("like nodes"));
  EXPECT_EQ(Run("rubato", "n2g8").status().code(), absl::StatusCode::kNotFound);
}

TEST(ArtifactFillTest, RoundsUpFromTheMomentOfDecision) {
  EXPECT_EQ(AlignUp(7, 7, 60), 7);
  EXPECT_EQ(AlignUp(7, 8, 60), 67);
  EXPECT_EQ(AlignUp(7, 67, 60), 67);
  EXPECT_EQ(AlignUp(100, 35, 60), 40);  // A deadline already past.
}

}  // namespace
}  // namespace rubato

#include "rubato/simulate/trace_generator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/simulate/simulator.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr double kDay = 86400;

Trace Draw(const TraceGeneratorOptions& options) {
  auto trace = GenerateTrace(options, BuiltinModels(), BuiltinCurves());
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *std::move(trace);
}

double ShareWhere(const Trace& trace, const std::function<bool(const TraceJob&)>& holds) {
  const auto n = std::count_if(trace.jobs.begin(), trace.jobs.end(), holds);
  return static_cast<double>(n) / static_cast<double>(trace.jobs.size());
}

TEST(TraceGeneratorTest, TheSeedDecidesEverything) {
  const TraceGeneratorOptions options{.jobs = 500, .seed = 7};
  TraceGeneratorOptions other = options;
  other.seed = 8;
  EXPECT_EQ(FormatTrace(Draw(options)), FormatTrace(Draw(options)));
  EXPECT_NE(FormatTrace(Draw(options)), FormatTrace(Draw(other)));
}

TEST(TraceGeneratorTest, LoadSizesAndRunTimesComeOutAsAsked) {
  const TraceGeneratorOptions options{.jobs = 40000, .gpus = 256, .load = 0.7};
  const Trace trace = Draw(options);
  ASSERT_EQ(trace.jobs.size(), 40000u);
  double gpu_seconds = 0;
  std::vector<double> run_times;
  for (const TraceJob& job : trace.jobs) {
    gpu_seconds += job.duration_s * job.asked_gpus;
    if (job.asked_gpus == 1) run_times.push_back(job.duration_s);
  }
  EXPECT_NEAR(gpu_seconds / (256 * trace.jobs.back().submit_s), 0.7, 0.01);
  EXPECT_NEAR(ShareWhere(trace, [](const TraceJob& j) { return j.asked_gpus == 1; }), 0.70, 0.02);
  EXPECT_NEAR(ShareWhere(trace, [](const TraceJob& j) { return j.asked_gpus == 8; }), 0.08, 0.01);
  std::sort(run_times.begin(), run_times.end());
  const double n = static_cast<double>(run_times.size());
  const auto at = [&](double q) { return run_times[static_cast<size_t>(q * n)]; };
  EXPECT_NEAR(at(0.5), 5400, 200);
  // One deviation above the median of a log-normal is exp(1.4) times it.
  EXPECT_NEAR(at(0.8413) / at(0.5), std::exp(1.4), 0.2);
}

TEST(TraceGeneratorTest, AMillionJobs) {
  const Trace trace = Draw({.jobs = RUBATO_TRACE_JOBS, .gpus = 10000, .load = 0.6});
  ASSERT_EQ(trace.jobs.size(), static_cast<size_t>(RUBATO_TRACE_JOBS));
  double gpu_seconds = 0, last_s = 0;
  for (const TraceJob& job : trace.jobs) {
    ASSERT_GE(job.submit_s, last_s);
    ASSERT_GT(job.iterations, 0);
    ASSERT_GT(job.deadline_s, job.submit_s);
    last_s = job.submit_s;
    gpu_seconds += job.duration_s * job.asked_gpus;
  }
  EXPECT_NEAR(gpu_seconds / (10000 * last_s), 0.6, 0.01);
}

// Lambda is uniform: the gaps between the quartiles are equal, and nobody is outside.
TEST(TraceGeneratorTest, DeadlinesAreAsTightAsAsked) {
  const Trace trace = Draw({.jobs = 20000,
                            .lambda_low = 0.8,
                            .lambda_high = 2.0,
                            .best_effort_share = 0.25,
                            .soft_share = 0.4});
  std::vector<double> lambda;
  for (const TraceJob& job : trace.jobs) {
    if (job.deadline == DeadlineKind::kNone) continue;
    lambda.push_back((job.deadline_s - job.submit_s) / job.duration_s);
  }
  std::sort(lambda.begin(), lambda.end());
  EXPECT_GE(lambda.front(), 0.8 - 0.5 / 60);  // Times are whole seconds.
  EXPECT_LE(lambda.back(), 2.0 + 0.5 / 60);
  for (int q = 1; q <= 3; ++q) {
    EXPECT_NEAR(lambda[lambda.size() * static_cast<size_t>(q) / 4], 0.8 + 0.3 * q, 0.02);
  }
  const auto is = [&](DeadlineKind kind) {
    return ShareWhere(trace, [kind](const TraceJob& j) { return j.deadline == kind; });
  };
  EXPECT_NEAR(is(DeadlineKind::kNone), 0.25, 0.01);
  EXPECT_NEAR(is(DeadlineKind::kSoft), 0.75 * 0.4, 0.015);
}

TEST(TraceGeneratorTest, PeopleWorkByDayAndLessOnWeekends) {
  const TraceGeneratorOptions options{.jobs = 60000, .gpus = 64};
  const Trace trace = Draw(options);
  ASSERT_GT(trace.jobs.back().submit_s, 28 * kDay);
  std::map<int, double> by_hour, by_weekday;
  for (const TraceJob& job : trace.jobs) {
    const double at = job.submit_s + kDay / 3;
    ++by_hour[static_cast<int>(at / 3600) % 24];
    ++by_weekday[static_cast<int>(at / kDay) % 7];
  }
  const double afternoon = by_hour[14] + by_hour[15], night = by_hour[2] + by_hour[3];
  EXPECT_NEAR(afternoon / night, 3, 0.5);  // (1 + 0.5) / (1 - 0.5).
  EXPECT_NEAR(by_weekday[5] / by_weekday[2], 0.55, 0.08);
}

// Sweeps make arrivals far denser in places than chance would: a Poisson process has gaps whose
// deviation is their mean.
TEST(TraceGeneratorTest, SweepsMakeBursts) {
  const auto variation = [](const Trace& trace) {
    double sum = 0, squares = 0;
    const double n = static_cast<double>(trace.jobs.size() - 1);
    for (size_t i = 1; i < trace.jobs.size(); ++i) {
      const double gap = trace.jobs[i].submit_s - trace.jobs[i - 1].submit_s;
      sum += gap;
      squares += gap * gap;
    }
    return std::sqrt(squares / n - sum * sum / n / n) / (sum / n);
  };
  TraceGeneratorOptions options{.jobs = 20000, .gpus = 32, .day_swing = 0, .weekend = 1};
  options.sweep_share = 0;
  EXPECT_NEAR(variation(Draw(options)), 1, 0.05);
  options.sweep_share = 0.5;
  EXPECT_GT(variation(Draw(options)), 1.3);
}

TEST(TraceGeneratorTest, JobsFitTheClusterAndRunOnEveryType) {
  const Trace trace = Draw({.jobs = 3000, .gpus = 4, .gpu_types = {"A100", "T4"}});
  for (const TraceJob& job : trace.jobs) EXPECT_LE(job.asked_gpus, 4);
  const CurveBook book = BuiltinCurves();
  const auto workload = Bind(trace, *ParseClusterShorthand("n1g2:A100+n1g2:T4"), book, "");
  ASSERT_TRUE(workload.ok()) << workload.status();
  for (const auto& curves : workload->curves) {
    EXPECT_NE(curves[0], nullptr);
    EXPECT_NE(curves[1], nullptr);
  }
}

TEST(TraceGeneratorTest, BadOptionsAreNamed) {
  const auto message = [](const TraceGeneratorOptions& options) {
    return std::string(GenerateTrace(options, BuiltinModels(), BuiltinCurves()).status().message());
  };
  EXPECT_THAT(message({.jobs = 0}), HasSubstr("jobs is 0"));
  EXPECT_THAT(message({.gpus = -1}), HasSubstr("gpus is -1"));
  EXPECT_THAT(message({.load = 0}), HasSubstr("load is 0"));
  EXPECT_THAT(message({.lambda_low = 2, .lambda_high = 1}), HasSubstr("must be at least 2"));
  EXPECT_THAT(message({.best_effort_share = 1.5}), HasSubstr("--best-effort is 1.5"));
  EXPECT_THAT(message({.gpu_types = {"H900"}}), HasSubstr("of type \"H900\""));
}

TEST(BuiltinProfilesTest, CurvesRiseThenLevelAndReadBackFromCsv) {
  const CurveBook book = BuiltinCurves();
  for (const std::string& type : BuiltinGpuTypes()) {
    for (const BuiltinModel& model : BuiltinModels()) {
      const Curve* curve = book.Find(model.model, model.batch_size, type);
      ASSERT_NE(curve, nullptr);
      EXPECT_GT(curve->Rate(2), curve->Rate(1)) << model.model;
      EXPECT_LT(curve->Rate(2), 2 * curve->Rate(1)) << model.model;
      CurveBook again;
      ASSERT_TRUE(
          again.AddCsv(FormatBuiltinProfile(model.model, type), "p.csv", model.model, type).ok());
      EXPECT_EQ(again.Find(model.model, model.batch_size, type)->points(), curve->points());
    }
  }
  EXPECT_EQ(book.Find("deepfm", 4096, "A100")->peak_gpus(), 8);
  EXPECT_GE(book.Find("diffusion", 256, "A100")->peak_gpus(), 32);
  EXPECT_EQ(FormatBuiltinProfile("deepfm", "H900"), "");
}

}  // namespace
}  // namespace rubato

#include "rubato/simulate/report.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "rubato/base/rng.h"
#include "rubato/simulate/report_pieces.h"
#include "rubato/simulate/trace_generator.h"

namespace rubato {
namespace {

using ::nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Reads a report as its page does.
class ReportReader {
 public:
  explicit ReportReader(const std::string& html) {
    const std::string open = "<script id=\"data\" type=\"application/json\">";
    const size_t from = html.find(open) + open.size();
    data = json::parse(html.substr(from, html.find("</script>", from) - from));
  }

  template <typename T>
  static std::vector<T> Array(const json& base64) {
    std::string bytes;
    EXPECT_TRUE(absl::Base64Unescape(base64.get<std::string>(), &bytes));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  // What each job held, from the packed stream.
  std::vector<std::vector<Bar>> Held(size_t policy) const {
    const json& p = data["policies"][policy]["pieces"];
    const std::vector<uint8_t> bytes = Array<uint8_t>(p["stream"]);
    size_t at = 0;
    const auto next = [&] {
      uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        value |= static_cast<uint64_t>(bytes[at] & 127) << shift;
        if (bytes[at++] < 128) return static_cast<double>(value);
      }
    };
    const double tick = p["tick"], scale = p["gpu_scale"], origin = data["origin"];
    std::vector<std::vector<Bar>> jobs;
    for (double submit : Array<double>(data["jobs"]["submit"])) {
      jobs.emplace_back();
      double t = std::round((submit - origin) / tick);
      for (double n = next(); n > 0; --n) {
        Bar bar;
        bar.from_s = origin + (t += next()) * tick;
        bar.to_s = origin + (t += next()) * tick;
        bar.gpus = next() / scale;
        if (p["pools"] == 1) bar.pool = static_cast<int>(next());
        jobs.back().push_back(bar);
      }
    }
    EXPECT_EQ(at, bytes.size());
    return jobs;
  }

  double HeldHours(size_t policy) const {
    double gpu_seconds = 0;
    for (const auto& bars : Held(policy)) {
      for (const Bar& bar : bars) gpu_seconds += bar.gpus * (bar.to_s - bar.from_s);
    }
    return gpu_seconds / 3600;
  }

  json data;
};

class ReportTest : public testing::Test {
 protected:
  // A drawn trace on a cluster of two types, through two policies.
  void SetUp() override {
    Trace trace =
        *GenerateTrace({.jobs = 300, .gpus = 32, .load = 0.9, .seed = 4}, BuiltinModels(), book_);
    for (TraceJob& job : trace.jobs) job.submit_s += 1e6;  // Traces need not start at zero.
    workload_ = *Bind(std::move(trace), *ParseClusterShorthand("n3g8:A100+n1g8:T4"), book_, "");
    for (const char* policy : {"fifo", "edf-capped"}) {
      results_.push_back(*Simulate(workload_, **MakePolicy(policy), {.record_pieces = true}));
    }
  }

  const CurveBook book_ = BuiltinCurves();
  Workload workload_;
  std::vector<SimulationResult> results_;
};

TEST_F(ReportTest, TheUtilisationDrawnIsTheGpuHoursUsed) {
  const ReportReader report(FormatReport(workload_, results_, {}));
  for (size_t p = 0; p < results_.size(); ++p) {
    EXPECT_EQ(report.data["policies"][p]["name"], results_[p].policy);
    EXPECT_NEAR(report.HeldHours(p), results_[p].gpu_hours_used, 1e-4 * results_[p].gpu_hours_used);
    EXPECT_NEAR(report.data["policies"][p]["metrics"]["gpu_hours_used"], results_[p].gpu_hours_used,
                1e-6);
    EXPECT_EQ(report.data["policies"][p]["metrics"]["met"], results_[p].met);
  }
}

TEST_F(ReportTest, EveryJobHeldWhatTheSimulationGaveIt) {
  const ReportReader report(FormatReport(workload_, results_, {}));
  for (size_t p = 0; p < results_.size(); ++p) {
    const auto held = report.Held(p);
    const auto given = GroupByJob(results_[p]);
    ASSERT_EQ(held.size(), given.size());
    for (size_t i = 0; i < held.size(); ++i) {
      ASSERT_EQ(held[i].size(), given[i].size());
      for (size_t k = 0; k < held[i].size(); ++k) {
        EXPECT_NEAR(held[i][k].from_s, given[i][k].from_s, 0.006);
        EXPECT_NEAR(held[i][k].to_s, given[i][k].to_s, 0.006);
        EXPECT_EQ(held[i][k].gpus, given[i][k].gpus);
        EXPECT_EQ(held[i][k].pool, given[i][k].pool);
      }
    }
    const auto end = ReportReader::Array<double>(report.data["policies"][p]["end"]);
    for (size_t i = 0; i < end.size(); ++i) {
      EXPECT_EQ(end[i], results_[p].job_results[i].end_s);
      if (!held[i].empty()) {
        EXPECT_NEAR(held[i].back().to_s, end[i], 0.006);
      }
    }
  }
}

// One job resized every ten seconds for a week is more than anyone can see.
TEST_F(ReportTest, ManyPiecesAreDrawnCoarserWithTheSameGpuHours) {
  SimulationResult& r = results_[0];
  Rng rng(1);
  r.pieces.clear();
  double gpu_seconds = 0;
  for (int k = 0; k < 60000; ++k) {
    const int gpus = 1 << rng.Below(4);
    const double from_s = 1e6 + 10 * k, to_s = from_s + rng.Uniform(1, 10);
    r.pieces.push_back({JobId(0), from_s, to_s, gpus, 0});
    gpu_seconds += gpus * (to_s - from_s);
  }
  const ReportReader report(FormatReport(workload_, {r}, {.pieces_max = 2000}));
  const json& pieces = report.data["policies"][0]["pieces"];
  EXPECT_LE(pieces["count"], 2000);
  EXPECT_GT(pieces["width"], 0);
  EXPECT_NEAR(report.HeldHours(0) * 3600 / gpu_seconds, 1, 2e-3);
}

TEST_F(ReportTest, OneFileThatAsksNobodyForAnything) {
  const std::string html = FormatReport(workload_, results_, {.title = "A <b>bold</b> title"});
  for (const char* outside : {"http://", "https://", "src=", "@import", "url(", "fetch("}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_FALSE(absl::StrContains(html, "/*CSS*/") || absl::StrContains(html, "/*JS*/") ||
               absl::StrContains(html, "/*DATA*/"));
}

// A job's name may hold anything; it can neither end the script nor break the JSON.
TEST_F(ReportTest, NamesCannotBreakThePage) {
  workload_.trace.jobs[0].name = "</script><script>alert(1)</script>\"\\\n";
  results_[0].job_results[0].refusal = "no \"room\" </script>";
  const std::string html = FormatReport(workload_, results_, {});
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  const ReportReader report(html);
  EXPECT_EQ(report.data["jobs"]["names"][0], workload_.trace.jobs[0].name);
  EXPECT_EQ(report.data["policies"][0]["refusals"][0][1], "no \"room\" </script>");
}

TEST(CoarsenTest, JoinsWhatIsCloseAndLeavesTheRest) {
  std::vector<Bar> bars = {{0, 10, 4, 0}, {20, 30, 2, 0}, {30, 500, 8, 0}, {600, 610, 1, 1}};
  Coarsen(bars, 60);
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_DOUBLE_EQ(bars[0].gpus, 2);  // 60 GPU-seconds over 30 s.
  EXPECT_EQ(bars[0].to_s, 30);
  EXPECT_EQ(bars[1].gpus, 8);
  EXPECT_EQ(bars[2].pool, 1);
}

}  // namespace
}  // namespace rubato

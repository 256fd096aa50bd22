// A plan that breaks a promise ends the simulation, whoever made it and whenever.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/simulate/simulator.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// Decides as fifo-elastic does, until its mistake.
class Vandal : public Policy {
 public:
  using Mistake = std::function<void(const ClusterView&, Plan&)>;
  explicit Vandal(Mistake mistake) : mistake_(std::move(mistake)) {}
  absl::string_view name() const override { return "vandal"; }
  Plan Decide(const ClusterView& view) const override {
    Plan plan = (*MakePolicy("fifo-elastic"))->Decide(view);
    mistake_(view, plan);
    return plan;
  }

 private:
  Mistake mistake_;
};

class ViolationsTest : public testing::Test {
 protected:
  ViolationsTest() {
    book_.Add("linear", 64, "A100", Curve({{1, 1}, {2, 2}, {4, 4}, {8, 8}}));
    for (int i = 0; i < 4; ++i) {
      trace_.jobs.push_back({.name = "run-" + std::to_string(i),
                             .line = 2 + i,
                             .submit_s = 100.0 * i,
                             .iterations = 1000,
                             .model = "linear",
                             .batch_size = 64,
                             .asked_gpus = 4,
                             .floor_gpus = 2,
                             .max_gpus = 4});
    }
  }
  absl::Status Run(Vandal::Mistake mistake, SimulateOptions options = {}) {
    const auto workload = Bind(trace_, *ParseClusterShorthand("n1g8"), book_, "A100");
    EXPECT_TRUE(workload.ok()) << workload.status();
    return Simulate(*workload, Vandal(std::move(mistake)), options).status();
  }

  CurveBook book_;
  Trace trace_{.name = "test"};
};

TEST_F(ViolationsTest, EachIsNamed) {
  struct Case {
    Vandal::Mistake mistake;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {[](const ClusterView&, Plan&) {}, ""},
           {[](const ClusterView&, Plan&plan) { plan.shares[2].gpus = 4; }, "GPUs are planned"},
           {[](const ClusterView&, Plan&plan) { plan.shares[0].gpus = 3; }, "not a legal size"},
           {[](const ClusterView&, Plan&plan) { plan.shares[0].gpus = 1; }, "below its floor"},
           {[](const ClusterView&, Plan&plan) {
              plan.shares = {{8, 0}, {}, {}};
            },
            "above its maximum"},
           {[](const ClusterView&, Plan&plan) { plan.shares[0].pool = 1; }, "no such pool"},
           {[](const ClusterView&, Plan&plan) { plan.shares.pop_back(); }, "2 shares for 3 jobs"},
           {[](const ClusterView&, Plan&plan) { plan.refusals = {{JobId(0)}}; },
            "refused but admitted"},
           {[](const ClusterView&view, Plan&plan) { plan.wake_s = view.now_s; }, "to be woken"},
       }) {
    const absl::Status status = Run([&](const ClusterView& view, Plan& plan) {
      if (view.now_s == 200) c.mistake(view, plan);  // When the third arrives, not before.
    });
    EXPECT_EQ(status.code(),
              c.message.empty() ? absl::StatusCode::kOk : absl::StatusCode::kInternal)
        << c.message;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
    if (c.message == "below its floor") {
      EXPECT_THAT(status.message(),
                  HasSubstr("vandal: at 200.000 s job run-0 (line 2) was planned"));
    }
    if (!c.message.empty()) {
      EXPECT_THAT(status.message(), HasSubstr("vandal"));
      EXPECT_THAT(status.message(), HasSubstr("200.000"));
    }
  }
}

// What the engine takes back from policies that know nothing of cooldowns really is back: each
// decision sees no job that has grown too soon.
TEST_F(ViolationsTest, NobodyGrowsWithinTheCooldown) {
  int taken_back = 0;
  std::vector<int> held(4, 0);
  std::vector<double> since_s(4, 0);
  const absl::Status status = Run(
      [&](const ClusterView& view, Plan& plan) {
        for (size_t i = 0; i < view.jobs.size(); ++i) {
          const JobView& job = view.jobs[i];
          const size_t id = static_cast<size_t>(job.id.value());
          if (job.gpus > held[id] && held[id] > 0) {
            EXPECT_GE(job.last_resize_s, since_s[id] + 150);
          }
          if (job.gpus != held[id]) since_s[id] = job.last_resize_s;
          held[id] = job.gpus;
          // Up and down at every decision.
          plan.shares[i] = i < 2 ? Share{job.gpus == 2 ? 4 : 2, 0} : Share{};
          taken_back += job.gpus == 2 && view.Cooling(job) ? 1 : 0;
        }
      },
      {.cooldown_s = 150});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(taken_back, 0);
}

}  // namespace
}  // namespace rubato

#include "rubato/cluster/placement_audit.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/base/rng.h"
#include "rubato/cluster/placement.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using Held = PlacementAudit::Held;

// Nodes 0 and 1 have GPUs 0 to 7, node 2, of another pool, has 8 to 11.
ClusterSpec TwoPools() { return *ParseClusterShorthand("n2g4:A100+n1g4:T4"); }

// Each mistake is planted once, after a first look at jobs that lie well.
TEST(PlacementAuditTest, NamesEveryMistake) {
  const std::vector<int> zero = {0, 1}, one = {2, 3}, both = {0, 2}, late = {4, 5}, other = {8, 9},
                         mixed = {3, 8}, beyond = {11, 12}, twice = {4, 4}, three = {4, 5, 6};
  struct Case {
    Held held;          // Of job 1, which held GPUs 2 and 3.
    bool said = false;  // Whether the placement says that it changed.
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{JobId(1), 2, 0, one}, false, ""},
           {{JobId(1), 2, 0, one, true}, false, ""},
           {{JobId(1), 3, 0, three}, true, ""},
           {{JobId(1), 3, 0, three, true}, true, ""},  // A pin holds only while the number stays.
           {{JobId(1), 3, 0, one}, true, "3 GPUs in pool 0, holds 2"},
           {{JobId(1), 2, 0, three}, true, "holds 3"},
           {{JobId(1), 2, 0, both}, true, "GPU 0 twice, or beside another job"},
           {{JobId(1), 2, 0, twice}, true, "GPU 4 twice"},
           {{JobId(1), 2, 0, other}, true, "GPU 8 of pool 1"},
           {{JobId(1), 2, 0, mixed}, true, "GPU 8 of pool 1"},
           {{JobId(1), 2, 1, beyond}, true, "GPU 12, which there is not"},
           {{JobId(1), 2, 0, late}, true, "GPU 4 of a node out of service"},
           {{JobId(1), 2, 1, other}, false, "nobody said so"},
           {{JobId(1), 2, 1, other, true}, true, "moved though pinned"},
       }) {
    PlacementAudit audit(TwoPools());
    ASSERT_TRUE(
        audit.Look({{JobId(0), 2, 0, zero}, {JobId(1), 2, 0, one}}, {JobId(0), JobId(1)}).ok());
    if (c.message.find("out of service") != std::string::npos) audit.FailNode(1);
    std::vector<JobId> changed;
    if (c.said) changed.push_back(JobId(1));
    const absl::Status status = audit.Look({{JobId(0), 2, 0, zero}, c.held}, changed);
    EXPECT_EQ(status.ok(), c.message.empty()) << status;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
}

TEST(PlacementAuditTest, ShrinkingIsAChangeToo) {
  const std::vector<int> two = {0, 1}, one = {0};
  PlacementAudit audit(TwoPools());
  ASSERT_TRUE(audit.Look({{JobId(0), 2, 0, two}}, {JobId(0)}).ok());
  EXPECT_THAT(audit.Look({{JobId(0), 1, 0, one}}, {}).message(), HasSubstr("nobody said so"));
}

TEST(PlacementAuditTest, ARepairedNodeIsUsedAgain) {
  const std::vector<int> where = {4, 5};
  PlacementAudit audit(TwoPools());
  audit.FailNode(1);
  EXPECT_FALSE(audit.Look({{JobId(0), 2, 0, where}}, {JobId(0)}).ok());
  audit.RepairNode(1);
  EXPECT_TRUE(audit.Look({{JobId(0), 2, 0, where}}, {JobId(0)}).ok());
}

// Jobs of all sizes come, grow, are pinned and go while nodes fail: the real placement is never
// found wrong.
TEST(PlacementAuditTest, AgreesWithPlacement) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    const ClusterSpec spec = *ParseClusterShorthand("n6g8:A100+n3g4:T4");
    Placement placement(spec);
    PlacementAudit audit(spec);
    std::map<JobId, Placement::Target> jobs;
    for (int step = 0; step < 300; ++step) {
      const int node = static_cast<int>(rng.Below(9));
      if (rng.Chance(0.05)) {
        for (JobId lost : placement.FailNode(node)) jobs.erase(lost);
        audit.FailNode(node);
      } else if (rng.Chance(0.1)) {
        placement.RepairNode(node);
        audit.RepairNode(node);
      }
      const JobId job(static_cast<int64_t>(rng.Below(12)));
      const Placement::Target target{job, static_cast<int>(rng.Below(2)),
                                     static_cast<int>(rng.Below(10))};
      std::vector<JobId> pinned;
      for (const auto& [other, held] : jobs) {
        if (other != job && rng.Chance(0.2)) pinned.push_back(other);
      }
      const auto change = placement.Apply({target}, pinned);
      std::vector<JobId> changed;
      if (change.ok()) {
        jobs[job] = target;
        if (target.gpus == 0) jobs.erase(job);
        changed = change->changed;
      }
      std::vector<Held> held;
      for (const auto& [id, t] : jobs) {
        const bool pin = std::binary_search(pinned.begin(), pinned.end(), id);
        held.push_back({id, t.gpus, t.pool, placement.Gpus(id), pin});
      }
      const absl::Status status = audit.Look(held, changed);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ", step " << step << ": " << status;
    }
  }
}

}  // namespace
}  // namespace rubato

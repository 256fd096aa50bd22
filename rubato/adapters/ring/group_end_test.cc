// Loops that end with a step, and with it their groups.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/elastic_group.h"

namespace rubato {
namespace {

constexpr int64_t kNotYet = std::numeric_limits<int64_t>::max();

struct Case {
  int members = 2;
  bool shared_memory = false;
  bool early_apply = false;
};

class GroupEndTest : public testing::TestWithParam<Case> {
 protected:
  static GroupOptions Options(std::string join) {
    return {.join = join.empty() ? std::vector<std::string>{} : std::vector<std::string>{join},
            .shared_memory = GetParam().shared_memory,
            .microbatches = 4,
            .early_apply = GetParam().early_apply,
            .verdict_timeout = absl::Seconds(5)};
  }

  // Trains until the last step, which the first to see everyone there chooses, and closes.
  static absl::Status Train(std::unique_ptr<ElasticGroup> group, std::atomic<int64_t>& last) {
    std::vector<float> gradients(10, 1.0f);
    while (group->learning() || group->committed() < last) {
      const absl::StatusOr<StepPlan> plan = group->BeginStep(absl::Seconds(20));
      if (!plan.ok()) return plan.status();
      if (!group->AllreduceLast(absl::MakeSpan(gradients)).ok()) continue;
      if (const auto committed = group->Commit(); !committed.ok()) return committed.status();
      int64_t none = kNotYet;
      if (group->view().holders == GetParam().members) {
        last.compare_exchange_strong(none, group->step() + 10);
      }
    }
    // Applied early, a step is known to be committed one later.
    const int64_t more = GetParam().early_apply ? 1 : 0;
    if (group->step() == last + more) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("ended at step ", group->step(), ", not ", last.load()));
  }
};

// None of them is left behind: not even one that sees the last vote when the others have gone, and
// too few are left to agree on anything.
TEST_P(GroupEndTest, EveryoneHasTheLastStep) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int64_t> last = kNotYet;
    std::vector<std::unique_ptr<ElasticGroup>> groups;
    std::string founder;
    for (int i = 0; i < GetParam().members; ++i) {
      auto group = ElasticGroup::Open(Options(founder));
      ASSERT_TRUE(group.ok()) << group.status();
      if (i == 0) founder = (*group)->address();
      groups.push_back(*std::move(group));
    }
    std::vector<std::future<absl::Status>> ends;
    for (auto& group : groups) {
      ends.push_back(std::async(std::launch::async, [&last, group = std::move(group)]() mutable {
        return Train(std::move(group), last);
      }));
    }
    for (auto& end : ends) {
      const absl::Status status = end.get();
      EXPECT_TRUE(status.ok()) << "round " << round << ": " << status;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Planes, GroupEndTest,
                         testing::Values(Case{2, true}, Case{3, true}, Case{2}, Case{3},
                                         Case{2, false, true}, Case{3, false, true}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return absl::StrCat(info.param.members,
                                               info.param.shared_memory ? "Shared" : "Tcp",
                                               info.param.early_apply ? "Early" : "");
                         });

}  // namespace
}  // namespace rubato

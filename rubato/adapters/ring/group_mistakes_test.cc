// Loops with a mistake in them: told so, before anything of it counts.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

enum class Plane { kSharedMemory, kTcp, kTcpEarly };

GroupOptions OptionsOf(Plane plane) {
  return {.quorum = Quorum::kAny,
          .shared_memory = plane == Plane::kSharedMemory,
          .microbatches = 2,
          .early_apply = plane == Plane::kTcpEarly};
}

// One member of two, whose state counts the steps that it has applied.
struct Member {
  int64_t applied = 0;
  std::vector<float> values = std::vector<float>(3000);
  std::unique_ptr<ElasticGroup> group;

  absl::Status Open(Plane plane, const std::vector<std::string>& join) {
    GroupOptions options = OptionsOf(plane);
    options.join = join;
    options.state = {absl::MakeSpan(reinterpret_cast<char*>(&applied), sizeof(applied))};
    options.apply = [this] { ++applied; };
    absl::StatusOr<std::unique_ptr<ElasticGroup>> opened = ElasticGroup::Open(std::move(options));
    if (opened.ok()) group = *std::move(opened);
    return opened.status();
  }
  absl::Span<float> First(size_t count) { return absl::MakeSpan(values).first(count); }

  // Begins the first step that both take together, with the same state.
  absl::Status MeetTheOther() {
    while (true) {
      const absl::Status begun = group->BeginStep().status();
      if (!begun.ok() || group->view().holders == 2) return begun;
      if (group->AllreduceLast(First(1)).ok()) group->Commit().IgnoreError();
    }
  }
};

// ABORTED if the step counts for nobody.
absl::Status TakeStep(Member& member, size_t floats) {
  RUBATO_RETURN_IF_ERROR(member.group->AllreduceLast(member.First(floats)));
  RUBATO_ASSIGN_OR_RETURN(const bool counts, member.group->Commit());
  return counts ? absl::OkStatus() : absl::AbortedError("again");
}

class GroupMistakesTest : public testing::TestWithParam<Plane> {
 protected:
  using Call = std::function<absl::Status(Member&)>;

  // One calls what it should, and the other something else: neither gets through a step. Both are
  // told why; over TCP one may see only that the other has ended.
  void ExpectNothingCounts(const Call& right, const Call& wrong) {
    std::atomic<int> told = 0;
    std::latch seen(2);
    const bool both = GetParam() == Plane::kSharedMemory;
    const auto take_part = [&](Member& member, const Call& call) {
      absl::Status status = member.MeetTheOther();
      EXPECT_TRUE(status.ok()) << status;
      const int64_t before = member.group->step();
      for (int i = 0; i < 3 && status.ok(); ++i) {
        status = call(member);
        if (status.ok()) status = member.group->BeginStep().status();
      }
      EXPECT_EQ(member.group->step(), before);
      if (absl::IsInternal(status)) ++told;
      if (!absl::IsAborted(status) || both) {
        EXPECT_TRUE(absl::IsInternal(status)) << status;
      }
      if (both) {
        EXPECT_TRUE(absl::IsInternal(member.group->Commit().status())) << "it stays so";
        EXPECT_TRUE(absl::IsInternal(member.group->BeginStep().status())) << "it stays so";
        seen.arrive_and_wait();
      }
      member.group.reset();
    };
    Member founder, joiner;
    ASSERT_TRUE(founder.Open(GetParam(), {}).ok());
    ASSERT_TRUE(joiner.Open(GetParam(), {founder.group->address()}).ok());
    std::thread other([&] { take_part(joiner, wrong); });
    take_part(founder, right);
    other.join();
    EXPECT_GE(told, both ? 2 : 1);
    EXPECT_EQ(founder.applied, joiner.applied);
  }
};

const auto kStep = [](Member& member) { return TakeStep(member, 2000); };

TEST_P(GroupMistakesTest, OneMoreSum) {
  ExpectNothingCounts(kStep, [](Member& member) {
    RUBATO_RETURN_IF_ERROR(member.group->Allreduce(member.First(2000)));
    return kStep(member);
  });
}

// As large as a vote is over TCP.
TEST_P(GroupMistakesTest, OneMoreSumOfTwoNumbers) {
  const auto step = [](Member& member) { return TakeStep(member, 2); };
  ExpectNothingCounts(step, [step](Member& member) {
    RUBATO_RETURN_IF_ERROR(member.group->Allreduce(member.First(2)));
    return step(member);
  });
}

// Both go through memory at once; one does, and the other in parts.
TEST_P(GroupMistakesTest, ALargerSum) {
  for (const size_t floats : {2001, 3000}) {
    ExpectNothingCounts(kStep, [floats](Member& member) { return TakeStep(member, floats); });
  }
}

TEST_P(GroupMistakesTest, OneMoreBarrier) {
  ExpectNothingCounts(kStep, [](Member& member) {
    RUBATO_RETURN_IF_ERROR(member.group->Barrier());
    return kStep(member);
  });
}

std::string NameOf(const testing::TestParamInfo<Plane>& info) {
  const char* const names[] = {"SharedMemory", "Tcp", "TcpEarly"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Planes, GroupMistakesTest,
                         testing::Values(Plane::kSharedMemory, Plane::kTcp, Plane::kTcpEarly),
                         NameOf);

}  // namespace
}  // namespace rubato

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

#include "absl/strings/match.h"
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

using Call = std::function<absl::Status(Member&)>;

class GroupMistakesTest : public testing::TestWithParam<Plane> {
 protected:
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

absl::Status Start(Member& member) {
  RUBATO_RETURN_IF_ERROR(member.group->StartAllreduce(member.First(2)));
  return member.group->Wait();
}

// What belongs to a step, and what it says without one.
const std::vector<std::pair<std::string, Call>> kCalls = {
    {"Allreduce", [](Member& m) { return m.group->Allreduce(m.First(2)); }},
    {"AllreduceLast", [](Member& m) { return m.group->AllreduceLast(m.First(2)); }},
    {"AllreduceLastExactly", [](Member& m) { return m.group->AllreduceLastExactly(m.First(2)); }},
    {"StartAllreduce", Start},
    {"AllreduceCanonical",
     [](Member& m) { return m.group->AllreduceCanonical(CanonicalSum(2, 0), m.First(2)); }},
    {"Broadcast",
     [](Member& m) {
       return m.group->Broadcast({reinterpret_cast<char*>(m.values.data()), 8}, 0);
     }},
    {"Barrier", [](Member& m) { return m.group->Barrier(); }},
};

void ExpectRefused(Member& member, absl::string_view why) {
  for (const auto& [name, call] : kCalls) {
    member.values.assign(member.values.size(), 7.0f);
    const absl::Status status = call(member);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << name << ": " << status;
    EXPECT_TRUE(absl::StrContains(status.message(), why)) << name << ": " << status;
    EXPECT_EQ(member.values, std::vector<float>(member.values.size(), 7.0f)) << name;
  }
}

// Before the first step, and after one has ended: the buffer stays as it is.
TEST_P(GroupMistakesTest, WithoutAStepNothingIsSummed) {
  Member member;
  ASSERT_TRUE(member.Open(GetParam(), {}).ok());
  ExpectRefused(member, "without a BeginStep() before it");
  for (int64_t step = 1; step <= 2; ++step) {
    ASSERT_TRUE(member.group->BeginStep().ok());
    ASSERT_TRUE(TakeStep(member, 2).ok());
    ExpectRefused(member, "without a BeginStep() before it");
    EXPECT_EQ(member.applied, step);
  }
}

// Its votes may be cast: the step is to be ended, and then is as if nothing had been called.
TEST_P(GroupMistakesTest, AfterTheLastSumOnlyCommitMayCome) {
  Member member;
  ASSERT_TRUE(member.Open(GetParam(), {}).ok());
  for (int64_t step = 1; step <= 2; ++step) {
    ASSERT_TRUE(member.group->BeginStep().ok());
    ASSERT_TRUE(member.group->AllreduceLast(member.First(2)).ok());
    ExpectRefused(member, "Commit() must come first");
    const absl::Status begun = member.group->BeginStep().status();
    EXPECT_EQ(begun.code(), absl::StatusCode::kFailedPrecondition) << begun;
    EXPECT_TRUE(absl::StrContains(begun.message(), "Commit() must come first")) << begun;
    const absl::StatusOr<bool> counts = member.group->Commit();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_TRUE(*counts);
    EXPECT_EQ(member.applied, step);
  }
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

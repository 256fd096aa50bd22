// A training loop in C that uses every call there is, with others who do the same.
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/adapters/ring/elastic_group_c.h"

namespace {

constexpr int kMicrobatches = 12;
constexpr int kMembers = 3;
constexpr double kPatience = 120;

// What the members of one group tell each other beside it, to end together.
struct Story {
  std::atomic<int> level{0};      // How many have trained with all the others.
  std::atomic<bool> left{false};  // One has gone, as it asked to.
  std::atomic<int64_t> last = std::numeric_limits<int64_t>::max();
  std::mutex mu;
  std::map<std::pair<uint64_t, int64_t>, int> at_barrier;  // How many came, by view and step.
};

// The sum over all microbatches of a step, into buffer `which`: nobody's share of them shows.
float SumOf(int64_t step, int which) {
  const auto each = static_cast<float>(which * kMicrobatches);
  return static_cast<float>(step % 5 + 1) * (each + kMicrobatches * (kMicrobatches + 1) / 2.0F);
}

class Loop {
 public:
  Loop(Story& story, bool tcp) : story_(story), tcp_(tcp) {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].resize(i < 2 ? 1000 : 70'000);
  }
  ~Loop() {
    if (group_ != nullptr) rubato_group_close(group_);
  }

  // `join` may be null.
  void Open(const char* join) {
    rubato_group_options options = RUBATO_GROUP_OPTIONS_INIT;
    void* const state[] = {state_.data()};
    const size_t bytes[] = {sizeof(state_)};
    options.join = &join;
    options.join_count = join != nullptr ? 1 : 0;
    options.microbatches = kMicrobatches;
    options.state = state;
    options.state_bytes = bytes;
    options.state_count = 1;
    options.apply = Apply;
    options.context = this;
    options.quorum_any = 1;
    options.no_shared_memory = tcp_ ? 1 : 0;
    group_ = rubato_group_open(&options);
    ASSERT_NE(group_, nullptr) << rubato_group_error(nullptr);
  }
  std::string address() { return rubato_group_address(group_); }

  // Trains until the others have agreed on the last step, or, if it is the one who leaves, until it
  // has left.
  void Run(bool leaves) {
    int together = 0;
    while (rubato_group_step(group_) < story_.last || rubato_group_learning(group_) != 0) {
      rubato_step step = {};
      const int begun = rubato_group_begin_step(group_, kPatience, &step);
      if (begun == RUBATO_LEFT) break;
      ASSERT_EQ(begun, 0) << rubato_group_error(group_);
      ExpectMembers(step);
      const int result = Take(step);
      if (result == RUBATO_AGAIN) continue;
      ASSERT_EQ(result, 0) << rubato_group_error(group_);
      ExpectCounted(step);
      const bool all = step.size == kMembers && rubato_group_learning(group_) == 0;
      if (all && ++together == 5) ++story_.level;
      if (leaves && story_.level == kMembers) rubato_group_leave(group_);
      if (!story_.left || step.size != kMembers - 1) continue;
      int64_t none = std::numeric_limits<int64_t>::max();
      story_.last.compare_exchange_strong(none, step.step + 5);
    }
    if (leaves) story_.left = true;
    std::array<float, 4> expected = {};
    for (int64_t step = 1; step <= rubato_group_step(group_); ++step) {
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = expected[i] / 2 + SumOf(step, static_cast<int>(i));
      }
    }
    EXPECT_EQ(state_, expected) << "after step " << rubato_group_step(group_);
  }

 private:
  static void Apply(void* context) {
    auto* const loop = static_cast<Loop*>(context);
    for (size_t i = 0; i < loop->state_.size(); ++i) {
      loop->state_[i] = loop->state_[i] / 2 + loop->buffers_[i].back();
    }
  }

  // 0, or what the first call said that failed.
  int Take(const rubato_step& step) {
    auto& [whole, first, second, last] = buffers_;
    for (size_t i = 0; i < buffers_.size(); ++i) Compute(step, static_cast<int>(i));
    if (const int rc = rubato_group_allreduce(group_, whole.data(), whole.size())) return rc;
    ExpectSum(step, 0);
    if (const int rc = rubato_group_start_allreduce(group_, first.data(), first.size())) return rc;
    if (const int rc = rubato_group_wait(group_)) return rc;
    ExpectSum(step, 1);
    if (const int rc = Broadcast(step)) return rc;
    if (const int rc = Barrier(step)) return rc;
    if (const int rc = rubato_group_start_allreduce(group_, second.data(), second.size()))
      return rc;
    if (const int rc = rubato_group_allreduce_last(group_, last.data(), last.size())) return rc;
    const int rc = rubato_group_commit(group_);
    for (int i = 2; i < 4 && rc == 0; ++i) ExpectSum(step, i);  // Commit has waited for both.
    return rc;
  }

  // One without a share of the step adds nothing, whatever it has there.
  void Compute(const rubato_step& step, int which) {
    float sum = step.begin == step.end ? 1e6F : 0;
    for (int m = step.begin; m < step.end; ++m) {
      sum += static_cast<float>(step.step % 5 + 1) * static_cast<float>(m + 1 + which);
    }
    std::vector<float>& buffer = buffers_[static_cast<size_t>(which)];
    std::fill(buffer.begin(), buffer.end(), sum);
  }

  void ExpectSum(const rubato_step& step, int which) {
    EXPECT_THAT(buffers_[static_cast<size_t>(which)], testing::Each(SumOf(step.step, which)));
  }

  // The root is another at every step; who is the root reads its own.
  int Broadcast(const rubato_step& step) {
    const int root = static_cast<int>(step.step % step.size);
    const auto word = [&](int rank) {
      return "step " + std::to_string(step.step) + " by " + std::to_string(rank) +
             std::string(99, '.');
    };
    std::string bytes = word(step.rank);
    bytes.resize(100);
    const int rc = rubato_group_broadcast(group_, bytes.data(), bytes.size(), root);
    if (rc == 0) {
      EXPECT_EQ(bytes, word(root).substr(0, 100));
    }
    return rc;
  }

  // Nobody goes on before all have come.
  int Barrier(const rubato_step& step) {
    const auto came = [&](int more) {
      const std::lock_guard<std::mutex> lock(story_.mu);
      return story_.at_barrier[{step.view, step.step}] += more;
    };
    came(1);
    const int rc = rubato_group_barrier(group_);
    if (rc == 0) {
      EXPECT_GE(came(0), step.size) << "step " << step.step;
    }
    return rc;
  }

  void ExpectMembers(const rubato_step& step) {
    EXPECT_EQ(rubato_group_size(group_), step.size);
    std::set<std::string> addresses;
    for (int rank = 0; rank < step.size; ++rank) {
      const char* const member = rubato_group_member(group_, rank);
      ASSERT_NE(member, nullptr);
      addresses.insert(member);
    }
    EXPECT_EQ(addresses.size(), static_cast<size_t>(step.size));
    EXPECT_EQ(rubato_group_member(group_, step.rank), address());
    EXPECT_EQ(rubato_group_member(group_, step.size), nullptr);
    EXPECT_EQ(rubato_group_member(group_, -1), nullptr);
  }

  // A step that commit calls applied at all can no longer be undone.
  void ExpectCounted(const rubato_step& step) {
    EXPECT_EQ(rubato_group_committed(group_), step.step);
    if (rubato_group_learning(group_) == 0) {
      EXPECT_EQ(rubato_group_step(group_), step.step);
    }
  }

  Story& story_;
  const bool tcp_;
  rubato_group* group_ = nullptr;
  std::array<std::vector<float>, 4> buffers_;
  std::array<float, 4> state_ = {};
};

class GroupCallsTest : public testing::TestWithParam<bool> {};

// Two join one, all take steps with every call, the last to come leaves, and the others go on: each
// sum is whole, each state what the sums come to, whoever had which share.
TEST_P(GroupCallsTest, EachDoesWhatItSays) {
  Story story;
  Loop founder(story, GetParam());
  ASSERT_NO_FATAL_FAILURE(founder.Open(nullptr));
  const std::string door = founder.address();
  std::vector<std::thread> others;
  for (const bool leaves : {false, true}) {
    others.emplace_back([&, leaves] {
      Loop joiner(story, GetParam());
      joiner.Open(door.c_str());
      joiner.Run(leaves);
    });
  }
  founder.Run(/*leaves=*/false);
  for (std::thread& other : others) other.join();
  EXPECT_TRUE(story.left);
}

INSTANTIATE_TEST_SUITE_P(Planes, GroupCallsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tcp" : "SharedMemory"; });

// A root that is nobody is a mistake in the loop, and told.
TEST(GroupCallsTest, ARootThatIsNobodyIsAnError) {
  rubato_group_options options = RUBATO_GROUP_OPTIONS_INIT;
  options.microbatches = 1;
  rubato_group* const group = rubato_group_open(&options);
  ASSERT_NE(group, nullptr) << rubato_group_error(nullptr);
  rubato_step step = {};
  ASSERT_EQ(rubato_group_begin_step(group, kPatience, &step), 0) << rubato_group_error(group);
  char byte = 1;
  for (const int root : {-1, 1}) {
    EXPECT_EQ(rubato_group_broadcast(group, &byte, 1, root), RUBATO_FAILED) << root;
    EXPECT_THAT(rubato_group_error(group), testing::HasSubstr("root"));
  }
  rubato_group_close(group);
}

}  // namespace

// What C programs see: options of other versions, and what is said to those who wait.
#include "rubato/adapters/ring/elastic_group_c.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What the first version had.
constexpr size_t kFirstBytes = offsetof(rubato_group_options, first_step);

// Empty if it opens.
std::string ErrorOf(const rubato_group_options& options) {
  rubato_group* group = rubato_group_open(&options);
  if (group == nullptr) return rubato_group_error(nullptr);
  rubato_group_close(group);
  return "";
}

rubato_group_options Good() {
  rubato_group_options options = RUBATO_GROUP_OPTIONS_INIT;
  options.microbatches = 1;
  return options;
}

// A caller that knows more than this library, by eight bytes.
struct Newer {
  rubato_group_options known = Good();
  int64_t added = 0;
  Newer() { known.size = sizeof(Newer); }
};

TEST(GroupOptionsTest, OfThisVersion) {
  EXPECT_EQ(Good().size, sizeof(rubato_group_options));
  EXPECT_EQ(ErrorOf(Good()), "");
}

// All zero, as callers began before there was a size. What lies behind the first version is not
// looked at: here it cannot be.
TEST(GroupOptionsTest, OfTheFirstVersionAreReadToTheirEnd) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<char*>(memory) + page, page, PROT_NONE), 0);
  rubato_group_options first = Good();
  first.size = 0;
  first.first_step = -1;  // Not there yet, and not to be looked at.
  char* const place = static_cast<char*>(memory) + page - kFirstBytes;
  std::memcpy(place, &first, kFirstBytes);
  EXPECT_EQ(ErrorOf(*reinterpret_cast<const rubato_group_options*>(place)), "");
  munmap(memory, 2 * page);
}

TEST(GroupOptionsTest, OfANewerVersionAreTakenIfWhatIsNewIsNotUsed) {
  Newer newer;
  EXPECT_EQ(ErrorOf(newer.known), "");
  newer.added = int64_t{1} << 40;
  EXPECT_THAT(ErrorOf(newer.known),
              AllOf(HasSubstr("this library knows the first"), HasSubstr("is set")));
}

// As of a caller that has no size at all and begins with an address.
TEST(GroupOptionsTest, NoSizeIsRefused) {
  rubato_group_options options = Good();
  for (const size_t size : {size_t{8}, kFirstBytes - 1, size_t{0x7ffe12345678}}) {
    options.size = size;
    EXPECT_THAT(ErrorOf(options), HasSubstr("begin with RUBATO_GROUP_OPTIONS_INIT")) << size;
  }
  options = Good();
  options.reserved = 1;
  EXPECT_THAT(ErrorOf(options), HasSubstr("reserved must be 0"));
}

// What is not there is named, and not looked at.
TEST(GroupOptionsTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(rubato_group_open(nullptr), nullptr);
  EXPECT_THAT(rubato_group_error(nullptr), HasSubstr("options is null"));
  char byte = 0;
  void* const none[] = {&byte, nullptr};
  const size_t bytes[] = {1, 100};
  const size_t empty[] = {1, 0};
  const char* const nobody[] = {"127.0.0.1:1", nullptr};
  rubato_group_options options = Good();
  options.state_count = 2;
  options.state_bytes = bytes;
  EXPECT_THAT(ErrorOf(options), HasSubstr("state_count is 2, but state is null"));
  options.state = none;
  EXPECT_THAT(ErrorOf(options), HasSubstr("state[1] is null, but has 100 bytes"));
  options.state_bytes = empty;
  EXPECT_EQ(ErrorOf(options), "");
  options.state_bytes = nullptr;
  EXPECT_THAT(ErrorOf(options), HasSubstr("state_count is 2, but state_bytes is null"));
  options = Good();
  options.join_count = 2;
  EXPECT_THAT(ErrorOf(options), HasSubstr("join_count is 2, but join is null"));
  options.join = nobody;
  EXPECT_THAT(ErrorOf(options), HasSubstr("join[1] is null"));
  options = Good();
  options.verdict_timeout_seconds = std::nan("");
  EXPECT_THAT(ErrorOf(options), HasSubstr("verdict_timeout_seconds is not a number"));
}

// A loop that goes on from its own checkpoint numbers its steps from there, and so do those who
// join it, whatever they say themselves.
TEST(GroupOptionsTest, AFounderGoesOnFromItsCheckpoint) {
  struct Loop {
    float weight = 0, gradient = 1;
    rubato_group* group = nullptr;
    static void Apply(void* context) {
      auto* const loop = static_cast<Loop*>(context);
      rubato_group_before_change(loop->group, &loop->weight, sizeof(loop->weight));
      loop->weight += 1;
    }
  };
  std::atomic<int64_t> last = std::numeric_limits<int64_t>::max();  // Until both have the state.
  const auto train = [&](rubato_group_options options, Loop& loop, auto opened) {
    void* const state[] = {&loop.weight};
    const size_t bytes[] = {sizeof(loop.weight)};
    options.state = state;
    options.state_bytes = bytes;
    options.state_count = 1;
    options.apply = Loop::Apply;
    options.names_changes = 1;
    options.context = &loop;
    options.quorum_any = 1;
    rubato_group* group = loop.group = rubato_group_open(&options);
    ASSERT_NE(group, nullptr) << rubato_group_error(nullptr);
    opened(group);
    rubato_step step;
    while (rubato_group_step(group) < last || rubato_group_learning(group) != 0) {
      ASSERT_EQ(rubato_group_begin_step(group, 20, &step), 0) << rubato_group_error(group);
      EXPECT_GT(step.step, 40);
      if (rubato_group_allreduce_last(group, &loop.gradient, 1) == 0) rubato_group_commit(group);
      int64_t none = std::numeric_limits<int64_t>::max();
      const bool both = options.join_count > 0 && rubato_group_learning(group) == 0;
      if (both) last.compare_exchange_strong(none, rubato_group_step(group) + 5);
    }
    EXPECT_FLOAT_EQ(loop.weight, 100 + static_cast<float>(rubato_group_step(group) - 40));
    rubato_group_close(group);
  };
  rubato_group_options options = Good();
  options.first_step = 40;
  Loop founder{.weight = 100};
  Loop joiner;
  std::thread other;
  train(options, founder, [&](rubato_group* group) {
    EXPECT_EQ(rubato_group_step(group), 40);
    other = std::thread([&, address = std::string(rubato_group_address(group))] {
      const char* const join[] = {address.c_str()};
      rubato_group_options joins = Good();
      joins.join = join;
      joins.join_count = 1;
      joins.first_step = 7;
      train(joins, joiner, [](rubato_group*) {});
    });
  });
  other.join();
  options.first_step = -2;
  EXPECT_THAT(ErrorOf(options), HasSubstr("first_step is -2"));
}

// Who looks every tenth of a second hears how long it has waited, where, and what to do.
TEST(GroupErrorTest, WhoWaitsHearsHowLongAndForWhat) {
  const char* const join[] = {"127.0.0.1:1"};
  rubato_group_options options = Good();
  options.join = join;
  options.join_count = 1;
  rubato_group* group = rubato_group_open(&options);
  ASSERT_NE(group, nullptr);
  rubato_step step;
  EXPECT_EQ(rubato_group_begin_step(group, 0.1, &step), RUBATO_LATE);
  const std::string first = rubato_group_error(group);
  EXPECT_THAT(first, AllOf(HasSubstr("no view to train in after 100ms"),
                           HasSubstr("nobody answers at 127.0.0.1:1: start a member there")));
  std::string later;
  for (int i = 0; i < 40 && later.find("after 2s") == std::string::npos; ++i) {
    ASSERT_EQ(rubato_group_begin_step(group, 0.1, &step), RUBATO_LATE);
    later = rubato_group_error(group);
  }
  EXPECT_THAT(later, HasSubstr("no view to train in after 2s; nobody answers at"));
  rubato_group_close(group);
}

// Told, and nothing has happened: the same step can then be taken as it should.
TEST(GroupStepTest, WhatIsMissingInACallIsNamed) {
  const rubato_group_options options = Good();
  rubato_group* group = rubato_group_open(&options);
  ASSERT_NE(group, nullptr) << rubato_group_error(nullptr);
  const auto expect_failed = [&](int rc, const char* why) {
    EXPECT_EQ(rc, RUBATO_FAILED) << why;
    EXPECT_THAT(rubato_group_error(group), HasSubstr(why));
  };
  rubato_step step = {};
  expect_failed(rubato_group_begin_step(group, 60, nullptr), "step is null");
  expect_failed(rubato_group_begin_step(group, std::nan(""), &step), "is not a number");
  ASSERT_EQ(rubato_group_begin_step(group, 60, &step), 0) << rubato_group_error(group);
  expect_failed(rubato_group_allreduce(group, nullptr, 3), "values is null, but has 3");
  expect_failed(rubato_group_start_allreduce(group, nullptr, 3), "values is null, but has 3");
  expect_failed(rubato_group_broadcast(group, nullptr, 3, 0), "bytes is null, but has 3");
  expect_failed(rubato_group_allreduce_last(group, nullptr, 3), "values is null, but has 3");
  rubato_group_before_change(group, nullptr, 3);
  float value = 1;
  ASSERT_EQ(rubato_group_allreduce_last(group, &value, 1), 0) << rubato_group_error(group);
  EXPECT_EQ(rubato_group_commit(group), 0) << rubato_group_error(group);
  rubato_group_close(group);
}

TEST(GroupStepTest, NoGroupIsAnError) {
  rubato_step step = {};
  float value = 0;
  const int results[] = {rubato_group_begin_step(nullptr, 1, &step),
                         rubato_group_allreduce(nullptr, &value, 1),
                         rubato_group_allreduce_last(nullptr, &value, 1),
                         rubato_group_start_allreduce(nullptr, &value, 1),
                         rubato_group_wait(nullptr),
                         rubato_group_broadcast(nullptr, &value, 1, 0),
                         rubato_group_barrier(nullptr),
                         rubato_group_commit(nullptr),
                         rubato_group_over(nullptr),
                         static_cast<int>(rubato_group_step(nullptr)),
                         static_cast<int>(rubato_group_committed(nullptr)),
                         rubato_group_size(nullptr),
                         rubato_group_learning(nullptr),
                         rubato_group_encrypted(nullptr)};
  EXPECT_THAT(results, testing::Each(RUBATO_FAILED));
  EXPECT_THAT(rubato_group_error(nullptr), HasSubstr("group is null"));
  EXPECT_EQ(rubato_group_member(nullptr, 0), nullptr);
  EXPECT_EQ(rubato_group_address(nullptr), nullptr);
  rubato_group_before_change(nullptr, &value, 1);
  rubato_group_leave(nullptr);
  rubato_group_say_finished(nullptr);
  rubato_group_close(nullptr);
}

// Of a loop in C++: it may not come out of a library for C.
TEST(GroupStepTest, AnExceptionIsAnError) {
  rubato_group_options options = Good();
  options.apply = [](void*) { throw std::runtime_error("no rate is set"); };
  options.on_change = [](void* seen, uint64_t, int) {
    if (!std::exchange(*static_cast<bool*>(seen), true)) throw 1;
  };
  bool seen = false;
  options.context = &seen;
  rubato_group* group = rubato_group_open(&options);
  ASSERT_NE(group, nullptr) << rubato_group_error(nullptr);
  rubato_step step = {};
  EXPECT_EQ(rubato_group_begin_step(group, 60, &step), RUBATO_FAILED);
  EXPECT_THAT(rubato_group_error(group), HasSubstr("an exception"));
  ASSERT_EQ(rubato_group_begin_step(group, 60, &step), 0) << rubato_group_error(group);
  float value = 1;
  ASSERT_EQ(rubato_group_allreduce_last(group, &value, 1), 0);
  EXPECT_EQ(rubato_group_commit(group), RUBATO_FAILED);
  EXPECT_THAT(rubato_group_error(group), HasSubstr("no rate is set"));
  rubato_group_close(group);
}

// A loop with a mistake in it: told so, not ended, and it may go on.
TEST(GroupStepTest, ACommitWithoutAStepIsAnError) {
  const rubato_group_options options = Good();
  rubato_group* group = rubato_group_open(&options);
  ASSERT_NE(group, nullptr) << rubato_group_error(nullptr);
  const auto is_refused = [&] {
    EXPECT_EQ(rubato_group_commit(group), RUBATO_FAILED);
    EXPECT_THAT(rubato_group_error(group), HasSubstr("Commit() without a BeginStep()"));
  };
  is_refused();
  rubato_step step = {};
  float value = 1;
  for (int64_t taken = 1; taken <= 2; ++taken) {
    ASSERT_EQ(rubato_group_begin_step(group, 60, &step), 0) << rubato_group_error(group);
    ASSERT_EQ(rubato_group_allreduce_last(group, &value, 1), 0);
    ASSERT_EQ(rubato_group_commit(group), 0);
    is_refused();
    EXPECT_EQ(rubato_group_step(group), taken);
  }
  rubato_group_close(group);
}

}  // namespace

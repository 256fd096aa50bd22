// What C programs see: options of other versions, and what is said to those who wait.
#include "rubato/adapters/ring/elastic_group_c.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  char* const place = static_cast<char*>(memory) + page - sizeof(first);
  std::memcpy(place, &first, sizeof(first));
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
  for (const size_t size : {size_t{8}, sizeof(options) - 1, size_t{0x7ffe12345678}}) {
    options.size = size;
    EXPECT_THAT(ErrorOf(options), HasSubstr("begin with RUBATO_GROUP_OPTIONS_INIT")) << size;
  }
  options = Good();
  options.reserved = 1;
  EXPECT_THAT(ErrorOf(options), HasSubstr("reserved must be 0"));
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

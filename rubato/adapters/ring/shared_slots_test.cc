#include "rubato/adapters/ring/shared_slots.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr uint64_t kView = uint64_t{7} << 32;

TEST(SharedSlotsTest, HasReached) {
  EXPECT_TRUE(SharedSlots::Reached(kView | 5, kView | 5));
  EXPECT_TRUE(SharedSlots::Reached(kView | 6, kView | 5));
  EXPECT_FALSE(SharedSlots::Reached(kView | 4, kView | 5));
  EXPECT_FALSE(SharedSlots::Reached((uint64_t{8} << 32) | 5, kView | 5)) << "of another view";
  EXPECT_FALSE(SharedSlots::Reached(0, kView | 5)) << "never written";
}

// At 10,000 barriers a second a view's count comes round after five days.
TEST(SharedSlotsTest, CountsPastTheLastNumber) {
  EXPECT_TRUE(SharedSlots::Reached(kView | 0, kView | 0xffffffff));
  EXPECT_TRUE(SharedSlots::Reached(kView | 3, kView | 0xfffffffe));
  EXPECT_FALSE(SharedSlots::Reached(kView | 0xffffffff, kView | 0)) << "an earlier vote";
}

}  // namespace
}  // namespace rubato

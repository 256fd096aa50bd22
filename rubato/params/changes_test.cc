// What changed since the last cut.
#include "rubato/params/changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "rubato/base/rng.h"

namespace {

size_t largest = 0;  // That was asked for at once, in bytes.

void* Allocate(size_t bytes) {
  largest = std::max(largest, bytes);
  void* memory = malloc(bytes);
  if (memory == nullptr) abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }

namespace rubato {
namespace {

// A push waits while the marks grow: they must not be copied as a whole, however many there are.
TEST(RowChangesTest, MarksOfAGrowingTableStayWhereTheyAre) {
  RowChanges changes;
  (void)changes.Cut(0);
  largest = 0;
  for (uint32_t number = 0; number < 50'000'000; number += 50) changes.Mark(number);
  EXPECT_LE(largest, size_t{1} << 20);
  EXPECT_EQ(changes.rows(), 1'000'000u);
}

TEST(RowChangesTest, AgreesWithASet) {
  Rng rng(8);
  RowChanges now, before;
  std::set<uint32_t> expected;
  (void)now.Cut(1000);
  for (int cut = 0; cut < 40; ++cut) {
    const bool joins = rng.Below(2) == 0;
    if (!joins) expected.clear();
    before = now.Cut(static_cast<uint32_t>(rng.Below(3'000'000)));
    for (int i = 0; i < 200; ++i) {
      const auto number = static_cast<uint32_t>(rng.Below(4'000'000));
      now.Mark(number);
      expected.insert(number);
    }
    if (joins) now.Join(std::move(before));
    ASSERT_EQ(now.rows(), expected.size());
    for (const uint32_t number : expected) ASSERT_TRUE(now.Has(number));
    ASSERT_FALSE(now.Has(4'000'000));
  }
}

}  // namespace
}  // namespace rubato

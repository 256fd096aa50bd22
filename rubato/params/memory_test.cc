#include "rubato/params/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace rubato {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t SmallPage() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Pages of `range` that are there, each counted as small ones.
size_t PagesThere(const MemoryRange& range) {
  std::vector<unsigned char> there(range.bytes / SmallPage());
  EXPECT_EQ(mincore(range.begin, range.bytes, there.data()), 0);
  return static_cast<size_t>(
      std::count_if(there.begin(), there.end(), [](auto t) { return t & 1; }));
}

// Huge pages on which a process may ask to have its memory, or "[never]".
bool SystemHasHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(file, text) && text.find("[never]") == std::string::npos;
}

class MemoryTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 4 * kHugePage;
  void SetUp() override {
    auto region = Region::Reserve(memory_, kBytes);
    ASSERT_TRUE(region.ok()) << region.status();
    region_ = *std::move(region);
  }
  MemoryRange HugePage(size_t i) const { return {region_.data() + i * kHugePage, kHugePage}; }

  SystemMemory memory_;
  Region region_;
};

TEST_F(MemoryTest, WhatIsHeldBackIsTouchedByTheSmallPage) {
  HoldBack({region_.data() + 1, kBytes - 1});  // The first huge page is in use.
  region_.data()[2 * kHugePage + 7] = 'a';
  EXPECT_EQ(PagesThere(HugePage(2)), 1);
  region_.data()[7] = 'a';
  if (!SystemHasHugePages()) GTEST_SKIP() << "no huge pages here";
  EXPECT_EQ(PagesThere(HugePage(0)), kHugePage / SmallPage());
}

TEST_F(MemoryTest, PopulatedMemoryIsThere) {
  HoldBack({region_.data(), kBytes});
  Populate({region_.data() + kHugePage + 100, kHugePage});  // Parts of the second and the third.
  EXPECT_EQ(PagesThere(HugePage(0)), 0);
  EXPECT_EQ(PagesThere(HugePage(1)), kHugePage / SmallPage());
  EXPECT_EQ(PagesThere(HugePage(2)), kHugePage / SmallPage());
  EXPECT_EQ(PagesThere(HugePage(3)), 0);
  region_.data()[0] = 'a';  // Still held back.
  EXPECT_EQ(PagesThere(HugePage(0)), 1);
}

// Who fills a page is left alone; what was filled keeps what it holds.
TEST_F(MemoryTest, WhoIsFasterKeepsWhatItWrote) {
  HoldBack({region_.data(), kBytes});
  std::fill_n(region_.data(), kHugePage + 7, 'a');
  Populate({region_.data(), 3 * kHugePage});
  EXPECT_EQ(PagesThere(HugePage(1)), 1);
  EXPECT_EQ(PagesThere(HugePage(2)), kHugePage / SmallPage());
  EXPECT_EQ(std::count(region_.data(), region_.data() + kBytes, 'a'), kHugePage + 7);
  EXPECT_EQ(std::count(region_.data(), region_.data() + kBytes, 0), kBytes - kHugePage - 7);
}

}  // namespace
}  // namespace rubato

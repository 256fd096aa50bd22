#include "rubato/adapters/posix/shared_area.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

using testing::HasSubstr;
using Others = SharedArea::Others;

constexpr size_t kBytes = size_t{1} << 20;

FileDescriptor Memory(size_t bytes, int seals) {
  FileDescriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

std::string WhyNot(FileDescriptor file) {
  const auto area = SharedArea::Open(std::move(file), Others::kWrite);
  EXPECT_TRUE(absl::IsInvalidArgument(area.status())) << area.status();
  return std::string(area.status().message());
}

// What cannot be counted on to stay as long as it is, is not touched.
TEST(SharedAreaTest, OnlySealedMemoryIsTaken) {
  EXPECT_THAT(WhyNot(Memory(kBytes, 0)), HasSubstr("not sealed against shrinking"));
  EXPECT_THAT(WhyNot(Memory(kBytes, F_SEAL_GROW)), HasSubstr("not sealed against shrinking"));
  EXPECT_THAT(WhyNot(FileDescriptor(open("/proc/self/exe", O_RDONLY | O_CLOEXEC))),
              HasSubstr("no file of memory"));
  EXPECT_THAT(WhyNot(FileDescriptor()), HasSubstr("no file of memory"));
  for (const size_t bytes : {size_t{0}, kBytes + 1, kSharedAreaBytesMax + kSharedGrain}) {
    EXPECT_THAT(WhyNot(Memory(bytes, F_SEAL_SHRINK)),
                HasSubstr("it has " + std::to_string(bytes) + " bytes"));
  }
  FileDescriptor huge(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (huge.valid()) {
    ASSERT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_THAT(WhyNot(std::move(huge)), HasSubstr("not of ordinary pages"));
  }
  EXPECT_TRUE(SharedArea::Open(Memory(kBytes, F_SEAL_SHRINK), Others::kWrite).ok());
}

TEST(SharedAreaTest, BothSeeTheSameAndItsSizeStays) {
  const auto made = SharedArea::Make(kBytes, Others::kWrite);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto seen = SharedArea::Open(FileDescriptor(dup((*made)->file())), Others::kWrite);
  ASSERT_TRUE(seen.ok()) << seen.status();
  (*made)->data()[kBytes - 1] = 'x';
  EXPECT_EQ((*seen)->data()[kBytes - 1], 'x');
  (*seen)->data()[0] = 'y';
  EXPECT_EQ((*made)->data()[0], 'y');
  EXPECT_NE(ftruncate((*made)->file(), 0), 0);
  EXPECT_NE(ftruncate((*made)->file(), 2 * kBytes), 0);
}

// No server can change what a client asks another.
TEST(SharedAreaTest, WhatIsToBeReadCannotBeWritten) {
  const auto made = SharedArea::Make(kBytes, Others::kRead);
  ASSERT_TRUE(made.ok()) << made.status();
  (*made)->data()[7] = 'x';
  const auto seen = SharedArea::Open(FileDescriptor(dup((*made)->file())), Others::kRead);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ((*seen)->data()[7], 'x');
  EXPECT_FALSE(SharedArea::Open(FileDescriptor(dup((*made)->file())), Others::kWrite).ok());
  EXPECT_NE(pwrite((*made)->file(), "y", 1, 7), 1);
}

TEST(SharedAreaTest, NoPlaceIsBeyondIt) {
  const auto area = SharedArea::Make(kBytes, Others::kWrite);
  ASSERT_TRUE(area.ok()) << area.status();
  const SharedPlace inside[] = {{0, kBytes}, {kBytes, 0}, {kBytes - 1, 1}, {5, 10}};
  for (const SharedPlace& place : inside) {
    ASSERT_TRUE((*area)->At(place).has_value());
    EXPECT_EQ((*area)->At(place)->size(), place.bytes);
    EXPECT_EQ((*area)->At(place)->data(), (*area)->data() + place.offset);
  }
  const SharedPlace beyond[] = {{0, kBytes + 1},          {1, kBytes},        {kBytes, 1},
                                {kBytes + 1, 0},          {UINT64_MAX, 1},    {1, UINT64_MAX},
                                {UINT64_MAX, UINT64_MAX}, {UINT64_MAX - 1, 2}};
  for (const SharedPlace& place : beyond) EXPECT_FALSE((*area)->At(place).has_value());
  const std::string elsewhere = "elsewhere";
  EXPECT_FALSE((*area)->Find(elsewhere).has_value());
  EXPECT_FALSE((*area)->Find(absl::string_view()).has_value());
  EXPECT_EQ((*area)->Find(absl::string_view((*area)->data() + 5, 10)), (SharedPlace{5, 10}));
}

// Whatever is taken and given back: no two have a byte in common, and in the end all is free.
TEST(SharedHeapTest, PlacesAreApart) {
  auto made = SharedArea::Make(kBytes, Others::kWrite);
  ASSERT_TRUE(made.ok()) << made.status();
  SharedHeap heap(*std::move(made));
  struct Taken {
    char* begin;
    size_t bytes;
    char mark;
  };
  std::vector<Taken> taken;
  Rng rng(1);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    if (!taken.empty() && rng.Chance(0.5)) {
      std::swap(taken[rng.Below(taken.size())], taken.back());
      const Taken& last = taken.back();
      ASSERT_EQ(last.begin[0], last.mark);
      ASSERT_EQ(last.begin[last.bytes - 1], last.mark);
      heap.Give(last.begin, last.bytes);
      taken.pop_back();
      continue;
    }
    const size_t bytes = 1 + rng.Below(rng.Chance(0.1) ? kBytes / 2 : 20000);
    char* begin = heap.Take(bytes);
    refused += begin == nullptr;
    if (begin == nullptr) continue;
    ASSERT_TRUE(heap.area().Find({begin, bytes}).has_value());
    ASSERT_EQ(reinterpret_cast<uintptr_t>(begin) % 64, 0u);
    const char mark = static_cast<char>(round % 100);
    std::fill(begin, begin + bytes, mark);
    taken.push_back({begin, bytes, mark});
  }
  EXPECT_GT(refused, 0u);
  for (const Taken& one : taken) heap.Give(one.begin, one.bytes);
  EXPECT_EQ(heap.Take(kBytes), heap.area().data());
  EXPECT_EQ(heap.Take(1), nullptr);
}

// One that outgrows its place goes elsewhere, and takes along what is in it.
TEST(SharedHeapTest, ABufferThatFindsNoRoomLiesInTheHeap) {
  auto made = SharedArea::Make(kBytes, Others::kWrite);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto heap = std::make_shared<SharedHeap>(*std::move(made));
  {
    Buffer buffer(heap);
    for (uint64_t n = 0; n < 1000; ++n) buffer.Put(n);
    EXPECT_TRUE(heap->area().Find(buffer.view()).has_value());
    buffer.Extend(kBytes);
    EXPECT_FALSE(heap->area().Find(buffer.view()).has_value());
    for (uint64_t n = 0; n < 1000; ++n) {
      ASSERT_EQ(reinterpret_cast<const uint64_t*>(buffer.data())[n], n);
    }
  }
  EXPECT_NE(heap->Take(kBytes), nullptr);  // Nothing is left behind.
}

}  // namespace
}  // namespace rubato

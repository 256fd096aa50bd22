// Sums of several members over real sockets, in each of the formats that numbers travel in.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/edge_door.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// One who sums, and whoever lets its callers in.
class Member {
 public:
  Member() {
    attention_.event_fd = event_.get();
    attention_.live_view = 1;
  }
  const std::string& address() const { return door_.address(); }
  TcpEdges& edges() { return edges_; }

 private:
  Fd event_{eventfd(0, EFD_NONBLOCK)};
  Attention attention_;
  SocketNetwork network_{nullptr};
  TcpEdges edges_{attention_, 7, network_, [](MemberId, LossReason) { ADD_FAILURE() << "lost"; }};
  EdgeDoor door_{edges_};
};

// Of numbers that each member makes for itself; what everyone came to.
std::vector<std::vector<float>> SumsOf(int size, int64_t elements, WireFormat format,
                                       const std::function<float(int rank, int64_t i)>& value) {
  std::vector<Member> members(static_cast<size_t>(size));
  GroupView view;
  view.number = 1;
  view.holders = size;
  for (int rank = 0; rank < size; ++rank) {
    view.members.push_back({MemberId(rank + 1), members[static_cast<size_t>(rank)].address()});
  }
  std::vector<std::vector<float>> sums(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      TcpEdges& edges = members[static_cast<size_t>(rank)].edges();
      std::vector<float>& mine = sums[static_cast<size_t>(rank)];
      for (int64_t i = 0; i < elements; ++i) mine.push_back(value(rank, i));
      ASSERT_TRUE(edges.Enter(view, rank, MemberId(rank + 1)).ok());
      const absl::Status summed = edges.Allreduce(absl::MakeSpan(mine), format);
      EXPECT_TRUE(summed.ok()) << summed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sums;
}

void ExpectTheSameBits(const std::vector<std::vector<float>>& sums) {
  for (const std::vector<float>& sum : sums) {
    ASSERT_EQ(sum.size(), sums[0].size());
    EXPECT_EQ(std::memcmp(sum.data(), sums[0].data(), sum.size() * sizeof(float)), 0);
  }
}

// What rounding a number once costs at most, as a part of it.
double RoundingOf(WireFormat format) { return format == WireFormat::kBf16 ? 0x1p-8 : 0x1p-11; }

struct Case {
  WireFormat format;
  int size;
  int64_t elements;
};

// All have the same bits, numbers that the wire can carry, and as near to the sum as a rounding for
// each member allows.
void ExpectRounded(const Case& what) {
  const auto [format, size, elements] = what;
  const auto value = [](int rank, int64_t i) {
    const uint64_t chance = Mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)) % 20001;
    return (static_cast<float>(chance) - 10000) / 997;
  };
  const auto sums = SumsOf(size, elements, format, value);
  ExpectTheSameBits(sums);
  std::vector<float> rounded = sums[0];
  RoundTo(format, absl::MakeSpan(rounded));
  EXPECT_TRUE(rounded == sums[0]);
  int64_t far = 0;
  for (int64_t i = 0; i < elements; ++i) {
    double exact = 0, largest = 0;
    for (int rank = 0; rank < size; ++rank) {
      exact += value(rank, i);
      largest += std::abs(value(rank, i));
    }
    const double allowed = size * RoundingOf(format) * largest;
    far += std::abs(sums[0][static_cast<size_t>(i)] - exact) > allowed ? 1 : 0;
  }
  EXPECT_EQ(far, 0);
}

class WireSumsTest : public testing::TestWithParam<Case> {};

TEST_P(WireSumsTest, AreRoundedAndTheSameForAll) { ExpectRounded(GetParam()); }

// Counts are small whole numbers, and come through as they are.
TEST_P(WireSumsTest, OfSmallWholeNumbersAreExact) {
  const auto [format, size, elements] = GetParam();
  const auto sums = SumsOf(size, elements, format,
                           [](int rank, int64_t i) { return static_cast<float>(i % 16 + rank); });
  ExpectTheSameBits(sums);
  for (int64_t i = 0; i < elements; ++i) {
    const auto expected = static_cast<float>(size * (i % 16) + size * (size - 1) / 2);
    ASSERT_EQ(sums[0][static_cast<size_t>(i)], expected) << i;
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp16}) {
    for (const int size : {2, 3, 5}) {
      // So few are summed by a tree, so many by halves.
      for (const int64_t elements : {7, 100'003}) cases.push_back({format, size, elements});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Formats, WireSumsTest, testing::ValuesIn(Cases()), [](const auto& info) {
  const Case& what = info.param;
  return absl::StrCat(what.format == WireFormat::kBf16 ? "Bf16" : "Fp16", "Of", what.size, "Times",
                      what.elements);
});

// 16 MB and more go round a ring.
TEST(LargeWireSumsTest, AreRoundedAndTheSameForAll) {
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp16}) {
    ExpectRounded({format, /*size=*/3, (int64_t{8} << 20) + 5});
  }
}

// 16 bits of fp16 end at 65504: what is more is infinite, at everyone alike, and bf16 has room. One
// member's NaN is everyone's.
TEST(WireSumsTest, WhatDoesNotFitIsToldByAll) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto value = [](int rank, int64_t i) { return i > 0 ? 40000 : rank == 1 ? kNan : 1; };
  for (const WireFormat format : {WireFormat::kFp16, WireFormat::kBf16}) {
    for (const std::vector<float>& sum : SumsOf(/*size=*/3, /*elements=*/100'000, format, value)) {
      EXPECT_TRUE(std::isnan(sum[0]));
      EXPECT_EQ(std::isinf(sum[1]), format == WireFormat::kFp16) << sum[1];
      EXPECT_EQ(std::isinf(sum.back()), format == WireFormat::kFp16) << sum.back();
    }
  }
}

}  // namespace
}  // namespace rubato

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "rubato/base/bytes.h"
#include "rubato/base/ids.h"
#include "rubato/base/interval_set.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whatever is added in whatever order, the set agrees with a plain std::set.
TEST(IntervalSetTest, AgreesWithAPlainSet) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    IntervalSet intervals;
    std::set<int64_t> plain;
    for (int i = 0; i < 30; ++i) {
      const int64_t begin = static_cast<int64_t>(rng.Below(60));
      const int64_t end = begin + static_cast<int64_t>(rng.Below(8));
      int64_t added = 0;
      for (int64_t v = begin; v < end; ++v) added += plain.insert(v).second;
      ASSERT_EQ(intervals.Add(begin, end), added);
      ASSERT_EQ(intervals.size(), static_cast<int64_t>(plain.size()));
    }
    for (int64_t v = 0; v < 70; ++v) ASSERT_EQ(intervals.Contains(v), plain.contains(v));
    int64_t missing = 0;
    for (const Interval& gap : intervals.Gaps(0, 70)) missing += gap.end - gap.begin;
    ASSERT_EQ(missing + intervals.size(), 70);
  }
}

TEST(IntervalSetTest, TouchingIntervalsJoin) {
  IntervalSet set;
  set.Add(0, 2);
  set.Add(4, 6);
  EXPECT_EQ(set.ToString(), "[0,2) [4,6)");
  EXPECT_THAT(set.Gaps(0, 8), ElementsAre(Interval{2, 4}, Interval{6, 8}));
  set.Add(2, 4);
  EXPECT_EQ(set.ToString(), "[0,6)");
  EXPECT_TRUE(set.Covers(1, 6));
  EXPECT_FALSE(set.Covers(1, 7));
}

TEST(IntervalSetTest, IntersectionHoldsWhatBothHold) {
  IntervalSet a, b;
  a.Add(0, 5);
  a.Add(8, 12);
  b.Add(3, 9);
  EXPECT_EQ(a.Intersect(b).ToString(), "[3,5) [8,9)");
}

TEST(BytesTest, WhatWasWrittenIsRead) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.Put<int32_t>(-7);
  writer.PutString("criteo");
  const std::vector<float> values = {1.5f, -2};
  writer.PutSpan<float>(values);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Get<int32_t>(), -7);
  EXPECT_EQ(reader.GetString(), "criteo");
  EXPECT_THAT(reader.GetVector<float>(2), ElementsAre(1.5f, -2));
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

// Bytes cut anywhere, or that claim a length they do not have, are noticed and never overrun.
TEST(BytesTest, CutBytesAreNoticed) {
  std::string bytes;
  ByteWriter(bytes).PutString("a long enough text");
  for (size_t n = 0; n < bytes.size(); ++n) {
    ByteReader reader(absl::string_view(bytes).substr(0, n));
    EXPECT_EQ(reader.GetString(), "");
    EXPECT_THAT(std::string(reader.Check("frame").message()), HasSubstr("frame: cut short"));
  }
  ByteReader reader("\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_TRUE(reader.GetVector<double>(SIZE_MAX / 4).empty());
  EXPECT_FALSE(reader.ok());
}

// Whatever processor wrote a file, any other reads it: HashText is the same for plain x86-64.
TEST(BytesTest, EveryProcessorComesToTheSameChecksum) {
  Rng rng(2);
  std::string bytes(5000, 0);
  for (char& byte : bytes) byte = static_cast<char>(rng.Below(256));
  for (size_t begin : {0, 1, 8}) {
    for (size_t count = 0; count + begin <= bytes.size(); count += count < 300 ? 1 : 97) {
      const absl::string_view part(bytes.data() + begin, count);
      ASSERT_EQ(Checksum(part), HashText(part, 0)) << count;
    }
  }
  EXPECT_EQ(Checksum(""), 0x2d06800538d394c2u);  // As XXH3 is defined.
}

TEST(RngTest, SameSeedSameStreamAndFairEnough) {
  Rng a(7), b(7), c(8);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(a.Next(), c.Next());
  int counts[10] = {};
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    ++counts[a.Below(10)];
    const double z = a.Normal();
    sum += z;
    squares += z * z;
  }
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_NEAR(sum / 100000, 0, 0.02);
  EXPECT_NEAR(squares / 100000, 1, 0.03);
}

TEST(StatusTest, AnnotateKeepsTheCode) {
  const absl::Status status = Annotate(absl::NotFoundError("no such file"), "job.yaml");
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "job.yaml: no such file");
}

TEST(IdsTest, PrintWithTheirKind) {
  EXPECT_EQ(WorkerId(3).ToString(), "worker-3");
  EXPECT_FALSE(TaskId().valid());
  EXPECT_LT(ServerId(1), ServerId(2));
}

TEST(CheckDeathTest, ABugStopsTheProcess) {
  EXPECT_DEATH(RUBATO_CHECK(1 + 1 == 3), "a bug in Rubato: 1 \\+ 1 == 3 does not hold");
}

}  // namespace
}  // namespace rubato

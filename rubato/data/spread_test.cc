// Every record once, at one place, and any few neighbours from all over the data.
#include "rubato/data/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/data/numbers_testing.h"

namespace rubato {
namespace {

absl::StatusOr<std::vector<int64_t>> Read(RecordSource& source, int64_t begin, int64_t end) {
  std::vector<int64_t> read;
  const absl::Status status =
      source.Read(begin, end, [&](int64_t position, absl::string_view bytes) {
        EXPECT_EQ(position, begin + static_cast<int64_t>(read.size()));
        EXPECT_EQ(source.Locate(position), absl::StrCat("line ", bytes));
        int64_t number = -1;
        EXPECT_TRUE(absl::SimpleAtoi(bytes, &number));
        read.push_back(number);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return read;
}

TEST(SpreadTest, EveryRecordHasOnePlace) {
  for (const int64_t records : {1, 2, 3, 7, 8, 64, 100, 1023, 6765}) {
    for (const int64_t run : {1, 2, 8, 1024}) {
      for (const bool hold : {false, true}) {
        int reads = 0;
        const auto spread = Spread(std::make_unique<Numbers>(records, &reads), run, hold);
        std::vector<int64_t> all;
        for (int64_t begin = 0; begin < records; begin += 37) {
          const auto some = Read(*spread, begin, std::min(begin + 37, records));
          ASSERT_TRUE(some.ok()) << some.status();
          all.insert(all.end(), some->begin(), some->end());
        }
        std::vector<int64_t> expected(static_cast<size_t>(records));
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_THAT(all, testing::UnorderedElementsAreArray(expected)) << records << " " << run;
        EXPECT_EQ(*Read(*spread, 0, records), all);  // However it is asked for.
        if (hold) {
          EXPECT_EQ(reads, 1);
        }
      }
    }
  }
}

// Of any 64 runs in a row each sixteenth of the data has four, or one or two more or fewer.
TEST(SpreadTest, NeighboursComeFromAllOver) {
  for (const int64_t records : {80'000, 123'456, 1'000'000}) {
    constexpr int64_t kRun = 8, kParts = 16;
    const SpreadOrder order(records, kRun);
    for (int64_t begin = 0; begin + 64 * kRun < records; begin += 333) {
      std::vector<int> of(kParts);
      for (int64_t i = 0; i < 64 * kRun; ++i) {
        ++of[static_cast<size_t>(order.At(begin + i) * kParts / records)];
      }
      const auto [fewest, most] = std::minmax_element(of.begin(), of.end());
      ASSERT_GE(*fewest, 2 * kRun) << records << " at " << begin;
      ASSERT_LE(*most, 6 * kRun) << records << " at " << begin;
    }
  }
}

TEST(SpreadTest, WhatCouldNotBeReadIsReadAgain) {
  int reads = 0;
  auto numbers = std::make_unique<Numbers>(100, &reads, /*fails_at=*/1);
  const auto spread = Spread(std::move(numbers), 4, /*hold=*/true);
  EXPECT_EQ(spread->away()->data, "numbers");
  EXPECT_EQ(Read(*spread, 0, 9).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Read(*spread, 0, 9)->size(), 9u);
}

}  // namespace
}  // namespace rubato

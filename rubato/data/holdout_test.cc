// Rows kept back: each record is in exactly one part, found by its place there.
#include "rubato/data/holdout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/data/numbers_testing.h"

namespace rubato {
namespace {

std::vector<std::string> ReadAll(RecordSource& source, int64_t step) {
  std::vector<std::string> all;
  for (int64_t begin = 0; begin < source.records(); begin += step) {
    const int64_t end = std::min(begin + step, source.records());
    int64_t expected = begin;
    EXPECT_TRUE(source
                    .Read(begin, end,
                          [&](int64_t record, absl::string_view bytes) {
                            EXPECT_EQ(record, expected++);
                            EXPECT_EQ(source.Locate(record), absl::StrCat("line ", bytes));
                            all.emplace_back(bytes);
                            return absl::OkStatus();
                          })
                    .ok());
    EXPECT_EQ(expected, end);
  }
  return all;
}

TEST(HoldoutTest, WhatIsAwayIsAwayForBothParts) {
  for (const bool held : {false, true}) {
    const auto part = TakePart(std::make_unique<Numbers>(10), Holdout(2), held);
    ASSERT_TRUE(part->away().has_value());
    EXPECT_EQ(part->away()->data, "numbers");
  }
}

TEST(HoldoutTest, EveryRecordIsInOnePartHoweverItIsRead) {
  for (const int64_t every : {2, 3, 10}) {
    for (const int64_t records : {1, 2, 9, 10, 11, 19, 100, 1003}) {
      const Holdout holdout(every);
      std::set<std::string> seen;
      int64_t held = 0;
      for (const bool is_held : {false, true}) {
        const auto part = TakePart(std::make_unique<Numbers>(records), holdout, is_held);
        const std::vector<std::string> all = ReadAll(*part, records);
        EXPECT_EQ(ReadAll(*part, 7), all);
        for (const std::string& record : all) {
          EXPECT_TRUE(seen.insert(record).second) << record << " is in both parts";
          EXPECT_EQ(holdout.Holds(std::stoll(record)), is_held);
        }
        if (is_held) held = part->records();
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(records)) << every;
      EXPECT_EQ(held, holdout.HeldOf(records));
      EXPECT_NEAR(static_cast<double>(held), static_cast<double>(records / every), 1);
    }
  }
}

// A table whose rows come in tens, the best first, has every place of the ten held back somewhere.
TEST(HoldoutTest, HasNoRhythm) {
  std::set<int64_t> places;
  for (int64_t record = 0; record < 1000; ++record) {
    if (Holdout(10).Holds(record)) places.insert(record % 10);
  }
  EXPECT_EQ(places.size(), 10u);
}

// More records make no other parts: a file that grew is cut as it was.
TEST(HoldoutTest, IsOfTheNumberAlone) {
  const auto less = TakePart(std::make_unique<Numbers>(500), Holdout(10), true);
  const auto more = TakePart(std::make_unique<Numbers>(900), Holdout(10), true);
  const std::vector<std::string> before = ReadAll(*less, 50), after = ReadAll(*more, 50);
  EXPECT_EQ(std::vector<std::string>(after.begin(), after.begin() + before.size()), before);
}

}  // namespace
}  // namespace rubato

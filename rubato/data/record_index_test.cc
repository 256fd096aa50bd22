#include "rubato/data/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

RecordIndex MakeIndex(int64_t marks) {
  RecordIndex index = {.format = "csv with header", .schema = "label,age"};
  for (const char* path : {"/data/a.csv", "/data/b.csv.gz"}) {
    IndexedFile file = {.path = path, .size = 1 << 20, .modified_ns = 1700000000123456789};
    file.records = marks * kRecordsPerMark;
    for (int64_t i = 0; i < marks; ++i) file.marks.push_back({i * 235000 + 17, i * 1030 + 2});
    index.files.push_back(file);
  }
  index.files[1].gzip = true;
  index.files[1].points = {{.output = 100, .input = 50, .bits = 3, .window = "window"},
                           {.output = 200, .input = 90, .member_start = true}};
  return index;
}

TEST(RecordIndexTest, WhatWasWrittenIsRead) {
  const RecordIndex index = MakeIndex(100);
  const absl::StatusOr<RecordIndex> decoded = RecordIndex::Decode(index.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, index);
  EXPECT_EQ(decoded->records(), 200 * kRecordsPerMark);
}

// 50 GB of rows of 230 bytes.
TEST(RecordIndexTest, StaysSmallForBigFiles) {
  const int64_t marks = 50'000'000'000 / 230 / kRecordsPerMark / 2;
  EXPECT_LT(MakeIndex(marks).Encode().size(), 1'500'000u);
}

TEST(RecordIndexTest, DamageIsNoticed) {
  const std::string good = MakeIndex(3).Encode();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    ASSERT_EQ(RecordIndex::Decode(bad).status().code(), absl::StatusCode::kDataLoss) << i;
    ASSERT_EQ(RecordIndex::Decode(good.substr(0, i)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(RecordIndexTest, AnotherVersionIsNamed) {
  std::string bytes = MakeIndex(1).Encode();
  bytes[13] = 9;
  EXPECT_THAT(RecordIndex::Decode(bytes).status().message(), HasSubstr("version 9"));
}

TEST(FileStartsTest, FindTheFileOfARecordBesideFilesWithNone) {
  RecordIndex index;
  index.files = {{.records = 3}, {.records = 0}, {.records = 2}};
  const FileStarts starts(index);
  EXPECT_EQ(starts.records(), 5);
  EXPECT_EQ(starts.FileOf(0), 0u);
  EXPECT_EQ(starts.FileOf(2), 0u);
  EXPECT_EQ(starts.FileOf(3), 2u);  // Not the empty one, which begins there too.
  EXPECT_EQ(starts.FileOf(4), 2u);
  EXPECT_EQ(starts[2], 3);
}

}  // namespace
}  // namespace rubato

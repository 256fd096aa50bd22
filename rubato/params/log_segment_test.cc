// A log that is written over an older one: whatever happens between two bytes, what is read is what
// was appended, and nothing that lay there before.
#include "rubato/params/log_segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "rubato/base/rng.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

using Bodies = std::vector<std::string>;

struct Found {
  absl::Status status;
  Bodies bodies;
  RecordsRead read;
};

Found Read(const std::string& bytes) {
  Found found;
  const auto read = ReadRecords("push.log", bytes, [&](RecordKind kind, absl::string_view body) {
    EXPECT_EQ(kind, RecordKind::kPush);
    found.bodies.emplace_back(body);
    return absl::OkStatus();
  });
  found.status = read.status();
  if (read.ok()) found.read = *read;
  return found;
}

// Sizes around what an end needs, those of pages, and others.
std::string AnyBody(Rng& rng) {
  constexpr size_t kSizes[] = {0, 1, 8, 4000, 4032, 4064, 4096, 9000};
  const size_t size = rng.Chance(0.3) ? kSizes[rng.Below(std::size(kSizes))] : rng.Below(700);
  std::string body(size, '\0');
  for (char& c : body) c = static_cast<char>(rng.Below(rng.Chance(0.5) ? 2 : 256));
  return body;
}

std::string SegmentOf(int64_t segment, const Bodies& bodies, std::string over = "") {
  StringSegment file(std::move(over));
  SegmentWriter writer(file, segment);
  EXPECT_TRUE(writer.Begin().ok());
  for (const std::string& body : bodies) {
    EXPECT_TRUE(writer.Append(RecordKind::kPush, body).ok());
  }
  return file.bytes();
}

int64_t UsedOf(const std::string& bytes) {
  return SkimRecords(bytes, [](RecordKind, absl::string_view) {}).used(bytes);
}

// ---- deaths ----

class DeathTest : public testing::TestWithParam<uint64_t> {};

// One file, life after life, each a segment. It dies after some byte, often between two writes;
// what was appended is there then, in its order, and the one that was under way wholly or not at
// all.
TEST_P(DeathTest, LeavesWhatWasAppended) {
  Rng rng(GetParam());
  StringSegment file;
  for (int64_t segment = 1; segment < 40; segment += 1 + static_cast<int64_t>(rng.Below(3))) {
    file.set_left(SIZE_MAX);
    SegmentWriter writer(file, segment);
    ASSERT_TRUE(writer.Begin().ok());
    const size_t bytes = rng.Below(30000);
    file.set_left(rng.Chance(0.2) ? SIZE_MAX : bytes);
    Bodies appended;
    std::string last;
    absl::Status status;
    for (size_t n = rng.Below(20); n > 0 && status.ok(); --n) {
      last = AnyBody(rng);
      status = writer.Append(RecordKind::kPush, last);
      if (status.ok()) appended.push_back(last);
    }
    Found found = Read(file.bytes());
    ASSERT_TRUE(found.status.ok()) << found.status;
    ASSERT_FALSE(found.read.torn);
    ASSERT_FALSE(found.read.cut);
    ASSERT_EQ(static_cast<int64_t>(found.read.bytes), UsedOf(file.bytes()));
    if (!status.ok() && found.bodies.size() == appended.size() + 1) {
      ASSERT_EQ(found.bodies.back(), last);
      found.bodies.pop_back();
    }
    ASSERT_EQ(found.bodies, appended) << "segment " << segment;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeathTest, testing::Range<uint64_t>(0, 40));

// The same at every place of three records that are written over older ones.
TEST(LogSegmentTest, ADeathAfterAnyByteLeavesWholeRecords) {
  const Bodies older(30, std::string(500, 'x'));
  const std::string before = SegmentOf(3, older);
  const Bodies bodies = {std::string(3900, 'a'), std::string(100, 'b'), std::string(5000, 'c')};
  for (size_t left = 0;; ++left) {
    StringSegment file(before);
    SegmentWriter writer(file, 4);
    ASSERT_TRUE(writer.Begin().ok());
    file.set_left(left);
    Bodies appended;
    for (const std::string& body : bodies) {
      if (!writer.Append(RecordKind::kPush, body).ok()) break;
      appended.push_back(body);
    }
    const Found found = Read(file.bytes());
    ASSERT_TRUE(found.status.ok()) << left << found.status;
    ASSERT_FALSE(found.read.cut) << left;
    ASSERT_EQ(found.bodies, appended) << left;
    if (appended.size() == bodies.size()) break;
  }
}

// ---- what lay there before ----

TEST(LogSegmentTest, ARecordOfAnOlderLifeIsNeverTaken) {
  // Records of equal length, so that the older ones begin where the newer ones end.
  const std::string before = SegmentOf(6, Bodies(20, std::string(992, 'x')));
  const Bodies now(5, std::string(992, 'n'));
  const std::string file = SegmentOf(7, now, before);
  ASSERT_EQ(file.size(), before.size());
  const size_t end = static_cast<size_t>(UsedOf(file));
  ASSERT_EQ(end, kFileHeaderBytes + 5 * 1024);
  EXPECT_EQ(Read(file).bodies, now);

  // Right behind the end, where no zeros are.
  std::string planted = file;
  planted.replace(end + kRecordHeaderBytes, 1024, before, end, 1024);
  EXPECT_TRUE(Read(planted).status.ok());
  EXPECT_EQ(Read(planted).bodies, now);
  // Even one of this very segment does not count elsewhere than where it was written.
  planted.replace(end + kRecordHeaderBytes, 1024, file, kFileHeaderBytes, 1024);
  EXPECT_EQ(Read(planted).bodies, now);

  // In the end's own place it is damage: somebody took the end away.
  planted = file;
  planted.replace(end, 1024, before, end, 1024);
  const Found found = Read(planted);
  EXPECT_TRUE(absl::IsDataLoss(found.status));
  EXPECT_THAT(std::string(found.status.message()),
              HasSubstr(absl::StrCat("push.log: damaged at byte ", end, ": the header")));
  EXPECT_EQ(found.bodies, now);
  EXPECT_EQ(UsedOf(planted), static_cast<int64_t>(planted.size()));
}

TEST(LogSegmentTest, FilesOfTheFormatBeforeAreReadAndWrittenOver) {
  StringSink old;
  const std::string body(992, 'o');
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(old.Append(RecordKind::kPush, body).ok());
  EXPECT_EQ(Read(old.bytes()).bodies, Bodies(20, body));
  EXPECT_EQ(UsedOf(old.bytes()), static_cast<int64_t>(old.bytes().size()));
  EXPECT_EQ(SegmentNumber(old.bytes()), std::nullopt);
  const std::string file = SegmentOf(2, {body, body}, old.bytes());
  EXPECT_EQ(Read(file).bodies, Bodies(2, body));
  EXPECT_EQ(SegmentNumber(file), 2);
}

// ---- damage ----

// Every bit of records and of the end, header by header and in between; what follows the end does
// not matter.
TEST(LogSegmentTest, AFlippedBitIsFoundUpToTheEnd) {
  const std::string before = SegmentOf(8, Bodies(40, std::string(300, 'x')));
  const Bodies bodies = {"one", std::string(700, 't'), "the last"};
  const std::string file = SegmentOf(9, bodies, before);
  const size_t end = static_cast<size_t>(UsedOf(file));
  for (size_t at = 0; at < file.size(); ++at) {
    std::string flipped = file;
    flipped[at] ^= static_cast<char>(1 << (at % 8));
    const Found found = Read(flipped);
    if (at < end + kRecordHeaderBytes) {
      ASSERT_TRUE(absl::IsDataLoss(found.status)) << at;
      ASSERT_THAT(std::string(found.status.message()), HasSubstr("push.log: damaged at byte"));
      ASSERT_LE(found.bodies.size(), bodies.size());
    } else {
      ASSERT_TRUE(found.status.ok()) << at;
      ASSERT_EQ(found.bodies, bodies);
    }
  }
}

// A page that came back as zeros looks like an end. The records behind it say that it is none.
TEST(LogSegmentTest, ALostPageIsFoundByWhatFollows) {
  const std::string before = SegmentOf(8, Bodies(60, std::string(992, 'x')));
  const std::string file = SegmentOf(9, Bodies(30, std::string(992, 'n')), before);
  for (size_t page = 1; page < 7; ++page) {
    std::string lost = file;
    lost.replace(page * 4096, 4096, std::string(4096, '\0'));
    const Found found = Read(lost);
    EXPECT_TRUE(absl::IsDataLoss(found.status)) << page;
    EXPECT_LT(found.bodies.size(), 30u);
  }
  std::string header = file;
  const size_t third = kFileHeaderBytes + 2 * 1024;
  header.replace(third, kRecordHeaderBytes, std::string(kRecordHeaderBytes, '\0'));
  EXPECT_THAT(std::string(Read(header).status.message()),
              HasSubstr(absl::StrCat("damaged at byte ", third, ": a record is lost")));
}

// A copy has the bytes up to some place: at a record's end it is whole, else torn. It has no end,
// and neither has a file that was cut off, wherever that was.
TEST(LogSegmentTest, AFileThatEndsEarlyIsAPrefixWithoutAnEnd) {
  const Bodies bodies = {"one", std::string(700, 't'), "the last"};
  const std::string file = SegmentOf(9, bodies, SegmentOf(8, Bodies(40, "x")));
  const auto end = static_cast<size_t>(UsedOf(file));
  for (size_t size = 0; size < end; ++size) {
    const Found found = Read(file.substr(0, size));
    ASSERT_TRUE(found.status.ok()) << size;
    ASSERT_TRUE(found.read.cut) << size;
    ASSERT_EQ(found.read.used(file.substr(0, size)), static_cast<int64_t>(size));
    ASSERT_EQ(found.bodies, Bodies(bodies.begin(), bodies.begin() + std::ssize(found.bodies)));
  }
  EXPECT_EQ(Read(file.substr(0, end)).bodies, bodies);
  EXPECT_FALSE(Read(file.substr(0, end)).read.torn);
  for (size_t size = end; size < end + 2 * kRecordHeaderBytes; ++size) {
    EXPECT_EQ(Read(file.substr(0, size)).read.cut, size < end + kRecordHeaderBytes) << size;
    const RecordsRead skimmed = SkimRecords(file.substr(0, size), [](RecordKind, auto) {});
    EXPECT_EQ(skimmed.cut, size < end + kRecordHeaderBytes) << size;
  }
}

// ---- a disk that is full ----

TEST(LogSegmentTest, WhatCouldNotBeWrittenIsNotThere) {
  const std::string before = SegmentOf(1, Bodies(40, std::string(300, 'x')));
  for (size_t left = 0; left < 8000; left += 5) {
    StringSegment file(before);
    SegmentWriter writer(file, 2);
    ASSERT_TRUE(writer.Begin().ok());
    ASSERT_TRUE(writer.Append(RecordKind::kPush, "one").ok());
    const int64_t bytes = writer.bytes();
    file.set_left(left);
    const absl::Status status = writer.Append(RecordKind::kPush, std::string(1500, 'b'));
    file.set_left(SIZE_MAX);
    if (status.ok()) break;
    EXPECT_EQ(writer.bytes(), bytes);
    const absl::Status again = writer.Append(RecordKind::kPush, "two");
    if (!again.ok()) {  // It was the header that failed, and the end could not be written either.
      EXPECT_EQ(Read(file.bytes()).bodies, Bodies{"one"});
      EXPECT_FALSE(Read(file.bytes()).read.cut);
      continue;
    }
    ASSERT_EQ(Read(file.bytes()).bodies, (Bodies{"one", "two"})) << left;
    ASSERT_FALSE(Read(file.bytes()).read.cut) << left;
  }
}

TEST(LogSegmentTest, TheLastRecordCanBeTakenBack) {
  StringSegment file(SegmentOf(1, Bodies(40, std::string(300, 'x'))));
  SegmentWriter writer(file, 2);
  ASSERT_TRUE(writer.Begin().ok());
  ASSERT_TRUE(writer.Append(RecordKind::kPush, "one").ok());
  ASSERT_TRUE(writer.Append(RecordKind::kPush, std::string(5000, 'b')).ok());
  ASSERT_TRUE(writer.TakeBack().ok());
  EXPECT_EQ(Read(file.bytes()).bodies, Bodies{"one"});
  ASSERT_TRUE(writer.Append(RecordKind::kPush, "two").ok());
  EXPECT_EQ(Read(file.bytes()).bodies, (Bodies{"one", "two"}));
  file.set_left(0);
  EXPECT_FALSE(writer.TakeBack().ok());
  file.set_left(SIZE_MAX);
  EXPECT_FALSE(writer.Append(RecordKind::kPush, "three").ok());  // Nobody knows where it ends.
}

}  // namespace
}  // namespace rubato

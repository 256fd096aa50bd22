#include "rubato/master/journal.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/master/entry.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ThreeRecords() {
  return JournalHeader("1.2") + FrameRecord("first") + FrameRecord("second") + FrameRecord("third");
}

TEST(JournalTest, WhatIsWrittenIsRead) {
  const std::string bytes = ThreeRecords();
  const auto journal = DecodeJournal(bytes, "1.2");
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_THAT(journal->records, ElementsAre("first", "second", "third"));
  EXPECT_EQ(journal->good_bytes, static_cast<int64_t>(bytes.size()));
}

// Wherever a crash cuts the file, the whole records before the cut are kept, and no error.
TEST(JournalTest, ATornTailIsDropped) {
  const std::string bytes = ThreeRecords();
  const size_t first = JournalHeader("1.2").size() + FrameRecord("first").size();
  const size_t second = first + FrameRecord("second").size();
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const auto journal = DecodeJournal(bytes.substr(0, cut), "1.2");
    ASSERT_TRUE(journal.ok()) << "cut at " << cut << ": " << journal.status();
    const size_t good = cut >= second ? second : cut >= first ? first : 0;
    EXPECT_EQ(journal->good_bytes, static_cast<int64_t>(good)) << "cut at " << cut;
  }
}

TEST(JournalTest, ATailOfZerosIsATornTail) {
  const std::string bytes = ThreeRecords();
  const auto journal = DecodeJournal(bytes + std::string(4096, '\0'), "1.2");
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(journal->good_bytes, static_cast<int64_t>(bytes.size()));
}

// Any flipped byte, be it of a length, a checksum or a record, is noticed and named.
TEST(JournalTest, DamageIsAnErrorWithItsPlace) {
  const std::string bytes = ThreeRecords();
  const size_t header = JournalHeader("1.2").size();
  for (size_t i = header; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 0x40;
    const auto journal = DecodeJournal(damaged, "1.2");
    EXPECT_TRUE(absl::IsDataLoss(journal.status())) << "byte " << i;
  }
  std::string damaged = bytes;
  damaged[header] ^= 1;
  EXPECT_THAT(std::string(DecodeJournal(damaged, "1.2").status().message()),
              HasSubstr(absl::StrCat("damaged at byte ", header)));
  EXPECT_TRUE(absl::IsDataLoss(DecodeJournal("GARBAGE", "1.2").status()));
}

TEST(JournalTest, AnotherVersionIsRefusedWithBothNamed) {
  const absl::Status status = DecodeJournal(ThreeRecords(), "1.3").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 1.2, this is version 1.3"));
}

JournalEntry FullEntry() {
  EvaluationSums sums = {.user_sums = {{"clicks", 3.5}}};
  sums.AddBinary(0.25f, true, 7);
  sums.AddBinary(0.75f, false, 9);
  return {.kind = EntryKind::kCommitted,
          .role = Role::kServer,
          .id = -1,
          .incarnation = int64_t{1} << 62,
          .task = TaskId(300),
          .value = -12345678901,
          .text = "train.tsv:7: no row",
          .numbers = {1.5, -2},
          .sums = sums};
}

TEST(EntryTest, EveryFieldSurvives) {
  const JournalEntry entry = FullEntry();
  const auto read = DecodeEntry(EncodeEntry(entry));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, entry.kind);
  EXPECT_EQ(read->role, entry.role);
  EXPECT_EQ(read->id, entry.id);
  EXPECT_EQ(read->incarnation, entry.incarnation);
  EXPECT_EQ(read->task, entry.task);
  EXPECT_EQ(read->value, entry.value);
  EXPECT_EQ(read->text, entry.text);
  EXPECT_EQ(read->numbers, entry.numbers);
  EXPECT_EQ(read->sums, entry.sums);
}

TEST(EntryTest, ACommitIsSmall) {
  const JournalEntry commit = {
      .kind = EntryKind::kCommitted, .id = 3, .task = TaskId(40), .value = 20480};
  EXPECT_LE(EncodeEntry(commit).size(), 12u);
}

TEST(EntryTest, HostileBytesAreRefused) {
  const std::string bytes = EncodeEntry(FullEntry());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(DecodeEntry(bytes.substr(0, n)).ok()) << n;
    std::string damaged = bytes;
    damaged[n] ^= 0xff;
    DecodeEntry(damaged).IgnoreError();  // May pass for another entry; must not crash.
  }
  EXPECT_FALSE(DecodeEntry(bytes + "x").ok());
}

}  // namespace
}  // namespace rubato

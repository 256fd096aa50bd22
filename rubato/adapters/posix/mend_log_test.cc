// A push log with damage in it ends there, and goes on from there.
#include "rubato/adapters/posix/mend_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MendLogTest : public testing::Test {
 protected:
  // Segments 3 to 6 of four records each, "3.0" to "6.3".
  MendLogTest() {
    for (int64_t segment = 3; segment <= 6; ++segment) {
      auto file = *RecordFile::Create(Path(segment));
      for (int i = 0; i < 4; ++i) {
        RUBATO_CHECK_OK(file->Append(RecordKind::kPush, absl::StrCat(segment, ".", i)));
      }
      segments_[segment] = file->bytes();
    }
  }
  std::string Path(int64_t segment) const { return SegmentPath(folder_.path(), segment); }
  // A byte of the body of a record changes.
  void Damage(int64_t segment, int record) {
    std::fstream file(Path(segment), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kFileHeaderBytes + kRecordHeaderBytes) +
               record * static_cast<std::streamoff>(kRecordHeaderBytes + 8));
    file.put('x');
  }
  std::string Mend(int64_t first) {
    const auto damage = MendLog(folder_.path(), first, &segments_);
    EXPECT_TRUE(damage.ok()) << damage.status();
    EXPECT_EQ(segments_, *ListSegments(folder_.path()));
    return damage.value_or("");
  }
  // From `first` on, as a server would read them.
  std::vector<std::string> Records(int64_t first) {
    std::vector<std::string> records;
    for (int64_t s = first; segments_.contains(s); ++s) {
      const MappedFile file = *MappedFile::Open(Path(s));
      RUBATO_CHECK_OK(ReadRecords(Path(s), file.bytes(), [&](RecordKind, absl::string_view body) {
                        records.emplace_back(body);
                        return absl::OkStatus();
                      }).status());
    }
    return records;
  }
  bool Aside(int64_t segment) const { return std::filesystem::exists(Path(segment) + ".damaged"); }

  const TestFolder folder_;
  std::map<int64_t, int64_t> segments_;
};

TEST_F(MendLogTest, ASoundLogStaysAsItIs) {
  EXPECT_THAT(Mend(3), IsEmpty());
  EXPECT_EQ(segments_.size(), 4U);
  EXPECT_EQ(Records(3).size(), 16U);
  EXPECT_FALSE(Aside(6));
}

TEST_F(MendLogTest, WhatIsBeforeTheDamageStays) {
  Damage(4, 2);
  EXPECT_THAT(Mend(3), HasSubstr("push-000004.log"));
  EXPECT_THAT(Records(3), ElementsAre("3.0", "3.1", "3.2", "3.3", "4.0", "4.1"));
  for (const int64_t segment : {4, 5, 6}) EXPECT_TRUE(Aside(segment)) << segment;
  EXPECT_FALSE(Aside(3));
  // The next life finds nothing wrong, and what is logged now follows.
  EXPECT_THAT(Mend(3), IsEmpty());
  segments_[5] = (*RecordFile::Create(Path(5)))->bytes();
  EXPECT_THAT(Mend(3), IsEmpty());
}

TEST_F(MendLogTest, ALogEndsWhereASegmentIsMissing) {
  std::filesystem::remove(Path(5));
  segments_.erase(5);
  EXPECT_THAT(Mend(4), HasSubstr("push-000005.log is missing"));
  EXPECT_THAT(Records(4), ElementsAre("4.0", "4.1", "4.2", "4.3"));
  EXPECT_TRUE(segments_.contains(3));
  EXPECT_TRUE(Aside(6));
}

TEST_F(MendLogTest, NothingFollowsACheckpointThatTheLogDoesNotReachBackTo) {
  EXPECT_THAT(Mend(2), HasSubstr("push-000002.log is missing"));
  EXPECT_THAT(segments_, IsEmpty());
}

TEST_F(MendLogTest, DamageBeforeTheCheckpointDoesNotMatter) {
  Damage(3, 0);
  EXPECT_THAT(Mend(4), IsEmpty());
  EXPECT_EQ(segments_.size(), 4U);
}

// What cannot be read may be readable tomorrow.
TEST_F(MendLogTest, WhatCannotBeReadIsLeftAlone) {
  std::filesystem::remove(Path(4));
  std::filesystem::create_symlink("nowhere", Path(4));
  EXPECT_EQ(ListSegments(folder_.path())->size(), 4U);
  EXPECT_FALSE(MendLog(folder_.path(), 3, &segments_).ok());
  EXPECT_EQ(segments_.size(), 4U);
  EXPECT_FALSE(Aside(6));
}

}  // namespace
}  // namespace rubato

// A push log with damage in it ends there, and goes on from there.
#include "rubato/adapters/posix/mend_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/adapters/posix/log_joints.h"
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
      auto file = *LogFile::Create(Path(segment), segment);
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
    file.seekp(EndOf(record) + static_cast<std::streamoff>(kRecordHeaderBytes));
    file.put('x');
  }
  // Where a segment ends that has so many records.
  static int64_t EndOf(int records) {
    return static_cast<int64_t>(kFileHeaderBytes) +
           records * static_cast<int64_t>(kRecordHeaderBytes + kSegmentAlign);
  }
  void Cut(int64_t segment, int64_t bytes) {
    std::filesystem::resize_file(Path(segment), static_cast<uintmax_t>(bytes));
  }
  std::string Mend(int64_t first) {
    segments_ = Measured();
    const auto damage = MendLog(folder_.path(), first, &segments_, replay_);
    EXPECT_TRUE(damage.ok()) << damage.status();
    EXPECT_EQ(segments_, Measured());
    return damage.value_or("");
  }
  // What the files hold of the log.
  LogSizes Measured() const {
    LogSizes segments = *ListSegments(folder_.path());
    for (auto& [segment, bytes] : segments) {
      const MappedFile file = *MappedFile::Open(Path(segment));
      bytes = SkimRecords(file.bytes(), [](RecordKind, auto) {}).used(file.bytes());
    }
    return segments;
  }
  // From `first` on, as a server would read them.
  std::vector<std::string> Records(int64_t first) {
    std::vector<std::string> records;
    for (int64_t s = first; segments_.contains(s); ++s) {
      const MappedFile file = *MappedFile::Open(Path(s));
      RUBATO_CHECK_OK(ReadSegment(Path(s), file.bytes(), [&](RecordKind, absl::string_view body) {
        records.emplace_back(body);
        return absl::OkStatus();
      }));
    }
    return records;
  }
  bool Aside(int64_t segment) const { return std::filesystem::exists(Path(segment) + ".damaged"); }

  const TestFolder folder_;
  std::map<int64_t, int64_t> segments_;
  std::function<absl::Status(RecordKind, absl::string_view)> replay_ = [](RecordKind, auto) {
    return absl::OkStatus();
  };
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
  segments_[5] = (*LogFile::Create(Path(5), 5))->bytes();
  EXPECT_THAT(Mend(3), IsEmpty());
}

// Wherever that was, between two records too, and of the last segment as of one before it: nobody
// who dies leaves a file without its end.
TEST_F(MendLogTest, AFileThatWasCutOffIsDamaged) {
  struct Case {
    int64_t segment;
    int64_t bytes;
    size_t left;  // Records.
  };
  for (const Case& cut : {Case{6, EndOf(4) + 31, 16}, Case{6, EndOf(3), 15},
                          Case{6, EndOf(3) - 1, 14}, Case{5, EndOf(1), 9}, Case{5, EndOf(0), 8},
                          Case{4, EndOf(2) + 40, 6}, Case{4, 20, 4}, Case{4, 0, 4}}) {
    SCOPED_TRACE(absl::StrCat(cut.segment, " at byte ", cut.bytes));
    Cut(cut.segment, cut.bytes);
    EXPECT_EQ(Mend(3), absl::StrCat(Path(cut.segment), ": damaged at byte ", cut.bytes,
                                    ": the file was cut off there"));
    EXPECT_EQ(Records(3).size(), cut.left);
    EXPECT_EQ(std::filesystem::file_size(Path(cut.segment) + ".damaged"),
              static_cast<uintmax_t>(cut.bytes));
    EXPECT_THAT(Mend(3), IsEmpty());
  }
}

// What a copy had of a record when its leader's disk was lost is no damage, also when other
// segments follow.
TEST_F(MendLogTest, WhereACopyEndedIsNoDamage) {
  const auto copy = [&](int64_t segment, int64_t bytes) {
    Cut(segment, bytes);
    ASSERT_TRUE(EndCopy(folder_.path(), segment, Path(segment)).ok());
  };
  copy(3, EndOf(4));  // Whole: it gets its end.
  copy(4, EndOf(2) + 40);
  copy(5, 0);
  EXPECT_THAT(Mend(3), IsEmpty());
  EXPECT_EQ(Records(3).size(), 10U);
  EXPECT_EQ(*ReadJoints(folder_.path()), (LogSizes{{4, EndOf(2) + 40}, {5, 0}}));
  // Only if it is as long as it was.
  Cut(4, EndOf(2) + 39);
  EXPECT_THAT(Mend(3), HasSubstr("push-000004.log: damaged at byte"));
  EXPECT_EQ(Records(3).size(), 6U);
}

// It had no end, and was torn where a process died.
TEST_F(MendLogTest, ASegmentOfTheFormatBeforeMayBeTorn) {
  auto file = *RecordFile::Create(Path(4));
  for (const char* body : {"4.0", "4.1"}) RUBATO_CHECK_OK(file->Append(RecordKind::kPush, body));
  Cut(4, file->bytes() - 3);
  EXPECT_THAT(Mend(3), IsEmpty());
  EXPECT_EQ(Records(3).size(), 13U);
}

// Its bytes are sound, and yet something before it must be gone.
TEST_F(MendLogTest, ALogEndsBeforeWhatDoesNotReplay) {
  replay_ = [](RecordKind, absl::string_view body) {
    return body == "5.1" ? absl::DataLossError("its round is not there") : absl::OkStatus();
  };
  EXPECT_EQ(Mend(3),
            absl::StrCat(Path(5), ": record at byte ", EndOf(1), ": its round is not there"));
  EXPECT_EQ(Records(3).size(), 9U);
  EXPECT_TRUE(Aside(6));
  // No room, say: the log is as good as it was.
  replay_ = [](RecordKind, auto) { return absl::ResourceExhaustedError("no room"); };
  EXPECT_TRUE(absl::IsResourceExhausted(MendLog(folder_.path(), 3, &segments_, replay_).status()));
  EXPECT_EQ(Records(3).size(), 9U);
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
  EXPECT_FALSE(MendLog(folder_.path(), 3, &segments_, replay_).ok());
  EXPECT_EQ(segments_.size(), 4U);
  EXPECT_FALSE(Aside(6));
}

}  // namespace
}  // namespace rubato

#include "rubato/adapters/files/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "rubato/adapters/files/append_file.h"
#include "rubato/adapters/files/testing.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Within its life no file may grow past `bytes`: the test's full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(WriteFileAtomicallyTest, ReplacesTheOldFileAndLeavesNothingElse) {
  const TestFolder folder;
  const std::string path = folder.File("state.json");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "new", Durability::kProcess).ok());
  EXPECT_EQ(*ReadWholeFile(path), "new");
  EXPECT_THAT(*ListDirectory(folder.path()), ElementsAre("state.json"));
}

// The old content stays whole when the new one does not fit.
TEST(WriteFileAtomicallyTest, AFullDiskKeepsTheOldFile) {
  const TestFolder folder;
  const std::string path = folder.File("state.json");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  absl::Status status;
  {
    const SmallDisk disk(100);
    status = WriteFileAtomically(path, std::string(1000, 'x'));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr(path));
  EXPECT_EQ(*ReadWholeFile(path), "old");
  EXPECT_THAT(*ListDirectory(folder.path()), ElementsAre("state.json"));
}

TEST(WriteFileAtomicallyTest, AnAbandonedFileIsRemoved) {
  const TestFolder folder;
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(folder.File("half"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("some").ok());
  }
  EXPECT_THAT(*ListDirectory(folder.path()), ElementsAre());
}

TEST(WriteFileAtomicallyTest, AMissingFolderIsNamed) {
  const absl::Status status = WriteFileAtomically("/nowhere/at/all", "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "/nowhere/at/all: cannot create: No such file or directory");
}

TEST(ReadWholeFileTest, ReadsAnySizeAndNamesWhatIsMissing) {
  const TestFolder folder;
  for (const size_t size : {0u, 1u, 4096u, 1000003u}) {
    const std::string bytes(size, 'z');
    ASSERT_TRUE(WriteFileAtomically(folder.File("f"), bytes).ok());
    EXPECT_EQ(*ReadWholeFile(folder.File("f")), bytes);
  }
  EXPECT_EQ(ReadWholeFile(folder.File("g")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadWholeFile(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  // Files of the kernel claim to be empty.
  EXPECT_THAT(*ReadWholeFile("/proc/self/status"), HasSubstr("Pid:"));
}

TEST(DirectoryTest, MadeListedAndRemoved) {
  const TestFolder folder;
  const std::string deep = folder.File("a/b/c");
  ASSERT_TRUE(MakeDirectories(deep).ok());
  ASSERT_TRUE(MakeDirectories(deep).ok());
  ASSERT_TRUE(WriteFileAtomically(deep + "/2", "").ok());
  ASSERT_TRUE(WriteFileAtomically(deep + "/1", "").ok());
  EXPECT_THAT(*ListDirectory(deep), ElementsAre("1", "2"));
  ASSERT_TRUE(RemoveTree(folder.File("a")).ok());
  ASSERT_TRUE(RemoveTree(folder.File("a")).ok());
  EXPECT_FALSE(PathExists(deep));
  EXPECT_EQ(ListDirectory(deep).status().code(), absl::StatusCode::kNotFound);
}

TEST(AppendFileTest, GrowsAcrossOpenings) {
  const TestFolder folder;
  const std::string path = folder.File("journal");
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<AppendFile> file = AppendFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->size(), 3 * i);
    ASSERT_TRUE(file->Append("abc").ok());
    ASSERT_TRUE(file->Sync().ok());
  }
  EXPECT_EQ(*ReadWholeFile(path), "abcabcabc");
}

// The disk takes half of an entry: nothing of it stays, and the next entry follows the last whole.
TEST(AppendFileTest, AnEntryThatDoesNotFitLeavesNoTrace) {
  const TestFolder folder;
  const std::string path = folder.File("journal");
  absl::StatusOr<AppendFile> file = AppendFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append(std::string(90, 'a')).ok());
  {
    const SmallDisk disk(100);
    const absl::Status status = file->Append(std::string(50, 'b'));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr(path));
    EXPECT_EQ(file->size(), 90);
    EXPECT_TRUE(file->Append("ten bytes!").ok());
  }
  EXPECT_EQ(*ReadWholeFile(path), absl::StrCat(std::string(90, 'a'), "ten bytes!"));
}

TEST(AppendFileTest, ATornTailIsCutOff) {
  const TestFolder folder;
  absl::StatusOr<AppendFile> file = AppendFile::Open(folder.File("journal"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append("whole|ha").ok());
  ASSERT_TRUE(file->Truncate(6).ok());
  ASSERT_TRUE(file->Append("next").ok());
  EXPECT_EQ(*ReadWholeFile(file->path()), "whole|next");
  EXPECT_EQ(file->size(), 10);
}

TEST(AppendFileTest, AMissingFolderIsNamed) {
  const absl::Status status = AppendFile::Open("/nowhere/journal").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/journal"));
}

}  // namespace
}  // namespace rubato

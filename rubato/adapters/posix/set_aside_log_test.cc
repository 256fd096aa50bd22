// What a server has beyond a checkpoint is out of its way, and still there to look at.
#include "rubato/adapters/posix/set_aside_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_server_files.h"

namespace rubato {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;

class SetAsideLogTest : public testing::Test {
 protected:
  SetAsideLogTest() {
    for (int64_t version = 1; version <= 4; ++version) {
      Write(absl::StrCat("checkpoints/", version, "/server-1.ckpt"));
      Write(absl::StrCat("checkpoints/", version, "/server-0.ckpt"));
    }
    for (int64_t segment : {7, 8}) Write(absl::StrCat("server/push-00000", segment, ".log"));
    Write("server/of-0/push-000002.log");
    Write("server/joints");
  }
  void Write(const std::string& name) {
    const fs::path path = Path(name);
    fs::create_directories(path.parent_path());
    std::ofstream(path) << name;
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  absl::Status SetAside(int64_t version) {
    return SetAsideLog(Path("server"), Path("checkpoints"), 1, version);
  }
  std::vector<int64_t> Versions(int64_t server) const {
    return *ListCheckpoints(Path("checkpoints"), server);
  }

  TestFolder folder_;
};

TEST_F(SetAsideLogTest, OnlyTheCheckpointAndOlderOnesAreLeft) {
  ASSERT_TRUE(SetAside(2).ok());
  EXPECT_THAT(*ListSegments(Path("server")), IsEmpty());
  EXPECT_FALSE(fs::exists(Path("server/of-0")));
  for (const char* name :
       {"push-000007.log", "push-000008.log", "of-0/push-000002.log", "joints"}) {
    EXPECT_TRUE(fs::exists(Path(absl::StrCat("server/set-aside-1/", name)))) << name;
  }
  EXPECT_THAT(Versions(1), ElementsAre(1, 2));
  EXPECT_THAT(Versions(0), ElementsAre(1, 2, 3, 4));
  // Nothing is thrown away the next time either.
  Write("server/push-000007.log");
  ASSERT_TRUE(SetAside(2).ok());
  EXPECT_TRUE(fs::exists(Path("server/set-aside-1/push-000007.log")));
  EXPECT_TRUE(fs::exists(Path("server/set-aside-2/push-000007.log")));
  ASSERT_TRUE(SetAside(2).ok());  // Nothing was left to do.
  EXPECT_FALSE(fs::exists(Path("server/set-aside-3")));
}

TEST_F(SetAsideLogTest, NotWhileSomebodyHasTheFolder) {
  std::optional<FileDescriptor> lock = *LockDirectory(Path("server"));
  EXPECT_TRUE(absl::IsFailedPrecondition(SetAside(2)));
  EXPECT_THAT(Versions(1), ElementsAre(1, 2, 3, 4));
  lock.reset();
  EXPECT_TRUE(SetAside(2).ok());
}

}  // namespace
}  // namespace rubato

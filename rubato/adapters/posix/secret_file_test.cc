#include "rubato/adapters/posix/secret_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rubato {
namespace {

using testing::HasSubstr;

class SecretFileTest : public testing::Test {
 protected:
  SecretFileTest() { std::filesystem::remove(path_); }
  ~SecretFileTest() override { std::filesystem::remove(path_); }
  void Write(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  const std::string path_ = testing::TempDir() + "/rubato-secret";
};

TEST_F(SecretFileTest, IsMadeOnceAndForItsOwnerAlone) {
  const auto first = ReadOrMakeSecret(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->size(), 32u);
  EXPECT_EQ(ReadOrMakeSecret(path_).value(), *first);
  struct stat about = {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
  std::filesystem::remove(path_);
  EXPECT_NE(ReadOrMakeSecret(path_).value(), *first);
}

TEST_F(SecretFileTest, SpaceAroundItDoesNotCount) {
  Write("  a word \n", 0600);
  EXPECT_EQ(ReadSecret(path_).value(), "a word");
}

TEST_F(SecretFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(ReadSecret(path_).status().code(), absl::StatusCode::kNotFound);
  Write(" \n", 0600);
  EXPECT_THAT(std::string(ReadSecret(path_).status().message()), HasSubstr("is empty"));
  Write("known", 0644);
  EXPECT_THAT(std::string(ReadSecret(path_).status().message()),
              HasSubstr("others may read or write it (mode 644)"));
}

}  // namespace
}  // namespace rubato

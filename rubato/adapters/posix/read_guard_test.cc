#include "rubato/adapters/posix/read_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_server_files.h"

namespace rubato {
namespace {

constexpr size_t kBytes = 100'000;

class ReadGuardTest : public testing::Test {
 protected:
  ReadGuardTest() { std::ofstream(path_) << std::string(kBytes, 'x'); }
  // A page beyond the end of the file is one that the disk does not give.
  MappedFile OpenAndCut() const {
    MappedFile file = *MappedFile::Open(path_);
    EXPECT_EQ(truncate(path_.c_str(), 5000), 0);
    return file;
  }

  const TestFolder folder_;
  const std::string path_ = folder_.File("server-0.ckpt");
};

using ReadGuardDeathTest = ReadGuardTest;

TEST_F(ReadGuardDeathTest, AByteThatCannotBeReadIsNamed) {
  const auto read = [&] {
    MappedFile opened = OpenAndCut();
    const MappedFile file(std::move(opened));  // As those of a chain are kept.
    if (file.bytes()[100] != 'x') return;
    volatile char byte = file.bytes()[90'000];
    (void)byte;
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(ReadGuard::kExitCode),
              "server-0.ckpt: byte 90000 cannot be read: the disk failed, or the file was cut");
}

// Of memory that is nobody's file, or no longer, it knows nothing.
TEST_F(ReadGuardDeathTest, WhatIsNotItsOwnDiesAsEver) {
  const auto read = [&] {
    signal(SIGBUS, SIG_DFL);  // A sanitizer has a handler of its own, which exits.
    std::vector<MappedFile> closed;
    for (int i = 0; i < 20; ++i) closed.push_back(OpenAndCut());
    closed.clear();
    const int fd = memfd_create("other", 0);
    const char* bytes =
        static_cast<const char*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0));
    volatile char byte = bytes[50'000];
    (void)byte;
  };
  EXPECT_EXIT(read(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(ReadGuardTest, WholeFilesAreReadAsTheyAre) {
  for (int round = 0; round < 3; ++round) {
    std::vector<MappedFile> files;
    for (int i = 0; i < 30; ++i) files.push_back(*MappedFile::Open(path_));
    for (const MappedFile& file : files) EXPECT_EQ(file.bytes(), std::string(kBytes, 'x'));
  }
}

}  // namespace
}  // namespace rubato

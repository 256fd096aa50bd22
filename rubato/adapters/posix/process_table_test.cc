#include "rubato/adapters/posix/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "rubato/adapters/posix/real_clock.h"

namespace rubato {
namespace {

class ProcessTableTest : public testing::Test {
 protected:
  ProcessTableTest() : log_(std::filesystem::temp_directory_path() / "rubato-child.XXXXXX") {
    close(mkstemp(log_.data()));
  }
  ~ProcessTableTest() override { std::filesystem::remove(log_); }

  pid_t Run(const std::string& script) {
    return *table_.Start({.arguments = {"/bin/sh", "-c", script}, .log_path = log_});
  }
  ChildExit WaitForExit() {
    while (true) {
      for (const ChildExit& exit : table_.Reap()) return exit;
    }
  }

  std::string log_;
  ProcessTable table_;
};

TEST_F(ProcessTableTest, ExitsAndSignalsAreTold) {
  const pid_t first = Run("echo to the log; exit 3");
  const ChildExit exited = WaitForExit();
  EXPECT_EQ(exited.pid, first);
  EXPECT_EQ(exited.exit_code, 3);
  EXPECT_EQ(LastLines(log_, 1), "to the log");

  const pid_t second = Run("sleep 100");
  EXPECT_TRUE(table_.alive(second));
  table_.Signal(second, SIGKILL);
  EXPECT_EQ(WaitForExit().signal, SIGKILL);
  EXPECT_FALSE(table_.alive(second));
  table_.Signal(second, SIGKILL);  // Gone already: nothing happens.
}

TEST_F(ProcessTableTest, AProgramThatIsNotThereExitsWith127) {
  ASSERT_TRUE(table_.Start({.arguments = {"/no/such/program"}, .log_path = log_}).ok());
  EXPECT_EQ(WaitForExit().exit_code, 127);
  EXPECT_THAT(LastLines(log_, 1), testing::HasSubstr("cannot execute"));
}

TEST_F(ProcessTableTest, LastLinesAreTheLast) {
  std::ofstream(log_) << "one\ntwo\nthree\n";
  EXPECT_EQ(LastLines(log_, 2), "two\nthree");
  EXPECT_EQ(LastLines("/no/such/file", 2), "");
}

TEST(RealClockTest, NeverGoesBack) {
  const RealClock clock;
  absl::Time last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace rubato

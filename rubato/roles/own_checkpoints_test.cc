#include "rubato/roles/own_checkpoints.h"

#include <gtest/gtest.h>

#include "rubato/adapters/files/testing.h"

namespace rubato {
namespace {

class OwnCheckpointsTest : public testing::Test {
 protected:
  OwnCheckpoints Open(int64_t every_steps) {
    return {JobDirectory(scratch_.path()), {.every_steps = every_steps}};
  }
  TestFolder scratch_;
};

TEST_F(OwnCheckpointsTest, AreDueOnceAnInterval) {
  OwnCheckpoints own = Open(10);
  EXPECT_EQ(own.Due(7, true), 0);
  EXPECT_EQ(own.Due(9, true), 0);
  EXPECT_EQ(own.Due(10, true), 1);
  EXPECT_EQ(own.Due(11, true), 0);
  EXPECT_EQ(own.Due(10, true), 0) << "a step was undone";
  EXPECT_EQ(own.Due(34, true), 2) << "the disk was slow";
  EXPECT_EQ(own.Due(40, true), 3);
  OwnCheckpoints never = Open(0);
  EXPECT_EQ(never.Due(100, true), 0);
}

// Who becomes the first of the group keeps to the interval that the one before it began.
TEST_F(OwnCheckpointsTest, AChangeOfWriterPutsNothingOff) {
  OwnCheckpoints own = Open(10);
  for (int64_t steps = 0; steps < 29; ++steps) EXPECT_EQ(own.Due(steps, false), 0);
  EXPECT_EQ(own.Due(29, true), 0);
  EXPECT_EQ(own.Due(30, true), 1);
}

// Of a newcomer nobody knows what was written before it came.
TEST_F(OwnCheckpointsTest, ANewcomerBeginsWithTheNextInterval) {
  OwnCheckpoints own = Open(10);
  EXPECT_EQ(own.Due(30, true), 0);
  EXPECT_EQ(own.Due(39, true), 0);
  EXPECT_EQ(own.Due(40, true), 1);
}

}  // namespace
}  // namespace rubato

#include "rubato/roles/replica_saver.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rubato/adapters/files/files.h"

namespace rubato {
namespace {

// A replica whose state is a few pieces of a snapshot.
Replica Large() {
  const TaskPlan plan({.records = 1000, .batch_size = 4, .batches_per_task = 10, .together = true});
  Replica::Options options = {.batch_size = 4};
  options.optimizer.name = "momentum";
  const std::vector<float> weights(600'000, 1.0f);
  return *Replica::Make(options, plan, weights);
}

void Train(Replica& replica) {
  replica.BeginStep();
  replica.Add(std::vector<float>(replica.weights().size(), 0.5f), 4, replica.NextStep(), 1);
  replica.Apply();
}

class ReplicaSaverTest : public testing::Test {
 protected:
  // As between two steps, the group having taken `step`.
  void Copy(int64_t step) {
    const std::vector<absl::Span<char>> state = replica_.State();
    snapshot_ = std::make_shared<StateSnapshot>(step, state, StateSnapshot::Options{});
    saver_.Copy(replica_, snapshot_, /*version=*/3, folder_, "worker-0.ckpt");
  }
  // The next step, as a group takes it.
  void TakeStep() {
    snapshot_->Finish();
    Train(replica_);
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/replica_saver_test");
  const std::string path_ = absl::StrCat(folder_, "/3/worker-0.ckpt");
  Replica replica_ = Large();
  std::shared_ptr<StateSnapshot> snapshot_;
  ReplicaSaver saver_;
};

// What is on disk in the end is the replica as it was copied, however far it has come since.
TEST_F(ReplicaSaverTest, WritesWhatItWas) {
  ASSERT_TRUE(RemoveTree(folder_).ok());
  for (int i = 0; i < 3; ++i) Train(replica_);
  const std::string then = replica_.Encode();
  Copy(10);
  TakeStep();
  TakeStep();
  EXPECT_NE(replica_.Encode(), then);
  saver_.Committed(9);
  saver_.Wait();  // For nothing: step 10 may yet be undone.
  EXPECT_FALSE(PathExists(path_));
  saver_.Committed(10);
  saver_.Wait();
  const auto saved = saver_.TakeSaved();
  ASSERT_TRUE(saved.ok() && saved->has_value()) << saved.status();
  EXPECT_EQ((*saved)->steps, 3);
  EXPECT_EQ((*saved)->version, 3);
  const absl::StatusOr<std::string> written = ReadWholeFile(path_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_TRUE(*written == then) << written->size() << " bytes, not those of " << then.size();
  EXPECT_TRUE(replica_.Decode(*written).ok());
  EXPECT_EQ(replica_.steps(), 3);
}

TEST_F(ReplicaSaverTest, SaysWhenItMayBeGivenTheNext) {
  ASSERT_TRUE(RemoveTree(folder_).ok());
  EXPECT_FALSE(saver_.busy());
  Copy(10);
  EXPECT_TRUE(saver_.busy()) << "step 10 may yet be undone";
  saver_.Committed(10);
  saver_.Wait();
  EXPECT_FALSE(saver_.busy());
  Copy(11);
  EXPECT_TRUE(saver_.busy());
  saver_.Drop();
  saver_.Wait();
  EXPECT_FALSE(saver_.busy()) << "nothing is left to write";
}

TEST_F(ReplicaSaverTest, WhatIsDroppedIsNotWritten) {
  ASSERT_TRUE(RemoveTree(folder_).ok());
  Copy(10);
  saver_.Drop();
  EXPECT_EQ(saver_.version(), 0);
  saver_.Committed(10);
  saver_.Wait();
  EXPECT_FALSE(PathExists(path_));
  Copy(11);  // Another takes its place.
  Copy(12);
  saver_.Committed(11);
  saver_.Committed(12);
  saver_.Wait();
  EXPECT_TRUE(PathExists(path_));
}

}  // namespace
}  // namespace rubato
